"""The conflicts between allocations that exist now: after each change, and after a restart."""

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from allocator.state.conflicts import MAX_CONFLICTS, MAX_SEARCHES
from allocator.state.inputs import Inputs, make_state
from allocator.state.reports import ClaimFinding
from allocator.state.wrong_allocations import WrongAllocations
from drawbridge.config.model import Configuration
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import Slice
from drawbridge.facts.model import Facts
from drawbridge.ledger.allocation_mark import format_mark, make_mark
from drawbridge.ledger.pods import Pod
from drawbridge.names import ALLOCATION_ANNOTATION
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    allocation_on,
    as_claim,
    as_slice,
    claim,
    gpu_slice,
    owns_all,
    pod,
)
from tests.tables import every_row


def written(uid: str, *devices: int, ours: bool = True, version: int = 2, **more: Any) -> Any:  # noqa: ANN401  # those of `claim`
    """A claim with devices of node n1, with our mark or without."""
    plain = claim(uid, allocation=allocation_on("n1", *devices), version=version, **more)
    allocation = as_claim(plain).status.allocation
    if ours and allocation is not None:
        mark = format_mark(make_mark(allocation, lambda _pool, _device: ()))
        plain["metadata"]["annotations"] = {ALLOCATION_ANNOTATION: mark}
    return as_claim(plain)


def started(*objects: object) -> Cluster:
    cluster = Cluster(n1=8)
    for each in objects:
        cluster.state.apply(None, each)  # type: ignore[arg-type]  # claims and pods
    return cluster


def yielding(cluster: Cluster) -> dict[str, str]:
    """Search the changes, and return which claims yield to which."""
    conflicts = cluster.state.conflicts
    while conflicts.has_changed:
        list(conflicts.take_changed())
    return {each.ours: each.theirs for each in conflicts.list_contests()}


def names(cluster: Cluster) -> list[tuple[str, str]]:
    return [(line.holder, line.other) for line in cluster.state.conflicts.list_lines()]


@every_row("first", ["ours", "theirs"])
def test_a_conflict_is_found_whoever_writes_last(first: str) -> None:
    both = {"ours": written("ours", 0), "theirs": written("theirs", 0, ours=False)}
    cluster = started(both.pop(first))
    assert yielding(cluster) == {}
    cluster.state.apply(None, *both.values())
    assert yielding(cluster) == {"ours": "theirs"}
    assert names(cluster) == [("default/ours", "default/theirs")]


@pytest.mark.asyncio
async def test_each_of_two_namespaces_is_told_of_its_own_claim_only() -> None:
    theirs = written("theirs", 0, ours=False, namespace="other")
    cluster, told = started(written("ours", 0), theirs), {}

    def report(what: ClaimFinding) -> None:
        told[what.claim.metadata.name] = what.finding.message
        assert what.unabridged == "held by default/ours and other/theirs"

    WrongAllocations(lambda: cluster.state, report).begin()
    await asyncio.sleep(0)
    assert told == {
        "ours": "held by default/ours and a claim of another namespace",
        "theirs": "held by other/theirs and a claim of another namespace",
    }


@every_row("gone", ["ours", "theirs"])
def test_a_conflict_ends_with_one_of_its_claims(gone: str) -> None:
    both = {"ours": written("ours", 0), "theirs": written("theirs", 0, ours=False)}
    cluster = started(*both.values())
    assert names(cluster) == []  # not searched yet
    assert yielding(cluster)
    cluster.state.apply(both[gone], None)
    assert yielding(cluster) == {}
    assert names(cluster) == []


def test_a_conflict_of_three_continues_between_two() -> None:
    first, second = written("first", 0, ours=False), written("second", 0, ours=False)
    cluster = started(written("ours", 0), first, second)
    assert yielding(cluster)["ours"] in {"first", "second"}
    cluster.state.apply(first, None)
    assert yielding(cluster) == {"ours": "second"}
    cluster.state.apply(written("ours", 0), None)
    assert yielding(cluster) == {}
    cluster.state.apply(None, first)
    assert names(cluster) == []


def test_an_allocation_of_ours_that_was_deallocated_yields_no_more() -> None:
    cluster = started(written("ours", 0), written("theirs", 0, ours=False))
    assert yielding(cluster)
    cluster.state.apply(None, as_claim(claim("ours", version=3)))
    assert yielding(cluster) == {}


