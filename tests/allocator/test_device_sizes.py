"""Nodes whose devices have one product and several sizes, as some drivers publish them."""

import pytest

from drawbridge.dra.nodes import Node
from tests.allocator.clusters import Cluster, Plain, claim, gpu_slice


def part(name: str, memory: str) -> Plain:
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": memory}}}
    return claim(name, requests=[{"name": "r", "exactly": exactly}])


@pytest.mark.parametrize(("memory", "expected"), [("80Gi", "first"), ("1Gi", "n1")])
@pytest.mark.parametrize("product", ["", "H100"])
def test_a_node_with_less_memory_of_the_same_product_does_not_spread_parts_on_others(
    memory: str, expected: str, product: str
) -> None:
    """What a pod takes of a device is read from a device of the node, not of another one."""
    cluster = Cluster(strategy="packed")
    attributes = {"productName": {"string": product}} if product else {}
    for name, amount in (("first", memory), ("n1", "80Gi"), ("n2", "80Gi")):
        published = gpu_slice(
            name,
            1,
            allowMultipleAllocations=True,
            capacity={"memory": {"value": amount}},
            attributes=attributes,
        )
        cluster.add(Node(name, {"name": name}), published)
    nodes = [cluster.schedule(f"p{i}", part(f"c{i}", "20Gi"), limit=20) for i in range(4)]
    assert nodes == [expected] * 4
