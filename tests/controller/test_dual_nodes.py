"""Nodes with the same devices from a plugin and from slices: the label, and what is told."""

import asyncio

import pytest

from config.model import Configuration
from controller.dual_nodes import LABEL, DualDuty, Stores, told
from controller.protocols import About, Object
from controller.watched_objects import Named, Pod
from dra.nodes import Node
from facts.gather import Objects, gather
from facts.served_names import Twice
from tests.controller.harness import Ears, Kind, WorldError
from tests.facts import clusters
from translate.pods import given

NAME = "nvidia.com/gpu"
TWICE = (Twice("a", ("nvidia.com/gpu",), 8),)


class Scene:
    """Nodes with labels, and what is known of them."""

    def __init__(self, **labels: dict[str, str]) -> None:
        self.nodes, self.pods, self.ears = Kind(Named), Kind(Pod), Ears()
        for name, each in labels.items():
            self.nodes.put({"metadata": {"name": name, "labels": each}})
        self.twice: tuple[Twice, ...] | None = TWICE
        about = About("ConfigMap", "drawbridge-facts", "own")
        known = given(Configuration())
        self.duty = DualDuty(
            self.nodes,
            Stores(self.nodes, self.pods),
            twice=lambda: self.twice,
            given=lambda: known,
            told=self.ears,
            about=about,
        )

    def pod(self, name: str, node: str, resource: str, **status: object) -> None:
        """Let a pod be on a node."""
        containers = [{"name": "main", "resources": {"limits": {resource: "1"}}}]
        spec = {"nodeName": node, "containers": containers}
        metadata = {"name": name, "namespace": "x"}
        self.pods.put({"metadata": metadata, "spec": spec, "status": status})

    def step(self) -> dict[str, dict[str, str]]:
        """Step, and give the labels of all nodes."""
        asyncio.run(self.duty.step())
        return {name: each["metadata"]["labels"] for (_, name), each in self.nodes.objects.items()}


def test_only_our_label_is_put_on_and_taken_off() -> None:
    scene = Scene(a={"mine": "x"}, b={LABEL: "true", "mine": "y"}, c={})
    assert scene.step() == {"a": {"mine": "x", LABEL: "true"}, "b": {"mine": "y"}, "c": {}}
    assert scene.nodes.asked == [("merge", "a"), ("merge", "b")]


def test_a_label_with_another_value_is_corrected() -> None:
    assert Scene(a={LABEL: "no"}).step() == {"a": {LABEL: "true"}}


def test_what_is_right_is_not_written_again_nor_told_again() -> None:
    scene = Scene(a={})
    scene.step()
    scene.step()
    assert scene.nodes.asked == [("merge", "a")]
    assert scene.ears.codes == ["DualNodes"]
    assert scene.ears.levels == {("dual", "nodes"): 1, ("dual", "idle devices"): 8}


def test_before_anything_is_known_nothing_is_touched() -> None:
    scene = Scene(b={LABEL: "true"})
    scene.twice = None
    assert scene.step() == {"b": {LABEL: "true"}}


def test_a_node_that_goes_meanwhile_is_no_trouble_and_a_server_that_fails_is() -> None:
    scene = Scene(a={})

    def gone(_verb: str, _value: Object) -> None:
        raise WorldError(code)

    scene.nodes.trouble = gone
    code = 404
    scene.step()
    code = 500
    with pytest.raises(WorldError):
        scene.step()


def test_a_node_that_may_not_be_labelled_does_not_keep_others_from_their_label() -> None:
    scene = Scene(a={}, b={})
    scene.twice = (*TWICE, Twice("b", (NAME,), 8))

    def refuses(_verb: str, value: Object) -> None:
        if scene.nodes.asked[-1] == ("merge", "a"):
            raise WorldError(403, "a policy")
        assert value

    scene.nodes.trouble = refuses
    with pytest.raises(WorldError):
        scene.step()
    assert scene.nodes.objects["", "b"]["metadata"]["labels"] == {LABEL: "true"}
    assert scene.ears.codes == ["DualNodes"]


HELD = {"phase": "Running"}
CLAIMED = {"extendedResourceClaimStatus": {"requestMappings": [{"resourceName": NAME}]}}


@pytest.mark.parametrize(
    ("node", "resource", "status", "stays"),
    [
        ("a", NAME, HELD, True),
        ("a", "nvidia.com/mig-1g.5gb", HELD, True),
        ("a", "example.com/fpga", HELD, False),
        ("a", "cpu", HELD, False),
        ("a", NAME, {"phase": "Succeeded"}, False),
        ("a", NAME, {**HELD, **CLAIMED}, False),
        ("b", NAME, HELD, False),
    ],
)
def test_a_label_stays_while_a_pod_may_hold_what_a_plugin_gave_it(
    node: str, resource: str, status: dict[str, object], *, stays: bool
) -> None:
    scene = Scene(a={LABEL: "true"})
    scene.twice = ()
    scene.pod("old", node, resource, **status)
    assert scene.step() == {"a": {LABEL: "true"} if stays else {}}
    assert scene.ears.codes == (["DualNodesHeld"] if stays else [])
    if stays:
        scene.step()
        assert scene.ears.codes == ["DualNodesHeld"]
        scene.pods.remove("old", "x")
        assert scene.step() == {"a": {}}


@pytest.mark.parametrize(
    ("allocatable", "capacity", "stays"), [("0", "8", True), ("0", "0", False), ("8", "8", False)]
)
def test_a_label_stays_while_a_plugin_restarts_and_goes_where_slices_went(
    allocatable: str, capacity: str, *, stays: bool
) -> None:
    scene = Scene()
    scene.twice = ()
    status = {"allocatable": {NAME: allocatable, "cpu": "8"}, "capacity": {NAME: capacity}}
    scene.nodes.put({"metadata": {"name": "a", "labels": {LABEL: "true"}}, "status": status})
    assert scene.step() == {"a": {LABEL: "true"} if stays else {}}


def test_the_nodes_are_named_some_of_many_and_the_idle_devices_counted() -> None:
    found = told([Twice(f"n{i:02}", ("nvidia.com/gpu",), 8) for i in range(12)])
    assert found is not None
    assert found.message.startswith("n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 2 more ")
    assert "advertise nvidia.com/gpu" in found.message
    assert "96 devices of DRA stay idle on 12 nodes" in found.message
    assert told(()) is None


def _cluster(*, gpus: str, extended: str = "", driver: str = "gpu.nvidia.com") -> Objects:
    """Node a with two devices in slices and a plugin, b with slices, c with a plugin."""
    devices = [clusters.gpu("gpu-0"), clusters.gpu("gpu-1")]
    return Objects(
        (clusters.slice_of(driver, "a", devices), clusters.slice_of(driver, "b", devices)),
        (clusters.device_class("gpus", extended),),
        (clusters.node("a", {gpus: 2}), Node("b"), clusters.node("c", {gpus: 2})),
    )


def test_a_node_is_found_by_the_family_of_its_driver() -> None:
    assert gather(_cluster(gpus="nvidia.com/gpu")).twice == (Twice("a", ("nvidia.com/gpu",), 2),)


def test_a_node_is_found_by_the_class_that_maps_the_name() -> None:
    mapped = _cluster(gpus="example.com/gpu", extended="example.com/gpu", driver="example.com")
    assert gather(mapped).twice == (Twice("a", ("example.com/gpu",), 2),)


def test_a_name_that_has_nothing_to_do_with_the_slices_makes_no_node_dual() -> None:
    assert gather(_cluster(gpus="example.com/fpga")).twice == ()
