"""GPUs of a device plugin beside NICs of a driver: each request stays with who serves it."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from drawbridge.config.model import Configuration, Placement
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.device import Attribute, Device
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.slices import Slice
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.pods import translate
from tests.facts import clusters
from tests.tables import every_row
from tests.translate.worlds import slices_of_node

GPU, NIC, VF = "gpu.nvidia.com", "dra.net", "sriovnetwork.k8snetworkplumbingwg.io"
LEGACY, RDMA = "nvidia.com/gpu", "rdma/hca_shared_devices_a"
SHAPE: Final = "dgx-a100"


def class_of(name: str) -> DeviceClass:
    expression = f"device.driver == '{name}'"
    made = read_class(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
    )
    assert isinstance(made, DeviceClass)
    return made


def context_of(drivers: tuple[str, ...], placement: Placement) -> TranslationContext:
    """Return the context of a cluster whose only node has a plugin for GPUs and these drivers."""
    published = tuple(
        slice_
        for driver in drivers
        for slice_ in slices_of_node("a", SHAPE, driver, "full" if driver == GPU else "")
    )
    allocatable = {LEGACY: Quantity.of(8)} if GPU not in drivers else {}
    nodes = (Node("a", allocatable=allocatable),)
    classes = (class_of(GPU), class_of(NIC))
    configuration = Configuration(placement=placement)
    facts = gather_facts(FactsInput(published, classes, nodes), configuration).facts
    return make_context(configuration, facts)


def pod_of(*names: str) -> Any:  # noqa: ANN401  # JSON
    container = {"name": "main", "resources": {"limits": dict.fromkeys(names, "1")}}
    return {"metadata": {"name": "p", "namespace": "team"}, "spec": {"containers": [container]}}


@pytest.mark.parametrize("placement", [Placement.NATIVE, Placement.BRIDGE])
@every_row(
    ("drivers", "names", "classes", "codes"),
    [
        ((NIC,), (LEGACY,), [], {"LeftAsItIs"}),
        ((NIC,), (RDMA,), [NIC], {"ShareTakesWhole"}),
        ((NIC,), (LEGACY, RDMA), [NIC], {"LeftAsItIs", "ShareTakesWhole", "AlignmentLost"}),
        # With both drivers, a claim has both devices near each other.
        ((GPU, NIC), (LEGACY, RDMA), [GPU, NIC], {"ShareTakesWhole"}),
    ],
)
def test_a_name_of_the_plugin_stays_beside_a_claim(
    drivers: tuple[str, ...],
    names: tuple[str, ...],
    classes: list[str],
    codes: set[str],
    placement: Placement,
) -> None:
    translation = translate(pod_of(*names), context_of(drivers, placement), "team")
    assert sorted(translation.classes) == sorted(classes)
    told = {each.code for each in translation.findings if each.severity.name != "INFO"}
    assert told - {"DriverNotOwned"} == codes


def vfs(node: str, *pools: str) -> Slice:
    devices = tuple(
        Device(
            f"vf-{at}",
            {"vfID": Attribute(integer=at), **({"resourceName": Attribute(pool)} if pool else {})},
        )
        for at, pool in enumerate(pools)
    )
    return clusters.slice_of(VF, node, devices)


@pytest.mark.parametrize("placement", [Placement.NATIVE, Placement.BRIDGE])
@every_row(
    ("pools", "served", "code"),
    [
        # Only the plugin has devices of the pool.
        (("a",), "openshift.io/b", "LeftAsItIs"),
        (("a",), "mellanox.com/a", ""),
        (("a", "b"), "openshift.io/b", ""),
        # A device without a pool may be of any, and the pool of a node without one comes later.
        (("a", ""), "openshift.io/b", ""),
        ((), "openshift.io/b", "LeftAsItIs"),
        (("a",), "", ""),
    ],
)
def test_a_pool_that_only_a_plugin_serves_stays_with_it(
    pools: tuple[str, ...], served: str, code: str, placement: Placement
) -> None:
    names = {served: Quantity.of(8)} if served else {}
    nodes = (Node("a"), Node("b", allocatable=names))
    published = (vfs("a", *pools),) if pools else ()
    configuration = Configuration(placement=placement)
    facts = gather_facts(FactsInput(published, (class_of(VF),), nodes), configuration).facts
    name = served or "openshift.io/b"
    translation = translate(pod_of(name), make_context(configuration, facts))
    codes = {each.code for each in translation.findings}
    assert bool(translation.templates) is not bool(code)
    assert ("LeftAsItIs" in codes) is bool(code)


def test_pools_that_the_facts_omit_are_not_taken_for_unpublished() -> None:
    nodes = (Node("a"), Node("b", allocatable={"openshift.io/b": Quantity.of(8)}))
    objects = FactsInput((vfs("a", "a"),), (class_of(VF),), nodes)
    facts = replace(gather_facts(objects, Configuration()).facts, omitted={"products": 1})
    assert translate(pod_of("openshift.io/b"), make_context(Configuration(), facts)).templates


@pytest.mark.parametrize("placement", [Placement.NATIVE, Placement.BRIDGE])
@every_row(("published", "plugged"), [(3, 1), (1, 3)])
@every_row(
    ("names", "classes", "codes"),
    [
        # The nodes of the plugin have both.
        ((LEGACY, "openshift.io/b"), [], {"LeftAsItIs"}),
        ((LEGACY, "openshift.io/a"), [GPU, VF], {"LostInClaims"}),
        # No node has both, and no claim finds the pool.
        (("openshift.io/a", "openshift.io/b"), [VF], {"LeftAsItIs", "NoNodeOffersAll"}),
    ],
)
def test_a_claim_selects_no_pool_of_a_plugin_on_other_nodes(  # noqa: PLR0917  # a row
    names: tuple[str, ...],
    classes: list[str],
    codes: set[str],
    published: int,
    plugged: int,
    placement: Placement,
) -> None:
    drivers = [f"a{at}" for at in range(published)]
    plugin = {LEGACY: Quantity.of(8), "openshift.io/b": Quantity.of(8)}
    nodes = (
        *map(Node, drivers),
        *(Node(f"b{at}", allocatable=plugin) for at in range(plugged)),
    )
    slices = [vfs(node, "a") for node in drivers]
    for node in drivers:
        slices += slices_of_node(node, SHAPE, GPU, "full")
    configuration = Configuration(placement=placement)
    objects = FactsInput((*slices,), (class_of(GPU), class_of(VF)), nodes)
    facts = gather_facts(objects, configuration).facts
    translation = translate(pod_of(*names), make_context(configuration, facts))
    assert sorted(translation.classes) == classes
    told = {each.code for each in translation.findings if each.severity.name != "INFO"}
    assert codes <= told
    assert ("NoNodeOffersAll" in told) is ("NoNodeOffersAll" in codes)
