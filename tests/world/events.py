"""What a script lets happen: users, administrators, drivers, faults. One function for each event.

`WEIGHTS` says how often an event happens beside others: rare pairs of writers to one device weigh
most. A function returns what to tell in the story, and nothing if there was nothing to do.
"""

import asyncio
import datetime as dt
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from drawbridge.ledger.node_holds import NodeHold, write_node_hold
from drawbridge.names import HOLD_ANNOTATION
from tests.cluster.fake.kinds import JSON, named
from tests.world import clock
from tests.world.machines import Machine, draw_seconds
from tests.world.nodes import claim_names, devices_of
from tests.world.objects import CHANGING, CLASS, MIGRATED, RESOURCE, SWAPPED, TEAM
from tests.world.scheduler import GROUP_LABEL, MIN_LABEL, NAME
from tests.world.stock import NAME as STOCK

if TYPE_CHECKING:
    from tests.world.world import World

Happening = Callable[["World", int], str]
EVENTS: dict[str, tuple[float, Happening]] = {}
GRACE_SECONDS = 5


def event(weight: float) -> Callable[[Happening], Happening]:
    """Make a function an event, which is named like it."""

    def register(function: Happening) -> Happening:
        EVENTS[function.__name__.replace("_", " ")] = (weight, function)
        return function

    return register


# --- users ---


