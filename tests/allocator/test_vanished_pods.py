"""Devices of pods that vanish while their containers may run, in every order of the two watches."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from allocator.state.caches import without_unused_parts
from allocator.state.cluster_state import OUT_OF_SERVICE, AllocatorState
from allocator.state.inputs import Inputs, make_state
from allocator.state.reports import ClaimFinding
from allocator.state.seen_pods import release_of
from drawbridge.api_error import ApiError
from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.dra.claim import Claim
from drawbridge.dra.device import Taint
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.ledger.allocation_mark import ALLOCATOR, Mark, MarkedDevice, format_mark
from drawbridge.ledger.holdings import DeviceID
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod, PodCondition, PodStatus
from drawbridge.names import ALLOCATION_ANNOTATION
from tests.allocator.clusters import (
    DRIVER,
    allocation_on,
    as_claim,
    claim,
    device,
    gpu_slice,
    owns_all,
    pod,
)
from tests.tables import every_row

SECONDS = 10
Change = tuple[Pod | Claim | None, Pod | Claim | None]


def running(uid: str = "p", **fields: Any) -> Pod:  # noqa: ANN401  # those of `pod`
    return without_unused_parts(pod(uid, "c", node="n1", phase="Running", **fields))


def ended(uid: str = "p") -> Pod:
    return without_unused_parts(pod(uid, "c", node="n1", phase="Succeeded"))


def allocated(*uids: str, version: int = 1) -> Claim:
    return as_claim(claim("c", version=version, allocation=allocation_on("n1", 0), pods=uids))


RELEASED = as_claim(claim("c", version=5))


def state_with(*objects: Node | Pod | Claim, seconds: float | None = SECONDS) -> AllocatorState:
    state = AllocatorState(Planner(), Ledger(), owns_all, seconds)
    for each in (Node("n1"), gpu_slice("n1", 2), *objects):
        state.apply(None, each)
    return state


def is_free(state: AllocatorState) -> bool:
    return not state.ledger.holders(device("n1"))


def interleave(first: list[Change], second: list[Change]) -> Iterator[list[Change]]:
    """Yield all orders of the changes of two watches, each of which keeps its own order."""
    total = len(first) + len(second)
    for places in combinations(range(total), len(first)):
        left, right = iter(first), iter(second)
        yield [next(left) if at in places else next(right) for at in range(total)]


RELEASE: list[Change] = [(allocated("p"), RELEASED), (RELEASED, None)]


@pytest.mark.parametrize("release", [RELEASE, [(allocated("p"), None)]])
def test_a_pod_whose_end_is_confirmed_leaves_nothing_in_any_order(release: list[Change]) -> None:
    confirmed: list[Change] = [(running(), ended()), (ended(), None)]
    for order in interleave(confirmed, release):
        state = state_with(running(), allocated("p"))
        for before, after in order:
            state.apply(before, after)
        assert is_free(state), order
        assert not state.vanished.claims


def told_of(state: AllocatorState) -> Finding:
    """Take the only finding that is to be told."""
    (told,) = state.take_reports()
    assert isinstance(told, ClaimFinding)
    return told.finding


@pytest.mark.parametrize("release", [RELEASE, [(allocated("p"), None)]])
def test_a_pod_that_vanishes_keeps_its_devices_in_any_order(release: list[Change]) -> None:
    for order in interleave([(running(), None)], release):
        state = state_with(running(), allocated("p"))
        for before, after in order:
            state.apply(before, after)
            assert not is_free(state), order
        state.vanished.observe_time(100.0)
        state.vanished.observe_time(100.0 + 30 + SECONDS - 0.1)
        assert not is_free(state)
        assert [each.name for each in state.vanished.claims.values()] == ["default/c"]
        told = told_of(state)
        assert told.message.startswith("1 device on 1 node stays unpromised for at most 40 s: ")
        reason = state.vanished.find_reason()
        assert reason is not None
        assert (reason.message, reason.nodes) == (told.message, 1)
        state.vanished.observe_time(100.0 + 30 + SECONDS)
        assert is_free(state)
        assert not state.vanished.claims
        assert state.vanished.find_reason() is None
        assert not state.reports


class Vanished(NamedTuple):
    """How a pod was before it vanished, and for how long its device is kept; None if not at all."""

    pod: Pod | None
    seconds: float | None


@every_row(
    "case",
    {
        "as other pods": Vanished(running(), 30 + SECONDS),
        "a grace period of its own": Vanished(
            running(spec={"terminationGracePeriodSeconds": 5}), 5 + SECONDS
        ),
        "while it terminated": Vanished(
            running(deletionTimestamp="2026-11-22T00:00:00Z", deletionGracePeriodSeconds=2),
            2 + SECONDS,
        ),
        "a grace period without end": Vanished(
            running(spec={"terminationGracePeriodSeconds": 999999}), 600 + SECONDS
        ),
        "never seen": Vanished(None, 30 + SECONDS),
        "without a node": Vanished(without_unused_parts(pod("p", "c")), None),
        "after its end": Vanished(ended(), None),
    }.values(),
)
def test_the_grace_period_of_the_pod_decides_how_long(case: Vanished) -> None:
    state = state_with(*filter(None, [case.pod]), allocated("p"))
    if case.pod is not None:
        state.apply(case.pod, None)
    state.apply(allocated("p"), RELEASED)
    assert is_free(state) is (case.seconds is None)
    state.vanished.observe_time(0.0)
    if case.seconds is not None:
        state.vanished.observe_time(case.seconds - 0.1)
        assert not is_free(state)
        state.vanished.observe_time(case.seconds)
    assert is_free(state)


@every_row(
    "first, wanted",
    [(ended(), True), (running(), False), (without_unused_parts(pod("p", "c")), False)],
)
def test_of_a_cache_that_is_behind_only_the_end_of_a_pod_frees_its_devices(
    first: Pod, *, wanted: bool
) -> None:
    state = state_with(allocated("p"))
    state.apply(allocated("p"), RELEASED)
    assert not is_free(state)
    state.apply(None, first)
    assert is_free(state) is wanted


@pytest.mark.parametrize("release", [RELEASE, [(allocated("p"), None)]])
def test_a_pod_that_vanishes_before_the_watch_shows_its_node_keeps_its_devices(
    release: list[Change],
) -> None:
    unbound = without_unused_parts(pod("p", "c"))
    for order in interleave([(unbound, None)], release):
        state = state_with(unbound, allocated("p"))
        state.pods.note_bound("p")
        for before, after in order:
            state.apply(before, after)
            assert not is_free(state), order


UNBOUND = without_unused_parts(pod("p", "c"))
DELETED = {"deletionTimestamp": "2026-11-22T00:00:00Z", "deletionGracePeriodSeconds": 0}


class Behind(NamedTuple):
    """What a watch shows of a pod without a node, and whether its claim is free at the end."""

    changes: list[Change]
    free: bool


@every_row(
    "case",
    {
        "it ran and vanished": Behind([(UNBOUND, running()), (running(), None)], free=False),
        "it runs": Behind([(UNBOUND, running())], free=False),
        "it ran and ended": Behind([(UNBOUND, ended()), (ended(), None)], free=True),
        "it got no node": Behind([(UNBOUND, None)], free=True),
    }.values(),
)
@pytest.mark.parametrize("release", [RELEASE, [(allocated("p"), None)]])
def test_a_pod_without_a_node_whose_claim_others_release_is_not_seen_as_it_is(
    case: Behind, release: list[Change]
) -> None:
    for order in interleave(case.changes, release):
        state = state_with(UNBOUND, allocated("p"))
        for before, after in order:
            state.apply(before, after)
            assert case.free or not is_free(state), order
        assert is_free(state) is case.free, order
        state.vanished.observe_time(100.0)
        state.vanished.observe_time(100.0 + 30 + SECONDS)
        assert is_free(state), order


def test_a_pod_that_terminates_without_a_node_gets_none_any_more() -> None:
    state = state_with(UNBOUND, allocated("p"))
    state.apply(UNBOUND, without_unused_parts(pod("p", "c", **DELETED)))
    state.apply(allocated("p"), RELEASED)
    assert is_free(state)


@pytest.mark.parametrize("version", ["1", "0"])
def test_what_this_process_releases_itself_is_free_at_once(version: str) -> None:
    """Unless the claim has changed since then: a pod that was bound meanwhile needs it."""
    state = state_with(UNBOUND, allocated("p"))
    metadata = replace(allocated("p").metadata, resource_version=version)
    with state.pods.release(replace(allocated("p"), metadata=metadata)):
        state.apply(allocated("p"), RELEASED)
    assert is_free(state) is (version == "1")


def showing(claim: Claim, node: str = "") -> Pod:
    """Return a pod for which an allocator has released a claim."""
    told = PodCondition("drawbridge.dev/released", message=release_of(claim))
    shown = replace(pod("p", "c", node=node), status=PodStatus(conditions=(told,)))
    return without_unused_parts(shown)


def test_what_the_condition_of_a_pod_says_is_released_is_free_at_once() -> None:
    """Another process has released it, after it has asked for the node of the pod."""
    state = state_with(showing(allocated("p")), allocated("p"))
    state.apply(allocated("p"), RELEASED)
    assert is_free(state)


@every_row(
    ("shown", "free"),
    [
        ((UNBOUND, showing(allocated("p"))), True),
        ((UNBOUND, showing(allocated("p", version=2))), False),  # a release of another time
        ((UNBOUND, showing(allocated("p"), node="n1")), False),
        ((UNBOUND,), False),
    ],
)
def test_a_pod_that_is_seen_after_the_release_of_its_claim_can_show_that_nobody_used_it(
    shown: tuple[Pod, ...],
    free: bool,  # noqa: FBT001  # a column
) -> None:
    state, before = state_with(allocated("p")), None
    state.apply(allocated("p"), RELEASED)
    for after in shown:
        assert not is_free(state)
        state.apply(before, after)
        before = after
    assert is_free(state) is free


def test_a_release_that_failed_says_nothing_of_a_later_one() -> None:
    state = state_with(UNBOUND, allocated("p"))
    with pytest.raises(ApiError), state.pods.release(allocated("p")):
        raise ApiError(409, "Conflict", "changed")
    state.apply(allocated("p"), RELEASED)
    assert not is_free(state)


def test_a_claim_that_others_use_too_is_kept_when_the_last_one_ends() -> None:
    both, other = allocated("p", "q"), allocated("q", version=2)
    state = state_with(running(), running("q"), both)
    state.apply(running(), None)
    state.apply(both, other)
    state.vanished.observe_time(0.0)
    state.apply(running("q"), ended("q"))
    state.apply(other, RELEASED)
    assert not is_free(state)
    state.vanished.observe_time(1.0)
    state.vanished.observe_time(1.0 + 30 + SECONDS)
    assert is_free(state)


@pytest.mark.parametrize(
    "after", [None, Node("n1", taints=(Taint(OUT_OF_SERVICE, "NoExecute", "nodeshutdown"),))]
)
def test_a_node_that_is_gone_runs_nothing(after: Node | None) -> None:
    state = state_with(running(), allocated("p"))
    state.apply(running(), None)
    state.apply(allocated("p"), RELEASED)
    assert not is_free(state)
    state.apply(Node("n1"), after)
    state.vanished.observe_time(0.0)
    assert is_free(state)


@pytest.mark.parametrize("first", ["pod", "slices"])
def test_a_driver_that_withdraws_its_pool_for_a_moment_frees_nothing(first: str) -> None:
    state = state_with(running(), allocated("p"))
    slices = [gpu_slice("n1", 2)]

    def vanish() -> None:
        for before, after in [(running(), None), *RELEASE]:
            state.apply(before, after)
        state.vanished.observe_time(100.0)

    if first == "pod":
        vanish()
    for each in slices:
        state.apply(each, None)
    state.vanished.observe_time(101.0)
    if first == "slices":
        vanish()
    for each in slices:
        state.apply(None, each)
    state.vanished.observe_time(102.0)
    assert not is_free(state)
    state.apply(Node("n1"), None)
    state.vanished.observe_time(103.0)
    assert is_free(state)


def test_a_driver_that_is_away_when_the_process_starts_frees_nothing() -> None:
    state = AllocatorState(Planner(), Ledger(), owns_all, SECONDS)
    for each in (Node("n1"), running(), allocated("p")):
        state.apply(None, each)
    for before, after in [(running(), None), *RELEASE]:
        state.apply(before, after)
    state.vanished.observe_time(100.0)
    state.apply(None, gpu_slice("n1", 2))
    assert not is_free(state)


def test_a_pool_that_is_not_used_while_its_fence_settles_frees_nothing() -> None:
    settled: list[str] = []
    state = AllocatorState(Planner(), Ledger(), lambda *_: bool(settled), SECONDS)
    for each in (Node("n1"), gpu_slice("n1", 2), running(), allocated("p")):
        state.apply(None, each)
    for before, after in [(running(), None), *RELEASE]:
        state.apply(before, after)
    state.vanished.observe_time(100.0)
    settled.append("n1")
    state.decide_owners_on("n1")
    assert state.nodes_with_pools == ["n1"]
    assert not is_free(state)


@pytest.mark.parametrize("ours", [True, False])
def test_what_we_allocated_is_kept_on_a_node_that_is_given_back_for_a_moment(*, ours: bool) -> None:
    owned = ["n1"]
    state = AllocatorState(
        Planner(), Ledger(), lambda *_: bool(owned), SECONDS, lambda *_: bool(owned)
    )
    mark = format_mark(Mark(ALLOCATOR, (MarkedDevice(driver=DRIVER, pool="n1", device="gpu-0"),)))
    annotations = {ALLOCATION_ANNOTATION: mark} if ours else {}
    fields = {"allocation": allocation_on("n1", 0), "annotations": annotations}
    held = as_claim(claim("c", pods=["p"], **fields))
    for each in (Node("n1"), gpu_slice("n1", 2), running(), held):
        state.apply(None, each)
    owned.clear()
    state.decide_owners_on("n1")
    for before, after in [(running(), None), (held, RELEASED)]:
        state.apply(before, after)
    state.vanished.observe_time(100.0)
    owned.append("n1")
    state.decide_owners_on("n1")
    assert is_free(state) is not ours


def test_what_others_allocated_is_kept_if_the_node_is_given_back_afterwards() -> None:
    owned = ["n1"]
    state = AllocatorState(
        Planner(), Ledger(), lambda *_: bool(owned), SECONDS, lambda *_: bool(owned)
    )
    held = as_claim(claim("c", pods=["p"], allocation=allocation_on("n1", 0)))
    for each in (Node("n1"), gpu_slice("n1", 2), running(), held):
        state.apply(None, each)
    for before, after in [(running(), None), (held, RELEASED)]:
        state.apply(before, after)
    owned.clear()
    state.decide_owners_on("n1")
    state.vanished.observe_time(100.0)
    owned.append("n1")
    state.decide_owners_on("n1")
    assert not is_free(state)
    state.vanished.observe_time(100.0 + SECONDS + 31)
    assert is_free(state)


def test_a_node_that_goes_after_its_slices_frees_what_was_kept() -> None:
    state = state_with(running(), allocated("p"))
    for before, after in [(running(), None), *RELEASE, (gpu_slice("n1", 2), None)]:
        state.apply(before, after)
    state.vanished.observe_time(100.0)
    assert not is_free(state)
    state.apply(Node("n1"), None)
    state.vanished.observe_time(101.0)
    assert is_free(state)


def test_new_decisions_keep_what_was_kept_while_the_driver_withdraws_its_pool() -> None:
    # The name of a pool does not have to be that of its node.
    published = replace(gpu_slice("n1", 1), pool="pool")
    results = [{"request": "r", "driver": DRIVER, "pool": "pool", "device": "gpu-0"}]
    allocation = {**allocation_on("n1"), "devices": {"results": results}}
    held = as_claim(claim("c", allocation=allocation, pods=["p"]))
    state, new = (AllocatorState(Planner(), Ledger(), owns_all, SECONDS) for _ in range(2))
    for each in (Node("n1"), published, running(), held):
        state.apply(None, each)
    for vanished in (running(), held, published):
        state.apply(vanished, None)
    state.vanished.observe_time(1.0)
    new.apply(None, Node("n1"))
    new.vanished.take_over(state.vanished)
    new.vanished.observe_time(2.0)
    new.apply(None, published)
    new.vanished.observe_time(3.0)
    told = told_of(state)
    assert told.message.startswith("1 device on 1 node stays")
    assert new.ledger.holders(DeviceID(PoolID(DRIVER, "pool"), "gpu-0"))
    new.apply(published, None)
    new.apply(Node("n1"), None)
    new.vanished.observe_time(4.0)
    assert not new.vanished.claims


@pytest.mark.parametrize(
    ("driver", "selector", "keeps"),
    [
        (DRIVER, {}, True),
        ("other.example.com", {}, False),
        (DRIVER, {"matchLabels": {"kind": "gpu"}}, False),
    ],
)
def test_of_pools_that_are_not_published_only_those_of_owned_drivers_are_kept(
    driver: str, selector: dict[str, Any], *, keeps: bool
) -> None:
    configuration = accept_configuration(
        {
            "apiVersion": "drawbridge.dev/v1alpha1",
            "kind": "Configuration",
            "placement": "bridge",
            "ownedPools": [{"driver": driver, "nodeSelector": selector}],
        },
        {},
    )
    assert isinstance(configuration, Configuration), configuration
    state = make_state(Inputs(configuration, Facts()), owns_all, serves_taint_rules=False)
    for each in (Node("n1"), running(), allocated("p")):
        state.apply(None, each)
    for before, after in [(running(), None), *RELEASE]:
        state.apply(before, after)
    state.vanished.observe_time(100.0)
    assert is_free(state) is not keeps
    assert (state.vanished.find_reason() is not None) is keeps


def test_new_decisions_keep_what_the_former_ones_kept() -> None:
    state, new = state_with(running(), allocated("p")), state_with()
    state.apply(running(), None)
    state.apply(allocated("p"), RELEASED)
    state.vanished.observe_time(0.0)
    new.vanished.take_over(state.vanished)
    assert not is_free(new)
    new.vanished.observe_time(30.0 + SECONDS)
    assert is_free(new)


def test_nothing_is_kept_where_nobody_asked_for_it() -> None:
    state = state_with(running(), allocated("p"), seconds=None)
    state.apply(running(), None)
    state.apply(allocated("p"), RELEASED)
    assert is_free(state)
