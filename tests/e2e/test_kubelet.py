"""What the stand-in for the kubelet does about a pod that goes while its claims are looked at.

The API server is scripted, because the moment between two reads cannot be met on a real one.
"""

import copy
import queue
import threading
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

import pytest

from e2e.controlplane.client import JSON, ApiError, Client, Stream
from e2e.nodes.kubelet import Kubelet
from e2e.nodes.record import Record

POD = "/api/v1/namespaces/a/pods/one"
EVENTS = "/api/v1/namespaces/a/events"
BOUND: JSON = {
    "metadata": {"namespace": "a", "name": "one", "uid": "u", "resourceVersion": "1"},
    "spec": {
        "nodeName": "n",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}],
        "containers": [{"name": "main", "image": "none"}],
    },
}


class Silence(Stream):
    """A watch on which nothing happens."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def __iter__(self) -> Iterator[JSON]:
        self.ended.wait()
        return iter(())

    def close(self) -> None:
        """End it."""
        self.ended.set()


class Script(Client):
    """An API server with one pod, read as scripted; its claim is reserved by no one."""

    def __init__(self, *reads: JSON | None) -> None:
        self.reads = list(reads)
        self.told: queue.Queue[str] = queue.Queue()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401  # as the client's
        kind: str = "",
        query: Mapping[str, str] | None = None,
    ) -> JSON:
        """Answer, and tell of reads of the pod and of events; the last read is repeated."""
        del kind, query
        if (method, path) == ("GET", POD):
            read = self.reads.pop(0) if len(self.reads) > 1 else self.reads[0]
            self.told.put("read")
            if read is None:
                raise ApiError(HTTPStatus.NOT_FOUND, {"message": "no such pod"})
            return read
        if path == EVENTS:
            self.told.put(body["message"])
            return {}
        if path == "/api/v1/pods":
            return {"items": [BOUND], "metadata": {"resourceVersion": "1"}}
        return {"metadata": {"name": "mine"}, "status": {"allocation": {}}}

    def watch(self, path: str, **query: str) -> Stream:
        """Give a watch without events."""
        del path, query
        return Silence()


def pod(**status: str) -> JSON:
    return {**BOUND, "status": status}


def going() -> JSON:
    changed = copy.deepcopy(BOUND)
    changed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return changed


def another() -> JSON:
    changed = copy.deepcopy(BOUND)
    changed["metadata"]["uid"] = "v"
    return changed


def played(script: Script, events: int) -> list[str]:
    """Let the kubelet look at the pod until it has said something so often; its violations."""
    kubelet = Kubelet(script, Record())
    kubelet.nodes.add("n")
    kubelet.start()
    try:
        said = [script.told.get(timeout=20) for _ in range(events)]
    finally:
        kubelet.stop()
    return [*said, *(one.code for one in kubelet.record.violations())]


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (None, "the pod is gone"),
        (going(), "the pod is going"),
        (another(), "the pod is going"),
        (pod(phase="Succeeded"), "the pod is going"),
    ],
    ids=["gone", "terminating", "another of its name", "finished"],
)
def test_a_pod_that_went_after_it_was_read_is_no_violation(read: JSON | None, reason: str) -> None:
    said = played(Script(BOUND, read), 3)
    assert said == ["read", "read", f"{reason}, and the claim is not reserved for this pod"]


def test_a_pod_that_is_still_there_was_wronged() -> None:
    said = played(Script(BOUND), 3)
    message = "claim mine: the claim is not reserved for this pod"
    assert said == ["read", "read", message, "NotReserved"]


def test_a_pod_that_is_going_when_it_is_first_read_is_not_begun() -> None:
    # Had it been begun, its claim would have been judged, and an event would say so.
    script = Script(going())
    assert played(script, 1) == ["read"]
    assert script.told.empty()
