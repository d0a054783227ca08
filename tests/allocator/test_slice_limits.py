"""What one node publishes beyond a limit counts for nobody, and costs others nothing."""

import random
from collections.abc import Iterable, Sequence

import pytest
from msgspec.structs import replace

from drawbridge.agreement import slice_limits
from drawbridge.agreement.owned_pools import find_local_pool
from drawbridge.agreement.published_slices import PublishedSlices
from drawbridge.agreement.slice_limits import MAX_OF_DRIVER, MAX_OF_NODE, find_crowded
from drawbridge.dra.inventory import PoolID
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


def expected_pools(slices: Iterable[Slice]) -> dict[PoolID, set[str]]:
    """Return the names of the slices that count by node, and whether some have none."""
    published = [*slices]
    crowded = find_crowded(published)
    pools: dict[PoolID, set[str]] = {}
    for listed in published:
        if not listed.node_name or crowded.isdisjoint(slice_limits.find_slice_groups(listed)):
            names = pools.setdefault(PoolID(listed.driver, listed.pool), set())
            names.add(listed.name if listed.node_name else "no node")
    return pools


@pytest.mark.parametrize("seed", range(20))
def test_what_counts_is_what_counts_of_all_slices(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in (("MAX_OF_DRIVER", 3), ("MAX_OF_NODE", 5), ("MAX_OF_NO_NODE", 2)):
        monkeypatch.setattr(slice_limits, name, limit)
    choose = random.Random(seed)
    published = PublishedSlices()
    slices: dict[str, Slice] = {}
    for _ in range(300):
        name = f"s{choose.randrange(14)}"
        before, after = slices.get(name), None
        if choose.random() < 0.7:
            node = choose.choice(("n1", "n2", None))
            driver, pool = choose.choice("ab"), choose.choice(("n1", "n2"))
            after = replace(gpu_slice("n1", 1), name=name, node_name=node, driver=driver, pool=pool)
        kept = {pool: {**published.of_pool(pool)} for pool in published.pools}
        changed = published.apply(before, after)
        slices = {key: each for key, each in slices.items() if key != name}
        if after is not None:
            slices[name] = after
        counting = {pool: {**published.of_pool(pool)} for pool in published.pools}
        assert {
            pool: {each if s.node_name else "no node" for each, s in members.items()}
            for pool, members in counting.items()
        } == expected_pools(slices.values())
        # What is told is what has changed.
        for pool in counting.keys() | kept.keys():
            assert pool in changed.pools or counting.get(pool) == kept.get(pool)
        gone = {s.name for members in kept.values() for s in members.values()} - {
            s.name for members in counting.values() for s in members.values()
        }
        assert gone <= {each.name for each in changed.removed}
        for node in ("n1", "n2"):
            assert {*published.naming(node)} == {
                pool
                for pool, members in counting.items()
                if node in {pool.name, *(each.node_name for each in members.values())}
            }


def test_a_pool_that_spans_nodes_is_not_local_however_large_it_is() -> None:
    published = PublishedSlices()
    whole = replace(gpu_slice("n1", 1), node_name=None, all_nodes=True)
    for number in range(slice_limits.MAX_OF_NO_NODE + 5):
        published.apply(None, replace(whole, name=f"fabric-{number}"))
    own = gpu_slice("n1", 1)
    published.apply(None, own)
    pool = PoolID(own.driver, own.pool)
    assert len(published.of_pool(pool)) == 2
    assert find_local_pool(pool, published.of_pool(pool).values()) is None
