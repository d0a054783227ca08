"""Inventories are drawn so that a person sees what is where, and what does not count and why."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dra.classes import DeviceClass, read_class
from dra.inventory import build_inventory
from dra.nodes import Node
from dra.slices import Slice, read_slice
from report.inventory import class_table, draw_node, pool_table
from report.tables import (ASCII, UNICODE, Branch, align_columns, draw_tree)

CASES = yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text("utf-8"))


def slices(specs: list[dict[str, Any]]) -> list[Slice]:
    read = [
        read_slice({"metadata": {"name": f"slice-{i}"}, "spec": spec})
        for i, spec in enumerate(specs)
    ]
    return [each for each in read if isinstance(each, Slice)]


def fits(line: str, shown: str) -> bool:
    """Whether a line is as shown; after `...` at the end anything may follow."""
    return line.startswith(shown[:-3]) if shown.endswith(": ...") else line == shown


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_table(case: dict[str, Any]) -> None:
    read = slices(case["slices"])
    assert len(read) == len(case["slices"])
    whole = build_inventory(read)
    nodes = [Node(name) for name in case["nodes"]]
    drawn = [line for each in nodes for line in draw_tree(draw_node(whole, each), ASCII)]
    expected = case["drawn"].splitlines()
    assert len(drawn) == len(expected)
    for line, shown in zip(drawn, expected, strict=True):
        assert fits(line, shown), "\n".join(drawn)
    if "pools" in case:
        assert align_columns(pool_table(whole, nodes)) == case["pools"].splitlines()


def test_a_pool_that_nodes_see_differently_says_how_many() -> None:
    spec = {
        "driver": "d",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2},
        "devices": [{"name": "x"}],
    }
    whole = build_inventory(slices([{**spec, "nodeName": "a"}, {**spec, "nodeName": "b"}]))
    (_, row) = pool_table(whole, [Node("a"), Node("b"), Node("c")])
    assert row[-1] == "complete"
    clash = build_inventory(slices([{**spec, "nodeName": "a"}, {**spec, "allNodes": True}]))
    (_, row) = pool_table(clash, [Node("a"), Node("b"), Node("c")])
    assert row[-1] == ("complete (from 2 nodes); invalid, device x is there twice (from 1 node)")


def read(name: str, **spec: object) -> DeviceClass:
    made = read_class({"metadata": {"name": name}, "spec": spec})
    assert isinstance(made, DeviceClass)
    return made


def test_classes_are_listed_by_name_with_their_selectors_on_one_line() -> None:
    cel = [{"cel": {"expression": "device.driver ==\n  'd'"}}, {"cel": {"expression": "true"}}]
    offered = [read("b", selectors=cel), read("a", extendedResourceName="example.com/gpu")]
    assert align_columns(class_table(offered, {"b": "12"})) == [
        "CLASS  EXTENDED RESOURCE  DEVICES  SELECTORS",
        "a      example.com/gpu    ?        any device",
        "b      -                  12       device.driver == 'd' and true",
    ]


def test_a_tree_has_nicer_lines_where_they_can_be_shown() -> None:
    root = Branch(
        "r", below=(Branch("a", ("1",), (Branch("b", ("22",)),)), Branch("c", ("3", "4")))
    )
    assert draw_tree(root, UNICODE) == ["r", "├─ a     1", "│  └─ b  22", "└─ c     3   4"]
    assert draw_tree(root, ASCII) == ["r", "|- a     1", "|  `- b  22", "`- c     3   4"]
    assert "\n".join(draw_tree(root, ASCII)).isascii()


def test_a_heading_widens_no_column() -> None:
    assert align_columns([["a long heading"], ["a", "b"], ["cc", "d"]]) == [
        "a long heading",
        "a   b",
        "cc  d",
    ]
    assert align_columns([]) == []
