"""Scenarios with NVIDIA's own driver and bridge placement, and what others allocate behind it.

Drawbridge's allocator places legacy pods on the owned node. Behind its back allocations are planted
that no scheduler writes: what the driver prepares all the same, the allocator reports.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.controlplane.client import JSON
from e2e.drivers.nvidia import GPUS, LEGACY, NEWEST, Settings
from e2e.drivers.others import EXAMPLE, EXAMPLE_PIN, example_driver
from e2e.drivers.stage import DriverStage, with_drivers
from e2e.installed.installation import MODE
from e2e.realnodes.bridge import BridgeInstallation, bridge_installed
from e2e.realnodes.installation import READY_SECONDS, remove_installation
from e2e.realnodes.product import SCHEDULER
from e2e.runner import print_line
from e2e.scenarios import forged
from e2e.scenarios.drivers_others import define_class
from e2e.scenarios.node_scheduler import MARK, wait_leader
from e2e.scenarios.node_translated import DECIDED_SECONDS
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

# What the allocator promises, and how long a scenario waits for it on a busy machine.
PROMISED_SECONDS, WAIT_SECONDS = 2.0, 20.0
DYNAMIC = Settings(gates=("DynamicMIG=true",))
SHARES = Settings(gates=("ConsumableShares=true",), options=("--consumable-shares=4",))


@contextmanager
def installed_with_bridge(nodes: DriverStage, owned: str) -> Iterator[BridgeInstallation]:
    """Install bridge placement with one owned node, in a namespace that is opted in."""
    remove_installation(nodes)
    with bridge_installed(nodes.rig, owned) as cluster:
        nodes.wait("Drawbridge is ready", cluster.rolled_out, READY_SECONDS)
        label = {"metadata": {"labels": {MODE: "enforce"}}}
        nodes.client.patch(f"/api/v1/namespaces/{nodes.namespace}", label)
        nodes.wait("the webhooks decide by the facts", cluster.decided, DECIDED_SECONDS)
        wait_leader(nodes, cluster, "")
        yield cluster


def place(nodes: DriverStage, name: str, resource: str, count: int = 1) -> list[JSON]:
    """Let Drawbridge place a legacy pod, and check what its container has."""
    body = nodes.pod_object(name, limits={resource: f"{count}"})
    nodes.client.create(nodes.pod_path(), body)
    nodes.wait_running(name)
    claim = nodes.get_claim(nodes.generated_claim(name))
    assert MARK in claim["metadata"]["annotations"], claim["metadata"]
    return nodes.check_devices(name)


@scenario("drivers", rig="nodes", needs=(NEWEST, SCHEDULER))
def nvidias_driver_prepares_what_the_allocator_chose(stage: Stage) -> None:
    """Partitions made on demand and a whole GPU on one owned node, never of one GPU."""
    nodes = with_drivers(stage)
    machine = nodes.node("a", "hgx-h100")
    nodes.install(machine, DYNAMIC)
    nodes.enter(installed_with_bridge(nodes, machine.name))
    parts = place(nodes, "parts", "nvidia.com/mig-3g.40gb", 2)
    small = place(nodes, "small", "nvidia.com/mig-1g.10gb")
    whole = place(nodes, "whole", LEGACY, 6)
    broken = {one["device"].split("-mig")[0] for one in (*parts, *small)}
    assert broken.isdisjoint(one["device"] for one in whole)
    assert len(nodes.drivers[machine.name].root.partitions()) == 3
    for name in ("parts", "small", "whole"):
        nodes.delete_pod(name)
    nodes.wait_unprepared(machine.name)
    assert not nodes.drivers[machine.name].root.partitions()


def _reported(nodes: DriverStage, claim: str, code: str) -> None:
    """Wait until the allocator reports a conflict of a claim, and say how long it took."""
    began = time.monotonic()

    def told() -> bool:
        events = nodes.client.get(
            nodes.path("events"), fieldSelector=f"involvedObject.name={claim}"
        )
        return any(one["reason"] == code for one in events["items"])

    nodes.wait(f"{code} of {claim}", told, WAIT_SECONDS)
    took = time.monotonic() - began
    kept = "" if took < PROMISED_SECONDS else f", more than {PROMISED_SECONDS:g} s"
    print_line(f"      {code} of {claim} after {took:.2f} s{kept}")


def _plant(nodes: DriverStage, name: str, node: str, device: JSON, code: str) -> None:
    """Allocate a device to another claim by hand, and see the report."""
    forged.play(nodes, name, forged.Forgery(node, (device,)))
    _reported(nodes, name, code)


@scenario("drivers", rig="nodes", needs=(NEWEST, EXAMPLE_PIN, SCHEDULER))
def what_drivers_prepare_twice_is_reported(stage: Stage) -> None:
    """A GPU under its partition, another claim's share, a foreign pool, a device of the example."""
    nodes = with_drivers(stage)
    first, second, third = (
        nodes.node(suffix, shape)
        for suffix, shape in (("a", "hgx-h100"), ("b", "lab-2g2n"), ("c", "lab-2g2n"))
    )
    nodes.install(first, DYNAMIC)
    nodes.install(second, SHARES)
    example_driver(nodes, third)
    define_class(nodes, EXAMPLE)
    nodes.enter(installed_with_bridge(nodes, first.name))
    small = place(nodes, "small", "nvidia.com/mig-1g.10gb")[0]
    whole = forged.device(GPUS, first.name, small["device"].split("-mig")[0])
    _plant(nodes, "parent", first.name, whole, "CounterOverdrawn")
    nodes.wait_running("parent")
    # The driver gives what it knows by that name, which is the first node's own GPU.
    foreign = forged.device(GPUS, second.name, "gpu-1")
    _plant(nodes, "foreign", first.name, foreign, "DeviceOfOtherNode")
    nodes.wait_running("foreign")
    assert nodes.seen("foreign") == ["/dev/nvidia1"]
    _check_share(nodes, second.name)
    nodes.claim("example", claim_spec(request("gpu", EXAMPLE)))
    nodes.run_pod("example", claims={"gpu": "example"})
    taken = forged.device(EXAMPLE, third.name, nodes.allocated("example")[0]["device"])
    _plant(nodes, "again", third.name, taken, "DeviceHeldTwice")
    nodes.wait_running("again")


def _check_share(nodes: DriverStage, node: str) -> None:
    selector = "'shares' in device.capacity['gpu.nvidia.com']"
    nodes.claim("share", claim_spec(request("gpu", GPUS, selector)))
    nodes.run_pod("share", claims={"gpu": "share"})
    (share,) = nodes.allocated("share")
    same = {key: share[key] for key in ("shareID", "consumedCapacity")}
    device = forged.device(GPUS, node, share["device"], **same)
    _plant(nodes, "stolen", node, device, "DeviceHeldTwice")
    nodes.wait_running("stolen")
