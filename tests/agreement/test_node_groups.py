"""Which node groups an autoscaler simulates wrongly, because their nodes are not alike."""

import json
from collections.abc import Mapping
from typing import Any

from drawbridge.agreement.node_groups import report_unlike_nodes
from drawbridge.dra.families import FAMILIES
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slice

FAMILY = {each.driver: each for each in FAMILIES}
DRIVER = "gpu.nvidia.com"
GROUP = "eks.amazonaws.com/nodegroup"


def published(node: str, *products: str, generation: int = 1) -> Slice:
    """Return a slice of whole GPUs, one of each product."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"productName": {"string": name}, "uuid": {"string": f"{node}-{number}"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number, name in enumerate(products)
    ]
    value: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{generation}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
    made = read_slice(json.dumps(value).encode())
    assert isinstance(made, Slice), made
    return made


def told(nodes: Mapping[str, Mapping[str, str]], *slices: Slice, ready: bool = True) -> list[str]:
    """Return the messages about these nodes with their labels."""
    made = [Node(name, labels=labels, ready=ready) for name, labels in nodes.items()]
    return [each.message for each in report_unlike_nodes(made, slices, FAMILY)]


def test_a_group_with_another_machine_is_reported() -> None:
    nodes = {name: {GROUP: "train"} for name in ("a", "b", "c")}
    slices = [
        published("a", "H100", "H100"),
        published("b", "H100", "H100"),
        published("c", "H100"),
    ]
    (message,) = told(nodes, *slices)
    assert message == (
        "the nodes of group train have different devices of gpu.nvidia.com: 2x H100 80Gi on 2 nodes"
        " such as a; 1x H100 80Gi on 1 node such as c"
    )


def test_the_kinds_of_nodes_beyond_the_first_are_counted() -> None:
    names = "abcdefg"
    nodes = {name: {GROUP: "train"} for name in names}
    (message,) = told(nodes, *(published(name, *"x" * n) for n, name in enumerate(names, 1)))
    (*_, last) = message.split("; ")
    assert message.count(" node such as ") + int(last.removesuffix(" more")) == len(names)


def test_nodes_that_differ_in_identity_only_are_alike() -> None:
    nodes = {name: {GROUP: "train"} for name in ("a", "b")}
    assert told(nodes, published("a", "H100"), published("b", "H100")) == []


def test_groups_may_differ_from_each_other() -> None:
    nodes = {"a": {GROUP: "train"}, "b": {GROUP: "serve"}, "c": {}}
    assert told(nodes, *(published(name, *"x" * n) for n, name in enumerate("abc", 1))) == []


def test_the_instance_types_of_a_node_pool_may_differ() -> None:
    pool = {"karpenter.sh/nodepool": "gpu"}
    types = {"a": "p4d.24xlarge", "b": "p5.48xlarge", "c": "p5.48xlarge"}
    nodes = {
        name: {**pool, "node.kubernetes.io/instance-type": each} for name, each in types.items()
    }
    slices = [published("a", "A100"), published("b", "H100"), published("c", "H100", "H100")]
    (message,) = told(nodes, *slices)
    assert message.startswith("the nodes of group gpu p5.48xlarge have different devices")


def test_only_what_counts_of_a_pool_is_compared() -> None:
    nodes = {name: {GROUP: "train"} for name in ("a", "b")}
    slices = [published("a", "H100"), published("b"), published("b", "H100", generation=2)]
    assert told(nodes, *slices) == []


def test_a_node_that_is_not_ready_or_publishes_nothing_yet_is_left_out() -> None:
    nodes = {name: {GROUP: "train"} for name in ("a", "b")}
    assert told(nodes, published("a", "H100")) == []
    assert told(nodes, published("a", "H100"), published("b", "A100"), ready=False) == []
