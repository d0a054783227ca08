"""What a script lets happen, one function for each event; here, what users do.

The weight of an event says how often it happens beside others: rare pairs of writers to one device
weigh most. A function returns what to tell in the story, and nothing if there was nothing to do.
What happens to nodes is in `tests.world.machine_events`, to our processes in `tests.world.faults`.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from tests.cluster.fake.kinds import JSON, named
from tests.world.asks import count_asks
from tests.world.budgets import LABEL, app_of
from tests.world.gates import add_gates
from tests.world.machines import draw_seconds
from tests.world.nodes import claim_names, devices_of, protection_of
from tests.world.objects import MIGRATED, RESOURCE, SECOND, TEAM, is_migrated
from tests.world.requests import draw_devices
from tests.world.scheduler import NAME
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
    space = choose_space(world, drawn // 5)
    count = 2 if drawn // 20 % 10 == 0 else 1
    pod = create_pod(world, names, space=space)
    for number, name in enumerate(names):
        is_alone = len(names) == 1
        create_claim(world, name, pod, drawn + number, count=count, is_alone=is_alone)
    return f"{pod['metadata']['name']} with {', '.join(names)}"


def choose_space(world: "World", drawn: int) -> str:
    """Return the namespace of a pod: often one of the team."""
    conditions, rest = world.conditions, drawn // 4
    if drawn % 4 >= conditions.quarters_of_team:
        return f"user-{rest % conditions.spaces}" if conditions.spaces > 1 else "default"
    is_second = bool(conditions.selects and rest % 2)
    return SECOND if is_second and world.spaces.is_open(SECOND) else TEAM


@event(2.5)
def create_important(world: "World", drawn: int, priority: int = 100) -> str:
    """Create a pod that may preempt others."""
    name = world.next_name("c")
    pod = create_pod(world, [name], priority=priority, space=choose_space(world, drawn // 3))
    create_claim(world, name, pod, drawn)
    return f"{pod['metadata']['name']} with {name}"


@event(1)
def make_room(world: "World", drawn: int) -> str:
    """Delete a pod for an important one that comes soon, and then one that is more important."""
    bound = [pod for pod in world.all("pods") if "nodeName" in pod["spec"] and claim_names(pod)]
    ours = [pod for pod in bound if pod["spec"]["schedulerName"] == NAME]
    if not ours:
        return ""
    pod, loop = ours[drawn % len(ours)], asyncio.get_running_loop()
    world.network.store.delete(named("pods"), pod, GRACE_SECONDS)
    pauses = [(1 + drawn // 4**number % 4) * 0.1 for number in range(2)]
    for pause, priority in zip(accumulate(pauses), (100, 200), strict=True):
        loop.call_later(pause, create_important, world, drawn, priority)
    return f"{pod['metadata']['name']} goes for two that are important, after {pauses} s"


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
    shared = [claim for claim in world.all("resourceclaims") if is_shared(claim)]
    shared = [claim for claim in shared if devices_of(claim)] or shared
    closed = ""
    if shared and drawn % 2:
        claim = shared[drawn // 2 % len(shared)]
        name, space, count = claim["metadata"]["name"], claim["metadata"]["namespace"], 1
        world.rivals.joined.add(name)
        if drawn // 32 % 2 and (pools := sorted({pool for pool, _ in devices_of(claim)})):
            closed = pools[0]
            world.machines[closed].cordon(draw_seconds(drawn))
    else:
        name, space, count = world.next_name("s"), choose_space(world, drawn // 2), 2
        create_claim(world, name, None, drawn, space=space)
    made = [create_pod(world, [name], space=space)["metadata"]["name"] for _ in range(count)]
    return f"{' and '.join(made)} with {name}{closed and f', {closed} is closed'}"


def is_shared(claim: JSON) -> bool:
    """Whether nobody owns a claim; one that a person allocated without finalizer can vanish."""
    has_owner, (devices, is_kept) = "ownerReferences" in claim["metadata"], protection_of(claim)
    is_deleted = "deletionTimestamp" in claim["metadata"]
    return not has_owner and not is_deleted and (is_kept or not devices)


@event(5)
def create_native(world: "World", drawn: int) -> str:
    """Create a pod of the stock scheduler, which obeys no quota of ours."""
    name = world.next_name("n")
    pod = create_pod(world, [name], scheduler=STOCK, space=choose_space(world, drawn))
    create_claim(world, name, pod, drawn, is_plain=True)
    return f"{pod['metadata']['name']} with {name}"


@event(6)
def create_legacy(world: "World", drawn: int) -> str:
    """Create a pod that requests devices of a plugin; in one namespace, its pods are translated."""
    space = MIGRATED if drawn % 3 else "default"
    return f"{create_legacy_in(world, space)} in {space}"


def create_legacy_in(world: "World", space: str, **more: str) -> str:
    """Create a pod that requests a device of a plugin; return its name."""
    limits = {"resources": {"limits": {RESOURCE: "1"}}}
    return create_plain(world, space, {"name": "main", **limits}, **more)


def create_plain(world: "World", space: str, container: JSON, **more: str) -> str:
    """Create a pod with a container, and without claims; return its name."""
    name = world.next_name("l")
    pod: JSON = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space},
        "spec": {
            "schedulerName": "default-scheduler" if is_migrated(space) else STOCK,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [container],
            **more,
        },
    }
    if is_migrated(space):
        world.admitted.create(pod if more else add_gates(world, pod), STOCK)
    else:
        world.server.put(pod)
    return name


def create_pod(
    world: "World",
    claims: list[str],
    *,
    shared: Sequence[JSON] = (),
    space: str = "default",
    priority: int = 0,
    labels: dict[str, str] | None = None,
    scheduler: str = NAME,
    more: JSON | None = None,
) -> JSON:
    """Create a pod that names claims, behind the entries of those that its group shares.

    All but those of the stock scheduler tolerate the fence.
    """
    spec: JSON = {
        "schedulerName": scheduler,
        "priority": priority,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "containers": [],
        "resourceClaims": [
            *shared,
            *({"name": each, "resourceClaimName": each} for each in claims),
        ],
    }
    if scheduler != STOCK:
        spec["tolerations"] = [{"key": "drawbridge.dev/owned", "operator": "Exists"}]
    spec |= more or {}
    name = world.next_name("p")
    both = {LABEL: app_of(name), **(labels or {})}
    metadata: JSON = {"name": name, "namespace": space, "labels": both}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return world.server.put(add_gates(world, pod) if scheduler == NAME else pod)


def create_claim(
    world: "World",
    name: str,
    pod: JSON | None,
    drawn: int,
    *,
    count: int = 1,
    space: str = "default",
    is_plain: bool = False,
    is_alone: bool = False,
) -> JSON:
    """Create a claim for devices, of a pod if there is one.

    A plain one asks never for all devices, and has no constraint. The only one of a pod can ask for
    admin access.
    """
    devices = draw_devices(world.conditions, drawn, count, is_plain=is_plain, is_alone=is_alone)
    alternatives = sum("firstAvailable" in request for request in devices["requests"])
    world.network.count("request with an alternative", alternatives)
    metadata: JSON = {"name": name, "namespace": space}
    if pod is not None:
        about = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"]}
        metadata |= {"namespace": about["namespace"], "ownerReferences": [owner]}
    made = world.server.put({**claim_of(metadata), "spec": {"devices": devices}})
    count_asks(world.network, made, "made")
    return made


def claim_of(metadata: JSON) -> JSON:
    """Return a claim without its spec."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}


