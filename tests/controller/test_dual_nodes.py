"""The label of nodes where a plugin and slices have the same devices, and its findings."""

import asyncio
import itertools

import msgspec
import pytest
from msgspec.structs import replace

from controller.dual_nodes import LABEL, DualNodeReconciler, DualNodeStores
from controller.node_plugins import ABSENCE_SECONDS
from controller.protocols import Gauge, ObjectReference, Unstructured
from controller.watched_objects import WatchedNode, WatchedPod
from drawbridge.api_error import ApiError
from drawbridge.config.model import Configuration
from drawbridge.config.string_formats import DriverName, ObjectName, ResourceName
from drawbridge.config.target import Target
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import ClassFacts, Facts
from drawbridge.facts.served_names import DualNode
from drawbridge.translate.context import make_context
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeReporter
from tests.facts import clusters
from tests.tables import every_row

NAME = "nvidia.com/gpu"
EFA = "vpc.amazonaws.com/efa"
# A plugin of devices that no driver publishes, and that each node has besides.
BESIDE = pytest.mark.parametrize(
    "beside", [{}, {EFA: "4"}], ids=["alone", "beside a plugin of NICs"]
)
TWICE = (DualNode("a", ("nvidia.com/gpu",), 8),)


class Scene:
    """A reconciler over nodes with labels and pods."""

    def __init__(self, **labels: dict[str, str]) -> None:
        self.nodes, self.pods, self.reporter = (
            MemoryStore(WatchedNode),
            MemoryStore(WatchedPod),
            FakeReporter(),
        )
        for name, of_node in labels.items():
            self.nodes.put({"metadata": {"name": name, "labels": of_node}})
        self.dual_nodes: tuple[DualNode, ...] | None = TWICE
        self.publishing = {"a": frozenset({"gpu.nvidia.com"})}
        self.time = 0.0
        reference = ObjectReference("ConfigMap", "drawbridge-facts", "own")
        self.context = make_context(Configuration())
        self.reconciler = DualNodeReconciler(
            self.nodes,
            DualNodeStores(self.nodes, self.pods),
            dual_nodes=lambda: self.dual_nodes,
            publishing=lambda: self.publishing,
            context=lambda: self.context,
            reporter=self.reporter,
            reference=reference,
            now=lambda: self.time,
        )

    def pod(
        self, name: str, node: str, resource: str, created: str | None = None, **status: object
    ) -> None:
        """Add a pod on a node."""
        containers = [{"name": "main", "resources": {"limits": {resource: "1"}}}]
        spec = {"nodeName": node, "containers": containers}
        metadata = {"name": name, "namespace": "x", "creationTimestamp": created}
        self.pods.put({"metadata": metadata, "spec": spec, "status": status})

    def reconcile(self) -> dict[str, dict[str, str]]:
        """Run the reconciler once and return the labels of all nodes."""
        asyncio.run(self.reconciler.reconcile())
        return {name: each["metadata"]["labels"] for (_, name), each in self.nodes.objects.items()}


def test_only_the_dual_label_is_added_and_removed() -> None:
    scene = Scene(a={"mine": "x"}, b={LABEL: "true", "mine": "y"}, c={})
    assert scene.reconcile() == {"a": {"mine": "x", LABEL: "true"}, "b": {"mine": "y"}, "c": {}}
    assert scene.nodes.requests == [("merge", "a"), ("merge", "b")]


def test_a_label_with_another_value_is_corrected() -> None:
    assert Scene(a={LABEL: "no"}).reconcile() == {"a": {LABEL: "true"}}


def test_a_second_run_writes_and_reports_nothing() -> None:
    scene = Scene(a={})
    scene.reconcile()
    scene.reconcile()
    assert scene.nodes.requests == [("merge", "a")]
    assert scene.reporter.codes == ["DualNodes"]
    assert scene.reporter.gauges == {Gauge.DUAL_NODES: 1, Gauge.DUAL_NODE_IDLE_DEVICES: 8}


def test_no_label_changes_before_facts_are_gathered() -> None:
    scene = Scene(b={LABEL: "true"})
    scene.dual_nodes = None
    assert scene.reconcile() == {"b": {LABEL: "true"}}


