"""Scenarios with drivers of others: which allocations a driver prepares that no scheduler writes.

One scenario for each driver, with a line for each row of the table in e2e/drivers/README.md. The
scheduler is asked first: it never allocates the device in the ordinary way.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import starmap

from e2e.controlplane.client import JSON
from e2e.drivers.nvidia import FORMER, GPUS, NEWEST, Settings
from e2e.drivers.others import CPU, CPU_PIN, EXAMPLE, EXAMPLE_PIN, cpu_driver, example_driver
from e2e.drivers.program import DriverProgram
from e2e.drivers.stage import DriverStage, with_drivers
from e2e.scenarios import forged
from e2e.scenarios.drivers_others import define_class
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

MIG = "mig.nvidia.com"
HOST = "kubernetes.io/hostname"
DYNAMIC = Settings(gates=("DynamicMIG=true",))
SHARES = Settings(gates=("ConsumableShares=true",), options=("--consumable-shares=4",))
# What a driver says that refuses nothing.
RUNS = ""


@dataclass(frozen=True)
class Scene:
    """One program on its node, the class of its devices, and what a claim takes of a shared one."""

    stage: DriverStage
    program: DriverProgram
    device_class: str
    amounts: Mapping[str, str] = field(default_factory=dict)

    def asked(self, *expressions: str, device_class: str = "") -> JSON:
        """Return a claim for one device."""
        more = {"capacity": {"requests": dict(self.amounts)}} if self.amounts else {}
        return claim_spec(request("gpu", device_class or self.device_class, *expressions, **more))

    def exactly(self, device: str) -> JSON:
        """Return a claim for the device with these attributes."""
        published = next(one for one in self.program.devices() if one["name"] == device)
        return self.asked(*starmap(self._equal, published["attributes"].items()))

    def _equal(self, name: str, attribute: JSON) -> str:
        domain, _, key = name.rpartition("/")
        ((kind, value),) = attribute.items()
        text = json.dumps(value)
        wanted = f"semver({text})" if kind == "version" else text
        own = f"device.attributes['{domain or self.program.plan.driver}']"
        return f"'{key}' in {own} && {own}.{key} == {wanted}"

    def pod(self, name: str, spec: JSON) -> None:
        """Create a pod with a claim for the scheduler, on this node."""
        self.stage.claim(name, spec)
        selector = {**self.stage.selector, HOST: self.program.node.name}
        self.stage.pod(name, claims={"gpu": name}, nodeSelector=selector)

    def held(self, name: str, spec: JSON) -> JSON:
        """Let the scheduler allocate a claim, and a pod run with it; return its device."""
        self.pod(name, spec)
        self.stage.wait_running(name)
        (device,) = self.stage.allocated(name)
        return device

    def planted(self, name: str, device: JSON, words: str) -> list[str]:
        """Allocate a device by hand, and see whether its pod runs; return what it has then."""
        forged.play(self.stage, name, forged.Forgery(self.program.node.name, (device,)))
        if words:
            self.stage.wait_refused(name, words)
            has = []
        else:
            self.stage.wait_running(name)
            has = self.stage.lines(name)
        self.stage.delete_pod(name)
        return has

    def forged(self, device: str, pool: str = "", **more: object) -> JSON:
        """Return a device of this driver, of the node's own pool unless another is named."""
        return forged.device(
            self.program.plan.driver, pool or self.program.node.name, device, **more
        )


def _held_by_another(scene: Scene, holder: str, wanted: str, words: str) -> None:
    """Ask the scheduler for a device that a holder excludes, plant it, and let the holder go.

    The scheduler gives it then, so nothing but the holder was the reason that it did not before.
    """
    scene.pod("asked", scene.exactly(wanted))
    scene.stage.wait_unschedulable("asked")
    scene.planted("thief", scene.forged(wanted), words)
    scene.stage.delete_pod(holder)
    scene.stage.wait_running("asked")
    assert [one["device"] for one in scene.stage.allocated("asked")] == [wanted]
    for name in ("asked", "thief", holder):
        scene.stage.client.delete(scene.stage.claim_path(name))
    scene.stage.delete_pod("asked")


def _taken(scene: Scene, words: str) -> None:
    """A whole device that another claim has."""
    own = scene.held("own", scene.asked())
    _held_by_another(scene, "own", own["device"], words)


def _parent(scene: Scene, words: str, part: JSON, whole: Callable[[str], str]) -> None:
    """The whole device that a partition in use is of."""
    small = scene.held("part", part)
    _held_by_another(scene, "part", whole(small["device"]), words)


