"""What is kept of pods and claims is bounded, and whoever has more than a share is told so."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from allocator.decisions.pod_requests import check_claim
from allocator.decisions.shortlist import NodeSearch, open_nodes
from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import PreFilterReply, PreFilterRequest, ProtocolError
from allocator.state.caches import without_conditions, without_unused_parts
from allocator.state.cluster_state import AllocatorState
from allocator.writes.cluster_writes import check_nothing
from drawbridge.dra.claim import Claim
from drawbridge.dra.device import NodeSelector, NodeSelectorTerm, Requirement, Taint
from drawbridge.dra.inventory import PoolID, PublishedPool
from drawbridge.dra.nodes import Node
from drawbridge.dra.taints import Toleration
from drawbridge.ledger.ledger import Ledger, uid_of
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import NodeAffinity
from drawbridge.ledger.reduced_claim import reduce_claim
from tests.allocator.binding_rig import Rig
from tests.allocator.clusters import Cluster, Plain, as_claim, gpu_slice, pod
from tests.allocator.clusters import claim as small_claim
from tests.ledger.test_large_claims import claim


def told(kept: Claim, received: Claim) -> str:
    state = SimpleNamespace(claims={uid_of(received): kept})
    pod = SimpleNamespace(name="p", uid="2", claims_of_group=None)
    reason = check_claim(cast("Any", pod), received, cast("Any", state))
    return "" if reason is None else f"{reason.code}: {reason.message}"


def test_a_pod_is_told_that_its_claim_is_too_large() -> None:
    whole = claim("", allocated=False)
    assert told(whole, whole) == ""
    message = (
        "ClaimTooLarge: ResourceClaim team/c is too large: namespace team has more than its share "
        "of the allocator's memory"
    )
    assert told(reduce_claim(whole), whole) == message


def test_a_pod_whose_claim_holds_devices_uses_them() -> None:
    whole = claim("", allocated=True)
    assert told(reduce_claim(whole), whole) == ""


def test_a_claim_that_the_scheduler_has_sent_before_is_not_kept_whole() -> None:
    state, whole = AllocatorState(Planner(), Ledger(), lambda *_: True), claim("", allocated=True)
    assert state.observe_claim(whole)
    state.apply(None, reduce_claim(whole))
    uid = uid_of(whole)
    assert state.claims[uid] == reduce_claim(whole)
    record = state.ledger.claims[uid]
    assert (record.spec, record.holds[0].device) == (reduce_claim(whole).spec, "d")


@pytest.mark.asyncio
async def test_of_a_claim_with_an_unfinished_mark_not_all_is_kept_until_it_is_removed() -> None:
    rig = Rig()
    await rig.cluster.mark(rig.claim("a"), "m" * 9000, check_nothing)
    undone: list[Claim] = []
    rig.cluster.unmark = undone.append  # type: ignore[method-assign,assignment]  # fails
    await rig.recovery.begin_term()
    assert [(each.metadata.name, each.reduced) for each in undone] == [("a", True)]
    assert "m" * 9000 not in repr(undone)


# --- what selects nodes for a pod ---


def selecting(count: int) -> Plain:
    """An affinity with so many expressions."""
    expressions = [{"key": f"key-{each}", "operator": "Exists"} for each in range(count)]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": required}


def asked(cluster: Cluster, affinity: Plain) -> PreFilterReply:
    """Ask for a pod, as the scheduler does."""
    of_pod = {"namespace": "default", "name": "p", "uid": "p", "nodeAffinity": affinity}
    body = msgspec.json.encode({"pod": of_pod, "claims": [small_claim("c")]})
    return cluster.decisions.prefilter(msgspec.json.decode(body, type=PreFilterRequest), 0.0)


@pytest.mark.parametrize("count", [10, 2000])
def test_what_selects_nodes_for_a_pod_is_kept_once(count: int) -> None:
    cluster, affinity = Cluster(n1=1), selecting(count)
    watched = pod("p", "c", spec={"affinity": {"nodeAffinity": affinity}})
    cluster.add(watched)
    cluster.add_claim(small_claim("c"))
    asked(cluster, affinity)
    request = cluster.state.records.get("p").request
    assert request is not None
    assert watched.spec.affinity is not None
    assert request.pod.node_affinity is watched.spec.affinity.node_affinity


def test_a_pod_of_which_not_all_is_watched_is_told_that_it_is_too_large() -> None:
    cluster, affinity = Cluster(n1=1), selecting(300)
    cluster.add(without_conditions(pod("p", "c", spec={"affinity": {"nodeAffinity": affinity}})))
    cluster.add_claim(small_claim("c"))
    reply = asked(cluster, affinity)
    assert [each.code for each in reply.reasons] == ["ClaimTooLarge"]
    assert "pod default/p is too large" in reply.reasons[0].message
    assert cluster.state.records.get("p").request is None
    assert [each.node for each in asked(cluster, {}).fit] == ["n1"]


def test_a_pod_for_which_the_scheduler_makes_the_claim_is_not_too_large() -> None:
    cluster, affinity = Cluster(n1=1), selecting(300)
    watched = pod("p", spec={"affinity": {"nodeAffinity": affinity}})
    cluster.add(without_unused_parts(watched))
    cluster.add_claim(small_claim("c"))
    assert [each.code for each in asked(cluster, affinity).reasons] == ["NodeRefused"]
    assert cluster.state.records.get("p").request is not None


def test_a_large_pod_that_is_not_watched_yet_is_asked_about_again() -> None:
    cluster = Cluster(n1=1)
    cluster.add_claim(small_claim("c"))
    with pytest.raises(ProtocolError, match="not watched yet"):
        asked(cluster, selecting(3000))
    assert cluster.state.records.get("p").request is None
    assert [each.code for each in asked(cluster, selecting(300)).reasons] == ["NodeRefused"]


@pytest.mark.parametrize(
    "selecting_nodes",
    [
        {"nodeSelector": {f"key-{each}": "value" for each in range(9000)}},
        {"nodeAffinity": selecting(4000)},
        {"tolerations": [{"key": f"key-{each}", "operator": "Exists"} for each in range(4000)]},
    ],
)
def test_a_pod_that_says_too_much_of_its_nodes_is_told_so(selecting_nodes: Plain) -> None:
    cluster = Cluster(n1=1)
    cluster.add_claim(small_claim("c"))
    fields = {"namespace": "default", "name": "p", "uid": "p", **selecting_nodes}
    body = msgspec.json.encode({"pod": fields, "claims": [small_claim("c")]})
    request = msgspec.json.decode(body, type=PreFilterRequest)
    (reason,) = cluster.decisions.prefilter(request, 0.0).reasons
    assert reason.code == "NodeRefused"
    assert "at most 131,072" in reason.message
    assert cluster.state.records.get("p").request is None


def test_what_a_pod_says_of_nodes_is_read_once_for_all_of_them() -> None:
    looked_up: list[str] = []

    class Value(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            looked_up.append(f"{other}")
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    cluster = Cluster()
    taint = Taint(key="owned", effect="NoSchedule")
    for number in range(20):
        cluster.add(Node(f"n{number}", {"zone": "a"}, taints=(taint,)), gpu_slice(f"n{number}", 1))
    zones = tuple(Value(f"zone-{each}") for each in range(100))
    tolerations = tuple(Toleration(key=Value(f"key-{each}")) for each in range(100))
    term = NodeSelectorTerm((Requirement("zone", "NotIn", zones),))
    affinity = NodeAffinity(NodeSelector((term,)))
    asking = cluster.pod("p", nodeAffinity=affinity, tolerations=tolerations)
    assert (
        open_nodes(cluster.state.planner.nodes, NodeSearch(pod=asking, claims=()), cluster.state)
        == []
    )
    assert len(looked_up) <= 200


def test_of_a_pod_with_thousands_of_claims_not_all_are_kept() -> None:
    names = [f"claim-{each}" for each in range(20_000)]
    kept = without_conditions(without_unused_parts(pod("p", *names)))
    assert len(msgspec.json.encode(kept, enc_hook=str)) < 64 << 10
    assert [each.name for each in kept.spec.resource_claims[:2]] == names[:2]


def test_the_allocator_knows_the_devices_of_a_claim_of_which_not_all_is_kept() -> None:
    state = AllocatorState(Planner(), Ledger(), lambda *_: True)
    state.apply(None, reduce_claim(claim("", allocated=True)))
    record = state.ledger.claims[uid_of(claim("", allocated=True))]
    assert record.allocation is not None
    assert [each.device for each in record.allocation.devices.results] == ["d"]


def test_a_claim_that_is_whole_again_at_its_version_is_used() -> None:
    """Its namespace has room again, so that the cache lists it again."""
    cluster, whole = Cluster(n1=1), as_claim(small_claim("c"))
    reduced = reduce_claim(whole)
    cluster.state.apply(None, reduced)
    assert [each.code for each in asked(cluster, {}).reasons] == ["ClaimTooLarge"]
    # A response that has the whole claim gives it no room.
    assert not cluster.state.observe_claim(whole)
    assert cluster.state.claims[uid_of(whole)].reduced
    cluster.state.apply(reduced, whole)
    assert [each.node for each in asked(cluster, {}).fit] == ["n1"]


def test_the_pods_of_a_claim_that_is_whole_again_are_tried_again() -> None:
    cluster, whole = Cluster(n1=1), as_claim(small_claim("c"))
    waiting, reduced = WaitingPods(cluster.decisions), reduce_claim(whole)
    cluster.add(pod("p", "c"), pod("bound", "c", node="n1"), pod("other", "d"))
    cluster.state.apply(None, reduced)
    asked(cluster, {})
    cluster.state.apply(reduced, reduced)
    assert waiting.wake(1.0).woken == ()
    cluster.state.apply(reduced, whole)
    assert waiting.wake(2.0).woken == ("p",)


def test_a_pod_that_is_kept_whole_again_is_tried_again() -> None:
    cluster, affinity = Cluster(n1=1), selecting(300)
    waiting = WaitingPods(cluster.decisions)
    whole = pod("p", "c", spec={"affinity": {"nodeAffinity": affinity}})
    reduced = without_conditions(whole)
    cluster.add(reduced)
    cluster.add_claim(small_claim("c"))
    asked(cluster, affinity)
    cluster.state.apply(reduced, reduced)
    assert waiting.wake(1.0).woken == ()
    cluster.state.apply(reduced, whole)
    assert waiting.wake(2.0).woken == ("p",)


def test_a_pod_of_which_less_is_kept_because_it_is_bound_is_not_tried_again() -> None:
    cluster = Cluster(n1=1)
    spec = {"nodeSelector": {"zone": "a"}}
    before, bound = pod("p", "c", spec=spec), pod("p", "c", node="n1", spec=spec)
    cluster.add(before)
    cluster.state.apply(before, without_unused_parts(bound))
    assert WaitingPods(cluster.decisions).wake(1.0).woken == ()


def test_a_pool_is_read_once_for_all_of_its_devices_that_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(n1=32)
    cluster.schedule("p", small_claim("c", 32))
    planner, read = cluster.decisions.state.planner, list[PoolID]()
    find_pool = planner.find_pool

    def note(pool: PoolID) -> PublishedPool | None:
        read.append(pool)
        return find_pool(pool)

    monkeypatch.setattr(planner, "find_pool", note)
    assert not cluster.decisions.reservations.begin_write("p")
    assert len(read) == 2  # for the devices, and for what they consume
