"""What a script lets happen to nodes and their drivers, and what their administrators do.

The events of users are in `tests.world.events`, those of our processes in `tests.world.faults`.
"""

import asyncio
import datetime as dt
import random
from typing import TYPE_CHECKING

from drawbridge.ledger.node_holds import NodeHold, write_node_hold
from drawbridge.names import HOLD_ANNOTATION
from tests.cluster.fake.kinds import JSON, named
from tests.world import clock
from tests.world.budget_events import evict_until
from tests.world.events import GRACE_SECONDS, choose_bound, create_native, event, finish_pod
from tests.world.machines import Machine, draw_seconds
from tests.world.nodes import claim_names, devices_of
from tests.world.objects import CHANGING, SWAPPED
from tests.world.scheduler import NAME

if TYPE_CHECKING:
    from tests.world.world import World

# What of it counts as a fault.
FAULT_NAMES = (
    *("leave out device", "fail to prepare", "stop driver", "stop nic driver", "stop kubelet"),
    "restart daemons",
    *("replace machine", "lose node"),
)


def _choose_machine(world: "World", drawn: int) -> Machine:
    """Return a machine, often that to which something has just happened."""
    names = sorted(world.machines)
    if drawn // 1024 % 2 or not world.touched:
        world.touched = names[drawn % len(names)]
    return world.machines[world.touched]


