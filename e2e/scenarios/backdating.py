"""Backdates objects: writes an earlier creationTimestamp to etcd, below the API server.

The API server does not accept a creationTimestamp. The module finds the encoded time in the stored
object and replaces it with another time of the same length. Every watch sees the change.
"""

import base64
import json
import urllib.request
from datetime import datetime, timedelta

from e2e.controlplane.plane import ControlPlane

TWO_DAYS = timedelta(days=2)
# In the metadata of an object: field 8, a message of eight bytes that begins with the seconds.
_MADE, _NANOS = b"\x42\x08\x08", b"\x10\x00"


def backdate(plane: ControlPlane, path: str) -> str:
    """Make the object at a path two days older; returns its new creationTimestamp."""
    _, group, _, _, namespace, kind, name = path.strip("/").split("/")
    assert group, path
    made = datetime.fromisoformat(plane.admin.get(path)["metadata"]["creationTimestamp"])
    key = _text(f"/registry/{kind}/{namespace}/{name}".encode())
    (kept,) = _etcd(plane, "range", {"key": key})["kvs"]
    value = base64.b64decode(kept["value"])
    seconds = int(made.timestamp())
    before = _MADE + _varint(seconds) + _NANOS
    after = _MADE + _varint(seconds - int(TWO_DAYS.total_seconds())) + _NANOS
    assert (value.count(before), len(before)) == (1, len(after)), value
    _etcd(plane, "put", {"key": key, "value": _text(value.replace(before, after))})
    return (made - TWO_DAYS).strftime("%Y-%m-%dT%H:%M:%SZ")


def _varint(number: int) -> bytes:
    """Write a number as protocol buffers do."""
    written = bytearray()
    while number > 0x7F:
        written.append(0x80 | number & 0x7F)
        number >>= 7
    return bytes([*written, number])


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _etcd(plane: ControlPlane, what: str, body: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    url = f"http://127.0.0.1:{plane.etcd_port}/v3/kv/{what}"
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=10) as answer:
        read: dict[str, list[dict[str, str]]] = json.load(answer)
    return read