def test_a_node_that_has_changed_meanwhile_is_decided_about_anew() -> None:
    """Another process can lead by the time of the write, and have labelled the node."""
    scene = Scene(a={LABEL: "true"})
    scene.dual_nodes = ()

    def change(verb: str, _: Unstructured) -> None:
        if verb == "merge":
            scene.nodes.before_write = lambda *_: None
            scene.nodes.put({"metadata": {"name": "a", "labels": {LABEL: "true", "new": "x"}}})

    scene.nodes.before_write = change
    with pytest.raises(ApiError) as raised:
        scene.reconcile()
    assert raised.value.conflict
    assert scene.nodes.objects["", "a"]["metadata"]["labels"] == {LABEL: "true", "new": "x"}
    assert scene.reconcile() == {"a": {"new": "x"}}


def test_a_deleted_node_is_ignored_and_a_server_error_is_raised() -> None:
    scene = Scene(a={})

    def fail(_verb: str, _value: Unstructured) -> None:
        raise ApiError(code)

    scene.nodes.before_write = fail
    code = 404
    scene.reconcile()
    code = 500
    with pytest.raises(ApiError):
        scene.reconcile()


def test_a_rejected_label_does_not_stop_the_other_labels() -> None:
    scene = Scene(a={}, b={})
    scene.dual_nodes = (*TWICE, DualNode("b", (NAME,), 8))

    def reject(_verb: str, value: Unstructured) -> None:
        if scene.nodes.requests[-1] == ("merge", "a"):
            raise ApiError(403, "Forbidden", "a policy")
        assert value

    scene.nodes.before_write = reject
    with pytest.raises(ApiError):
        scene.reconcile()
    assert scene.nodes.objects["", "b"]["metadata"]["labels"] == {LABEL: "true"}
    assert scene.reporter.codes == ["DualNodes"]


@pytest.mark.parametrize(("code", "runs"), [(403, 1), (422, 1), (0, 2)])
def test_a_label_that_cannot_be_written_delays_no_node_that_pods_keep_from_others(
    code: int, runs: int
) -> None:
    """A refusal ends no run; what gets no response ends it, and comes last in the next."""
    scene = Scene(a={})
    scene.nodes.put(_node("old", "0"))
    scene.pod("p", "old", NAME, phase="Running")

    def fail(_verb: str, _value: Unstructured) -> None:
        if scene.nodes.requests[-1] == ("merge", "a"):
            raise ApiError(code, "", "a webhook of others")

    scene.nodes.before_write = fail
    for _ in range(runs):
        with pytest.raises(ApiError):
            scene.reconcile()
    assert scene.nodes.objects["", "old"]["metadata"]["labels"] == {LABEL: "true"}
    assert scene.reporter.codes == ["DualNodes", "DualNodesHeld"]


HELD = {"phase": "Running"}
CLAIMED = {"extendedResourceClaimStatus": {"requestMappings": [{"resourceName": NAME}]}}


@every_row(
    ("node", "resource", "status", "stays"),
    [
        ("a", NAME, HELD, True),
        ("a", "nvidia.com/mig-1g.5gb", HELD, True),
        ("a", "example.com/served", HELD, False),
        ("a", "example.com/gone", HELD, True),  # it can have had a meaning
        ("a", "cpu", HELD, False),
        ("a", NAME, {"phase": "Succeeded"}, False),
        ("a", NAME, {**HELD, **CLAIMED}, False),
        ("b", NAME, HELD, False),
    ],
)
def test_a_label_stays_while_a_pod_may_hold_a_device_of_the_plugin(
    node: str, resource: str, status: dict[str, object], *, stays: bool
) -> None:
    scene = Scene()
    scene.dual_nodes = ()
    labelled = {"name": "a", "labels": {LABEL: "true"}}
    plugins = {"example.com/served": "2", "example.com/gone": "0"}
    scene.nodes.put({"metadata": labelled, "status": {"allocatable": plugins}})
    scene.pod("old", node, resource, **status)
    assert scene.reconcile() == {"a": {LABEL: "true"} if stays else {}}
    assert scene.reporter.codes == (["DualNodesHeld"] if stays else [])
    if stays:
        scene.reconcile()
        assert scene.reporter.codes == ["DualNodesHeld"]
        scene.pods.remove("old", "x")
        assert scene.reconcile() == {"a": {}}


@pytest.mark.parametrize("before", [{}, {LABEL: "true"}])
@pytest.mark.parametrize(("registered", "has_label"), [(1, False), (3, True)])
def test_a_pod_of_a_node_that_never_had_a_plugin_decides_no_label(
    before: dict[str, str], registered: int, *, has_label: bool
) -> None:
    """Any tenant can create one with a node; a node that is registered again can have had one."""
    scene = Scene()
    scene.dual_nodes = ()
    created = {"creationTimestamp": f"2026-01-01T00:00:0{registered}Z"}
    scene.nodes.put({"metadata": {"name": "a", "labels": before, **created}})
    scene.pod("p", "a", NAME, "2026-01-01T00:00:02Z", phase="Running")
    assert scene.reconcile() == {"a": {LABEL: "true"} if has_label else {}}
    assert scene.reporter.codes == (["DualNodesHeld"] if has_label else [])


