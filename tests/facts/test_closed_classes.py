"""Which classes have a closed fleet, as the facts show it."""

from msgspec.structs import replace

from drawbridge.config.model import Configuration, Fleet, Legacy
from drawbridge.config.string_formats import NetworkName, ObjectName, ResourceName
from drawbridge.dra.device import NodeSelector, NodeSelectorTerm, Requirement
from drawbridge.dra.families import FAMILIES
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.facts.gather import FactsInput, gather_facts
from tests.facts import clusters
from tests.tables import every_row

CLOSED_BASE = clusters.slice_of("gpu.nvidia.com", "n1", [clusters.gpu("gpu-0")])
ZONE_A = NodeSelector((NodeSelectorTerm((Requirement("zone", "In", ("a",)),)),))


def _slice_by_device(*nodes: str | None) -> Slice:
    """Return a slice with a device for each node; None is a zone without nodes."""
    devices = tuple(
        replace(clusters.gpu(f"gpu-{i}"), node_name=name, node_selector=None if name else ZONE_A)
        for i, name in enumerate(nodes)
    )
    return replace(
        CLOSED_BASE,
        name="s",
        pool="p",
        node_name=None,
        per_device_node_selection=True,
        devices=devices,
    )


@every_row(
    ("more", "nodes", "fleet", "closed"),
    [
        ((), (), (), True),
        ((replace(CLOSED_BASE, name="s", pool="p", slice_count=2),), (), (), False),
        ((replace(CLOSED_BASE, name="s", pool="p", slice_count=2, devices=()),), (), (), False),
        ((replace(CLOSED_BASE, name="s", pool="p", generation=1, slice_count=1),), (), (), True),
        (
            (
                replace(
                    CLOSED_BASE,
                    name="s",
                    pool="p",
                    node_name=None,
                    node_selector=ZONE_A,
                ),
            ),
            (),
            (),
            False,
        ),
        ((), (clusters.node("n1", {}, {"karpenter.sh/nodepool": "a"}),), (), False),
        ((), (clusters.node("n1", {}, {"karpenter": "a"}),), (), True),
        # A device plugin on a node without the driver, with it, stopped, and of other devices.
        ((), (clusters.node("n2", {"nvidia.com/gpu": "8"}),), (), False),
        ((), (clusters.node("n1", {"nvidia.com/gpu": "8"}),), (), True),
        ((), (clusters.node("n2", {"nvidia.com/gpu": "0"}),), (), False),
        ((), (clusters.node("n2", {"amd.com/gpu": "8"}),), (), True),
        ((), (clusters.node("n2", {"example.com/gpu": "8"}),), (), False),
        ((), (clusters.node("n2", {"cpu": "8"}),), (), True),
        (
            (),
            (clusters.node("n2", {"nvidia.com/gpu": "8"}),),
            (Fleet(class_=ObjectName("gpu"), closed=True),),
            True,
        ),
        # A node that is not ready, with devices, without them, and with settings.
        ((), (clusters.node("n1", {}, ready=False),), (), True),
        ((), (clusters.node("n2", {}, ready=False),), (), False),
        ((), (clusters.node("n2", {}),), (), True),
        ((_slice_by_device("n1", "n2"),), (clusters.node("n2", {}, ready=False),), (), True),
        (
            (replace(CLOSED_BASE, name="s", pool="p", node_name=None, all_nodes=True),),
            (clusters.node("n2", {}, ready=False),),
            (),
            False,
        ),
        (
            (),
            (clusters.node("n2", {}, ready=False),),
            (Fleet(class_=ObjectName("gpu"), closed=True),),
            True,
        ),
        # One device of a slice is for a known node, the other is not yet.
        ((_slice_by_device("n1", "n1"),), (), (), True),
        ((_slice_by_device("n1", None),), (), (), False),
        ((), (), (Fleet(class_=ObjectName("gpu"), closed=False),), False),
        ((), (), (Fleet(class_=ObjectName("gpu"), expected_shapes=("8 gpu",)),), False),
        ((), (), (Fleet(class_=ObjectName("other"), closed=False),), True),
    ],
)
def test_a_class_is_closed_if_no_other_devices_can_come(
    more: tuple[Slice, ...], nodes: tuple[Node, ...], fleet: tuple[Fleet, ...], *, closed: bool
) -> None:
    offered = clusters.device_class("gpu", "example.com/gpu")
    objects = FactsInput((CLOSED_BASE, *more), (offered,), nodes)
    facts = gather_facts(objects, Configuration(fleet=fleet)).facts
    (row,) = (each for each in facts.classes if each.name == "gpu")
    assert row.closed is closed


def test_no_class_is_closed_while_there_is_no_memory_for_a_slice() -> None:
    offered = clusters.device_class("gpu", "example.com/gpu")
    objects = FactsInput((CLOSED_BASE,), (offered,))
    for left_out, closed in ((0, True), (1, False)):
        facts = gather_facts(objects._replace(left_out=left_out)).facts
        assert [each.closed for each in facts.classes if each.name == "gpu"] == [closed]


OWN = Configuration(
    legacy=Legacy(
        renames={ResourceName("example.com/fast"): ResourceName("vpc.amazonaws.com/efa")},
        networks={NetworkName("default/slow"): ResourceName("example.com/slow")},
    )
)
OF_FAMILIES = [
    (family.driver, pattern.replace("*", "a").replace("?", "c"))
    for family in FAMILIES
    for pattern in family.plugin_names
    if not pattern.startswith("!")
]


@every_row(
    ("driver", "name"),
    [
        *OF_FAMILIES,
        ("dra.net", "example.com/fast"),
        ("sriovnetwork.k8snetworkplumbingwg.io", "example.com/slow"),
    ],
)
@every_row(("node", "closed"), [("n1", True), ("n2", False)])
def test_a_class_is_open_while_a_node_has_a_plugin_of_its_family_and_not_the_driver(
    driver: str, name: str, node: str, *, closed: bool
) -> None:
    published = clusters.slice_of(driver, "n1", [clusters.gpu("d-0")])
    offered = clusters.device_class("c", cel=f'device.driver == "{driver}"')
    nodes = (clusters.node("n1", {}), clusters.node(node, {name: "8"}))
    facts = gather_facts(FactsInput((published,), (offered,), nodes[node == "n1" :]), OWN).facts
    (row,) = (each for each in facts.classes if each.name == "c")
    assert row.devices
    assert row.closed is closed


def test_each_family_has_names_of_plugins() -> None:
    assert {each.driver for each in FAMILIES} == {driver for driver, _ in OF_FAMILIES}
