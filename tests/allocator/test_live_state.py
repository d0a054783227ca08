"""Which changes of the configuration and of the facts have the decisions built anew."""

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from allocator.state import live_state as live_state_module
from allocator.state.caches import AllocatorCaches
from allocator.state.cluster_state import AllocatorState
from allocator.state.conflicts import MAX_SEARCHES, Conflicts
from allocator.state.inputs import Effect, Inputs, compare_inputs, make_state
from allocator.state.live_state import LiveState
from allocator.state.reports import ClaimFinding
from drawbridge.cluster.history import Identity
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject, ObjectState
from drawbridge.config.model import Configuration, LabelSelector, Placement, Quota
from drawbridge.config.string_formats import (
    AttributeName,
    DNSLabel,
    LabelKey,
    LabelValue,
    ObjectName,
)
from drawbridge.dra.claim import Claim
from drawbridge.dra.device import Taint
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.taints import DeviceTaintRule, TaintSelector
from drawbridge.facts.gather import describe_cluster
from drawbridge.facts.model import ClassFacts, Cluster, Facts
from drawbridge.ledger.conflicts import Conflict
from tests.agreement.fence_parts import NAMESPACE, installed
from tests.allocator.test_current_conflicts import written
from tests.tables import every_row

CLASS = ClassFacts(name="gpu", drivers=("d.io",))
MAPPED = replace(CLASS, extended="d.io/gpu")
SELECTOR = LabelSelector(match_labels={LabelKey("a"): LabelValue("b")})
LIMIT = {ObjectName("gpu"): {AttributeName("devices"): Quantity.of(1)}}
QUOTA = Quota(DNSLabel("q"), namespace_selector=SELECTOR, total=LIMIT)
BEFORE = Inputs(Configuration(), Facts(classes=(CLASS,)))
CASES = {
    "nothing": (BEFORE, Effect.NONE),
    "an equal configuration": (Inputs(Configuration(), BEFORE.facts), Effect.NONE),
    "the drivers of a class without an extended resource": (
        Inputs(BEFORE.configuration, Facts(classes=(replace(CLASS, drivers=("e.io",)),))),
        Effect.NONE,
    ),
    "an extended resource": (
        Inputs(BEFORE.configuration, Facts(classes=(CLASS, MAPPED))),
        Effect.OWNERS,
    ),
    "the configuration": (
        Inputs(Configuration(placement=Placement.BRIDGE), BEFORE.facts),
        Effect.REBUILD,
    ),
    "the feature gates": (
        Inputs(
            BEFORE.configuration,
            Facts(cluster=Cluster(gates=("consumable_capacity",)), classes=(CLASS,)),
        ),
        Effect.REBUILD,
    ),
    "a dropped field whose gate is disabled": (
        BEFORE._replace(dropped=frozenset(["shareID"])),
        Effect.NONE,
    ),
}


@every_row("changed", CASES)
def test_only_a_change_that_every_decision_depends_on_builds_them_anew(changed: str) -> None:
    after, effect = CASES[changed]
    assert compare_inputs(BEFORE, after) is effect


@pytest.mark.parametrize("served", [True, False])
def test_rules_are_obeyed_if_they_are_served_whatever_the_version_enables(
    served: bool,  # noqa: FBT001  # a parameter of pytest
) -> None:
    default = gates_of_version("1.36")
    assert isinstance(default, Gates)
    inputs = Inputs(Configuration(), Facts(cluster=describe_cluster(default)))
    state = make_state(inputs, lambda *_: True, serves_taint_rules=served)
    rule = DeviceTaintRule("fence", Taint("t", "NoSchedule"), TaintSelector(driver="d.io"))
    state.apply(None, rule)
    assert bool(state.planner.world().inventory.taint_rules) is served


def test_namespaces_are_needed_for_quotas_only() -> None:
    """A role of an earlier release may not read them."""
    caches = AllocatorCaches(cast("Session", object()), "drawbridge-system")
    without, with_quotas = (caches.find_missing(needs_namespaces=each) for each in (False, True))
    assert not any("namespaces" in each for each in without)
    assert [each for each in with_quotas if each not in without] == [
        "namespaces are not synced: not listed yet"
    ]