@pytest.mark.parametrize(
    ("allocatable", "capacity", "stays"), [("0", "8", True), ("0", "0", False), ("8", "8", False)]
)
def test_a_label_stays_while_a_plugin_restarts_and_is_removed_if_slices_are_gone(
    allocatable: str, capacity: str, *, stays: bool
) -> None:
    scene = Scene()
    scene.dual_nodes, scene.publishing = (), {}
    status = {"allocatable": {NAME: allocatable, "cpu": "8"}, "capacity": {NAME: capacity}}
    scene.nodes.put({"metadata": {"name": "a", "labels": {LABEL: "true"}}, "status": status})
    scene.reconcile()
    scene.time += ABSENCE_SECONDS
    assert scene.reconcile() == {"a": {LABEL: "true"} if stays else {}}


def test_a_label_stays_while_slices_are_gone_and_a_pod_holds_a_device_of_the_plugin() -> None:
    scene = Scene()
    scene.dual_nodes, scene.publishing = (), {}
    status = {"allocatable": {NAME: "8"}, "capacity": {NAME: "8"}}
    scene.nodes.put({"metadata": {"name": "a", "labels": {LABEL: "true"}}, "status": status})
    scene.pod("old", "a", NAME, phase="Running")
    assert scene.reconcile() == {"a": {LABEL: "true"}}
    assert "the ResourceSlices of node a are gone, but 1 pod" in scene.reporter.findings[0].message
    scene.pods.remove("old", "x")
    scene.time += ABSENCE_SECONDS
    assert scene.reconcile() == {"a": {}}


def _node(name: str, allocatable: str, capacity: str | None = None, **more: str) -> Unstructured:
    capacity = allocatable if capacity is None else capacity
    status = {"allocatable": {NAME: allocatable, **more}, "capacity": {NAME: capacity, **more}}
    return {"metadata": {"name": name, "labels": {}}, "status": status}


# What a kubelet says of a plugin, one after the other, and whether the label goes with the last.
LIVES = {
    "the kubelet restarts": ([("8", "8"), ("0", "0")], False),
    "the kubelet restarts, and the plugin registers": ([("8", "8"), ("0", "0"), ("8", "8")], False),
    "the plugin stops": ([("8", "8"), ("0", "8")], False),
    "the plugin stops, and the kubelet forgets it": ([("8", "8"), ("0", "8"), ("0", "0")], True),
    "the plugin stops and returns, and the kubelet restarts": (
        [("0", "8"), ("8", "8"), ("0", "0")],
        False,
    ),
}


@BESIDE
@every_row("case", LIVES)
def test_the_label_stays_after_a_restart_of_the_kubelet_until_its_time_is_over(
    case: str, beside: dict[str, str]
) -> None:
    said, is_removed = LIVES[case]
    scene, labels = Scene(), {LABEL: "true"}
    scene.pod("nics", "a", EFA, phase="Running")
    driver = (clusters.slice_of("gpu.nvidia.com", "a", [clusters.gpu("gpu-0")]),)
    for allocatable, capacity in said:
        scene.time += ABSENCE_SECONDS / 2
        node = {**_node("a", allocatable, capacity, **beside), "kind": "Node", "apiVersion": "v1"}
        node["metadata"] |= {"labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"}
        scene.nodes.put(node)
        read = node_reader().read(node)
        assert isinstance(read, Node)
        scene.dual_nodes = gather_facts(FactsInput(driver, (), (read,))).dual_nodes
        labels = scene.reconcile()["a"]
        scene.time += ABSENCE_SECONDS / 2
        scene.reconcile()
    assert labels == ({} if is_removed else {LABEL: "true"})
    scene.time += ABSENCE_SECONDS
    is_gone = said[-1] == ("0", "0")
    assert scene.reconcile() == {"a": {} if is_gone else {LABEL: "true"}}