def _choose_device(world: "World", drawn: int) -> tuple[Machine, str]:
    """Return one of all devices, or one that a claim has."""
    held = sorted(device for claim in world.holders.values() for device in devices_of(claim))
    if held and drawn % 2:
        node, device = held[drawn // 14 % len(held)]
        return world.machines[node], device
    machine = _choose_machine(world, drawn // 2)
    return machine, [*machine.shape.devices][drawn // 14 % len(machine.shape.devices)]


@event(1.5)
def publish_again(world: "World", drawn: int) -> str:
    """Publish a pool anew, its slices one after the other."""
    machine = _choose_machine(world, drawn)
    machine.publish(pause := draw_seconds(drawn, 3))
    return f"{machine.name} within {pause:.1f} s"


@event(1.5)
def leave_out_device(world: "World", drawn: int) -> str:
    """Let a driver take a device out of its pool for a while."""
    (machine, device), seconds = _choose_device(world, drawn), draw_seconds(drawn)
    machine.leave_out(device, seconds)
    return f"{machine.name}/{device} for {seconds:.1f} s"


@event(1)
def end_sharing(world: "World", drawn: int) -> str:
    """Let a driver give its devices with shares as whole ones for a while, as with new settings."""
    sharing = [machine for machine in world.machines.values() if machine.shape.shared]
    machine, seconds = sharing[drawn % len(sharing)], draw_seconds(drawn)
    machine.end_sharing(seconds)
    return f"{machine.name} for {seconds:.1f} s"


@event(1.2)
def taint_device(world: "World", drawn: int) -> str:
    """Let a driver taint a device for a while."""
    (machine, device), seconds = _choose_device(world, drawn), draw_seconds(drawn)
    effect = ("NoSchedule", "NoExecute")[drawn // 3 % 2]
    machine.taint(device, effect, seconds)
    return f"{machine.name}/{device} with {effect} for {seconds:.1f} s"


@event(1.5)
def fail_to_prepare(world: "World", drawn: int) -> str:
    """Let a driver fail to prepare a device for a while, or all of its node."""
    machine, device = _choose_device(world, drawn)
    devices = [device] if drawn % 3 == 0 else [*machine.shape.devices]
    seconds = draw_seconds(drawn, 40)
    machine.fail_to_prepare(devices, seconds)
    return f"{', '.join(devices)} of {machine.name} for {seconds:.1f} s"


@event(0.8)
def stop_driver(world: "World", drawn: int) -> str:
    """Remove a driver with its slices for a while."""
    machine, seconds = _choose_machine(world, drawn), draw_seconds(drawn)
    machine.stop_driver(seconds)
    return f"{machine.name} for {seconds:.1f} s"


@event(0.8)
def stop_nic_driver(world: "World", drawn: int) -> str:
    """Remove the other driver of a node with its slices for a while."""
    if not world.conditions.asks_for_nics:
        return ""
    having = [machine for machine in world.machines.values() if machine.shape.nics]
    machine, seconds = having[drawn % len(having)], draw_seconds(drawn)
    machine.stop_nic_driver(seconds)
    return f"{machine.name} for {seconds:.1f} s"


@event(1.2)
def change_owner(world: "World", _drawn: int) -> str:
    """Give a node to our allocator, or to others again."""
    is_owned = world.machines[CHANGING].change_owner()
    return f"{CHANGING} is owned: {is_owned}"


@event(1.2)
def own_used_node(world: "World", drawn: int) -> str:
    """Let pods of others end and start on a node, and give it to our allocator meanwhile.

    Often, the allocators start again soon after that, and see the fence for the first time.
    """
    machine, loop = world.machines[CHANGING], asyncio.get_running_loop()
    if machine.is_owned:
        machine.change_owner()
        return f"{CHANGING} is given back"
    for pod in world.all("pods"):
        if pod["spec"].get("nodeName") == CHANGING:
            finish_pod(world, pod)
    made = [create_native(world, drawn) for _ in range(2)]
    pause = draw_seconds(drawn, 5)

    def own() -> None:
        if not machine.is_owned and not world.is_calm:
            machine.change_owner()

    def restart() -> None:
        for pair in world.pairs.values():
            pair.restart.set()

    loop.call_later(pause, own)
    if starts := drawn % 2:
        loop.call_later(pause + draw_seconds(drawn // 2, 2), restart)
    also = ", then the allocators start again" if starts else ""
    return f"{'; '.join(made)}; {CHANGING} is owned after {pause:.1f} s{also}"


@event(1.2)
def restart_daemons(world: "World", drawn: int) -> str:
    """Stop the kubelet and the driver of a node for a while; often, a pod vanishes meanwhile."""
    pod = choose_bound(world, drawn)
    if pod is None:
        return ""
    machine, is_forced = world.machines[pod["spec"]["nodeName"]], bool(drawn % 4)
    down, gone = draw_seconds(drawn, 15), draw_seconds(drawn // 4, 4)
    machine.stop_kubelet(down)
    if is_forced:
        world.network.store.delete(named("pods"), pod)
    machine.stop_driver(gone)
    vanished = f", {pod['metadata']['name']} vanishes" if is_forced else ""
    return f"{machine.name} for {down:.1f} s, its driver for {gone:.1f} s{vanished}"


@event(1.2)
def swap_driver(world: "World", drawn: int) -> str:
    """Put a driver in the place of a plugin, in any order; or drain it for the plugin again."""
    machine, seconds = world.machines[SWAPPED], random.Random(drawn)
    if machine.kubelet.plugin:
        pauses = seconds.uniform(0, 6), seconds.uniform(0, 6), seconds.uniform(0, 6)
        machine.replace_plugin(pauses)
        return f"the driver of {SWAPPED} comes within {max(pauses):.1f} s"
    machine.return_plugin(lambda: world.is_free(SWAPPED))
    for pod in world.all("pods"):
        if pod["spec"].get("nodeName") == SWAPPED:
            world.network.store.delete(named("pods"), pod, GRACE_SECONDS)
    return f"{SWAPPED} is drained for its plugin"


@event(1.5)
def stop_kubelet(world: "World", drawn: int) -> str:
    """Stop a kubelet for a while."""
    machine, seconds = _choose_machine(world, drawn), draw_seconds(drawn, 15)
    machine.stop_kubelet(seconds)
    return f"{machine.name} for {seconds:.1f} s"


@event(1.5)
def slow_driver(world: "World", drawn: int) -> str:
    """Let a driver need seconds to unprepare, or not any more."""
    kubelet = _choose_machine(world, drawn).kubelet
    kubelet.slow = not kubelet.slow
    return f"{kubelet.name}: {kubelet.slow}"


@event(1)
def cordon(world: "World", drawn: int) -> str:
    """Cordon a node for a while."""
    machine, seconds = _choose_machine(world, drawn), draw_seconds(drawn, 60)
    machine.cordon(seconds)
    return f"{machine.name} for {seconds:.1f} s"


@event(1)
def fill_node(world: "World", drawn: int) -> str:
    """Let pods without devices use all CPUs of a node for a while."""
    machine, seconds = _choose_machine(world, drawn), draw_seconds(drawn, 60)
    machine.fill(seconds, world.network.full)
    return f"{machine.name} for {seconds:.1f} s"


@event(0.7)
def drain(world: "World", drawn: int) -> str:
    """Cordon a node for a while, and evict its pods."""
    machine, seconds = _choose_machine(world, drawn), draw_seconds(drawn)
    machine.cordon(seconds)
    evict_until(world, _list_pods(world, machine), seconds)
    return f"{machine.name} for {seconds:.1f} s"


def _list_pods(world: "World", machine: Machine) -> list[JSON]:
    return [pod for pod in world.all("pods") if pod["spec"].get("nodeName") == machine.name]


@event(1)
def hold_node(world: "World", drawn: int) -> str:
    """Hold the devices of a node for a waiting pod, and evict whoever has them, as a plan does."""
    waiting = [pod for pod in world.all("pods") if "nodeName" not in pod["spec"]]
    lacking = {c["metadata"]["name"] for c in world.all("resourceclaims") if not devices_of(c)}
    waiting = [pod for pod in waiting if pod["spec"]["schedulerName"] == NAME]
    waiting = [pod for pod in waiting if lacking.issuperset(claim_names(pod))]
    if not waiting:
        return ""
    about, machine = waiting[drawn % len(waiting)]["metadata"], world.machines["n2"]
    evicted, seconds = _list_pods(world, machine), 10 + drawn % 50
    until = clock.now() + dt.timedelta(seconds=seconds)
    hold = NodeHold(
        pod=f"{about['namespace']}/{about['name']}",
        uid=about["uid"],
        until=until,
        evicted=tuple(pod["metadata"]["uid"] for pod in evicted),
    )
    machine.annotate({HOLD_ANNOTATION: write_node_hold(hold)})
    evict_until(world, evicted, seconds)
    return f"{machine.name} for {about['name']} until {hold.end}"


@event(0.6)
def replace_machine(world: "World", drawn: int) -> str:
    """Delete a machine with its node; another one comes with its name."""
    machine, seconds = _choose_machine(world, drawn), draw_seconds(drawn, 40)
    machine.remove(seconds)
    return f"{machine.name} within {seconds:.1f} s"


@event(0.6)
def lose_node(world: "World", drawn: int) -> str:
    """Let a machine lose its power for a while, which an administrator tells Kubernetes."""
    machine, seconds = _choose_machine(world, drawn), draw_seconds(drawn, 40)
    machine.lose(seconds)
    return f"{machine.name} for {seconds:.1f} s"
