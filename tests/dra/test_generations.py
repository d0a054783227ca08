"""Which slices of a pool count, seen from the whole cluster."""

from pathlib import Path
from typing import Any

from drawbridge.dra.generations import current_parts, find_replaced
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
