"""Serves another team's mutating webhook.

    with other_webhook(stage, "zz-sidecars", change):   # pod -> operations of a JSON patch
        ...

An HTTPS listener behind its own Service, for pods of the stage's namespace only. The name of its
configuration decides whether it runs before or after Drawbridge's webhook.
"""

import base64
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.controlplane.certificates import self_signed
from e2e.controlplane.relay import Backend, Relay
from e2e.scenarios.objects import JSON
from e2e.scenarios.stage import Stage

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SERVICE = "neighbour"
Mutate = Callable[[JSON], list[JSON]]


class _Handler(BaseHTTPRequestHandler):
    change: Mutate

    def do_POST(self) -> None:  # the name http.server calls
        """Answer one AdmissionReview with the change."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        patch = json.dumps(type(self).change(request["object"])).encode()
        response = {
            "uid": request["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(patch).decode(),
        }
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        data = json.dumps({**body, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's name
        """Keep quiet: the run's own lines are what is read."""


@contextlib.contextmanager
def other_webhook(
    stage: Stage, name: str, change: Mutate, before: Iterable[Backend] = ()
) -> Iterator[None]:
    """Register it for the pods that are created in the stage's namespace."""
    service = stage.client.create(
        stage.path("services"),
        {"metadata": {"name": SERVICE}, "spec": {"ports": [{"port": 443}]}},
    )
    with (
        _served(f"{SERVICE}.{stage.namespace}.svc", change) as (port, authority),
        Relay(service["spec"]["clusterIP"], 443) as relay,
    ):
        for backend in (*before, Backend(port, ready=lambda: False), Backend(port)):
            relay.add(backend)
        stage.client.create(CONFIGURATIONS, configuration(stage, name, authority))
        try:
            yield
        finally:
            stage.client.delete(f"{CONFIGURATIONS}/{name}")


@contextlib.contextmanager
def _served(name: str, change: Mutate) -> Iterator[tuple[int, str]]:
    """Serve with a certificate for `name`; yields the port and the CA."""
    handler = type("Handler", (_Handler,), {"change": staticmethod(change)})
    with TemporaryDirectory() as folder:
        public, private = self_signed(Path(folder), name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(public, private)
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port, public.read_text(encoding="ascii")
        finally:
            server.shutdown()
            server.server_close()
            thread.join(5)


def configuration(
    stage: Stage, name: str, authority: str = "", policy: str = "Fail", hook: str = ""
) -> JSON:
    """Return the configuration of such a webhook; its Service may be missing."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    webhook = {
        "name": hook or f"{name}.rig.drawbridge.dev",
        "clientConfig": {
            "service": {"namespace": stage.namespace, "name": SERVICE, "path": "/"},
            "caBundle": base64.b64encode(authority.encode()).decode(),
        },
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": policy,
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}
