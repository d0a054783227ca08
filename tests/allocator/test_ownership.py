"""Which pools the allocator uses."""

import datetime as dt
from collections.abc import Collection

import msgspec
import pytest
from msgspec.structs import replace

from allocator.state.fences import LOOK_SECONDS, MAX_PAUSE_SECONDS, Fences
from allocator.state.pool_filter import make_pool_filter
from drawbridge.agreement.owned_pools import LEAVING, find_local_pool
from drawbridge.config.model import Configuration, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName
from drawbridge.dra.device import Taint
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice
from drawbridge.facts.model import ClassFacts, Facts
from tests.allocator.clusters import Cluster, claim
from tests.allocator.test_plugin_holders import Caches

GPU = "gpu.nvidia.com"
POOL = PoolID(GPU, "n")
TAINT = Taint("drawbridge.dev/owned", "NoSchedule")
FENCED = Node("n", taints=(TAINT,))
LOCAL = Slice("s", GPU, "n", 1, 1, node_name="n")
OWNED = OwnedPool(DriverName(GPU), LabelSelector())  # type: ignore[arg-type]  # as it is loaded
FACTS = Facts(classes=(ClassFacts("gpu", extended="example.com/gpu", drivers=(GPU,)),))


def uses(
    node: Node | None,
    slice_: Slice = LOCAL,
    *,
    unfenced: bool = False,
    guarded: bool = False,
    seen: float = -60.0,
) -> bool:
    entry = msgspec.structs.replace(OWNED, unfenced=unfenced)
    configuration = Configuration(placement=Placement.BRIDGE, owned_pools=(entry,))
    nodes = Fences("")
    if node is not None:
        nodes.follow_node(node.name, node, seen)
    nodes.note_look(0.0)
    owns_pool = make_pool_filter(configuration, FACTS, nodes.is_settled, lambda _: guarded, {})
    return owns_pool(POOL, find_local_pool(POOL, [slice_]), lambda _: node, lambda _: ())


def test_a_local_pool_of_a_fenced_node_is_used() -> None:
    assert uses(FENCED)


def test_a_pool_of_a_node_without_the_taint_is_used_only_if_it_is_unfenced() -> None:
    bare = Node("n")
    assert not uses(bare)
    assert uses(bare, unfenced=True)


def test_a_pool_that_only_its_fence_keeps_from_use_is_named_until_it_is_used() -> None:
    configuration = Configuration(placement=Placement.BRIDGE, owned_pools=(OWNED,))
    nodes, unfenced = Fences(""), {PoolID(GPU, "of an earlier configuration"): "n"}
    owns_pool = make_pool_filter(configuration, FACTS, nodes.is_settled, lambda _: False, unfenced)

    def decide(node: Node | None, held: Collection[str] = ()) -> dict[PoolID, str]:
        owns_pool(POOL, find_local_pool(POOL, [LOCAL]), lambda _: node, lambda _: held)
        return {**unfenced}

    named = {POOL: "n"}
    assert decide(Node("n")) == named
    assert decide(None) == {}
    assert decide(Node("n"), ["example.com/gpu"]) == {}
    nodes.follow_node("n", FENCED, 0.0)
    assert decide(FENCED) == named
    nodes.note_look(60.0)
    assert decide(FENCED) == {}
    assert decide(Node("n")) == named
    owns_pool(POOL, None, lambda _: Node("n"), lambda _: ())
    assert not unfenced, "its slices are gone"


@pytest.mark.asyncio
async def test_a_pool_whose_slices_are_gone_no_longer_waits_for_its_fence() -> None:
    configuration = Configuration(placement=Placement.BRIDGE, owned_pools=(OWNED,))
    caches = Caches(Node("n"), LOCAL, configuration=configuration)
    assert [*caches.live.cluster.unfenced] == [POOL]
    caches.change(Slice, LOCAL.name, None)
    assert not caches.live.cluster.unfenced