@pytest.mark.parametrize("before", [{}, {LABEL: "true"}])
def test_a_plugin_is_seen_to_stop_where_no_driver_publishes_yet(before: dict[str, str]) -> None:
    """A pod outlives the plugin, and the label goes with the pod."""
    scene, labels = Scene(), before
    scene.dual_nodes, scene.publishing = (), {"b": frozenset({"gpu.nvidia.com"})}
    for capacity, phase in (("8", "Running"), ("0", "Running"), ("0", "Failed")):
        node = _node("a", "0", capacity)
        node["metadata"]["labels"] = labels
        scene.nodes.put(node)
        scene.pod("old", "a", NAME, phase=phase)
        before, labels = labels, scene.reconcile()["a"]
    assert (before, labels) == ({LABEL: "true"}, {})


@every_row("case", LIVES)
def test_facts_are_gathered_again_when_a_kubelet_says_something_else(case: str) -> None:
    nodes = (msgspec.convert(_node("a", *amounts), WatchedNode) for amounts in LIVES[case][0])
    said = [each.fact_fields for each in nodes]
    assert all(before != after for before, after in itertools.pairwise(said))


def test_facts_are_gathered_again_when_a_kubelet_is_upgraded() -> None:
    node = _node("a", "8")
    said = []
    for version in ("v1.35.4", "v1.36.0"):
        node["status"]["nodeInfo"] = {"kubeletVersion": version}
        said.append(msgspec.convert(node, WatchedNode).fact_fields)
    assert said[0] != said[1]


def test_a_node_that_stopped_before_it_was_deleted_is_ignored() -> None:
    """Facts hear of it while its run is under way."""
    scene = Scene()
    answers = iter([(TWICE[0]._replace(stopped=True),)])
    scene.reconciler._dual_nodes = lambda: next(answers, ())  # noqa: SLF001
    assert scene.reconcile() == {}


def test_the_label_stays_while_a_driver_publishes_and_for_a_while_after() -> None:
    """A new generation in two slices is complete with the second."""
    pool = clusters.slice_of("gpu.nvidia.com", "a", [clusters.gpu("gpu-0")])
    scene = Scene(a={LABEL: "true"})
    scene.nodes.put(_node("a", "8") | {"metadata": {"name": "a", "labels": {LABEL: "true"}}})
    for slices, seconds, stays in (
        ([pool], 0, True),
        ([replace(pool, generation=2, slice_count=2)], 0, True),
        ([replace(pool, generation=2, slice_count=2)], ABSENCE_SECONDS, True),
        ([], ABSENCE_SECONDS - 1, True),
        ([], 1, False),
    ):
        scene.time += seconds
        objects = FactsInput(tuple(slices), (), (clusters.node("a", {NAME: 8}),))
        gathered = gather_facts(objects)
        scene.dual_nodes, scene.publishing = gathered.dual_nodes, gathered.publishing
        assert scene.reconcile() == {"a": {LABEL: "true"} if stays else {}}


def test_pods_that_hold_devices_of_a_plugin_that_stops_are_reported() -> None:
    scene = Scene()
    scene.dual_nodes = (DualNode("a", (NAME,), 8, stopped=True),)
    scene.nodes.put(_node("a", "0", "8"))
    scene.pod("old", "a", NAME, phase="Running")
    for _ in range(2):
        assert scene.reconcile() == {"a": {LABEL: "true"}}
    assert scene.reporter.codes == ["DualNodesHeld"]
    assert scene.reporter.gauges == {Gauge.DUAL_NODES: 0, Gauge.DUAL_NODE_IDLE_DEVICES: 0}


NO_NAMES: dict[str, dict[str, str]] = {"allocatable": {}, "capacity": {}}
PLUGINS = {
    "a plugin that is gone": (_node("x", "0"), True),
    "a plugin that is gone, and a driver publishes": (_node("a", "0"), True),
    "a removed name, and a driver publishes": ({"metadata": {"name": "a", "labels": {}}}, True),
    "a plugin that restarts beside a driver": (_node("a", "0", "8"), True),
    "a plugin that restarts": (_node("x", "0", "8"), False),
    "a plugin that serves": (_node("x", "8"), False),
    "no plugin and no driver": ({"metadata": {"name": "x", "labels": {}}}, False),
}


