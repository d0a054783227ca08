"""Scenarios with two releases of NVIDIA's driver on one node: an upgrade, a way back, and both.

They use the same sockets, checkpoint and slice, and neither looks whether another one runs. So a
node must have one of them only, which the DaemonSet of the chart sees to.
"""

from e2e.controlplane.client import JSON
from e2e.drivers.nvidia import FORMER, GPUS, NEWEST, NvidiaDriver, Settings
from e2e.drivers.stage import DriverStage, with_drivers
from e2e.scenarios.drivers_whole import NUMA
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

SHAPE = "lab-2g2n"
SECONDS = 90.0
PREPARED = "Returning newly prepared devices for claim"


def _pod(nodes: DriverStage, name: str) -> str:
    """Create a pod with a GPU; return what the driver calls its claim."""
    nodes.claim(name, claim_spec(request("gpu", GPUS)))
    nodes.pod(name, claims={"gpu": name})
    return f"{nodes.namespace}/{name}:"


def _runs(nodes: DriverStage, name: str) -> None:
    def running() -> bool:
        return bool(nodes.get_pod(name)["status"].get("phase") == "Running")

    nodes.wait(f"{name} runs", running, SECONDS)


def _wait_slice(nodes: DriverStage, driver: NvidiaDriver, *, numa: bool) -> None:
    """Wait until the slice is what one release writes: only the newest names NUMA nodes."""

    def written() -> bool:
        devices: list[JSON] = driver.devices()
        return bool(devices) and all((NUMA in one["attributes"]) is numa for one in devices)

    nodes.wait(f"the slice is that of {driver.settings.pin}", written, SECONDS)


def _registered(driver: NvidiaDriver) -> int:
    """Return the identity of the socket by which the kubelet registers the driver."""
    socket = driver.node.path("kubelet", "plugins_registry", f"{GPUS}-reg.sock")
    return socket.stat().st_ino


@scenario("drivers", rig="nodes", needs=(NEWEST, FORMER))
def a_node_moves_to_the_newest_driver_and_back(stage: Stage) -> None:
    """Each release releases what the other prepared; pods keep their GPUs."""
    nodes = with_drivers(stage)
    machine = nodes.node("a", "dgx-a100")
    nodes.pin = FORMER
    former = nodes.install(machine, Settings())
    newest = NvidiaDriver(nodes, machine, Settings(pin=NEWEST), former.root)
    had = {}
    for name, before, after in (("one", former, newest), ("two", newest, former)):
        _pod(nodes, name)
        had[name] = nodes.check_devices(name)
        before.kill()
        after.start()
        nodes.drivers[machine.name] = after
        _wait_slice(nodes, after, numa=after is newest)
        for each, devices in had.items():
            assert nodes.check_devices(each) == devices
    _pod(nodes, "three")
    nodes.check_devices("three")
    for name in ("one", "two", "three"):
        nodes.delete_pod(name)
    nodes.wait_unprepared(machine.name)


@scenario("drivers", rig="nodes", needs=(NEWEST, FORMER))
def the_last_of_two_releases_on_a_node_is_asked(stage: Stage) -> None:
    """It takes the sockets over, and both write the slice again and again.

    When it ends, nobody answers the kubelet, though the other one runs.
    """
    nodes = with_drivers(stage)
    machine = nodes.node("a", SHAPE)
    nodes.pin = FORMER
    former = nodes.install(machine, Settings())
    _pod(nodes, "one")
    had = nodes.check_devices("one")
    socket = _registered(former)
    newest = nodes.enter(NvidiaDriver(nodes, machine, Settings(pin=NEWEST), former.root))
    _wait_slice(nodes, newest, numa=True)
    assert _registered(former) != socket
    claim = _pod(nodes, "two")
    _runs(nodes, "two")
    assert _prepared(newest, claim)
    assert not _prepared(former, claim)
    nodes.delete_pod("two")
    _wait_slice(nodes, former, numa=False)
    assert nodes.check_devices("one") == had
    newest.kill()
    _pod(nodes, "waits")
    nodes.wait_refused("waits", "FailedPrepareDynamicResources")
    former.restart()
    _runs(nodes, "waits")
    nodes.check_devices("waits")
    for name in ("one", "waits"):
        nodes.delete_pod(name)
    nodes.wait_unprepared(machine.name)


def _prepared(driver: NvidiaDriver, claim: str) -> bool:
    return any(PREPARED in line and claim in line for line in driver.log().splitlines())
