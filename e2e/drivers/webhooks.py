"""Asks drivers what they say of opaque configurations: their admission webhooks, or their code.

with DriverWebhook(program, folder, gates=("MPSSupport",)) as webhook:
webhook.ask("gpu.nvidia.com", parameters)
"""

import http.client
import json
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from e2e.controlplane.certificates import self_signed
from e2e.controlplane.processes import Process, free_port

ALLOWED, REFUSED, ENDS = "allowed", "refused", "ends"
_PATH = "/validate-resource-claim-parameters"
_SECONDS = 10


class WebhookAnswer(NamedTuple):
    """What a webhook says: allowed, refused, or no answer because its handler ended."""

    verdict: str
    message: str = ""


class DriverWebhook:
    """The webhook of a driver, as a process on the loopback interface."""

    def __init__(
        self, program: Path, folder: Path, gates: Sequence[str] = (), words: Sequence[str] = ()
    ) -> None:
        certificate, key = self_signed(folder, "localhost", "127.0.0.1")
        self._tls = ssl.create_default_context(cafile=str(certificate))
        self._port = free_port()
        files = (f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
        enabled = ",".join(f"{gate}=true" for gate in gates)
        self._process = Process(
            f"webhook {program.parent.name}",
            (
                program,
                *files,
                f"--port={self._port}",
                *([f"--feature-gates={enabled}"] if gates else ()),
                *words,
            ),
            folder / "webhook.log",
        )
        self._connection = self._connect()

    def __enter__(self) -> Self:
        self._process.wait_ready(self._is_ready)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.stop()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self._port, context=self._tls, timeout=_SECONDS
        )

    def _is_ready(self) -> bool:
        try:
            self._send("GET", "/readyz", "")
        except OSError:
            self._connection = self._connect()
            return False
        return True

    def _send(self, method: str, path: str, body: str) -> bytes:
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        return self._connection.getresponse().read()

    def ask(self, driver: str, parameters: Any) -> WebhookAnswer:  # noqa: ANN401  # any JSON
        """Ask about a claim with one configuration."""
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "n"},
            "spec": {
                "devices": {
                    "requests": [{"name": "gpu", "exactly": {"deviceClassName": driver}}],
                    "config": [{"opaque": {"driver": driver, "parameters": parameters}}],
                }
            },
        }
        resource = {"group": "resource.k8s.io", "version": "v1", "resource": "resourceclaims"}
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "u", "resource": resource, "object": claim},
        }
        try:
            answer = json.loads(self._send("POST", _PATH, json.dumps(review)))["response"]
        except (http.client.RemoteDisconnected, ConnectionError):
            # The HTTP server survives the end of a handler, and closes the connection.
            self._connection.close()
            self._connection = self._connect()
            return WebhookAnswer(ENDS)
        if answer["allowed"]:
            return WebhookAnswer(ALLOWED)
        return WebhookAnswer(REFUSED, answer["status"]["message"])


class DriverCheck:
    """The check of a driver without a webhook, which a program of ours calls for each line."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, _driver: str, parameters: Any) -> WebhookAnswer:  # noqa: ANN401  # any JSON
        """Ask about one configuration."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        try:
            asked.write(f"{json.dumps(parameters)}\n")
            asked.flush()
            answer = json.loads(answered.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            return WebhookAnswer(ENDS)
        return WebhookAnswer(ALLOWED if answer["allowed"] else REFUSED, answer["message"])
