"""Binding conditions: whether the devices of allocated claims are ready."""

import asyncio
import datetime as dt

import pytest
from msgspec.structs import replace

from allocator.writes.binding_conditions import AllocationAges, Readiness, readiness
from drawbridge.dra.claim import Claim, claim_reader
from tests.allocator.binding_rig import Rig
from tests.allocator.test_binding import allocate_without_binding, report_condition
from tests.tables import every_row

ALLOCATED = 1_700_000_000.0
READER = claim_reader()


def make_claim(
    conditions: dict[str, str], *, share: str | None = None, allocated: float = ALLOCATED
) -> Claim:
    """Return a claim whose device needs `Attached`, and fails with `Broken`."""
    device = {"driver": "d.io", "pool": "p", "device": "gpu-0"}
    result = {
        **device,
        "request": "r",
        "bindingConditions": ["Attached"],
        "bindingFailureConditions": ["Broken"],
    }
    reported = {**device, "conditions": [{"type": k, "status": v} for k, v in conditions.items()]}
    if share:
        result["shareID"] = share
    time = f"{dt.datetime.fromtimestamp(allocated, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "n", "uid": "u"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g"}}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}, "allocationTimestamp": time},
            "devices": [reported],
        },
    }
    read = READER.read(claim)
    assert isinstance(read, Claim)
    return read


def young(_: Claim) -> float:
    """Return the age of a claim that was just allocated."""
    return 0.0


@every_row(
    ("conditions", "age", "state", "message"),
    [
        ({"Attached": "True"}, 700, Readiness.READY, ""),
        ({"Attached": "True", "Broken": "False"}, 0, Readiness.READY, ""),
        ({}, 0, Readiness.WAITING, "claim n/c: device d.io/p/gpu-0 does not report Attached"),
        ({"Attached": "False"}, 599, Readiness.WAITING, "does not report Attached"),
        ({"Attached": "Unknown"}, 600, Readiness.FAILED, "does not report Attached after 600 s"),
        ({"Attached": "True", "Broken": "True"}, 0, Readiness.FAILED, "reports Broken"),
    ],
)
def test_a_device_is_ready_when_its_conditions_are_true(
    conditions: dict[str, str], age: float, state: Readiness, message: str
) -> None:
    answer = readiness([make_claim(conditions)], lambda _: age, 600)
    assert answer[0] is state
    assert message in answer[1]
    assert bool(message) == bool(answer[1])


def test_the_conditions_of_another_share_do_not_count() -> None:
    share = "4f7a1a0e-0000-4000-8000-000000000001"
    claim = make_claim({"Attached": "True"}, share=share)
    assert readiness([claim], young, 600)[0] is Readiness.WAITING


def test_all_claims_must_be_ready_and_one_failure_is_enough() -> None:
    ready, waiting = make_claim({"Attached": "True"}), make_claim({})
    failed = make_claim({"Broken": "True"})
    assert readiness([ready, waiting], young, 600)[0] is Readiness.WAITING
    assert readiness([waiting, failed, ready], young, 600)[0] is Readiness.FAILED
    assert readiness([], young, 600)[0] is Readiness.READY


@every_row(
    ("looks", "age"),
    [
        # The own time, and the time of the API server since the allocation.
        ([(0, 0), (5, 5)], 5),
        ([(0, 0), (6, 726)], 6),  # one API server is 12 minutes ahead
        ([(0, 0), (700, -20)], 700),
        ([(0, -720), (5, 5)], 5),  # the time in the claim is of a server that is ahead
        # After a restart, as long as devices have some time left.
        ([(0, 300)], 300),
        ([(0, 5000)], 540),
        ([(0, 5000), (60, 5060)], 600),
    ],
)
def test_the_time_of_an_allocation_passes_by_the_own_clock(
    looks: list[tuple[float, float]], age: float
) -> None:
    ages, claim = AllocationAges(600), make_claim({})
    told = [ages.find(claim, ALLOCATED + server, own) for own, server in looks]
    assert told[-1] == age


def test_the_time_of_another_allocation_of_a_claim_begins_anew() -> None:
    ages = AllocationAges(600)
    ages.find(make_claim({}), ALLOCATED, 0)
    again = make_claim({}, allocated=ALLOCATED + 90)
    assert ages.find(again, ALLOCATED + 100, 100) == 10


@pytest.mark.asyncio
@pytest.mark.parametrize("is_behind", [True, False])
async def test_who_waits_ends_when_a_claim_is_deallocated_unless_the_watch_is_behind(
    monkeypatch: pytest.MonkeyPatch, *, is_behind: bool
) -> None:
    rig = Rig()
    before = rig.claim("a")
    await allocate_without_binding(rig)
    report_condition(rig, "Waiting")
    rig.binder._times = rig.binder._times._replace(wait=5)  # noqa: SLF001
    get = rig.cluster.get

    def show(namespace: str, name: str) -> Claim | None:
        """Return the claim once without its allocation, and report that it is attached."""
        monkeypatch.setattr(rig.cluster, "get", get)
        if is_behind:
            report_condition(rig, "Attached")
            return before
        rig.cluster.put(replace(rig.claim(name), status=before.status))
        return get(namespace, name)

    next_change = rig.cluster.next_change

    def change(claim: Claim) -> "asyncio.Future[None]":
        monkeypatch.setattr(rig.cluster, "next_change", next_change)
        monkeypatch.setattr(rig.cluster, "get", show)
        return next_change(claim)

    monkeypatch.setattr(rig.cluster, "next_change", change)
    assert await rig.bind() == ("" if is_behind else "claim n/a was deallocated meanwhile")
    assert rig.cluster.node_of("pod") == ("node-1" if is_behind else "")
