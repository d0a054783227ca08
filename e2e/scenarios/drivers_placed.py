"""Scenarios with NVIDIA's own driver and bridge placement: each mode, configuration and request.

Drawbridge's allocator chooses the devices, NVIDIA's program prepares them, and a container prints
what it has. One node is owned, and the driver runs on it in one mode after the other. The cases of
translated.yaml follow, on up to four nodes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from e2e.controlplane.client import JSON
from e2e.drivers.nvidia import GPUS, LEGACY, NEWEST, PLUGIN_PIN, Settings
from e2e.drivers.stage import MODES, DriverStage, with_drivers
from e2e.nodes.machine import machine
from e2e.realnodes.product import SCHEDULER
from e2e.runner import print_line
from e2e.scenarios import holdings, translated
from e2e.scenarios.drivers_bridge import installed_with_bridge, place
from e2e.scenarios.drivers_configured import SHARING, config
from e2e.scenarios.drivers_translated import FOUR, serve
from e2e.scenarios.node_scheduler import MARK
from e2e.scenarios.objects import RESOURCE, claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.translated import ManifestCase

SHAPE = "lab-2g2n"
SECONDS = 90.0
OURS = "drawbridge"
CLASS = f"{RESOURCE}/deviceclasses/{GPUS}"


def _types(nodes: DriverStage, results: list[JSON]) -> Counter[str]:
    """Count the profiles of partitions, and the types of other devices."""
    (node,) = {one["pool"] for one in results}
    published = {one["name"]: one["attributes"] for one in nodes.drivers[node].devices()}
    devices = (published[one["device"]] for one in results)
    return Counter(str((one.get("profile") or one["type"])["string"]) for one in devices)


def _place_claim(nodes: DriverStage, name: str, spec: JSON) -> list[JSON]:
    """Let Drawbridge allocate a claim of the user's own, and check what the container has."""
    nodes.template(name, spec)
    nodes.pod(name, templates={"gpu": name}, schedulerName=OURS)

    def runs() -> bool:
        return bool(nodes.get_pod(name)["status"].get("phase") == "Running")

    nodes.wait(f"{name} runs", runs, SECONDS)
    claim = nodes.get_claim(nodes.generated_claim(name))
    assert MARK in claim["metadata"]["annotations"], claim["metadata"]
    return nodes.check_devices(name)


# --- one function for each mode ------------------------------------------------------------------


def _whole(nodes: DriverStage) -> None:
    """Several, one of a prioritized list, and those of a class with an extended resource name."""
    several = place(nodes, "several", LEGACY, 2)
    assert len({one["device"] for one in several}) == 2
    nodes.delete_pod("several")
    choices = [
        {"name": "nine", "deviceClassName": GPUS, "count": 9},
        {"name": "one", "deviceClassName": GPUS, "count": 1},
    ]
    (chosen,) = _place_claim(nodes, "first", claim_spec({"name": "gpu", "firstAvailable": choices}))
    assert chosen["request"] == "gpu/one"
    before = nodes.client.get(CLASS)["spec"].get("extendedResourceName")
    nodes.client.patch(CLASS, {"spec": {"extendedResourceName": LEGACY}})
    try:
        (served,) = place(nodes, "named", LEGACY)
    finally:
        nodes.client.patch(CLASS, {"spec": {"extendedResourceName": before}})
    assert served["device"] != chosen["device"]


def _static_mig(nodes: DriverStage) -> None:
    """Two partitions that an administrator made, and the GPU that is not in MIG mode."""
    parts = place(nodes, "parts", "nvidia.com/mig-1g.5gb", 2)
    assert _types(nodes, parts) == {"1g.5gb": 2}
    half = place(nodes, "half", "nvidia.com/mig-3g.20gb")
    assert _types(nodes, half) == {"3g.20gb": 1}
    assert _types(nodes, place(nodes, "other", LEGACY)) == {"gpu": 1}


def _shares(nodes: DriverStage) -> None:
    """Four shares of each of two GPUs; the ninth waits for one that is released."""
    capacity = {"requests": {"shares": "1"}}
    spec = claim_spec(request("gpu", GPUS, capacity=capacity))
    taken = [_place_claim(nodes, f"share-{number}", spec)[0] for number in range(8)]
    assert len({one["shareID"] for one in taken}) == len(taken)
    assert set(Counter(one["device"] for one in taken).values()) == {4}
    nodes.template("ninth", spec)
    nodes.pod("ninth", templates={"gpu": "ninth"}, schedulerName=OURS)
    nodes.wait_unschedulable("ninth")
    nodes.delete_pod("share-0")
    nodes.wait_running("ninth")
    (last,) = nodes.check_devices("ninth")
    assert last["device"] == taken[0]["device"]