@event(24)
def create(world: "World", drawn: int) -> str:
    """Create a pod with one or two claims of its own, sometimes of a team with a quota."""
    names = [world.next_name("c")]
    if drawn % 5 == 0:
        names.append(world.next_name("c"))
    space = _choose_space(world, drawn // 5)
    count = 2 if drawn // 20 % 10 == 0 else 1
    pod = _create_pod(world, names, space=space)
    for name in names:
        _create_claim(world, name, pod, count=count)
    return f"{pod['metadata']['name']} with {', '.join(names)}"


def _choose_space(world: "World", drawn: int) -> str:
    return TEAM if drawn % 4 < world.conditions.quarters_of_team else "default"


@event(2.5)
def create_important(world: "World", drawn: int) -> str:
    """Create a pod that may preempt others."""
    name = world.next_name("c")
    pod = _create_pod(world, [name], priority=100, space=_choose_space(world, drawn // 3))
    _create_claim(world, name, pod)
    return f"{pod['metadata']['name']} with {name}"


@event(2.5)
def create_gang(world: "World", drawn: int) -> str:
    """Create two or three pods that run together or not at all, often one after the other."""
    size, space = 2 + drawn % 2, _choose_space(world, drawn // 2)
    labels = {GROUP_LABEL: world.next_name("gang"), MIN_LABEL: f"{size}"}
    pause = 0.0 if drawn // 8 % 2 else draw_seconds(drawn, 2) / 2
    claims = [world.next_name("c") for _ in range(size)]

    def create_member(name: str) -> None:
        pod = _create_pod(world, [name], space=space, labels=labels)
        _create_claim(world, name, pod)

    for number, name in enumerate(claims):
        if number and pause:
            asyncio.get_running_loop().call_later(pause * number, create_member, name)
        else:
            create_member(name)
    return f"{labels[GROUP_LABEL]} with {', '.join(claims)}, each {pause:.1f} s later"


@event(1)
def create_crowd(world: "World", drawn: int) -> str:
    """Create pods for all owned devices, and some seconds later two that may preempt them."""

    def create_important_pods() -> None:
        for _ in range(2):
            create_important(world, drawn)

    made = [create(world, 26) for _ in range(6)]
    pause = draw_seconds(drawn, 6)
    asyncio.get_running_loop().call_later(pause, create_important_pods)
    return f"{'; '.join(made)}; two that are important after {pause:.1f} s"


@event(3)
def create_sharing(world: "World", drawn: int) -> str:
    """Create two pods with one claim, which none of them owns, or one more with such a claim.

    The node of a claim that is allocated is often closed by then.
    """
    shared = [claim for claim in world.all("resourceclaims") if _is_shared(claim)]
    shared = [claim for claim in shared if devices_of(claim)] or shared
    closed = ""
    if shared and drawn % 2:
        claim = shared[drawn // 2 % len(shared)]
        name, space, count = claim["metadata"]["name"], claim["metadata"]["namespace"], 1
        if drawn // 32 % 2 and (pools := sorted({pool for pool, _ in devices_of(claim)})):
            closed = pools[0]
            world.machines[closed].cordon(draw_seconds(drawn))
    else:
        name, space, count = world.next_name("s"), _choose_space(world, drawn // 2), 2
        _create_claim(world, name, None, space=space)
    made = [_create_pod(world, [name], space=space)["metadata"]["name"] for _ in range(count)]
    return f"{' and '.join(made)} with {name}{closed and f', {closed} is closed'}"


def _is_shared(claim: JSON) -> bool:
    metadata = claim["metadata"]
    return "ownerReferences" not in metadata and "deletionTimestamp" not in metadata


@event(5)
def create_native(world: "World", drawn: int) -> str:
    """Create a pod of the stock scheduler, which obeys no quota of ours."""
    name = world.next_name("n")
    pod = _create_pod(world, [name], scheduler=STOCK, space=_choose_space(world, drawn))
    _create_claim(world, name, pod)
    return f"{pod['metadata']['name']} with {name}"


@event(6)
def create_legacy(world: "World", drawn: int) -> str:
    """Create a pod that requests devices of a plugin; in one namespace, its pods are translated."""
    name, is_migrated = world.next_name("l"), bool(drawn % 3)
    limits = {"resources": {"limits": {RESOURCE: "1"}}}
    pod: JSON = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": MIGRATED if is_migrated else "default"},
        "spec": {
            "schedulerName": "default-scheduler" if is_migrated else STOCK,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [{"name": "main", **limits}],
        },
    }
    if is_migrated:
        world.create_admitted(pod, STOCK)
    else:
        world.server.put(pod)
    return f"{name} in {pod['metadata']['namespace']}"


def _create_pod(
    world: "World",
    claims: list[str],
    *,
    space: str = "default",
    priority: int = 0,
    labels: dict[str, str] | None = None,
    scheduler: str = NAME,
) -> JSON:
    spec: JSON = {
        "schedulerName": scheduler,
        "priority": priority,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "containers": [],
        "resourceClaims": [{"name": name, "resourceClaimName": name} for name in claims],
    }
    if scheduler == NAME:
        spec["tolerations"] = [{"key": "drawbridge.dev/owned", "operator": "Exists"}]
    metadata: JSON = {"name": world.next_name("p"), "namespace": space, "labels": labels or {}}
    return world.server.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def _create_claim(
    world: "World", name: str, pod: JSON | None, *, count: int = 1, space: str = "default"
) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": count}}
    metadata: JSON = {"name": name, "namespace": space}
    if pod is not None:
        about = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"]}
        metadata |= {"namespace": about["namespace"], "ownerReferences": [owner]}
    world.server.put(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": {"devices": {"requests": [request]}},
        }
    )


def _choose(world: "World", plural: str, drawn: int) -> JSON | None:
    chosen = world.all(plural)
    return chosen[drawn % len(chosen)] if chosen else None


def _choose_bound(world: "World", drawn: int) -> JSON | None:
    """Return a pod that is bound, often one of the node to which something has just happened."""
    bound = [pod for pod in world.all("pods") if "nodeName" in pod["spec"]]
    there = [pod for pod in bound if pod["spec"]["nodeName"] == world.touched]
    chosen = bound if drawn // 1024 % 2 else there or bound
    if not chosen:
        return None
    pod = chosen[drawn % len(chosen)]
    world.touched = pod["spec"]["nodeName"]
    return pod


@event(8)
def delete(world: "World", drawn: int) -> str:
    """Delete a pod."""
    pod = _choose(world, "pods", drawn)
    if pod is None:
        return ""
    grace = GRACE_SECONDS if "nodeName" in pod["spec"] else 0
    world.network.store.delete(named("pods"), pod, grace)
    return f"{pod['metadata']['name']}"


@event(7)
def delete_with_force(world: "World", drawn: int) -> str:
    """Delete a pod while its containers may run."""
    pod = _choose_bound(world, drawn)
    if pod is None:
        return ""
    world.network.store.delete(named("pods"), pod)
    return f"{pod['metadata']['name']}"


@event(14)
def finish(world: "World", drawn: int) -> str:
    """Let the containers of a pod end."""
    pod = _choose_bound(world, drawn)
    if pod is None:
        return ""
    finish_pod(world, pod)
    return f"{pod['metadata']['name']}"


@event(1)
def finish_of_team(world: "World", drawn: int) -> str:
    """Let a pod of the team end, first one of the stock scheduler: that frees only the quota."""
    bound = [pod for pod in world.all("pods") if "nodeName" in pod["spec"]]
    team = [pod for pod in bound if pod["metadata"]["namespace"] == TEAM]
    native = [pod for pod in team if pod["spec"]["schedulerName"] == STOCK]
    if not (chosen := native or team):
        return ""
    pod = chosen[drawn % len(chosen)]
    finish_pod(world, pod)
    return f"{pod['metadata']['name']}"


def finish_pod(world: "World", pod: JSON) -> None:
    """Let the containers of a pod end."""
    metadata = {**pod["metadata"], "annotations": {"finish": ""}}
    world.server.put({**pod, "metadata": metadata})


@event(1.5)
def delete_claim(world: "World", drawn: int) -> str:
    """Delete a claim under its pod, half of the time while the pod waits for devices."""
    claims = world.all("resourceclaims")
    waiting = [claim for claim in claims if not devices_of(claim)] if drawn % 2 else []
    chosen = waiting or claims
    if not chosen:
        return ""
    claim = chosen[drawn // 2 % len(chosen)]
    world.network.store.delete(named("resourceclaims"), claim)
    return f"{claim['metadata']['name']}"


@event(1.5)
def forge_mark(world: "World", drawn: int) -> str:
    """Write the allocator's mark, as a tenant can."""
    claim = _choose(world, "resourceclaims", drawn)
    if claim is None:
        return ""
    world.forged.add(claim["metadata"]["name"])
    own = claim["metadata"].get("annotations") or {}
    forged = {**own, "drawbridge.dev/allocation": ("{}", "x")[drawn % 2]}
    world.server.put({**claim, "metadata": {**claim["metadata"], "annotations": forged}})
    return f"{claim['metadata']['name']}"


# --- nodes and drivers ---


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


@event(1.2)
def taint_device(world: "World", drawn: int) -> str:
    """Let a driver taint a device for a while."""
    (machine, device), seconds = _choose_device(world, drawn), draw_seconds(drawn)
    effect = ("NoSchedule", "NoExecute")[drawn // 3 % 2]
    machine.taint(device, effect, seconds)
    return f"{machine.name}/{device} with {effect} for {seconds:.1f} s"


@event(0.8)
def stop_driver(world: "World", drawn: int) -> str:
    """Remove a driver with its slices for a while."""
    machine, seconds = _choose_machine(world, drawn), draw_seconds(drawn)
    machine.stop_driver(seconds)
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
    pod = _choose_bound(world, drawn)
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


@event(0.7)
def drain(world: "World", drawn: int) -> str:
    """Cordon a node for a while, and evict its pods."""
    machine, seconds = _choose_machine(world, drawn), draw_seconds(drawn)
    machine.cordon(seconds)
    for pod in world.all("pods"):
        if pod["spec"].get("nodeName") == machine.name:
            world.network.store.delete(named("pods"), pod, GRACE_SECONDS)
    return f"{machine.name} for {seconds:.1f} s"


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
    evicted = [p for p in world.all("pods") if p["spec"].get("nodeName") == machine.name]
    until = clock.now() + dt.timedelta(seconds=10 + drawn % 50)
    hold = NodeHold(
        pod=f"{about['namespace']}/{about['name']}",
        uid=about["uid"],
        until=until,
        evicted=tuple(pod["metadata"]["uid"] for pod in evicted),
    )
    machine.annotate({HOLD_ANNOTATION: write_node_hold(hold)})
    for pod in evicted:
        world.network.store.delete(named("pods"), pod, GRACE_SECONDS)
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
