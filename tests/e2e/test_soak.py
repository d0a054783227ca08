"""The checks of a soak, on claims and samples written by hand."""

import os
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from drawbridge.process.review import AdmissionRequest, decode_review
from e2e.controlplane.client import ApiError, Client
from e2e.nodes.family import FAMILIES
from e2e.nodes.machine import machine
from e2e.scenarios.objects import allocation, result
from e2e.soak.bodies import BODY_BYTES, read_refusal, whole_body
from e2e.soak.books import describe_end, held_twice, is_of, remembered
from e2e.soak.memory import Memory, children, name_role, own_mib, slope, used_mib
from e2e.soak.pods import GPU, NODES, gpus, node_plans
from e2e.soak.probes import ProbeReply, Probes, is_judged, is_translated
from e2e.soak.waits import Waits
from tests.tables import every_row

NODE = "node-0"


def claim(name: str, *results: dict[str, Any]) -> dict[str, Any]:
    """An allocated claim."""
    return {
        "metadata": {"namespace": "team", "name": name},
        "status": {"allocation": allocation(NODE, results)},
    }


def whole(number: int = 0) -> dict[str, Any]:
    return result(GPU, NODE, f"gpu-{number}")


def share(memory: str) -> dict[str, Any]:
    return result(GPU, NODE, "gpu-0", shareID="s", consumedCapacity={"memory": memory})


@pytest.mark.parametrize(
    ("mode", "claims", "problems"),
    [
        ("full", [claim("a", whole(0)), claim("b", whole(1))], []),
        (
            "full",
            [claim("a", whole()), claim("b", whole())],
            [f"{GPU}/{NODE}/gpu-0 is held by team/a, team/b"],
        ),
        ("full", [claim("a", whole() | {"adminAccess": True}), claim("b", whole())], []),
        ("shares-unlimited", [claim("a", share("20Gi")), claim("b", share("20Gi"))], []),
        (
            "shares-unlimited",
            [claim("a", share("20Gi")), claim("b", share("20481Mi"))],
            [f"{GPU}/{NODE}/gpu-0: memory: {40961 << 20} consumed"],
        ),
    ],
)
def test_a_device_is_held_once_and_shared_within_its_capacity(
    mode: str, claims: list[dict[str, Any]], problems: list[str]
) -> None:
    layout = FAMILIES[GPU].publish(machine(NODE, "lab-2g2n"), mode)
    assert list(held_twice(claims, {(GPU, NODE): layout})) == problems


@pytest.mark.parametrize(
    ("name", "expected"), [("one-1-devices-x2", True), ("one-12-devices-x2", False), ("one", False)]
)
def test_a_claim_belongs_to_the_pod_that_it_was_generated_for(name: str, *, expected: bool) -> None:
    assert is_of(f"team/{name}", {"one-1", "two-1"}) is expected


def test_pods_that_vanish_at_once_are_told_from_those_that_their_kubelet_ends() -> None:
    seconds: dict[str, int | None] = {"waits": 0, "runs": 1, "unknown": None}

    def delete(path: str, **_: object) -> dict[str, Any]:
        if (grace := seconds[path.rpartition("/")[2]]) is None:
            raise ApiError(404, {"message": "not found"})
        return {"metadata": {"deletionGracePeriodSeconds": grace}}

    client: Any = SimpleNamespace(delete=delete)
    waits = Waits(client)
    for name in seconds:
        waits.delete(f"/api/v1/namespaces/team/pods/{name}")
    assert waits.vanished == {"waits", "unknown"}


def test_a_gpu_and_a_partition_of_it_exceed_its_counters() -> None:
    layout = FAMILIES[GPU].publish(machine(NODE, "lab-2g2n"), "dynamic-mig")
    part = next(name for name, device in layout.devices.items() if device.kind == "mig")
    both = [claim("a", result(GPU, NODE, part)), claim("b", whole())]
    layouts = {(GPU, NODE): layout}
    assert list(held_twice(both[:1], layouts)) == []
    assert any("drawn of" in problem for problem in held_twice(both, layouts))


@pytest.mark.parametrize(("an_hour", "grown"), [(0.0, False), (20.0, False), (200.0, True)])
def test_memory_that_grows_in_the_last_half_is_found(an_hour: float, *, grown: bool) -> None:
    memory = Memory()
    for second in range(3600):
        memory.add("process", 1, second, 90 + an_hour * second / 3600)
    assert memory.has_grown("process") == grown


def test_what_an_allocator_keeps_without_pods_is_named() -> None:
    def pair(name: str, **kept: float) -> Any:  # noqa: ANN401  # a fake
        metric = {"pods": 0.0, "vanished-claims": 0.0} | kept
        allocator = SimpleNamespace(name=name, metric=lambda _, of: metric[of])
        return SimpleNamespace(allocator=allocator)

    assert remembered([pair("a"), pair("b", pods=2.0)]) == ["b keeps pods: 2"]


def test_memory_that_processes_share_counts_once() -> None:
    """A copy of a process has little of its own."""
    grown = (
        "import os, time; held = bytearray(100 << 20); copy = os.fork(); print(flush=True)"
        "; time.sleep(60)"
    )
    words = [sys.executable, "-c", grown]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:  # noqa: S603  # our own
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        (copy,) = children(process.pid)
        try:
            assert 100 < used_mib(process.pid) < 160
            assert 100 < own_mib(process.pid) < 160
        finally:
            os.kill(copy, signal.SIGKILL)
            process.kill()
    assert used_mib(process.pid) == own_mib(process.pid) == 0


