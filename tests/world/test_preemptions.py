"""Which preemptions violate a budget, and which evictions a budget allows."""

import asyncio
import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from allocator.process import _Parts
from allocator.scheduler.protocol import (
    Eviction,
    PotentialVictim,
    PreemptionNode,
    PreemptReply,
    PreemptRequest,
    SchedulingPod,
)
from allocator.state.records import Paired, Preemptor
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.holdings import Hold as LedgerHold
from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.store import Store
from tests.virtual_time import run_virtually
from tests.world.budget_events import evict, evict_until
from tests.world.budgets import PLURAL, find_violating, make_budget, status_of
from tests.world.network import Network
from tests.world.nodes import Hold
from tests.world.preemption_invariants import a_preemption_spares_whom_it_can
from tests.world.preemptions import Answered, Held, any_ends_for, read_available, read_held
from tests.world.world import World


def make_pod(name: str, app: str, space: str = "default") -> JSON:
    labels = {"app": app}
    return {"metadata": {"name": name, "uid": name, "namespace": space, "labels": labels}}


PODS = (make_pod("p0", "a"), make_pod("p1", "b"), make_pod("p2", "a"), make_pod("p3", "a", "team"))


@pytest.mark.parametrize(
    ("name", "status", "violating"),
    [
        ("one", {"disruptionsAllowed": 1}, {"p2"}),
        ("one", {"disruptionsAllowed": 1, "disruptedPods": {"p0": ""}}, set()),
        ("one", {}, {"p0", "p2"}),
        ("two", {}, {"p1"}),
        ("all", {}, set()),
    ],
)
def test_a_scheduler_charges_budgets_in_the_order_of_pods(
    name: str, status: JSON, violating: set[str]
) -> None:
    budget = {**make_budget("default", name, 1), "status": status}
    assert find_violating(PODS, [budget]) == violating


# What a pod that asks for a device gets instead of the victims that it has.
LOW = (PotentialVictim(uid="v1", violates=True), PotentialVictim(uid="v2"))


@pytest.mark.parametrize(
    ("reply", "broken"),
    [
        (PreemptReply(node="n2", victims=("v2",)), ""),
        (PreemptReply(node="n2", victims=("v2",), violations=1), "1 violations"),
        (PreemptReply(evictions=(Eviction("n2", ("v2",)),)), ""),
        (PreemptReply(evictions=(Eviction("n2", ("v1",)),), violations=1), "enough other victims"),
        (PreemptReply(evictions=(Eviction("n2", ("v1",)),)), "0 violations"),
        (PreemptReply(node="n2", victims=("v1",), violations=1), "n2 has other victims"),
        (PreemptReply(node="n2", victims=("v1", "v2"), violations=1), "can have devices of n2"),
    ],
)
def test_a_victim_is_needed_and_protected_ones_go_last(reply: PreemptReply, broken: str) -> None:
    held = {
        uid: Held(frozenset({Hold(("n2", device), "", size)}), frozenset({uid}))
        for uid, device, size in (("v1", "gpu-0", 1), ("v2", "gpu-1", 4))
    }
    asked = PreemptRequest(pod_uid="p", nodes=(PreemptionNode(node="n2", pods=LOW),))
    assert broken in next(judge(Answered(POD, asked, held, frozenset(), reply)), "")


