"""Tests of node selectors and of decoding nodes."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from drawbridge.dra.device import NodeSelector
from drawbridge.dra.nodes import (
    Node,
    NodeSelectorError,
    matches_selector,
    node_reader,
    selector_problems,
    selects_node,
    without_malformed_terms,
)
from tests.tables import every_row, read_yaml

CASES = read_yaml((Path(__file__).parent / "cases" / "nodes.yaml").read_text("utf-8"))
NODE = {"name": "n1", "labels": {"zone": "a", "gpus": "8", "empty": "", "word": "many"}}


def selector_of(terms: list[Any]) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector)


@every_row("case", CASES, ids=[case["name"] for case in CASES])
def test_a_selector_matches_the_same_nodes_as_in_the_scheduler(case: dict[str, Any]) -> None:
    selector = selector_of(case["terms"])
    node = Node(**case.get("node", NODE))
    of_pod = matches_selector(without_malformed_terms(selector), node)
    assert of_pod is case.get("pod", case.get("matches", False))
    if "malformed" in case:
        assert case["malformed"] in "; ".join(selector_problems(selector))
        with pytest.raises(NodeSelectorError):
            selects_node(node, name=None, everywhere=None, selector=selector)
        return
    assert not selector_problems(selector)
    assert matches_selector(selector, node) is case["matches"]
    assert selects_node(node, name=None, everywhere=None, selector=selector) is case["matches"]


def test_all_errors_of_a_selector_are_reported() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "Near"}, {"key": "!", "operator": "In"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "Gt", "values": ["1"]}]},
    ]
    problems = selector_problems(selector_of(terms))
    assert [text.partition(":")[0] for text in problems] == [
        "nodeSelectorTerms[0].matchExpressions[0]",
        "nodeSelectorTerms[0].matchExpressions[1]",
        "nodeSelectorTerms[0].matchExpressions[1]",
        "nodeSelectorTerms[1].matchFields[0]",
    ]


def test_match_fields_are_ignored_for_a_node_without_a_name() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    assert matches_selector(selector_of([{"matchFields": fields}]), Node(""))
    assert not matches_selector(selector_of([{"matchFields": fields}]), Node("n2"))


def test_the_first_node_field_that_is_set_decides() -> None:
    node, nowhere = Node("n1"), selector_of([])
    assert selects_node(node, name="n1", everywhere=None, selector=nowhere)
    assert not selects_node(node, name="n2", everywhere=True, selector=None)
    assert selects_node(node, name="", everywhere=True, selector=nowhere)
    assert not selects_node(node, name=None, everywhere=False, selector=nowhere)
    assert not selects_node(node, name=None, everywhere=None, selector=None)


def test_a_node_is_decoded_with_its_labels_and_features() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"zone": "a"}},
        "status": {"declaredFeatures": ["DRAOptionalNodeOperations"], "capacity": {"cpu": 8}},
    }
    read = node_reader().read(raw)
    assert read == Node("n1", {"zone": "a"}, ("DRAOptionalNodeOperations",))


def test_an_invalid_node_has_findings() -> None:
    raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"a": 1}}}
    read = node_reader().read(raw)
    assert isinstance(read, tuple)
    assert [(finding.path, finding.object) for finding in read] == [
        ("metadata.labels[a]", "Node/n1")
    ]