def _sharing(nodes: DriverStage) -> None:
    """An interval reaches nvidia-smi, and a daemon of MPS its container."""
    (driver,) = nodes.drivers.values()
    uuids = {f"gpu-{gpu.index}": gpu.uuid for gpu in driver.machine.gpus}
    sliced = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}}
    spec = claim_spec(request("gpu", GPUS), config=[config("GpuConfig", sharing=sliced)])
    (short,) = _place_claim(nodes, "sliced", spec)
    asked = f"compute-policy -i {uuids[short['device']]} --set-timeslice 1"
    assert asked in driver.root.asked(), driver.root.asked()
    limits = {"defaultActiveThreadPercentage": 50}
    sharing = {"strategy": "MPS", "mpsConfig": limits}
    spec = claim_spec(request("gpu", GPUS), config=[config("GpuConfig", sharing=sharing)])
    (daemon,) = _place_claim(nodes, "mps", spec)
    assert f"-i {uuids[daemon['device']]} -c EXCLUSIVE_PROCESS" in driver.root.asked()
    assert "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps" in nodes.lines("mps")


@dataclass(frozen=True)
class Part:
    """What is played with the driver in one mode."""

    settings: Settings
    play: Callable[[DriverStage], None]


PARTS: Mapping[str, Part] = {
    "whole": Part(MODES["full"], _whole),
    "static MIG": Part(MODES["static-mig"], _static_mig),
    "shares": Part(MODES["shares-4"], _shares),
    "configurations": Part(SHARING, _sharing),
}


@scenario("drivers", rig="nodes", needs=(NEWEST, SCHEDULER))
def nvidias_driver_prepares_each_mode_that_the_allocator_placed(stage: Stage) -> None:
    """Whole, static MIG, shares, time-slicing, MPS, a prioritized list, and a class's name."""
    nodes = with_drivers(stage)
    owned = nodes.node("a", SHAPE).name
    nodes.enter(installed_with_bridge(nodes, owned))
    for name, part in PARTS.items():
        with nodes.running(machine(owned, SHAPE), part.settings):
            part.play(nodes)
            nodes.end_pods()
            nodes.wait_unprepared(owned)
        print_line(f"      {name} went all the way")


# --- the cases of the dialect --------------------------------------------------------------------

# By the number of nodes that are owned, because a node that was owned keeps its taint for a while.
CASES = (
    "nvidia-replicas-refused",
    "nvidia-replicas-left",
    "nvidia-partitions-made-on-demand",
    "nvidia-init-and-sidecar",
    "nvidia-replicas-as-shares",
    "nvidia-product-with-parentheses",
    "nvidia",
    "nvidia-node-labels",
)
OWN = {"metadata": {"labels": {"pool": "bridge"}}}


def _own(nodes: DriverStage, case: ManifestCase) -> None:
    """Label the nodes of the case that have the driver, which come first."""
    for suffix in sorted(case.nodes, key=lambda one: GPUS not in case.nodes[one].drivers):
        name = nodes.node_name(suffix)
        if GPUS in case.nodes[suffix].drivers:
            nodes.client.patch(f"/api/v1/nodes/{name}", OWN)


def _check_placed(nodes: DriverStage, pod: JSON) -> None:
    """Check that Drawbridge allocated what a pod has, unless it stays with the plugin."""
    claims = holdings.claims(pod).values()
    assert pod["spec"]["schedulerName"] == (OURS if claims else "default-scheduler"), pod["spec"]
    for name in claims:
        assert MARK in nodes.get_claim(name)["metadata"]["annotations"], name


@scenario("drivers", rig="nodes", needs=(NEWEST, PLUGIN_PIN, SCHEDULER), nodes=FOUR)
def nvidias_driver_serves_the_dialect_in_bridge_placement(stage: Stage) -> None:
    """Every case of the dialect: what the allocator places, what stays, and what is refused."""
    nodes = with_drivers(stage)
    cluster = nodes.enter(installed_with_bridge(nodes, nodes.rig.names[0]))
    cases = {case.name: case for case in translated.cases()}
    for name in CASES:
        with nodes.part():
            _own(nodes, cases[name])
            serve(cases[name], nodes, cluster, partial(_check_placed, nodes))
            nodes.end_pods()
            for node in nodes.drivers:
                nodes.wait_unprepared(node)
        print_line(f"      {name} went all the way")
