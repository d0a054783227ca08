"""What counts of the slices of all nodes, after each change."""

import random
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from drawbridge.agreement import slice_limits
from drawbridge.agreement.owned_pools import find_local_pool
from drawbridge.agreement.published_slices import PublishedSlices
from drawbridge.agreement.slice_limits import find_crowded
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import Slice
from tests.agreement.test_owned_pools import published


def expected_pools(slices: Iterable[Slice]) -> dict[PoolID, set[str]]:
    """Return the names of the slices that count by node, and whether some have none."""
    listed_slices = [*slices]
    crowded = find_crowded(listed_slices)
    pools: dict[PoolID, set[str]] = {}
    for listed in listed_slices:
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
    counted = PublishedSlices()
    slices: dict[str, Slice] = {}
    for _ in range(300):
        name = f"s{choose.randrange(14)}"
        before, after = slices.get(name), None
        if choose.random() < 0.7:
            node = choose.choice(("n1", "n2", None))
            driver, pool = choose.choice("ab"), choose.choice(("n1", "n2"))
            after = replace(
                published(0, {"node": node} if node else {}), name=name, driver=driver, pool=pool
            )
        kept = {pool: {**counted.of_pool(pool)} for pool in counted.pools}
        changed = counted.apply(before, after)
        slices = {key: each for key, each in slices.items() if key != name}
        if after is not None:
            slices[name] = after
        counting = {pool: {**counted.of_pool(pool)} for pool in counted.pools}
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
            assert {*counted.naming(node)} == {
                pool
                for pool, members in counting.items()
                if node in {pool.name, *(each.node_name for each in members.values())}
            }


def test_a_pool_that_spans_nodes_is_not_local_however_large_it_is() -> None:
    counted = PublishedSlices()
    whole = published(0, {"all": True})
    for number in range(slice_limits.MAX_OF_NO_NODE + 5):
        counted.apply(None, replace(whole, name=f"fabric-{number}"))
    own = published(0, {"node": "n1"})
    counted.apply(None, own)
    pool = PoolID(own.driver, own.pool)
    assert len(counted.of_pool(pool)) == 2
    assert find_local_pool(pool, counted.of_pool(pool).values()) is None
