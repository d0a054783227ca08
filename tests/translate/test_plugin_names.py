"""What a dialect translates to a driver is a name of that driver, so that its node is dual."""

import pytest
from hypothesis import given
from hypothesis.strategies import lists, sampled_from

from drawbridge.config.model import Configuration, Legacy
from drawbridge.config.string_formats import NetworkName, ResourceName
from drawbridge.dra.families import FAMILIES
from drawbridge.facts.families import known_families
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.withheld import find_withheld_drivers
from drawbridge.translate.context import make_context
from drawbridge.translate.legacy.read import find_dialects, read_pod
from drawbridge.translate.pods import translate
from tests.facts import clusters

OWN = Configuration(
    legacy=Legacy(
        renames={
            ResourceName("example.com/gpu"): ResourceName("nvidia.com/gpu"),
            ResourceName("example.com/memory"): ResourceName("nvidia.com/gpumem"),
            ResourceName("example.com/fast"): ResourceName("example.com/pool"),
        },
        networks={
            NetworkName("default/fast"): ResourceName("example.com/pool"),
            # Its word is that of an accelerator; what the configuration says counts.
            NetworkName("default/qat"): ResourceName("intel.com/qat_net"),
        },
    )
)
# One or more names of each dialect that reads resource names. All containers share the devices of
# `rdma/*`, and monitoring takes no device from others.
NAMES = """
    nvidia: nvidia.com/gpu nvidia.com/mig-1g.10gb nvidia.com/pgpu example.com/gpu
    nos: nvidia.com/gpu-10gb
    hami: nvidia.com/gpumem nvidia.com/gpucores example.com/memory
    amd: amd.com/gpu amd.com/cpx_nps4
    intel: gpu.intel.com/i915 gpu.intel.com/xe intel.com/gpu
    koordinator: koordinator.sh/gpu koordinator.sh/gpu-memory koordinator.sh/rdma
    volcano: volcano.sh/vgpu-number volcano.sh/vgpu-memory volcano.sh/gpu-number
    volcano: volcano.sh/gpu-memory
    aliyun: aliyun.com/gpu-mem
    rdma: vpc.amazonaws.com/efa vke.volcengine.com/rdma nvidia.com/rdma-vf
    rdma: networking.gke.io.networks/rdma-0
    sriov: openshift.io/a mellanox.com/cx5 intel.com/sriov_a nvidia.com/hostdev example.com/pool
    sriov: example.com/fast intel.com/qat_net
"""
ROWS = [
    (dialect, name)
    for line in NAMES.split("\n")
    for dialect, _, names in [line.strip().partition(": ")]
    for name in names.split()
]


def find_drivers(name: str) -> set[str]:
    """Return the drivers of the claims that replace a request for a resource."""
    containers = [{"name": "c", "resources": {"limits": {name: "100" if "koord" in name else "1"}}}]
    pod = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    classes = translate(pod, make_context(OWN)).classes
    return {family.driver for family in FAMILIES if {*family.classes} & {*classes}}


@pytest.mark.parametrize(("dialect", "name"), ROWS)
def test_a_node_with_a_name_that_is_translated_to_its_driver_is_dual(
    dialect: str, name: str
) -> None:
    pod = {"spec": {"containers": [{"resources": {"limits": {name: "100"}}}]}}
    assert dialect in read_pod(pod, OWN).dialects
    drivers = find_drivers(name)
    assert drivers
    node = clusters.node("a", {name: 1})
    assert drivers <= find_withheld_drivers(node, known_families(OWN), {})
    for driver in drivers:
        slices = (clusters.slice_of(driver, "a", [clusters.gpu("d-0")]),)
        gathered = gather_facts(FactsInput(slices, (), (node,)), OWN)
        assert [each.names for each in gathered.dual_nodes] == [(name,)]


DOMAINS = ("mellanox.com", "openshift.io", "intel.com", "nvidia.com")
PARTS = [
    "intel_",
    "sriov",
    "netdevice",
    "dpdk",
    "vfio",
    "rdma",
    "nic",
    "vf",
    "hostdev",
    "mlnx",
    "_",
    "-",
    "a",
]


@given(sampled_from(DOMAINS), lists(sampled_from(PARTS), min_size=1, max_size=4))
def test_each_pool_of_network_functions_is_one_of_their_driver(
    domain: str, parts: list[str]
) -> None:
    name = f"{domain}/{''.join(parts)}"
    drivers = find_withheld_drivers(clusters.node("a", {name: 1}), known_families(OWN), {})
    assert ("sriov" in find_dialects(name)) <= ("sriovnetwork.k8snetworkplumbingwg.io" in drivers)
