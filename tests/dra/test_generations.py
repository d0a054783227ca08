"""Which slices of a pool count, seen from the whole cluster."""

from pathlib import Path
from typing import Any

from drawbridge.dra.generations import current_parts, find_replaced
from drawbridge.dra.inventory import PoolID, read_published_pool
from drawbridge.dra.slices import Slice
from tests.dra.short_slices import slice_of
from tests.tables import every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "generations.yaml")


def published(name: str, node: str, generation: int, count: int = 1) -> Slice:
    where = {"allNodes": True} if node == "all" else {"nodeName": node}
    return slice_of({"name": name, "pool": "a", "generation": generation, "count": count, **where})


@every_row("case", CASES, ids=lambda case: str(case["name"]))
def test_only_slices_for_the_same_nodes_replace_a_slice(case: dict[str, Any]) -> None:
    slices = [published(name, *short) for name, short in sorted(case["slices"].items())]
    parts = [[each.name for each in part] for part in current_parts(slices)]
    assert sorted(parts) == sorted(case["parts"])
    replaced = {each.name: newer.name for each, newer in find_replaced(slices)}
    assert replaced == case.get("replaced", {})


@every_row(
    ("slices", "first"),
    [
        ([("all-1", "all", 1), ("bad-1", "bad", 9)], "all-1"),
        ([("a-1", "a", 1), ("bad-1", "bad", 9)], "a-1"),
        ([("a-1", "a", 2), ("all-1", "all", 1)], "a-1"),
        ([("b-1", "b", 1), ("c-1", "c", 2)], "c-1"),
    ],
)
def test_a_node_says_nothing_about_the_pool_of_others(
    slices: list[tuple[str, str, int]], first: str
) -> None:
    pool = read_published_pool(PoolID("", "a"), [published(*each) for each in slices])
    assert pool is not None
    assert pool.slices[0].name == first