@BESIDE
@every_row("case", PLUGINS)
def test_a_node_gets_the_label_while_pods_outlive_its_plugin(
    case: str, beside: dict[str, str]
) -> None:
    node, is_labelled = PLUGINS[case]
    scene = Scene()
    name, scene.dual_nodes = node["metadata"]["name"], ()
    said = {key: {**names, **beside} for key, names in node.get("status", NO_NAMES).items()}
    scene.nodes.put({**node, "status": said})
    scene.pod("old", name, NAME, phase="Running")
    for _ in range(2):
        assert scene.reconcile() == {name: {LABEL: "true"} if is_labelled else {}}
        assert scene.reporter.codes == (["DualNodesHeld"] if is_labelled else [])
    scene.pods.remove("old", "x")
    scene.time += ABSENCE_SECONDS
    restarts = said["capacity"].get(NAME) == "8"
    assert scene.reconcile() == {name: {LABEL: "true"} if restarts and is_labelled else {}}


@BESIDE
def test_pods_of_a_node_are_listed_until_none_holds_a_device_and_again_after_the_plugin(
    beside: dict[str, str],
) -> None:
    scene = Scene()
    scene.dual_nodes = ()
    for allocatable, holds, lists, is_labelled in (
        ("0", False, True, False),
        ("0", True, False, False),  # no plugin gives devices to this pod
        ("8", True, False, False),
        ("0", True, True, True),
    ):
        scene.nodes.put(_node("x", allocatable, **beside))
        if holds:
            scene.pod("old", "x", NAME, phase="Running")
        before = len(scene.pods.requests)
        assert scene.reconcile() == {"x": {LABEL: "true"} if is_labelled else {}}
        assert (len(scene.pods.requests) > before) is lists


NIC = "example.com/nic"
_TARGET = Target(
    driver=DriverName("nics.example.com"), class_=ObjectName("nics"), resources=(ResourceName(NIC),)
)
MEANINGS = {
    "the configuration names it": make_context(Configuration(targets=(_TARGET,))),
    "a class maps it": make_context(
        Configuration(), Facts(classes=(ClassFacts("nics", extended=NIC),))
    ),
}


@every_row("case", MEANINGS)
@pytest.mark.parametrize("served", ["8", "0"])
def test_a_name_that_gets_a_meaning_later_labels_the_nodes_of_its_former_plugin(
    case: str, served: str
) -> None:
    """Its plugin is gone before or after it gets a meaning, and that of the GPUs before."""
    scene = Scene()
    scene.dual_nodes = ()
    scene.pod("old", "a", NIC, phase="Running")
    scene.nodes.put(_node("a", "0", **{NIC: served}))
    assert scene.reconcile() == {"a": {}}
    scene.context = MEANINGS[case]
    assert scene.reconcile() == {"a": {} if served == "8" else {LABEL: "true"}}
    scene.nodes.put(_node("a", "0", **{NIC: "0"}))
    assert scene.reconcile() == {"a": {LABEL: "true"}}


@every_row("case", MEANINGS)
def test_a_name_without_a_meaning_keeps_the_label_of_the_nodes_of_its_former_plugin(
    case: str,
) -> None:
    scene = Scene()
    scene.dual_nodes = ()
    scene.context, without = MEANINGS[case], scene.context
    scene.pod("old", "a", NIC, phase="Running")
    scene.nodes.put(_node("a", "0", **{NIC: "0"}))
    assert scene.reconcile() == {"a": {LABEL: "true"}}
    scene.context = without
    assert scene.reconcile() == {"a": {LABEL: "true"}}
    scene.pods.remove("old", "x")
    scene.time += ABSENCE_SECONDS
    assert scene.reconcile() == {"a": {}}


def test_no_node_is_labelled_where_no_driver_publishes_devices() -> None:
    scene = Scene()
    scene.dual_nodes, scene.publishing = (), {}
    scene.nodes.put(_node("x", "0"))
    scene.pod("old", "x", NAME, phase="Running")
    assert scene.reconcile() == {"x": {}}


def test_a_node_that_is_dual_again_before_the_write_keeps_its_label() -> None:
    """Its driver was away for a moment, and the label of another node was removed before."""
    scene = Scene(a={LABEL: "true"}, b={LABEL: "true"})
    allocatable = {NAME: "8"}
    status = {"allocatable": allocatable, "capacity": allocatable}
    scene.nodes.put({"metadata": {"name": "b", "labels": {LABEL: "true"}}, "status": status})
    scene.dual_nodes = ()

    def publish_again(*_: object) -> None:
        scene.dual_nodes = (DualNode("b", (NAME,), 8),)

    scene.reconcile()
    scene.time += ABSENCE_SECONDS
    scene.nodes.put({"metadata": {"name": "a", "labels": {LABEL: "true"}}})
    scene.nodes.before_write = publish_again
    assert scene.reconcile()["b"] == {LABEL: "true"}