OURS, DEFAULT = {"schedulerName": "drawbridge"}, {"schedulerName": "default-scheduler"}
USERS: dict[str, tuple[list[Pod], list[str]]] = {
    "no pod is known": ([], ["ours"]),
    "it waits": ([pod("p", "ours", spec=OURS)], ["ours"]),
    "it is bound": ([pod("p", "ours", node="n1", spec=OURS)], []),
    "it has ended": ([pod("p", "ours", node="n1", phase="Succeeded", spec=OURS)], ["ours"]),
    # A tenant forged the mark of a claim that another scheduler allocates.
    "another scheduler binds it": ([pod("p", "ours", spec=DEFAULT)], []),
    "one of two is bound": (
        [pod("p", "ours", spec=OURS), pod("q", "ours", node="n1", spec=OURS)],
        [],
    ),
}


@every_row("case", USERS)
def test_ours_yields_only_while_no_pod_can_have_its_devices(case: str) -> None:
    users, expected = USERS[case]
    cluster = started(*users, written("ours", 0), written("theirs", 0, ours=False))
    assert list(yielding(cluster)) == expected
    assert names(cluster) == [("default/ours", "default/theirs")]


@every_row("restarts", [False, True])
def test_ours_yields_to_an_allocation_of_another_scheduler_with_a_forged_mark(
    *, restarts: bool
) -> None:
    """Otherwise a tenant keeps the pod of another one on a device that both have."""
    users = pod("p", "ours", spec=OURS), pod("q", "forged", spec=DEFAULT)
    claims = written("ours", 0, pods=["p"]), written("forged", 0, pods=["q"])
    cluster = started(*users, *claims)
    if restarts:
        cluster.state.conflicts.start()
    assert yielding(cluster) == {"ours": "forged"}


def test_after_a_restart_conflicts_are_found_without_a_search_for_each_claim() -> None:
    beside = [written(f"c{number}", number) for number in range(2, 8)]
    cluster = started(written("ours", 0), written("theirs", 0, ours=False), *beside)
    conflicts = cluster.state.conflicts
    conflicts.start()
    assert [uid for uid, _ in conflicts.take_changed()] == ["theirs"]
    assert yielding(cluster) == {"ours": "theirs"}


def test_a_few_claims_are_searched_at_a_time() -> None:
    cluster = started(*(written(f"c{number}", 0, ours=False) for number in range(20)))
    assert len(list(cluster.state.conflicts.take_changed())) == MAX_SEARCHES


def test_a_claim_that_was_not_searched_yet_is_searched_before_its_pod_is_bound() -> None:
    cluster = started(written("theirs", 0, ours=False), written("ours", 0))
    assert cluster.state.conflicts.find_contest("ours") is not None
    # Its change is still reported.
    changed = dict(cluster.state.conflicts.take_changed())
    assert [each.finding.code for each in changed["ours"]] == ["DeviceHeldTwice"]


def test_a_driver_that_publishes_more_ends_a_conflict() -> None:
    cluster = started(written("ours", 0), written("theirs", 0, ours=False))
    assert yielding(cluster)
    shared = gpu_slice("n1", 8, generation=2, allowMultipleAllocations=True)
    cluster.state.apply(gpu_slice("n1", 8), shared)
    # Whole devices stay in conflict: neither claim has a share.
    assert yielding(cluster)


def partitioned(generation: int, devices: int = 2, *, slices: int = 1, takes: str = "1") -> Slice:
    """Devices that each take the only unit of node n1; with more slices, the pool is incomplete."""
    unit = {"counterSet": "units", "counters": {"unit": {"value": takes}}}
    own = [{"name": f"gpu-{number}", "consumesCounters": [unit]} for number in range(devices)]
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": slices}
    shared = [{"name": "units", "counters": {"unit": {"value": "1"}}}]
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": own}
    return as_slice({"metadata": {"name": "n1-gpu"}, "spec": {**spec, "sharedCounters": shared}})


@every_row(
    "before", [None, partitioned(1, slices=2), partitioned(1, 1)], ids=["gone", "part", "fewer"]
)
def test_a_conflict_is_found_when_the_driver_has_published_the_devices(
    before: Slice | None,
) -> None:
    cluster = Cluster()
    for each in (before, written("ours", 0), written("theirs", 1, ours=False)):
        cluster.state.apply(None, each)
    assert yielding(cluster) == {}
    cluster.state.apply(before, partitioned(2))
    assert yielding(cluster) == {"ours": "theirs"}
    assert [line.code for line in cluster.state.conflicts.list_lines()] == ["CounterOverdrawn"]
    # It lasts while the driver starts again, and ends when it publishes other devices.
    cluster.state.apply(partitioned(2), None)
    cluster.state.apply(None, partitioned(3, slices=2))
    assert yielding(cluster) == {"ours": "theirs"}
    cluster.state.apply(partitioned(3, slices=2), partitioned(4, 1))
    assert yielding(cluster) == {}


