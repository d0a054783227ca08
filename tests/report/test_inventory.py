"""Inventories are drawn with the location of each device and the reason for unusable pools."""

from pathlib import Path
from typing import Any

from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.report.inventory import draw_node, pool_table
from drawbridge.report.tables import ASCII, UNICODE, Branch, align_columns, draw_tree
from tests.tables import every_row, read_yaml

CASES = read_yaml((Path(__file__).parent / "cases.yaml").read_text("utf-8"))


def slices(specs: list[dict[str, Any]]) -> list[Slice]:
    read = [
        read_slice({"metadata": {"name": f"slice-{i}"}, "spec": spec})
        for i, spec in enumerate(specs)
    ]
    return [each for each in read if isinstance(each, Slice)]


def fits(line: str, shown: str) -> bool:
    """Whether a line is as shown; `: ...` at the end stands for any text."""
    return line.startswith(shown[:-3]) if shown.endswith(": ...") else line == shown


@every_row("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    read = slices(case["slices"])
    assert len(read) == len(case["slices"])
    built = build_inventory(read)
    nodes = [Node(name) for name in case["nodes"]]
    drawn = [line for each in nodes for line in draw_tree(draw_node(built, each), ASCII)]
    expected = case["drawn"].splitlines()
    assert len(drawn) == len(expected)
    for line, shown in zip(drawn, expected, strict=True):
        assert fits(line, shown), "\n".join(drawn)
    if "pools" in case:
        assert align_columns(pool_table(built, nodes)) == case["pools"].splitlines()


def test_a_pool_in_different_states_has_the_number_of_nodes_for_each() -> None:
    spec = {
        "driver": "d",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2},
        "devices": [{"name": "x"}],
    }
    built = build_inventory(slices([{**spec, "nodeName": "a"}, {**spec, "nodeName": "b"}]))
    (_, row) = pool_table(built, [Node("a"), Node("b"), Node("c")])
    assert row[-1] == "complete"
    clash = build_inventory(slices([{**spec, "nodeName": "a"}, {**spec, "allNodes": True}]))
    (_, row) = pool_table(clash, [Node("a"), Node("b"), Node("c")])
    assert row[-1] == ("complete (on 2 nodes); invalid, device x appears twice (on 1 node)")


def test_a_tree_can_be_drawn_in_unicode_or_ascii() -> None:
    root = Branch(
        "r", below=(Branch("a", ("1",), (Branch("b", ("22",)),)), Branch("c", ("3", "4")))
    )
    assert draw_tree(root, UNICODE) == ["r", "├─ a     1", "│  └─ b  22", "└─ c     3   4"]
    assert draw_tree(root, ASCII) == ["r", "|- a     1", "|  `- b  22", "`- c     3   4"]
    assert "\n".join(draw_tree(root, ASCII)).isascii()


def test_a_heading_does_not_widen_a_column() -> None:
    assert align_columns([["a long heading"], ["a", "b"], ["cc", "d"]]) == [
        "a long heading",
        "a   b",
        "cc  d",
    ]
    assert align_columns([]) == []