POD = {
    "metadata": {"name": "p", "uid": "p", "namespace": "default"},
    "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]},
}
CLAIM = {
    "metadata": {"name": "c", "uid": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
}


def judge(answered: Answered) -> Iterator[str]:
    scheduler = SimpleNamespace(evictions=SimpleNamespace(answered=[answered]))
    store = SimpleNamespace(find=lambda *_: CLAIM)
    world = SimpleNamespace(
        network=SimpleNamespace(store=store, count=lambda _: None),
        all=lambda _: [POD],
        pairs={"host": SimpleNamespace(scheduler=scheduler)},
        claims=SimpleNamespace(renamed=set()),
        large=SimpleNamespace(may_wait=lambda _: False),
        spaces=SimpleNamespace(limited={"team"}),
    )
    return a_preemption_spares_whom_it_can(cast("World", world))


def make_parts(*holds: LedgerHold, releasing: Collection[str] = (), **records: JSON) -> _Parts:
    """Return an allocator with one claim, and pods that preempt or wait for released devices."""
    ledger = SimpleNamespace(devices=lambda: ("device",), holders=lambda _: {"c": holds})
    pods = SimpleNamespace(consumers=lambda _: ("consumer",), releasing=releasing)
    table = SimpleNamespace(having=lambda part: records.get(part, ()))
    decisions = SimpleNamespace(
        state=SimpleNamespace(ledger=ledger, pods=pods, records=table),
        reservations=SimpleNamespace(users=lambda: {"c": ["promised"]}),
    )
    return cast("_Parts", SimpleNamespace(state=SimpleNamespace(decisions=decisions)))


def hold(device: str) -> LedgerHold:
    return LedgerHold(PoolID("d.io", "n1"), device)


def share(name: str, amount: int) -> LedgerHold:
    consumed = {"memory": Quantity.of(amount)}
    return LedgerHold(PoolID("d.io", "n2"), "gpu-1", share=name, shared=True, consumed=consumed)


def test_a_claim_is_kept_by_its_consumers_and_by_pods_that_are_promised_it() -> None:
    assert read_held(make_parts())["c"].consumers == {"consumer", "promised"}


# What is held of a node for ever if another pod of a priority waits, and whether the claim goes.
@pytest.mark.parametrize(
    ("uid", "priority", "part", "kept"),
    [
        ("other", 100, "kept", {"half-0"}),
        ("other", 50, "kept", set()),
        ("own", 100, "kept", set()),
        ("other", 100, "paired", {"half-0"}),
        ("other", 50, "paired", set()),
        ("own", 100, "paired", set()),
    ],
)
def test_what_another_pod_waits_for_stays_held_for_it(
    uid: str, priority: int, part: str, kept: set[str]
) -> None:
    claims, holds = frozenset({"c"}), (hold("half-0"),)
    preemptor = make_preemptor(uid, priority, holds)
    waits = {"kept": preemptor, "paired": Paired(priority, claims, holds)}
    parts = make_parts(hold("whole"), **{part: [SimpleNamespace(uid=uid, **{part: waits[part]})]})
    pod = {"metadata": {"uid": "own"}, "spec": {"priority": 100}}
    held = read_available(parts, pod)
    assert {h.device[1] for each in held.values() if not each.consumers for h in each.holds} == kept
    assert ("c" in held) == (kept != {"half-0"})


def make_preemptor(uid: str, priority: int, holds: tuple[LedgerHold, ...]) -> Preemptor:
    return Preemptor(
        pod=SchedulingPod(uid=uid, namespace="default", name=uid, priority=priority),
        claims=frozenset(),
        node="n1",
        victims=frozenset(),
        pending=frozenset({"c"}),
        holds=holds,
        until=0.0,
    )


def test_the_rest_of_a_claim_that_another_pod_waits_for_is_not_held() -> None:
    kept = make_preemptor("other", 100, (share("c", 2), hold("whole")))
    paired = Paired(100, frozenset({"c"}), (share("c", 2),))
    record = SimpleNamespace(uid="other", kept=kept, paired=paired)
    parts = make_parts(share("a", 1), share("b", 2), kept=[record], paired=[record])
    pod = {"metadata": {"uid": "own"}, "spec": {"priority": 100}}
    gets = {Hold(("n2", "gpu-1"), "c", 2), Hold(("n1", "whole"), "", 1)}
    assert read_available(parts, pod) == {kept.key: Held(frozenset(gets), frozenset())}


def test_what_is_being_released_is_not_held() -> None:
    parts = make_parts(hold("whole"), releasing=["c"])
    pod = {"metadata": {"uid": "own"}, "spec": {"priority": 100}}
    assert read_available(parts, pod) == {}


EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize(
    ("priority", "condition", "until", "waits"),
    [
        (0, EVICTED, "2100-01-01T00:00:00Z", True),
        (0, EVICTED | {"reason": "EvictionByEvictionAPI"}, "2100-01-01T00:00:00Z", False),
        (0, EVICTED, "2020-01-01T00:00:00Z", False),
        (100, EVICTED, "2100-01-01T00:00:00Z", False),
    ],
)
def test_a_pod_waits_for_victims_that_end_on_its_nominated_node(
    priority: int, condition: JSON, until: str, *, waits: bool
) -> None:
    victim = {
        "metadata": {"deletionTimestamp": until},
        "spec": {"priority": priority},
        "status": {"conditions": [condition]},
    }

    async def main() -> None:
        assert any_ends_for({"spec": {"priority": 100}}, [victim]) is waits

    run_virtually(main)


class Evicting:
    """A world with one pod, and budgets that allow so many evictions."""

    is_calm = False

    def __init__(self, phase: str, budgets: Iterable[str], allowed: int) -> None:
        self.network = Network(random.Random(0), Store())
        self.network.open()
        self.server = self.network.fronts[0].server
        pod = {**PODS[0], "apiVersion": "v1", "kind": "Pod", "spec": {}}
        self.server.put({**pod, "status": {"phase": phase}})
        (self.pod,) = self.all("pods")
        for name in budgets:
            self.allow(name, allowed)

    def all(self, plural: str) -> Sequence[JSON]:
        """Return all objects of a kind."""
        return self.network.store.listed(named(plural))

    def allow(self, name: str, allowed: int) -> None:
        """Write a budget with a status."""
        budget = make_budget("default", name, 1)
        self.server.put({**budget, "status": {"disruptionsAllowed": allowed}})


@pytest.mark.parametrize(
    ("phase", "budgets", "allowed", "goes"),
    [
        ("Running", (), 0, True),
        ("Running", ("two",), 0, True),
        ("Running", ("one",), 1, True),
        ("Running", ("one",), 0, False),
        ("Running", ("one", "all"), 1, False),
        ("Pending", ("one",), 0, True),
    ],
)
def test_a_pod_is_evicted_as_far_as_its_budget_allows_it(
    phase: str, budgets: Sequence[str], allowed: int, *, goes: bool
) -> None:
    async def main() -> None:
        world = Evicting(phase, budgets, allowed)
        assert evict(cast("World", world), world.pod) is goes
        assert bool(world.all("pods")) is not goes
        charged = [set(status_of(each).get("disruptedPods") or ()) for each in world.all(PLURAL)]
        assert charged == [{"p0"} if goes and allowed else set() for _ in budgets]

    run_virtually(main)


def test_a_drain_tries_again_whom_a_budget_refused() -> None:
    async def main() -> None:
        world = Evicting("Running", ["one"], 0)
        evict_until(cast("World", world), [world.pod], 60.0)
        await asyncio.sleep(20)
        assert world.all("pods")
        world.allow("one", 1)
        await asyncio.sleep(20)
        assert not world.all("pods")

    run_virtually(main)
