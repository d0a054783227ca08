"""Scenarios with NVIDIA's own driver: whole GPUs, from the slices to the container and back.

Both releases publish and prepare the same; what differs is in the page of results.
"""

from e2e.drivers.nvidia import FORMER, GPUS, NEWEST
from e2e.drivers.stage import DriverStage, with_drivers
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

SHAPE = "dgx-a100"
# What each release says of a GPU beside what both say.
NUMA = "resource.kubernetes.io/numaNode"


def _check_published(nodes: DriverStage, node: str) -> None:
    """Check that the driver publishes the machine that it was shown."""
    driver = nodes.drivers[node]
    devices = {one["name"]: one for one in driver.devices()}
    assert set(devices) == {f"gpu-{gpu.index}" for gpu in driver.machine.gpus}
    for gpu in driver.machine.gpus:
        attributes = devices[f"gpu-{gpu.index}"]["attributes"]
        assert attributes["uuid"] == {"string": gpu.uuid}
        assert attributes["productName"] == {"string": driver.machine.product["name"]}
        assert attributes["resource.kubernetes.io/pcieRoot"] == {"string": gpu.root}
        wanted = {"int": gpu.numa} if nodes.pin == NEWEST else None
        assert attributes.get(NUMA) == wanted, attributes


def _play(stage: Stage, pin: str) -> None:
    nodes = with_drivers(stage)
    nodes.pin = pin
    node = nodes.node("a", SHAPE, {GPUS: "full"}).name
    _check_published(nodes, node)
    nodes.template("two", claim_spec(request("gpu", GPUS, count=2)))
    nodes.run_pod("train", templates={"gpu": "two"})
    taken, other = nodes.check_devices("train")
    assert taken["device"] != other["device"]
    nodes.delete_pod("train")
    nodes.wait_unprepared(node)


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def nvidias_driver_prepares_whole_gpus(stage: Stage) -> None:
    """Two GPUs of a claim are in the container, and released with its pod."""
    _play(stage, NEWEST)


@scenario("drivers", rig="nodes", needs=(FORMER,))
def nvidias_former_driver_prepares_whole_gpus(stage: Stage) -> None:
    """Two GPUs of a claim are in the container, and released with its pod."""
    _play(stage, FORMER)