def _share(scene: Scene) -> tuple[list[str], list[str]]:
    """The share of another claim runs; return what both containers have."""
    own, other = (scene.held(name, scene.asked()) for name in ("share", "next"))
    assert own["shareID"] != other["shareID"]
    scene.stage.delete_pod("next")
    same = {key: own[key] for key in ("shareID", "consumedCapacity")}
    stolen = scene.planted("stolen", scene.forged(own["device"], **same), RUNS)
    return scene.stage.lines("share"), stolen


def _foreign(scene: Scene, words: str, other: DriverProgram, device: str) -> None:
    """A device of another node's pool, by a name that this node's pool has too."""
    elsewhere = Scene(scene.stage, other, scene.device_class).exactly(device)
    scene.pod("far", elsewhere)
    scene.stage.wait_unschedulable("far")
    scene.planted("foreign", scene.forged(device, other.node.name), words)


# --- NVIDIA --------------------------------------------------------------------------------------


def _play_nvidia(stage: Stage, pin: str) -> DriverStage:
    nodes = with_drivers(stage)
    nodes.pin = pin
    parted, whole = nodes.node("a", "hgx-h100"), nodes.node("b", "lab-2g2n")
    scene = Scene(nodes, nodes.install(parted, DYNAMIC), GPUS)
    _taken(scene, "already allocated to different claim")
    part = scene.asked(f"device.attributes['{GPUS}'].profile == '1g.10gb'", device_class=MIG)
    _parent(scene, RUNS, part, lambda device: device.split("-mig")[0])
    _foreign(scene, RUNS, nodes.install(whole, Settings()), "gpu-1")
    return nodes


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def nvidias_driver_refuses_only_whole_devices_of_other_claims(stage: Stage) -> None:
    """It prepares the GPU under a partition, a share of another claim, and a foreign device."""
    nodes = _play_nvidia(stage, NEWEST)
    driver = nodes.install(nodes.node("c", "lab-2g2n"), SHARES)
    _share(Scene(nodes, driver, GPUS, {"shares": "1"}))


@scenario("drivers", rig="nodes", needs=(FORMER,))
def nvidias_former_driver_refuses_only_whole_devices_of_other_claims(stage: Stage) -> None:
    """It prepares the GPU under a partition, and a foreign device; it has no shares."""
    _play_nvidia(stage, FORMER)


# --- the example driver and the driver for processors --------------------------------------------


@scenario("drivers", rig="nodes", needs=(EXAMPLE_PIN,))
def the_example_driver_refuses_nothing(stage: Stage) -> None:
    """It prepares what another claim has: a device, the GPU of its partition, and its share."""
    nodes = with_drivers(stage)
    define_class(nodes, EXAMPLE)
    first, second, third = (nodes.node(suffix, "lab-2g2n") for suffix in ("a", "b", "c"))
    whole = Scene(nodes, example_driver(nodes, first), EXAMPLE)
    split = Scene(nodes, example_driver(nodes, second, "--gpu-partitions=2"), EXAMPLE)
    shared = example_driver(nodes, third, "--gpu-allow-multiple-allocations")
    _taken(whole, RUNS)
    _foreign(whole, RUNS, shared, "gpu-1")
    part = split.asked(f"'partition' in device.attributes['{EXAMPLE}']")
    _parent(split, RUNS, part, lambda device: f"{device.split('-partition')[0]}-full")
    _share(Scene(nodes, shared, EXAMPLE, {"memory": "1Gi", "compute": "1"}))


@scenario("drivers", rig="nodes", needs=(CPU_PIN,))
def the_driver_for_processors_counts_its_processors(stage: Stage) -> None:
    """It refuses a processor of another claim, and gives other processors for the same share."""
    nodes = with_drivers(stage)
    define_class(nodes, CPU)
    first, second, third = (nodes.node(suffix, "lab-2g2n") for suffix in ("a", "b", "c"))
    scene = Scene(nodes, cpu_driver(nodes, first), CPU)
    grouped = cpu_driver(nodes, second, "--cpu-device-mode=grouped")
    other = cpu_driver(nodes, third)
    _taken(scene, "overlapping device assignment")
    own, stolen = _share(Scene(nodes, grouped, CPU, {f"{CPU}/cpu": "1"}))
    assert _processors(own).isdisjoint(_processors(stolen)), (own, stolen)
    # Processors of the same number have the same name and attributes on every node.
    far = scene.forged(other.devices()[0]["name"], other.node.name)
    scene.planted("alike", far, RUNS)
    _foreign(scene, "not found in device to CPU ID map", grouped, grouped.devices()[0]["name"])


def _processors(lines: list[str]) -> set[str]:
    return {line for line in lines if line.startswith("Cpus_allowed_list:")}