def _choose(world: "World", plural: str, drawn: int) -> JSON | None:
    chosen = world.all(plural)
    return chosen[drawn % len(chosen)] if chosen else None


def choose_bound(world: "World", drawn: int) -> JSON | None:
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
    world.network.store.delete(named("pods"), pod, GRACE_SECONDS)
    return f"{pod['metadata']['name']}"


@event(7)
def delete_with_force(world: "World", drawn: int) -> str:
    """Delete a pod while its containers may run."""
    pod = choose_bound(world, drawn)
    if pod is None:
        return ""
    world.network.store.delete(named("pods"), pod)
    return f"{pod['metadata']['name']}"


@event(14)
def finish(world: "World", drawn: int) -> str:
    """Let the containers of a pod end."""
    pod = choose_bound(world, drawn)
    if pod is None:
        return ""
    finish_pod(world, pod)
    return f"{pod['metadata']['name']}"


@event(1)
def finish_of_team(world: "World", drawn: int) -> str:
    """Let a pod of the team end, first one of the stock scheduler: that frees only the quota."""
    bound = [pod for pod in world.all("pods") if "nodeName" in pod["spec"]]
    chosen = world.spaces.list_chosen()
    team = [pod for pod in bound if pod["metadata"]["namespace"] in chosen]
    native = [pod for pod in team if pod["spec"]["schedulerName"] == STOCK]
    if not (ending := native or team):
        return ""
    pod = ending[drawn % len(ending)]
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
