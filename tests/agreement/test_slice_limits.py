"""Which nodes publish too much."""

from msgspec.structs import replace

from drawbridge.agreement.owned_pools import FENCE, select_owned_slices
from drawbridge.agreement.slice_limits import MAX_OF_DRIVER, MAX_OF_NODE, report_crowded
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