@pytest.mark.asyncio
async def test_whoever_waits_for_a_claim_looks_again_when_it_changes() -> None:
    caches = AllocatorCaches(cast("Session", object()), "drawbridge-system")

    def put(stored: CachedObject[Claim]) -> None:
        state = ObjectState(stored.uid, stored.version, stored)
        caches.claims._index.put((stored.namespace, stored.name), state)  # noqa: SLF001

    seen, later, other = written("c", 0, version=2), written("c", 0, version=3), written("d", 0)
    # No watch has told of the claim yet.
    first = caches.next_change(seen)
    assert not first.done()
    put(_stored(seen))
    assert first.done()
    # The last one has a response that the watch is behind.
    changes = [caches.next_change(each) for each in (seen, seen, later)]
    put(_stored(other))
    assert [each.done() for each in changes] == [False, False, False]
    put(_stored(later))
    assert [each.done() for each in changes] == [True, True, True]
    assert caches.next_change(seen).done(), "the cache has a newer version already"
    again = caches.next_change(later)
    caches.end_waiting("c")
    assert again.done()
    # A claim with the same name takes the place of another one.
    last = caches.next_change(later)
    put(replace(_stored(written("c", 0, version=4)), uid="other"))
    assert last.done()
    assert not caches._changes  # noqa: SLF001


@pytest.mark.parametrize(
    ("quotas", "labels", "used"), [((), {}, []), ((QUOTA,), {}, []), ((QUOTA,), {"a": "b"}, ["0"])]
)
def test_a_state_has_the_quotas_of_the_configuration(
    quotas: tuple[Quota, ...], labels: dict[str, str], used: list[str]
) -> None:
    inputs = Inputs(Configuration(quotas=quotas), Facts())
    state = make_state(inputs, lambda *_: True, serves_taint_rules=False)
    state.ledger.quotas.set_labels("team", labels)
    assert [f"{each.used}" for each in state.ledger.quotas.lines("team")] == used


class StoredObjects:
    """A cache that a test fills."""

    version = "0"  # up to which everything was told

    def __init__(self, *values: Any) -> None:  # noqa: ANN401  # the values of any kind
        self.revision = 0
        self._stored = [_stored(each) for each in values]
        self._followers: list[Callable[..., None]] = []
        self._list_followers: list[Callable[..., None]] = []

    def all(self) -> list[CachedObject[Any]]:
        """Return what is stored."""
        return list(self._stored)

    def get(self, name: str, _namespace: str) -> CachedObject[Any] | None:
        """Return what is stored with a name."""
        return next((each for each in self._stored if each.name == name), None)

    def subscribe(self, follower: Callable[..., None]) -> None:
        """Have a function called with each change."""
        self._followers.append(follower)

    def subscribe_to_lists(self, follower: Callable[..., None]) -> None:
        """Have a function called with each list."""
        self._list_followers.append(follower)

    def expect(self, key: tuple[str, str], identity: Identity) -> None:
        """A response has told of an object before the watch; nothing is watched here."""

    def list_again(self, version: str) -> None:
        """List everything, as after a gap of the watch."""
        for each in self._list_followers:
            each(version, {stored.uid for stored in self._stored})

    def add(self, value: Any) -> None:  # noqa: ANN401  # as above
        """Store a value."""
        self._stored.append(_stored(value))
        for each in self._followers:
            each(None, self._stored[-1])

    def remove(self, value: Any) -> None:  # noqa: ANN401  # as above
        """Delete a value."""
        gone = _stored(value)
        self._stored = [each for each in self._stored if each.uid != gone.uid]
        for each in self._followers:
            each(gone, None)


def _stored(value: Any) -> CachedObject[Any]:  # noqa: ANN401  # as above
    metadata = value.metadata
    version = metadata.resource_version
    return CachedObject("default", metadata.name, metadata.uid, version, b"", value)


def live_state(
    *claims: Claim,
    server_time: Callable[[], float] = lambda: 0.0,
    elapsed: Callable[[], float] = lambda: 0.0,
    configuration: Callable[[], Configuration] = Configuration,
    facts: Facts = BEFORE.facts,
) -> tuple[LiveState, StoredObjects, list[str]]:
    """The state after a start with these claims, their cache, and what is reported."""
    none, stored, reported = StoredObjects(), StoredObjects(*claims), list[str]()
    pools = [PoolID("d.io", f"{number}") for number in range(FENCED)]
    kinds = dict.fromkeys(("nodes", "classes", "slices", "pods", "namespaces", "events"), none)
    caches = SimpleNamespace(
        namespace=NAMESPACE,
        subscribe_fence=lambda follow: follow(),
        fence_parts=lambda: installed(pools),
        **kinds,
        claims=stored,
        taint_rules=None,
        devices=(none,),
        facts=SimpleNamespace(facts=facts, subscribe=none.subscribe),
        synced=True,
        min_member=lambda *_: 0,
        find_unread_groups=str,
        shows=lambda claim: AllocatorCaches.shows(cast("AllocatorCaches", caches), claim),
    )
    live = LiveState(
        cast("AllocatorCaches", caches),
        configuration,
        on_rebuild=lambda: None,
        on_change=lambda: reported.extend(_take_told(live)),
        server_time=server_time,
        lacks_policy=lambda: False,
        elapsed=elapsed,
    )
    live.update()
    return live, stored, reported