def test_memory_before_the_last_half_does_not_count() -> None:
    memory = Memory()
    for second in range(3600):
        memory.add("process", 1, second, min(second, 1500.0))
    assert not memory.has_grown("process")


@pytest.mark.parametrize(("first", "grown"), [(0, False), (1, False), (1200, True)])
def test_memory_in_the_first_minutes_of_a_role_does_not_count(first: int, *, grown: bool) -> None:
    """A process that begins to lead fills its caches for a minute."""
    memory = Memory()
    for second in range(1320):
        memory.add("process", 1, second, 80.0)
    for second in range(1320, 1440 + first):
        memory.add("process, leading", 1, second, 80.0 + second / 10)
    assert memory.has_grown("process, leading") == grown


@pytest.mark.parametrize(("pid", "grown"), [(1, True), (2, False)])
def test_memory_in_the_first_minutes_of_a_life_does_not_count(pid: int, *, grown: bool) -> None:
    """The same growth, of an old process and of one that started again."""
    memory = Memory()
    for second in range(1320):
        memory.add("process", 1, second, 80.0)
    for second in range(1320, 2520):
        memory.add("process, after it led", pid, second, 80.0 + second / 10)
    assert memory.has_grown("process, after it led") == grown


def test_a_process_is_compared_with_itself_in_one_role() -> None:
    """It has 80 MiB until it leads, then 150 MiB, which it keeps afterwards."""
    memory = Memory()
    for second in range(3600):
        leads, has_led = 2400 <= second < 3000, second >= 2400
        role = name_role("process", leads=leads, has_led=has_led)
        memory.add(role, 1, second, 150.0 if has_led else 80.0)
    assert sorted(memory.samples) == ["process", "process, after it led", "process, leading"]
    assert not any(map(memory.has_grown, memory.samples))


def test_the_slope_of_a_line_is_its_own() -> None:
    assert slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) == pytest.approx(2.0)


def test_nodes_follow_the_table() -> None:
    plans = node_plans([f"node-{number}" for number in range(20)], {})
    assert [plan.shape for plan in plans] == 2 * [shape for shape, _, _ in NODES]
    assert gpus(20) == 2 * sum(count for _, _, count in NODES)
    assert gpus(20) == sum(len(machine(plan.name, plan.shape).gpus) for plan in plans)


@every_row(
    ("calm", "attacked", "problems"),
    [
        ([(0.02, False)] * 60, [(0.2, False)] * 60, []),
        ([(0.02, False)] * 60, [(0.02, True)] * 2 + [(0.02, False)] * 58, []),
        (
            [(0.02, False)] * 60,
            [(0.02, True)] * 3 + [(0.02, False)] * 57,
            ["attacks: claim: 3 of 60 missed"],
        ),
        ([(0.02, True)] * 60, [(0.02, False)] * 60, ["calm: claim: 60 of 60 missed"]),
        ([(0.02, False)] * 60, [], ["attacks: claim: 0 of 0 missed"]),
        ([(0.3, False)] * 60, [(2.9, False)] * 60, []),
        (
            [(0.3, False)] * 60,
            [(0.3, False)] * 50 + [(3.1, False)] * 10,
            ["attacks: claim: 90 % within 3.1 s, 0.3 s while calm"],
        ),
        ([(0.3, False)] * 60, [(0.3, False)] * 55 + [(9.0, False)] * 5, []),
    ],
)
def test_probes_fail_if_replies_are_missed_or_much_slower_than_calm(
    calm: list[tuple[float, bool]], attacked: list[tuple[float, bool]], problems: list[str]
) -> None:
    probes = Probes(Client(0, "", ""), str)
    for phase, replies in (("calm", calm), ("attacks", attacked)):
        probes.replies[phase, "claim"] = [ProbeReply(*reply) for reply in replies]
    assert list(probes.problems("calm", "attacks")) == problems


@every_row(
    ("reply", "translated", "judged"),
    [
        ({}, False, False),
        ({"spec": {"containers": []}}, False, False),
        ({"spec": {"resourceClaims": [{"name": "g", "resourceClaimName": "g"}]}}, False, False),
        (
            {"spec": {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}},
            True,
            False,
        ),
        ({"kind": "Status", "message": "denied the request: ConfigInvalid: spec"}, False, True),
        ({"kind": "Status", "message": "context deadline exceeded"}, False, False),
    ],
)
def test_a_probe_is_handled_only_by_a_translation_or_a_refusal(
    reply: dict[str, Any], *, translated: bool, judged: bool
) -> None:
    assert (is_translated(reply), is_judged(reply)) == (translated, judged)


@pytest.mark.parametrize("status", ["", "408", "429", "503"])
def test_an_unfinished_body_is_held_or_refused(status: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0)
        theirs.sendall(f"HTTP/1.1 {status} reason\r\n".encode() if status else b"")
        assert read_refusal(ours) == status


@pytest.mark.parametrize("status", ["400", "415", "500"])
def test_an_attack_with_bodies_that_are_not_read_fails(status: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(f"HTTP/1.1 {status} reason\r\n".encode())
        with pytest.raises(AssertionError, match=status):
            read_refusal(ours)


def test_the_whole_body_is_a_review() -> None:
    body = whole_body("large")
    assert len(body) == BODY_BYTES
    assert isinstance(decode_review(body), AdmissionRequest)


def test_what_keeps_a_deleted_pod_is_said() -> None:
    metadata = {"namespace": "a", "name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    pod = {"metadata": {**metadata, "finalizers": ["f"]}, "spec": {"nodeName": "n"}}
    said = describe_end(pod)
    assert said == "a/p (deleted at 2026-01-01T00:00:00Z, on n, Pending, with f)"
