"""Pools count as they were while their drivers publish them again."""

from msgspec.structs import replace

from drawbridge.dra.slices import Slice
from drawbridge.facts.recent_pools import (
    MAX_ABSENCE_SECONDS,
    MAX_WITHDRAWN,
    RESTART_SECONDS,
    RecentPools,
)
from tests.facts import clusters
from tests.tables import every_row

NODES = {"a", "b"}


def part(name: str, generation: int = 1, count: int = 2, **more: str) -> Slice:
    pool = clusters.slice_of("d.io", "a", [clusters.gpu(name)])
    return replace(pool, name=name, generation=generation, slice_count=count, **more)


def names(slices: tuple[Slice, ...]) -> list[tuple[str, int]]:
    return sorted((each.name, each.generation) for each in slices)


WHOLE = [part("s1"), part("s2")]
OTHER = part("x", count=1, pool="other")
# What is published after the whole pool, after how many seconds, and what counts then.
CHANGES = {
    "the first slice of a generation": ([part("s1", 2), part("s2")], 0.0, [("s1", 1), ("s2", 1)]),
    "a generation that stays incomplete": (
        [part("s1", 2), part("s2")],
        MAX_ABSENCE_SECONDS,
        [("s1", 2), ("s2", 1)],
    ),
    "a new generation": ([part("s1", 2), part("s2", 2)], 0.0, [("s1", 2), ("s2", 2)]),
    "a smaller pool": ([part("s1", 2, 1)], 0.0, [("s1", 2)]),
    "one slice is withdrawn": ([part("s1")], 0.0, [("s1", 1), ("s2", 1)]),
    "a driver restarts": ([], MAX_ABSENCE_SECONDS - 1, [("s1", 1), ("s2", 1)]),
    "a driver is gone": ([], MAX_ABSENCE_SECONDS, []),
    "another pool": ([OTHER], RESTART_SECONDS - 1, [("s1", 1), ("s2", 1), ("x", 1)]),
    "another pool instead": ([OTHER], RESTART_SECONDS, [("x", 1)]),
    "another node says so": (
        [*WHOLE, part("forged", 9, node_name="b")],
        0.0,
        [("forged", 9), ("s1", 1), ("s2", 1)],
    ),
}


@every_row("case", CHANGES)
def test_a_pool_counts_as_it_was_until_it_is_complete(case: str) -> None:
    published, seconds, counts = CHANGES[case]
    pools = RecentPools()
    assert names(pools.complete(WHOLE, NODES, 0.0)) == [("s1", 1), ("s2", 1)]
    assert names(pools.complete(published, NODES, seconds)) == counts


def test_the_pools_of_a_node_that_is_gone_do_not_count() -> None:
    pools = RecentPools()
    pools.complete(WHOLE, NODES, 0.0)
    assert pools.complete([], {"b"}, 0.0) == ()
    assert pools.complete([], NODES, 0.0) == ()


def test_a_node_has_a_few_withdrawn_pools() -> None:
    pools = RecentPools()
    for number in range(3 * MAX_WITHDRAWN):
        counting = pools.complete(
            [replace(OTHER, name=f"s{number}", pool=f"p{number}")], NODES, float(number)
        )
        assert len(counting) <= MAX_WITHDRAWN + 1
