"""Scenarios with NVIDIA's own driver: the simulated driver publishes what the real one does."""

from e2e.controlplane.client import JSON
from e2e.drivers.compare import differences
from e2e.drivers.nvidia import FORMER, GPUS, NEWEST
from e2e.drivers.stage import MODES, DriverStage, with_drivers
from e2e.nodes import slices
from e2e.nodes.family import FAMILIES
from e2e.nodes.machine import Machine, machine, shapes
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

SHAPE = "dgx-a100"
NUMA = "attribute resource.kubernetes.io/numaNode (int)"


def published(nodes: DriverStage, machine: Machine) -> list[JSON]:
    """Return what the real driver publishes of a machine."""
    selector = f"spec.driver={GPUS},spec.nodeName={machine.name}"
    items: list[JSON] = nodes.client.get(slices.PATH, fieldSelector=selector)["items"]
    return items


def unlike(nodes: DriverStage, machine: Machine, mode: str, *, values: bool = False) -> list[str]:
    """Compare the simulated driver with the real one, where both publish a type of device.

    Which GPUs of a machine are partitioned differs, and so do the memory slices of partitions.
    """
    simulated = slices.objects(FAMILIES[GPUS].publish(machine, mode))
    lines = differences(simulated, published(nodes, machine), values=values)
    return [
        line
        for line in lines
        if line not in ("gpu: gone", "gpu: new") and "capacity memorySlice" not in line
    ]


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def nvidias_driver_publishes_what_the_simulated_one_does(stage: Stage) -> None:
    """Whole GPUs are equal in every value, shares and partitions in their form."""
    nodes = with_drivers(stage)
    whole = nodes.node("a", SHAPE, {GPUS: "full"})
    assert unlike(nodes, whole, "full", values=True) == []
    shared = nodes.node("b", SHAPE, {GPUS: "shares-4"})
    assert unlike(nodes, shared, "shares-4", values=True) == []
    parts = nodes.node("c", SHAPE, {GPUS: "static-mig"})
    assert unlike(nodes, parts, "static-mig") == []


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def nvidias_driver_publishes_each_machine_as_the_simulated_one(stage: Stage) -> None:
    """Each shape with GPUs of NVIDIA is equal in every value.

    Hopper has partitions on demand too; what has no partitions is shared.
    """
    nodes = with_drivers(stage)
    name = nodes.node("a", "cpu-only").name
    for shape in shapes():
        shown = machine(name, shape)
        if shown.product.get("vendor") == "nvidia":
            changeable = shown.product["architecture"] == "Hopper"
            shared = not shown.product["mig"]
            more = {"dynamic-mig": changeable, "shares-memory": shared}
            for mode in ("full", *(each for each, played in more.items() if played)):
                with nodes.running(shown, MODES[mode]):
                    assert unlike(nodes, shown, mode, values=True) == [], f"{shape}, {mode}"


@scenario("drivers", rig="nodes", needs=(FORMER,))
def nvidias_former_driver_publishes_no_numa_node(stage: Stage) -> None:
    """Whole GPUs and partitions have the form of the newest release but for one attribute."""
    nodes = with_drivers(stage)
    nodes.pin = FORMER
    whole = nodes.node("a", SHAPE, {GPUS: "full"})
    assert unlike(nodes, whole, "full", values=True) == [f"gpu: {NUMA} is gone"]
    parts = nodes.node("b", SHAPE, {GPUS: "static-mig"})
    assert unlike(nodes, parts, "static-mig") == [f"mig: {NUMA} is gone"]
