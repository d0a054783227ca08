"""What the stand-in for the kubelet does about a pod that goes while its claims are looked at.

The API server is scripted, because the moment between two reads cannot be met on a real one.
"""

import copy
import queue
import threading
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.client import JSON, ApiError, Client, Stream
from e2e.nodes import protocol
from e2e.nodes.kubelet import Kubelet, Retry
from e2e.nodes.record import Record

POD = "/api/v1/namespaces/a/pods/one"
# How the messages of the kubelet's event FailedPrepareDynamicResources begin.
FAILED = "Failed to prepare dynamic resources: prepare dynamic resources: "
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
        return self.answer(method, path, body)

    def answer(self, method: str, path: str, body: Any) -> JSON:  # noqa: ANN401  # as the client's
        """Answer a request."""
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
    message = f"{FAILED}{reason}, and the claim is not reserved for this pod or its group"
    assert said == ["read", "read", message]


def test_a_pod_that_is_still_there_was_wronged() -> None:
    said = played(Script(BOUND), 3)
    message = f"{FAILED}claim mine: the claim is not reserved for this pod or its group"
    assert said == ["read", "read", message, "NotReserved"]


def test_a_pod_that_is_going_when_it_is_first_read_is_not_begun() -> None:
    # Had it been begun, its claim would have been judged, and an event would say so.
    script = Script(going())
    assert played(script, 1) == ["read"]
    assert script.told.empty()


class Deletion(Script):
    """An API server with a pod under deletion, which is away at the first confirmation."""

    def __init__(self) -> None:
        super().__init__(going())
        self.phase, self.away = "Running", True

    def answer(self, method: str, path: str, body: Any) -> JSON:  # noqa: ANN401  # as the client's
        """Keep the phase, and confirm the deletion at the second request."""
        if path == "/api/v1/pods":
            listed = {**going(), "status": {"phase": self.phase}}
            return {"items": [listed], "metadata": {"resourceVersion": "1"}}
        if path == f"{POD}/status":
            self.phase = body["status"]["phase"]
        if method == "DELETE":
            self.away, is_away = False, self.away
            if is_away:
                raise ConnectionResetError
            self.told.put(f"deleted as {self.phase}")
        return super().answer(method, path, body)

    def watch(self, path: str, **query: str) -> Stream:
        """Tell of the new phase once, after a moment."""
        del path, query
        return Phase(self)


class Phase(Silence):
    """A watch that tells of the phase of a pod once its end is known."""

    def __init__(self, script: Deletion) -> None:
        super().__init__()
        self.script = script

    def __iter__(self) -> Iterator[JSON]:
        while self.script.phase == "Running" and not self.ended.wait(0.01):
            pass
        yield {"type": "MODIFIED", "object": {**going(), "status": {"phase": self.script.phase}}}
        self.ended.wait()


def test_a_deletion_is_confirmed_although_the_api_server_was_away_after_the_end() -> None:
    said = played(Deletion(), 2)
    assert said == [f"{FAILED}", "deleted as Failed"]


class PreparingDriver:
    """A driver on a socket that notes the claims of each call, and refuses some."""

    def __init__(self, folder: Path, name: str) -> None:
        self.socket = folder / f"{name}.sock"
        self.calls: list[list[str]] = []
        self.refused: set[str] = set()
        handlers = {protocol.PREPARE: self._prepare, protocol.UNPREPARE: self._prepare}
        self.service = protocol.serve(self.socket, handlers)

    def _prepare(self, node: str, request: Any) -> Any:  # noqa: ANN401  # protobuf
        del node
        names = [claim.name for claim in request.claims]
        self.calls.append(sorted(names))
        answer = protocol.MESSAGES["NodePrepareResourcesResponse"]()
        for claim in request.claims:
            error = "not today" if claim.name in self.refused else ""
            answer.claims[claim.uid].error = error
        return answer


@pytest.fixture
def two_drivers(tmp_path: Path) -> Iterator[tuple[Kubelet, PreparingDriver, PreparingDriver]]:
    """Return a kubelet, and two drivers registered with it."""
    kubelet = Kubelet(Script(BOUND), Record())
    drivers = [PreparingDriver(tmp_path, name) for name in ("one", "two")]
    registered: dict[str, Any] = dict(zip(("one", "two"), drivers, strict=True))
    kubelet.drivers.update(registered)
    yield kubelet, *drivers
    for driver in drivers:
        driver.service.stop()


def allocated(name: str, *drivers: str) -> JSON:
    """Return a claim with devices of these drivers."""
    results = [{"driver": driver} for driver in drivers]
    return {
        "metadata": {"namespace": "a", "name": name, "uid": name},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def test_a_driver_gets_all_claims_of_a_pod_in_one_call(
    two_drivers: tuple[Kubelet, PreparingDriver, PreparingDriver],
) -> None:
    kubelet, first, two = two_drivers
    kubelet.prepare(BOUND, [allocated("x", "one", "two"), allocated("y", "one")])
    assert (first.calls, two.calls) == ([["x", "y"]], [["x"]])


def test_a_prepared_claim_is_prepared_again_only_by_a_new_kubelet(
    two_drivers: tuple[Kubelet, PreparingDriver, PreparingDriver],
) -> None:
    kubelet, first, _ = two_drivers
    for _ in range(2):
        kubelet.prepare(BOUND, [allocated("x", "one")])
    assert first.calls == [["x"]]
    kubelet.restart()
    kubelet.prepare(BOUND, [allocated("x", "one")])
    assert first.calls == [["x"], ["x"]]


def test_a_claim_that_a_driver_refuses_is_prepared_at_the_next_attempt(
    two_drivers: tuple[Kubelet, PreparingDriver, PreparingDriver],
) -> None:
    kubelet, first, _ = two_drivers
    first.refused = {"y"}
    claims = [allocated("x", "one"), allocated("y", "one")]
    with pytest.raises(Retry, match="claim y: not today"):
        kubelet.prepare(BOUND, claims)
    first.refused = set()
    kubelet.prepare(BOUND, claims)
    assert first.calls == [["x", "y"], ["x", "y"]]


def test_no_driver_is_called_before_all_are_registered(
    two_drivers: tuple[Kubelet, PreparingDriver, PreparingDriver],
) -> None:
    kubelet, first, _ = two_drivers
    with pytest.raises(Retry, match="absent is not registered"):
        kubelet.prepare(BOUND, [allocated("x", "one"), allocated("y", "absent")])
    assert first.calls == []