def _take_told(live: LiveState) -> Iterator[str]:
    for report in live.cluster.take_reports():
        assert isinstance(report, ClaimFinding)
        yield f"{report.finding.code} {report.claim.metadata.name}"


FENCED = 120


@pytest.mark.asyncio
async def test_a_turn_of_the_loop_decides_a_few_pools_whose_fence_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live, _, _ = live_state()
    decided: list[int] = []
    monkeypatch.setattr(
        live.decisions.state, "decide_owners_of", lambda pools: decided.append(len(pools))
    )
    live.fences.note_look(10.0)
    for _ in range(4):
        await asyncio.sleep(0)
    assert decided == [50, 50, 20]


@pytest.mark.asyncio
async def test_a_wrong_clock_of_an_api_server_does_not_shorten_the_time_of_a_fence() -> None:
    """One of several API servers is ahead, and each response moves the time."""
    server, elapsed = [0.0], [0.0]
    live, _, _ = live_state(server_time=lambda: server[0], elapsed=lambda: elapsed[0])
    server[0], elapsed[0] = 3600.0, 9.0
    assert live.fences.begin_look() is None
    server[0], elapsed[0] = -3600.0, 10.0
    assert live.fences.begin_look() == 10.0


@pytest.mark.asyncio
async def test_a_look_that_took_long_is_followed_by_a_pause() -> None:
    elapsed = [0.0]
    live, _, _ = live_state(elapsed=lambda: elapsed[0])
    elapsed[0] = 11.0
    assert live.fences.begin_look() == 11.0
    live.fences.note_look(9.5)
    elapsed[0] = 16.9
    assert live.fences.begin_look() is None
    elapsed[0] = 17.0
    assert live.fences.begin_look() == 17.0


OURS, THEIRS = written("ours", 0), written("theirs", 0, ours=False)


@pytest.mark.asyncio
async def test_a_conflict_that_exists_at_a_start_is_found_and_reported_without_a_change() -> None:
    live, _, reported = live_state(OURS, THEIRS)
    await asyncio.sleep(0)
    assert [(each.ours, each.theirs) for each in live.cluster.conflicts.list_contests()] == [
        ("ours", "theirs")
    ]
    assert sorted(reported) == ["DeviceHeldTwice ours", "DeviceHeldTwice theirs"]


@pytest.mark.asyncio
async def test_a_conflict_is_reported_again_while_it_lasts() -> None:
    live, claims, reported = live_state(OURS, THEIRS)
    await asyncio.sleep(0)
    before = sorted(reported)
    live.wrong_allocations.search_again(["theirs", "deleted"])
    await asyncio.sleep(0)
    assert sorted(reported) == sorted(before * 2)
    claims.remove(THEIRS)
    await asyncio.sleep(0)
    reported.clear()
    live.wrong_allocations.search_again(["ours", "theirs"])
    await asyncio.sleep(0)
    assert reported == []


@pytest.mark.asyncio
async def test_after_many_changes_a_turn_of_the_loop_searches_a_few_claims() -> None:
    live, claims, reported = live_state(OURS)
    others = 3 * MAX_SEARCHES
    for number in range(others):
        claims.add(written(f"theirs{number}", 0, ours=False))
    assert reported == []
    searched = []
    while live.decisions.state.conflicts.has_changed:
        await asyncio.sleep(0)
        searched.append(len({each for each in reported if "theirs" in each}))
    assert searched == [MAX_SEARCHES, 2 * MAX_SEARCHES, others]


@pytest.mark.asyncio
async def test_a_bug_in_the_search_for_one_claim_costs_no_other_its_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, claims, reported = live_state(OURS)
    uids = [f"theirs{number}" for number in range(2 * MAX_SEARCHES)]
    for uid in uids:
        claims.add(written(uid, 0, ours=False))
    follow = Conflicts.follow

    def fail(conflicts: Conflicts, uid: str) -> tuple[Conflict, ...]:
        if uid == "theirs2":
            raise OverflowError
        return follow(conflicts, uid)

    monkeypatch.setattr(Conflicts, "follow", fail)
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: failures.append(told))
    for _ in range(5):
        await asyncio.sleep(0)
    searched = {each.rpartition(" ")[2] for each in reported} - {"ours"}
    assert (searched, len(failures)) == ({*uids} - {"theirs2"}, 1)


@pytest.mark.asyncio
async def test_the_claim_of_a_pod_is_compared_with_changes_that_are_not_searched_yet() -> None:
    live, claims, _ = live_state(OURS)
    claims.add(THEIRS)
    contest = live.cluster.conflicts.find_contest("ours")
    assert contest is not None
    assert contest.theirs == "theirs"


@pytest.mark.asyncio
async def test_the_contests_are_listed_without_a_search() -> None:
    live, _, _ = live_state(OURS, THEIRS)
    assert live.cluster.conflicts.list_contests() == []


