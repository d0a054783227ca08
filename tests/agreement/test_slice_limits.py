"""Which nodes publish too much."""

from msgspec.structs import replace

from drawbridge.agreement.device_fence import find_open_node, group_slices
from drawbridge.agreement.owned_pools import (
    FENCE,
    report_shared_pools,
    select_owned_slices,
)
from drawbridge.agreement.slice_limits import MAX_OF_DRIVER, MAX_OF_NODE, report_crowded
from drawbridge.config.model import NodeFence
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from tests.agreement.bridge_configuration import configured
from tests.agreement.test_owned_pools import POOL, entry, published


def several(node: str | None, number: int, driver: str = POOL.driver) -> list[Slice]:
    """Slices of a node, each of its own pool."""
    whole = published(0, {"node": node} if node else {"all": True})
    names = (f"{node}-{driver}-{each}" for each in range(number))
    return [replace(whole, driver=driver, pool=name, name=name) for name in names]


def test_nodes_that_publish_too_much_are_reported_and_not_used() -> None:
    more = [f"{number}.example.com" for number in range(4)]
    slices = [
        *several("a", MAX_OF_DRIVER + 1),
        *several("b", MAX_OF_DRIVER),
        *several("c", MAX_OF_DRIVER + 1, "nic.example.com"),
        *several("d", 1),
        *(each for driver in more for each in several("d", MAX_OF_NODE // len(more), driver)),
        *several(None, MAX_OF_DRIVER + 1),
    ]
    configuration = configured(entry("gpus"))
    reported = [*report_crowded(configuration.owned_pools, slices)]
    assert [(each.code, each.object, each.message) for each in reported] == [
        (
            "TooManySlices",
            "Node/a",
            "node a has more than 64 ResourceSlices of driver gpu.example.com",
        ),
        ("TooManySlices", "Node/d", "node d has more than 256 ResourceSlices"),
    ]
    assert not [*report_crowded((), slices)]
    nodes = [Node(name, {"gpus": ""}, taints=(FENCE,)) for name in "abcd"]
    used = select_owned_slices(configuration, slices, nodes, (), {})
    assert {each.node_name for each in used} == {"b"}


def test_a_node_that_publishes_too_much_does_not_share_the_pool_of_another() -> None:
    configuration = configured(entry("gpus"))
    owned = [replace(each, fence=NodeFence.RULES) for each in configuration.owned_pools]
    own = replace(published(0, {"node": "b"}), pool="shared", name="own")
    crowded = several("a", MAX_OF_DRIVER + 1)
    slices = [own, replace(crowded[0], pool="shared"), *crowded[1:]]
    assert report_shared_pools(owned, slices) == ()
    assert len(report_shared_pools(owned, slices[:2])) == 1
    nodes = {name: Node(name, {"gpus": ""}) for name in "ab"}
    pools = group_slices(owned, slices)
    fenced = {pool.name: find_open_node(owned, pool, pools[pool], nodes.get) for pool in pools}
    assert fenced["shared"] == "b"
    # The fence of what the node publishes alone stays.
    assert {node for name, node in fenced.items() if name != "shared"} == {"a"}
    assert group_slices(owned, [replace(own, driver="nic.example.com")]) == {}
    assert [*group_slices(owned, [own])] == [PoolID(own.driver, "shared")]