@every_row("ours", [(True, True), (False, False), (True, False)], ids=["ours", "theirs", "both"])
def test_a_conflict_ends_when_the_driver_publishes_more(ours: tuple[bool, bool]) -> None:
    cluster = Cluster()
    for each in (partitioned(1), *(written(f"{n}", n, ours=own) for n, own in enumerate(ours))):
        cluster.state.apply(None, each)
    yielding(cluster)
    assert [line.code for line in cluster.state.conflicts.list_lines()] == ["CounterOverdrawn"]
    cluster.state.apply(partitioned(1), partitioned(2, takes="500m"))
    yielding(cluster)
    assert [*cluster.state.conflicts.list_lines()] == []


@every_row(
    ("takes", "more"),
    [("1", "1 more"), ("5Ki", "10239 more"), ("1n", None), ("1e400", "999 more"), ("-1e400", None)],
)
def test_a_message_has_any_amount_that_a_driver_publishes(takes: str, more: str | None) -> None:
    cluster = Cluster()
    published = partitioned(1, takes=takes)
    for each in (published, written("ours", 0), written("theirs", 1, ours=False)):
        cluster.state.apply(None, each)
    yielding(cluster)
    contest = cluster.state.conflicts.find_contest("ours")
    message = contest.conflict.finding.message if contest else None
    assert (message is None) == (more is None)
    assert not message or f"{more} of counter unit of units than its total of 1" in message


@every_row("whose", ["ours", "theirs"])
def test_a_pool_without_claims_of_others_beside_ours_is_not_searched(whose: str) -> None:
    cluster = started(*(written(uid, n, ours=whose == "ours") for n, uid in enumerate("ab")))
    yielding(cluster)
    cluster.state.apply(gpu_slice("n1", 8), gpu_slice("n1", 8, generation=2))
    assert list(cluster.state.conflicts.take_changed()) == []
    assert not cluster.state.conflicts.has_changed


def test_a_pool_is_looked_at_once_for_all_slices_that_changed() -> None:
    cluster = started(written("ours", 0), written("theirs", 1, ours=False))
    yielding(cluster)
    looked: list[object] = []
    claims_in = cluster.state.ledger.claims_in

    def look(pool: PoolID) -> Collection[str]:
        looked.append(pool)
        return claims_in(pool)

    cluster.state.ledger.claims_in = look  # type: ignore[method-assign]  # counted
    for generation in range(2, 9):
        cluster.state.apply(None, gpu_slice("n1", 8, generation=generation))
    assert looked == []
    assert [uid for uid, _ in cluster.state.conflicts.take_changed()] == ["theirs"]
    assert len(looked) == 1


def test_shares_are_no_conflict_after_their_feature_gate_is_disabled() -> None:
    state = make_state(Inputs(Configuration(), Facts()), owns_all, serves_taint_rules=False)
    state.apply(None, gpu_slice("n1", 1, allowMultipleAllocations=True))
    for uid in ("a", "b"):
        allocation = allocation_on("n1", 0)
        allocation["devices"]["results"][0]["shareID"] = f"share-{uid}"
        state.apply(None, as_claim(claim(uid, allocation=allocation)))
    assert [found for _, found in state.conflicts.take_changed()] == [(), ()]
    assert state.ledger.view().use(PoolID(DRIVER, "n1")).shares == {"gpu-0": {}}


def test_the_number_of_conflicts_is_bounded() -> None:
    cluster = Cluster(n1=1)
    for number in range(MAX_CONFLICTS + 5):
        for uid in (f"a{number}", f"b{number}"):
            held = {
                "devices": {
                    "results": [
                        {
                            "request": "r",
                            "driver": "d.io",
                            "pool": "elsewhere",
                            "device": f"d{number}",
                        }
                    ]
                }
            }
            cluster.state.apply(None, as_claim(claim(uid, allocation=held)))
    yielding(cluster)
    assert len(names(cluster)) == MAX_CONFLICTS
    for number in range(MAX_CONFLICTS + 5):
        for uid in (f"a{number}", f"b{number}"):
            cluster.state.apply(cluster.state.claims[uid], None)
    yielding(cluster)
    assert names(cluster) == []
    assert not cluster.state.conflicts._of_claim  # noqa: SLF001  # what is kept of claims that are gone