@pytest.mark.asyncio
async def test_a_claim_that_only_responses_told_of_goes_with_a_list_without_it() -> None:
    """It was created and deleted while no watch was open."""
    live, claims, _ = live_state(OURS)
    live.observe_claim(other := written("other", 1))
    version = int(other.metadata.resource_version)
    claims.list_again(f"{version - 1}")
    assert live.decisions.state.ledger.claims.keys() == {"ours", "other"}
    claims.list_again(f"{version}")
    await asyncio.sleep(0)
    assert live.decisions.state.ledger.claims.keys() == {"ours"}
    live.observe_claim(other)
    assert live.decisions.state.ledger.claims.keys() == {"ours"}, "the response was late"


@pytest.mark.asyncio
async def test_decisions_that_are_built_anew_know_what_responses_have_told_of_claims() -> None:
    """The watch can be behind, and a list that it reads then does not have what is deleted."""
    configuration = [Configuration()]
    live, claims, _ = live_state(OURS, configuration=lambda: configuration[0])
    live.observe_claim(written("other", 1))
    live.cluster.observe_claim(told := written("told", 2), told=True)
    configuration[0] = Configuration(quotas=(QUOTA,))
    live.update()
    records = live.cluster.ledger.claims
    assert records.keys() == {"ours", "other", "told"}
    assert [each.is_confirmed for each in records.values()] == [True, True, False]
    claims.list_again(told.metadata.resource_version)
    assert records.keys() == {"ours"}


@pytest.mark.asyncio
async def test_a_build_that_failed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    configuration, failing = [Configuration()], [True]
    live, _, _ = live_state(OURS, configuration=lambda: configuration[0])

    def make(*args: Any, **options: Any) -> AllocatorState:  # noqa: ANN401  # those of the function
        if failing[0]:
            raise MemoryError
        return make_state(*args, **options)

    monkeypatch.setattr(live_state_module, "make_state", make)
    configuration[0] = Configuration(quotas=(QUOTA,))
    with pytest.raises(MemoryError):
        live.update()
    assert live.cluster.ledger.quotas.quotas == ()
    failing[0] = False
    live.update()
    assert [each.name for each in live.cluster.ledger.quotas.quotas] == ["q"]


@pytest.mark.asyncio
async def test_decisions_that_are_built_anew_know_no_claim_that_the_watch_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configuration = [Configuration()]
    live, claims, _ = live_state(OURS, configuration=lambda: configuration[0])
    live.observe_claim(other := written("other", 1))
    monkeypatch.setattr(claims, "version", other.metadata.resource_version)
    configuration[0] = Configuration(quotas=(QUOTA,))
    live.update()
    assert live.cluster.ledger.claims.keys() == {"ours"}


@pytest.mark.asyncio
async def test_a_turn_prepares_the_strategy_for_some_milliseconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live, claims, _ = live_state()
    loop, asked = asyncio.get_running_loop(), list[bool]()
    clock = [loop.time()]

    def catch_up(out_of_time: Callable[[], bool]) -> bool:
        asked.append(out_of_time())
        clock[0] += 0.02
        asked.append(out_of_time())
        return False

    monkeypatch.setattr(live.decisions.strategy, "catch_up", catch_up)
    monkeypatch.setattr(loop, "time", lambda: clock[0])
    claims.add(OURS)
    await asyncio.sleep(0)
    assert asked == [False, True]


@pytest.mark.asyncio
async def test_a_pod_that_must_release_its_claims_is_tried_again_at_the_earliest_time() -> None:
    live, _, _ = live_state()
    for at in (60.0, 5.0, 30.0):
        live.wake_at("p", at)
    assert live.cluster.records.times.take("retry", 5.0) == ["p"]
    assert live.cluster.records.times.take("retry", 100.0) == []


@pytest.mark.asyncio
async def test_a_claim_that_was_deleted_before_the_start_is_not_taken_from_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The informer of the scheduler can be behind the cache of this process."""
    monkeypatch.setattr(StoredObjects, "version", "7")
    live, _, _ = live_state(OURS)
    live.observe_claim(written("gone", 1, version=7))
    live.observe_claim(written("new", 2, version=8))
    assert live.decisions.state.ledger.claims.keys() == {"ours", "new"}


@pytest.mark.asyncio
async def test_a_claim_that_no_watch_shows_can_be_forgotten() -> None:
    """The scheduler can know claims of a history that a restored etcd has lost."""
    live, claims, _ = live_state(OURS)
    lost, later = written("lost", 1), written("later", 2)
    for claim in (lost, later):
        live.observe_claim(claim)
        assert not live.shows(claim)
    claims.add(later)
    assert live.shows(later)
    live.forget_claim(lost)
    assert live.decisions.state.ledger.claims.keys() == {"ours", "later"}
