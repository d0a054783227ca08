"""Scenarios with NVIDIA's own driver: driver, kubelet and node end under a pod and start again."""

from e2e.controlplane.client import JSON
from e2e.drivers.nvidia import GPUS, NEWEST, NvidiaDriver, Settings
from e2e.drivers.nvml import Partition
from e2e.drivers.stage import with_drivers
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

SECONDS = 90.0
DYNAMIC = Settings(gates=("DynamicMIG=true",))


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def a_claim_outlives_nvidias_driver_and_the_kubelet(stage: Stage) -> None:
    """Further pods of a prepared claim run without the driver; a new claim waits for it."""
    nodes = with_drivers(stage)
    node = nodes.node("a", "dgx-a100", {GPUS: "full"}).name
    driver = nodes.drivers[node]
    nodes.claim("kept", claim_spec(request("gpu", GPUS, count=2)))
    nodes.run_pod("first", claims={"gpu": "kept"})
    had = nodes.check_devices("first")
    generations = [one["spec"]["pool"]["generation"] for one in driver.slices()]
    driver.kill()
    nodes.pod("second", claims={"gpu": "kept"})
    nodes.wait("the second pod runs", lambda: _runs(nodes.get_pod("second")), SECONDS)
    nodes.claim("new", claim_spec(request("gpu", GPUS)))
    nodes.pod("waits", claims={"gpu": "new"})
    nodes.wait_refused("waits", "FailedPrepareDynamicResources")
    driver.start()
    nodes.wait("the other pod runs", lambda: _runs(nodes.get_pod("waits")), SECONDS)
    assert nodes.check_devices("second") == had
    nodes.check_devices("waits")
    # A restart changes the order of devices in the slice, and not its generation.
    driver.wait_published()
    assert [one["spec"]["pool"]["generation"] for one in driver.slices()] == generations
    before = _identities(driver)
    nodes.fleet.real_node(node).restart_kubelet()
    # The kubelet deletes the slices of its node when it starts; the driver publishes them anew.
    nodes.wait("the slices are new", lambda: _identities(driver) - before, SECONDS)
    nodes.wait("all are new", lambda: not _identities(driver) & before, SECONDS)
    nodes.pod("third", claims={"gpu": "kept"})
    nodes.wait("the third pod runs", lambda: _runs(nodes.get_pod("third")), SECONDS)
    assert nodes.check_devices("third") == had
    for name in ("first", "second", "waits", "third"):
        nodes.delete_pod(name)
    nodes.wait_unprepared(node)


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def pods_have_their_gpus_again_after_their_node_started_anew(stage: Stage) -> None:
    """The driver drops what it prepared before the boot, and prepares the claims again."""
    nodes = with_drivers(stage)
    node = nodes.node("a", "lab-2g2n", {GPUS: "static-mig"}).name
    driver = nodes.drivers[node]
    assert driver.settings.partitions[0] == Partition(0, "1g.5gb", 0)
    nodes.template("both", claim_spec(request("gpu", GPUS), request("part", "mig.nvidia.com")))
    nodes.run_pod("train", templates={"gpu": "both"}, tolerations=[{"operator": "Exists"}])
    had = nodes.check_devices("train")
    nodes.fleet.kill_node(node)
    nodes.wait("the node is not ready", lambda: not nodes.rig.ready(node), SECONDS)
    nodes.fleet.real_node(node).start()
    driver.start()
    nodes.wait("the node is ready", lambda: nodes.rig.ready(node), SECONDS)
    driver.wait_published()
    nodes.wait("its container started again", lambda: _restarts(nodes.get_pod("train")), SECONDS)
    assert nodes.check_devices("train") == had
    assert "Invalidating checkpoint" in driver.log()
    nodes.delete_pod("train")
    nodes.wait_unprepared(node)


def _identities(driver: NvidiaDriver) -> set[str]:
    return {one["metadata"]["uid"] for one in driver.slices()}


def _runs(pod: JSON) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _restarts(pod: JSON) -> bool:
    statuses = pod["status"].get("containerStatuses", ())
    return any(one["restartCount"] and "running" in one["state"] for one in statuses)


@scenario("drivers", rig="nodes", needs=(NEWEST,))
def partitions_made_on_demand_outlive_nvidias_driver(stage: Stage) -> None:
    """A pod keeps its partition when the driver starts anew; the partition goes with the pod."""
    nodes = with_drivers(stage)
    machine = nodes.node("a", "hgx-h100")
    driver = nodes.install(machine, DYNAMIC)
    profile = f"device.attributes['{GPUS}'].profile == '1g.10gb'"
    nodes.template("part", claim_spec(request("part", "mig.nvidia.com", profile)))
    nodes.run_pod("first", templates={"gpu": "part"})
    had = nodes.check_devices("first")
    made = driver.root.partitions()
    assert len(made) == 1, made
    driver.restart()
    nodes.pod("second", templates={"gpu": "part"})
    nodes.wait("the second pod runs", lambda: _runs(nodes.get_pod("second")), SECONDS)
    assert nodes.check_devices("first") == had
    assert set(made) < set(driver.root.partitions())
    for name in ("first", "second"):
        nodes.delete_pod(name)
    nodes.wait_unprepared(machine.name)
    assert not driver.root.partitions()
