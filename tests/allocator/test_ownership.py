"""Which pools the allocator uses."""

import msgspec
import pytest

from allocator.state.live_state import make_pool_filter
from allocator.state.settling_nodes import SettlingNodes
from drawbridge.config.model import Configuration, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName
from drawbridge.dra.device import Taint
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice
from drawbridge.facts.model import ClassFacts, Facts

GPU = "gpu.nvidia.com"
POOL = PoolID(GPU, "n")
LOOKED_AT = 1_795_168_800.0  # 2026-11-20T10:00:00Z
FENCED = Node("n", taints=(Taint("drawbridge.dev/owned", "NoSchedule"),))
LOCAL = Slice("s", GPU, "n", 1, 1, node_name="n")
OWNED = OwnedPool(DriverName(GPU), LabelSelector())  # type: ignore[arg-type]  # as it is loaded
FACTS = Facts(classes=(ClassFacts("gpu", extended="example.com/gpu", drivers=(GPU,)),))


def uses(
    node: Node | None, slice_: Slice = LOCAL, *, unfenced: bool = False, guarded: bool = False
) -> bool:
    entry = msgspec.structs.replace(OWNED, unfenced=unfenced)
    configuration = Configuration(placement=Placement.BRIDGE, owned_pools=(entry,))
    nodes = SettlingNodes(LOOKED_AT)
    owns_pool = make_pool_filter(configuration, FACTS, nodes.is_settled, lambda _: guarded)
    return owns_pool(POOL, [slice_], lambda _: node)


def test_a_local_pool_of_a_fenced_node_is_used() -> None:
    assert uses(FENCED)


def test_a_pool_of_a_node_without_the_taint_is_used_only_if_it_is_unfenced() -> None:
    bare = Node("n")
    assert not uses(bare)
    assert uses(bare, unfenced=True)


@pytest.mark.parametrize(
    ("added", "used"),
    [
        ("2026-11-20T09:59:50Z", True),
        ("2026-11-20T09:59:51Z", False),
        ("2026-11-20T10:59:50+01:00", True),
        # A kubelet or an administrator adds no time.
        (None, True),
        ("soon", True),
    ],
)
def test_a_pool_is_used_when_the_taint_of_its_node_has_settled(
    added: str | None, *, used: bool
) -> None:
    taint = Taint("drawbridge.dev/owned", "NoSchedule", time_added=added)
    other = Taint("drawbridge.dev/owned", "NoExecute", time_added="2026-11-20T09:59:59Z")
    assert uses(Node("n", taints=(other, taint))) is used


def test_a_pool_is_used_with_either_fence() -> None:
    new = Taint("drawbridge.dev/owned", "NoSchedule", time_added="2026-11-20T09:59:59Z")
    for node in (Node("n"), Node("n", taints=(new,)), FENCED):
        assert uses(node, guarded=True)


def test_the_fence_around_devices_does_not_make_a_pool_owned() -> None:
    elsewhere = msgspec.structs.replace(LOCAL, node_name=None, all_nodes=True)
    assert not uses(Node("n"), elsewhere, guarded=True)
    assert not uses(None, guarded=True)
    misnamed = msgspec.structs.replace(LOCAL, node_name="m")
    assert not uses(Node("n"), misnamed, guarded=True)
    dual = Node("n", labels={"drawbridge.dev/dual": "true"})
    assert not uses(dual, guarded=True)


def test_a_look_settles_the_nodes_of_its_beginning() -> None:
    nodes = SettlingNodes(LOOKED_AT)
    for name, added in (("a", "09:59:40"), ("b", "09:59:55"), ("c", "10:00:00"), ("d", "10:00:00")):
        taint = Taint("drawbridge.dev/owned", "NoSchedule", time_added=f"2026-11-20T{added}Z")
        nodes.follow(None, Node(name, taints=(taint,)))
    nodes.follow(Node("d"), None)
    assert [nodes.need_look(LOOKED_AT + seconds) for seconds in (4, 5)] == [False, True]
    assert nodes.note_look(LOOKED_AT + 5) == ["b"]
    assert not nodes.need_look(LOOKED_AT + 9)
    assert nodes.note_look(LOOKED_AT + 11) == ["c"]


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
