"""Tests of the demo inventory: it decodes, and its pools are complete and valid."""

from pathlib import Path
from typing import Any

import pytest

from drawbridge.dra.attributes import NUMA_NODE, PCIE_ROOT, attribute_value, find_attribute
from drawbridge.dra.inventory import Inventory, build_inventory
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.dra.slices import Slice, slice_reader
from tests.tables import read_yaml_documents

FOLDER = Path(__file__).parents[2] / "examples" / "inventory"


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    return [each for path in sorted(FOLDER.glob("*.yaml")) for each in documents(path)]


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in read_yaml_documents(path.read_text("utf-8")) if each]


@pytest.fixture(scope="module")
def sample(objects: list[dict[str, Any]]) -> Inventory:
    reader = slice_reader()
    read = [reader.read(each) for each in objects if each["kind"] == "ResourceSlice"]
    assert not [each for each in read if isinstance(each, tuple)]
    return build_inventory(each for each in read if isinstance(each, Slice))


@pytest.fixture(scope="module")
def nodes(objects: list[dict[str, Any]]) -> dict[str, Node]:
    read = [node_reader().read(each) for each in objects if each["kind"] == "Node"]
    return {node.name: node for node in read if isinstance(node, Node)}


def test_every_node_has_complete_and_valid_pools(
    sample: Inventory, nodes: dict[str, Node], objects: list[dict[str, Any]]
) -> None:
    pools = {name: sample.pools_for(node) for name, node in nodes.items()}
    specs = [each["spec"] for each in objects if each["kind"] == "ResourceSlice"]
    assert {name: [pool.id.driver for pool in each] for name, each in pools.items()} == {
        name: sorted({spec["driver"] for spec in specs if spec["nodeName"] == name})
        for name in nodes
    }
    assert all(pools.values())
    assert all(pool.usable for each in pools.values() for pool in each)


def test_each_gpu_of_the_hgx_board_has_a_nic_on_its_root(
    sample: Inventory, nodes: dict[str, Node]
) -> None:
    nics, gpus = sample.pools_for(nodes["hgx-1"])
    roots = {}
    for pool in (nics, gpus):
        attributes = (
            find_attribute(device, pool.id.driver, PCIE_ROOT) for _, device in pool.devices()
        )
        roots[pool.id.driver] = {
            attribute_value(attribute) for attribute in attributes if attribute
        }
    assert len(roots["gpu.nvidia.com"]) == 8
    assert roots["gpu.nvidia.com"] < roots["dra.net"]
    numa = [find_attribute(device, gpus.id.driver, NUMA_NODE) for _, device in gpus.devices()]
    assert [attribute_value(attribute) for attribute in numa if attribute] == [0] * 4 + [1] * 4


def test_a_whole_gpu_consumes_the_counters_of_its_partitions(
    sample: Inventory, nodes: dict[str, Node]
) -> None:
    (pool,) = sample.pools_for(nodes["mig-1"])
    whole = [device for _, device in pool.devices() if "profile" not in device.attributes]
    assert len(whole) == 2
    for device in whole:
        (use,) = device.consumes_counters
        assert use.counters == pool.counter_sets[use.counter_set].counters


def test_the_l4_can_be_shared(sample: Inventory, nodes: dict[str, Node]) -> None:
    (pool,) = sample.pools_for(nodes["edge-1"])
    ((_, device),) = pool.devices()
    assert device.allow_multiple_allocations
    assert device.capacity["memory"].request_policy


def test_every_kind_of_the_sample_is_a_kubernetes_kind(objects: list[dict[str, Any]]) -> None:
    assert {each["kind"] for each in objects} == {"Node", "ResourceSlice", "DeviceClass"}