def test_a_refusal_tells_of_nodes_whose_fence_is_missing() -> None:
    cluster = Cluster(Node("bare"), Node("open"), n1=1)
    # A node with another pool that is used has devices for the pod.
    cluster.state.unfenced = {PoolID("gpu", each): each for each in ("open", "n1")}
    reply = cluster.prefilter("p", claim("c", 2))
    assert {(each.message, each.nodes) for each in reply.reasons[1:]} == {
        ("the fence is missing or has not settled", 1),
        ("no devices of the allocator", 1),
    }


def test_a_pool_is_used_when_this_process_has_seen_the_taint_for_the_settle_time() -> None:
    assert not uses(FENCED, seen=-9.9)
    assert uses(FENCED, seen=-10.0)


def test_a_node_of_others_is_looked_at_again_while_the_watch_of_its_pods_is_behind() -> None:
    nodes = Fences("")
    nodes.follow_node("n", FENCED, 0.0)
    assert [nodes.list_taken_over(now) for now in (9.9, 10.0)] == [[], ["n"]]
    assert nodes.note_look(10.0, {"n"}) == []
    assert not nodes.is_settled(FENCED)
    again = 10.0 + LOOK_SECONDS
    assert [nodes.need_look(now) for now in (again - 0.1, again)] == [False, True]
    assert nodes.list_taken_over(again) == ["n"]
    assert nodes.note_look(again) == ["n"]
    assert nodes.is_settled(FENCED)
    assert nodes.list_taken_over(again) == []


@pytest.mark.parametrize("ends", [None, Node("n")], ids=["deleted", "given back"])
def test_a_node_is_not_looked_at_when_its_fence_has_gone(ends: Node | None) -> None:
    nodes = Fences("")
    nodes.follow_node("n", FENCED, 0.0)
    nodes.follow_node("n", ends, 1.0)
    assert not nodes.note_look(20.0, {"n"})
    assert not nodes.need_look(60.0)
    assert nodes.list_taken_over(60.0) == []


def test_a_fence_that_leaves_counts_no_more_and_settles_again_if_it_stays() -> None:
    nodes, leaving = Fences(""), replace(FENCED, settled_fence=LEAVING)
    nodes.follow_node("n", FENCED, 0.0)
    nodes.note_look(10.0)
    assert nodes.is_settled(FENCED)
    nodes.follow_node("n", leaving, 20.0)
    assert not nodes.is_settled(leaving)
    assert not nodes.need_look(60.0)
    nodes.follow_node("n", FENCED, 70.0)
    assert not nodes.is_settled(FENCED)
    assert [nodes.need_look(now) for now in (79.9, 80.0)] == [False, True]


OURS = Configuration(placement=Placement.BRIDGE, owned_pools=(OWNED,))
NATIVE = Configuration()


@pytest.mark.parametrize(
    ("before", "after", "settles"),
    [(NATIVE, OURS, True), (OURS, OURS, False), (OURS, NATIVE, False), (NATIVE, NATIVE, False)],
)
def test_a_taint_settles_again_if_the_configuration_makes_its_node_ours(
    before: Configuration,
    after: Configuration,
    settles: bool,  # noqa: FBT001  # a parameter of pytest
) -> None:
    """What this process sees of the node can be older: the taint may have gone by then."""
    nodes, bare = Fences(""), Node("bare")
    for node in (FENCED, bare):
        nodes.follow_node(node.name, node, 0.0)
    nodes.note_look(10.0)
    nodes.follow_configuration(before, after, (FENCED, bare), 20.0)
    assert nodes.is_settled(FENCED) is not settles
    assert nodes.need_look(30.0) is settles
    assert nodes.list_taken_over(30.0) == (["n"] if settles else [])
    assert nodes.note_look(30.0) == (["n"] if settles else [])


