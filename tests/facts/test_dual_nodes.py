"""Which nodes are dual, and which drivers publish what plugins can have allocated."""

from drawbridge.dra.nodes import Node
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.served_names import DualNode
from tests.facts import clusters


def _cluster(*, gpus: str, extended: str = "", driver: str = "gpu.nvidia.com") -> FactsInput:
    """Node a with two devices in slices and a plugin, b with slices, c with a plugin."""
    devices = [clusters.gpu("gpu-0"), clusters.gpu("gpu-1")]
    return FactsInput(
        (clusters.slice_of(driver, "a", devices), clusters.slice_of(driver, "b", devices)),
        (clusters.device_class("gpus", extended),),
        (clusters.node("a", {gpus: 2}), Node("b"), clusters.node("c", {gpus: 2})),
    )


def test_a_dual_node_is_found_by_the_family_of_its_driver() -> None:
    assert gather_facts(_cluster(gpus="nvidia.com/gpu")).dual_nodes == (
        DualNode("a", ("nvidia.com/gpu",), 2),
    )


def test_a_dual_node_is_found_by_the_class_that_maps_the_name() -> None:
    mapped = _cluster(gpus="example.com/gpu", extended="example.com/gpu", driver="example.com")
    assert gather_facts(mapped).dual_nodes == (DualNode("a", ("example.com/gpu",), 2),)


def test_an_unrelated_resource_does_not_make_a_node_dual() -> None:
    assert gather_facts(_cluster(gpus="example.com/fpga")).dual_nodes == ()


def test_nodes_publish_if_a_plugin_can_have_allocated_their_devices() -> None:
    both = dict.fromkeys(("a", "b"), frozenset({"gpu.nvidia.com"}))
    assert gather_facts(_cluster(gpus="nvidia.com/gpu")).publishing == both
    other = _cluster(gpus="example.com/gpu", driver="example.com")
    assert gather_facts(other).publishing == {}
    mapped = _cluster(gpus="x", extended="example.com/gpu", driver="example.com")
    assert gather_facts(mapped).publishing == dict.fromkeys(both, frozenset({"example.com"}))
