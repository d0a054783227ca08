"""What one node publishes beyond a limit counts for nobody, and costs others nothing."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from drawbridge.agreement.slice_limits import MAX_OF_DRIVER, MAX_OF_NODE
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from tests.allocator.clusters import DRIVER, Cluster, claim, gpu_slice


def slices_of(
    node: str, number: int, *, pool: str = "", count: int = 0, drivers: int = 1
) -> list[Slice]:
    """Slices of a node, of one pool or each of its own, of several drivers."""
    published = gpu_slice(node, 1)
    return [
        replace(
            published,
            name=f"{node}-{each}",
            pool=pool or f"{node}-{each}",
            slice_count=count or 1,
            devices=(replace(published.devices[0], name=f"gpu-{each}"),),
            driver=DRIVER if drivers == 1 else f"{each % drivers}.example.com",
        )
        for each in range(number)
    ]


@pytest.mark.parametrize(
    ("slices", "usable"),
    [
        (slices_of("n2", MAX_OF_DRIVER), True),
        (slices_of("n2", MAX_OF_DRIVER + 1), False),
        (slices_of("n2", MAX_OF_DRIVER, pool="n2", count=MAX_OF_DRIVER), True),
        (slices_of("n2", MAX_OF_DRIVER + 1, pool="n2", count=MAX_OF_DRIVER + 1), False),
        ((*slices_of("n2", 1), *slices_of("n2", MAX_OF_NODE - 1, drivers=10)[1:]), True),
        ((*slices_of("n2", 1), *slices_of("n2", MAX_OF_NODE + 1, drivers=10)[1:]), False),
    ],
)
def test_a_node_that_publishes_too_much_is_not_used(
    slices: Sequence[Slice], *, usable: bool
) -> None:
    cluster = Cluster(Node("n2", {}), n1=1)
    cluster.add(*slices)
    assert cluster.nodes("p", claim("c")) == ["n1", *(["n2"] if usable else [])]


def test_a_node_is_used_again_as_soon_as_it_publishes_less() -> None:
    cluster = Cluster(Node("n2", {}), n1=4)
    *kept, last = slices_of("n2", MAX_OF_DRIVER + 1)
    cluster.add(*kept, last)
    cluster.state.apply(kept[0], again := replace(kept[0], generation=2))
    assert cluster.nodes("p", claim("c")) == ["n1"]
    cluster.state.apply(last, None)
    assert cluster.nodes("q", claim("d")) == ["n1", "n2"]
    assert again in cluster.state.planner.world().inventory.slices
    cluster.state.apply(None, last)
    assert cluster.nodes("r", claim("e")) == ["n1"]


def test_a_pool_of_others_is_no_larger_for_what_a_crowded_node_says_of_it() -> None:
    cluster = Cluster(Node("n2", {}), n1=1)
    cluster.add(*slices_of("n2", MAX_OF_DRIVER + 1, pool="n1"))
    assert len(cluster.state.planner.world().inventory.slices) == 1
    assert cluster.nodes("p", claim("c")) == ["n1"]