@pytest.mark.parametrize(
    ("seconds", "pause"), [(0.1, LOOK_SECONDS), (1.0, 4.0), (60.0, MAX_PAUSE_SECONDS)]
)
def test_looks_follow_each_other_the_later_the_longer_they_take(
    seconds: float, pause: float
) -> None:
    nodes = Fences("")
    for name in ("n", "m"):
        nodes.follow_node(name, replace(FENCED, name=name), 0.0)
    nodes.follow_node("later", FENCED, 1.0)
    assert nodes.note_look(10.0, seconds=seconds) == ["n", "m"], "one look settles all"
    ended = 10.0 + seconds
    times = (ended, ended + pause - 0.1, ended + pause)
    assert [nodes.need_look(each) for each in times] == [False, False, True]
    assert nodes.note_look(ended + pause) == ["later"]


def test_nodes_that_change_their_annotations_take_little_time_from_others() -> None:
    """Their kubelets say again and again that the fence leaves, and the controller denies it."""
    nodes, now, spent, seconds = Fences(""), 0.0, 0.0, 0.5
    for turn in range(1200):
        now = max(now, turn * 0.1)
        node = replace(FENCED, name=f"n{turn % 24}")
        if turn % 5 == 0:
            nodes.follow_node(node.name, replace(node, settled_fence=LEAVING), now)
            nodes.follow_node(node.name, node, now)
        if nodes.need_look(now):
            nodes.note_look(now, seconds=seconds)
            now, spent = now + seconds, spent + seconds
    assert 0 < spent <= now / 5


def test_nobody_has_devices_of_a_plugin_on_a_node_that_comes_with_its_fence() -> None:
    nodes = Fences("")
    nodes.follow_node("n", FENCED, 0.0, created=True)
    assert nodes.list_taken_over(60.0) == []


@pytest.mark.parametrize("seconds", [-120, -11, 0, 11, 120])
@pytest.mark.parametrize("by", ["controller", "kubelet"])
def test_no_clock_of_another_machine_decides_when_a_node_has_settled(seconds: int, by: str) -> None:
    """The clock of whoever added the taint differs from ours, or no time is written."""
    time = f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    node = Node("n", taints=(replace(TAINT, time_added=time if by == "controller" else None),))
    nodes = Fences("")
    nodes.follow_node("n", node, 0.0)
    assert [nodes.need_look(now) for now in (9.9, 10.0)] == [False, True]
    assert not nodes.note_look(9.9)
    assert not nodes.is_settled(node)
    assert nodes.note_look(10.0) == ["n"]
    assert nodes.is_settled(node)


@pytest.mark.parametrize(
    ("after", "is_new"),
    [
        (Node("n", labels={"a": "b"}, taints=(TAINT,)), False),
        (Node("n", taints=(Taint("other", "NoSchedule"), TAINT)), False),
        (Node("n", taints=(replace(TAINT, time_added="2026-11-20T10:00:00Z"),)), True),
        (Node("n", taints=(replace(TAINT, value="x"),)), True),
    ],
)
def test_a_fence_that_replaces_another_one_settles_anew(after: Node, *, is_new: bool) -> None:
    nodes = Fences("")
    nodes.follow_node("n", Node("n", taints=(TAINT,)), 0.0)
    nodes.note_look(10.0)
    nodes.follow_node("n", after, 11.0)
    assert nodes.is_settled(after) is not is_new
    nodes.follow_node("n", Node("n"), 12.0)
    nodes.follow_node("n", after, 13.0)
    assert not nodes.is_settled(after)


def test_a_pool_is_used_with_either_fence() -> None:
    for node in (Node("n"), FENCED):
        assert uses(node, guarded=True, seen=0.0)


