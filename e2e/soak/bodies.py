"""Large bodies to the webhook from another address than that of the API server."""

import contextlib
import http.client
import json
import socket
import ssl

from e2e.controlplane.client import JSON
from e2e.installed.installation import SERVICE

LOCAL, ELSEWHERE = "127.0.0.1", "127.66.0.1"
PATH = "/admit/pods?timeout=10s"
BODY_BYTES, SENT_BYTES = 3_000_000, 2_900_000
CONNECT_SECONDS, SEND_SECONDS, WHOLE_SECONDS = 5.0, 0.5, 30.0
HEAD = (
    f"POST {PATH} HTTP/1.1\r\nHost: {SERVICE}\r\n"
    f"Content-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
)
# Not in time, no memory for it, and not ready.
REFUSALS = ("408", "429", "503")


def _anyone() -> ssl.SSLContext:
    return ssl._create_unverified_context()  # noqa: S323, SLF001  # an attacker asks nobody


def begin_body(port: int) -> socket.socket:
    """Open a connection, and send a large body without its end, as far as it is read."""
    plain = socket.create_connection((LOCAL, port), CONNECT_SECONDS, (ELSEWHERE, 0))
    connection = _anyone().wrap_socket(plain, server_hostname=SERVICE)
    connection.settimeout(SEND_SECONDS)
    with contextlib.suppress(OSError):
        connection.sendall(HEAD.encode() + b" " * SENT_BYTES)
    return connection


def read_refusal(connection: socket.socket) -> str:
    """Return the status that ended a body, or nothing. It must be about memory or time."""
    try:
        status = connection.recv(len("HTTP/1.1 200"))[-3:].decode()
    except OSError:
        status = ""
    assert status in {"", *REFUSALS}, f"an unfinished body got the response {status}"
    return status


def whole_body(uid: str) -> bytes:
    """Return a review of a pod as long as the bodies of the attacker."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request: JSON = {"uid": uid, "kind": kind, "operation": "CREATE", "namespace": "default"}
    request["object"] = {"metadata": {"name": uid}, "spec": {"containers": []}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode().ljust(BODY_BYTES)


def send_whole_body(port: int) -> int:
    """Send a complete large body; return the status of the response."""
    connection = http.client.HTTPSConnection(
        LOCAL, port, timeout=WHOLE_SECONDS, source_address=(ELSEWHERE, 0), context=_anyone()
    )
    with contextlib.closing(connection):
        connection.request("POST", PATH, whole_body("large"), {"Content-Type": "application/json"})
        return connection.getresponse().status
