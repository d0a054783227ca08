"""An admission webhook that says what it was asked, reached as in a cluster by its Service."""

import base64
import contextlib
import json
import ssl
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from e2e.controlplane.certificates import self_signed
from e2e.controlplane.relay import Backend, Relay
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

MARK = "rig.drawbridge.dev/echo"


class Echo(BaseHTTPRequestHandler):
    """Allows everything, warns, and marks the object with the operation."""

    def do_POST(self) -> None:  # the name http.server calls
        """Answer one AdmissionReview."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        annotations = {MARK: request["operation"]}
        patch = [{"op": "add", "path": "/metadata/annotations", "value": annotations}]
        response = {
            "uid": request["uid"],
            "allowed": True,
            "warnings": [f"echo of {request['name'] or 'a nameless object'}"],
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
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
def served(name: str) -> Iterator[tuple[int, str]]:
    """Serve with a certificate for `name`; gives the port and the authority."""
    with tempfile.TemporaryDirectory() as folder:
        public, private = self_signed(Path(folder), name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(public, private)
        server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port, public.read_text(encoding="ascii")
        finally:
            server.shutdown()
            server.server_close()
            thread.join(5)


@scenario("smoke", needs=("loopback",))
def an_admission_webhook_is_reached_through_its_service(stage: Stage) -> None:
    """The API server calls svc.namespace.svc on the clusterIP and believes the authority given."""
    spec = {"selector": {"app": "echo"}, "ports": [{"port": 443}]}
    service = stage.client.create(
        stage.path("services"), {"metadata": {"name": "echo"}, "spec": spec}
    )
    name = f"echo.{stage.namespace}.svc"
    port, authority = stage.enter(served(name))
    relay = stage.enter(Relay(service["spec"]["clusterIP"], 443))
    relay.add(Backend(port=1))  # nobody is there: connections go on to the next
    relay.add(Backend(port, ready=lambda: False))
    relay.add(Backend(port))
    stage.cluster_object(
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        webhook(stage, name, authority),
    )
    marked = stage.wait("the webhook is called", lambda: _asked(stage))
    assert marked == "CREATE"


def webhook(stage: Stage, name: str, authority: str) -> JSON:
    """Give the configuration that asks the Service about pods of this stage's namespace."""
    in_namespace = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    hook = {
        "name": name,
        "clientConfig": {
            "service": {"namespace": stage.namespace, "name": "echo", "path": "/"},
            "caBundle": base64.b64encode(authority.encode()).decode(),
        },
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }
        ],
        "namespaceSelector": in_namespace,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    return {"metadata": {"name": "rig-echo"}, "webhooks": [hook]}


def _asked(stage: Stage) -> str:
    """Ask for a pod without keeping it; empty while the webhook is not yet called."""
    body = stage.pod_object("asked")
    pod = stage.client.create(stage.pod_path(), body, dryRun="All")
    return str(pod["metadata"].get("annotations", {}).get(MARK, ""))