def test_the_fence_around_devices_does_not_make_a_pool_owned() -> None:
    elsewhere = msgspec.structs.replace(LOCAL, node_name=None, all_nodes=True)
    assert not uses(Node("n"), elsewhere, guarded=True)
    assert not uses(None, guarded=True)
    misnamed = msgspec.structs.replace(LOCAL, node_name="m")
    assert not uses(Node("n"), misnamed, guarded=True)
    dual = Node("n", labels={"drawbridge.dev/dual": "true"})
    assert not uses(dual, guarded=True)


def test_a_look_settles_the_nodes_of_its_beginning() -> None:
    nodes = Fences("")
    for name, seen in (("a", -5), ("b", 0), ("c", 5), ("d", 5)):
        nodes.follow_node(name, Node(name, taints=(TAINT,)), seen)
    assert nodes.note_look(5) == ["a"]
    nodes.follow_node("d", None, 6)
    assert [nodes.need_look(now) for now in (9, 10)] == [False, True]
    assert nodes.note_look(10) == ["b"]
    assert not nodes.need_look(14)
    assert nodes.note_look(16) == ["c"]


@pytest.mark.parametrize(
    ("said", "is_first", "is_settled"),
    [
        ("2026-11-20T10:00:00Z", True, True),
        ("2026-11-20T10:00:00Z", False, False),  # this process saw the node without the fence
        ("2026-11-20T09:00:00Z", True, False),  # of an earlier fence
        ("", True, False),
    ],
)
def test_a_node_says_that_the_fence_has_settled_before_this_process_started(
    said: str, *, is_first: bool, is_settled: bool
) -> None:
    fence, nodes = replace(TAINT, time_added="2026-11-20T10:00:00Z"), Fences("")
    node = Node("n", taints=(fence,), settled_fence=said)
    nodes.follow_node("n", node, 5.0, is_first=is_first)
    assert not nodes.is_settled(node), "a look at the claims is needed in any case"
    nodes.note_look(5.0)
    assert nodes.is_settled(node) is is_settled


@pytest.mark.parametrize(
    ("said", "is_settled"), [("uid-1", True), ("uid-2", False), ("", False), ("soon", False)]
)
def test_a_fence_of_the_kubelet_has_no_time_and_is_named_by_its_node(
    said: str, *, is_settled: bool
) -> None:
    node, nodes = Node("n", taints=(TAINT,), settled_fence=said, uid="uid-1"), Fences("")
    nodes.follow_node("n", node, 5.0, is_first=True)
    nodes.note_look(14.0)
    assert nodes.is_settled(node) is is_settled


def test_a_node_that_is_created_with_the_fence_has_settled() -> None:
    node, nodes = Node("n", taints=(TAINT,)), Fences("")
    nodes.follow_node("n", node, 5.0, is_first=True, created=True)
    assert nodes.need_look(5.0)
    assert nodes.note_look(5.0) == ["n"]
    nodes.follow_node("m", Node("m"), 5.0, is_first=True, created=True)
    later = Node("m", taints=(TAINT,))
    nodes.follow_node("m", later, 6.0)
    assert not nodes.note_look(15.9)
    assert nodes.note_look(16.0) == ["m"]


def test_a_pool_of_an_unknown_node_is_not_used() -> None:
    assert not uses(None)


def test_a_pool_that_is_not_local_is_not_used() -> None:
    assert not uses(FENCED, msgspec.structs.replace(LOCAL, node_name=None, all_nodes=True))


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "example.com/gpu"])
def test_a_pool_beside_a_device_plugin_for_its_devices_is_not_used(name: str) -> None:
    assert not uses(msgspec.structs.replace(FENCED, allocatable={name: parse("1")}))


def test_a_pool_beside_a_device_plugin_for_other_devices_is_used() -> None:
    assert uses(msgspec.structs.replace(FENCED, allocatable={"amd.com/gpu": parse("1")}))


def test_a_pool_on_a_dual_node_is_not_used_until_the_label_is_gone() -> None:
    assert not uses(msgspec.structs.replace(FENCED, labels={"drawbridge.dev/dual": "true"}))
