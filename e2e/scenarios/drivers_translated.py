"""Scenarios with NVIDIA's own driver: legacy pods are translated, and have what they asked for.

The cases are those of translated.yaml that this driver can serve; Drawbridge runs as pods. NVIDIA's
program publishes the devices, prepares the claims and injects the device nodes.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from e2e.drivers.nvidia import GPUS, NEWEST, PLUGIN_PIN
from e2e.drivers.program import SLICES
from e2e.drivers.stage import DriverStage, with_drivers
from e2e.realnodes.installation import PodInstallation, installed_as_pods
from e2e.scenarios import holdings, node_translated, translated
from e2e.scenarios.holdings import ExpectedPods
from e2e.scenarios.node_translated import CONFIGURED_SECONDS
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.translated import ManifestCase

CASES = (
    "nvidia",
    "nvidia-partitions-made-on-demand",
    "nvidia-init-and-sidecar",
    "nvidia-left-to-a-class",
    "nvidia-replicas-refused",
    "nvidia-replicas-left",
    "nvidia-replicas-as-shares",
    "nvidia-product-with-parentheses",
    "nvidia-node-labels",
    "kai",
    # NICs are those of the simulated driver.
    "koordinator",
    "koordinator-one-nic-a-root",
    "koordinator-by-numa-node",
    "koordinator-partitions-honored",
    "rdma-of-a-cloud",
)
ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"
FOUR = ("a", "b", "c", "d")
# The kinds of devices that NVIDIA's program publishes.
KINDS = ("gpu", "mig")


def play(case: ManifestCase, stage: Stage) -> None:
    """Serve a case in native placement."""
    nodes = with_drivers(stage)
    serve(case, nodes, installed_as_pods(nodes))


def serve(
    case: ManifestCase,
    nodes: DriverStage,
    cluster: PodInstallation,
    check: Callable[[JSON], None] = lambda _: None,
) -> None:
    """Serve a case as real nodes do, and compare what each container sees."""

    def wait(name: str) -> JSON:
        nodes.wait(f"{name} runs", partial(_runs, nodes, name), CONFIGURED_SECONDS)
        return nodes.get_pod(name)

    def check_all(pods: ExpectedPods, pod: JSON) -> None:
        _check_served(nodes, pods, pod)
        check(pod)

    node_translated.serve(case, nodes, cluster, wait, check_all)


def _check_served(nodes: DriverStage, pods: ExpectedPods, pod: JSON) -> None:
    """Check what a pod has: units of the device plugin, or devices of the driver."""
    name = pod["metadata"]["name"]
    assert pod["spec"]["nodeName"] in map(nodes.node_name, pods.at)
    units = sum((Counter(one.units) for one in pods.containers.values()), Counter())
    if units:
        assert nodes.check_units(name) == units
    else:
        _check_places(nodes, pods, pod, nodes.check_devices(name))
        _check_asked(nodes, pods, pod)


def _check_places(
    nodes: DriverStage, pods: ExpectedPods, pod: JSON, results: Iterable[JSON]
) -> None:
    """Check that GPUs and network interfaces are on the same PCIe roots, or NUMA nodes."""
    on_node = f"spec.nodeName={pod['spec']['nodeName']}"
    devices = {
        device["name"]: device["attributes"]
        for one in nodes.client.get(SLICES, fieldSelector=on_node)["items"]
        for device in one["spec"].get("devices", ())
    }
    for count, attribute in ((pods.roots, ROOT), (pods.numa, NUMA)):
        if not count:
            continue
        places: dict[str, set[str]] = {}
        for result in results:
            place = str(devices[result["device"]][attribute])
            places.setdefault(result["driver"], set()).add(place)
        assert all(len(one) == count for one in places.values()), places
        assert len(set().union(*places.values())) == count, places


def _runs(nodes: DriverStage, name: str) -> bool:
    return bool(nodes.get_pod(name).get("status", {}).get("phase") == "Running")


def _check_asked(nodes: DriverStage, pods: ExpectedPods, pod: JSON) -> None:
    """Check the kinds, profiles and consumed capacities that the case expects."""
    published = {one["name"]: one for one in nodes.drivers[pod["spec"]["nodeName"]].devices()}
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        wanted = pods.containers[container["name"]]
        mine = [
            result
            for claim, request in holdings.uses(pod, container)
            for result in nodes.allocated(claim)
            if request in ("", result["request"].partition("/")[0]) and result["driver"] == GPUS
        ]
        published_as = [published[result["device"]]["attributes"] for result in mine]
        kinds = Counter(attributes["type"]["string"] for attributes in published_as)
        expected = {kind: count for kind, count in wanted.devices.items() if kind in KINDS}
        assert kinds == expected, f"{container['name']}: {mine}"
        profiles = {attributes.get("profile", {}).get("string", "") for attributes in published_as}
        assert profiles <= {wanted.profile}, f"{container['name']}: {profiles}"
        for result in mine:
            assert result.get("consumedCapacity", {}).keys() == wanted.consumed.keys(), result


def _register(case: ManifestCase) -> None:
    def play_it(stage: Stage) -> None:
        play(case, stage)

    play_it.__name__ = f"nvidias_driver_serves_{case.name}".replace("-", "_")
    play_it.__doc__ = case.shows
    plugin = (PLUGIN_PIN,) if any(one.plugins for one in case.nodes.values()) else ()
    # A case with more nodes than the others has a rig of its own.
    names = FOUR if len(case.nodes) == len(FOUR) else ()
    scenario("drivers", rig="nodes", needs=(NEWEST, *plugin), nodes=names)(play_it)


_cases = {case.name: case for case in translated.cases()}
for _name in CASES:
    _register(_cases[_name])
