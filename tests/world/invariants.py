"""What must hold, each a function that yields what breaks it.

`ALWAYS` is looked at when what can break it happens, `AT_THE_END` when the faults have ended and
everything had time to settle.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from drawbridge.names import ALLOCATION_ANNOTATION
from tests.cluster.fake.kinds import JSON, named
from tests.world.asked import has_ended
from tests.world.network import LEASE_SECONDS, SYSTEM
from tests.world.nodes import Device, claim_names, consumers_of, devices_of
from tests.world.objects import ALL_NODES, BROKEN, MIGRATED, NODES, TEAM, TEAM_DEVICES, is_open
from tests.world.quotas import DEVICES, EXCEEDED
from tests.world.scheduler import GROUP_LABEL, MIN_LABEL, NAME

if TYPE_CHECKING:
    from tests.world.world import World

Invariant = Callable[["World"], Iterator[str]]
# A preemptor asks again when its victims stay, or others take their devices.
MOST_EVICTIONS = 5
# What our processes may write; beside it all may write events.
_ALLOWED = {
    "allocator": ("resourceclaims/", "/binding"),
    "controller": (
        f"/namespaces/{SYSTEM}/",
        "/nodes/",
        f"/namespaces/{MIGRATED}/resourceclaimtemplates",
        "/mutatingwebhookconfigurations/drawbridge",
    ),
}


def no_device_is_used_by_two_pods(world: "World") -> Iterator[str]:
    """From the preparation of a device until the containers of its pod have ended."""
    used = ((use.claim, use.devices) for use in world.uses.values() if not use.lost)
    yield from _overlaps(world, used, "used by")


def a_pod_runs_where_its_devices_are(world: "World") -> Iterator[str]:
    """No kubelet prepares devices of another node."""
    for use in world.uses.values():
        if not use.lost and any(pool != use.node for pool, _ in use.devices):
            yield f"{use.pod} runs on {use.node}, and {use.claim} has {sorted(use.devices)}"


def no_device_is_allocated_to_two_claims(world: "World") -> Iterator[str]:
    """As the API server has it; and no node gives more than its counters have."""
    held = ((_name(claim), devices_of(claim)) for claim in world.holders.values())
    yield from _overlaps(world, held, "allocated to")


def _overlaps(
    world: "World", holders: Iterable[tuple[str, frozenset[Device]]], word: str
) -> Iterator[str]:
    """Yield devices with two holders, and nodes whose counters give more than they have.

    Nobody knows what a withdrawn device takes once its pod's owner has changed the mark. What the
    stock scheduler had decided before a restore, it writes beside what has come back.
    """
    by_device: dict[Device, str] = {}
    of_others = {_name(claim) for claim in world.holders.values() if not _has_mark(claim)}
    may_meet = of_others if world.since_restore() < math.inf else set()
    for name, devices in holders:
        for device in sorted(devices):
            other = by_device.setdefault(device, name)
            if other != name and not may_meet.issuperset((name, other)):
                yield f"{'/'.join(device)} is {word} {name} and {other}"
    for node, shape in ALL_NODES.items():
        on_node = {device: name for (pool, device), name in by_device.items() if pool == node}
        held = [device for device, name in on_node.items() if name not in world.forged]
        if shape.units and sum(shape.devices.get(device, 0) for device in held) > shape.units:
            users = sorted(on_node.values())
            yield f"{node} gives more than it has: {', '.join(sorted(held))} are {word} {users}"


def a_quota_is_never_exceeded(world: "World") -> Iterator[str]:
    """Claims of a team get no more devices than its quota; others can allocate beside it.

    A tenant can forge the mark of a claim that the stock scheduler allocates.
    """
    others = {e["metadata"]["uid"] for e in world.all("pods") if _is_native(e)}
    marked = filter(_has_mark, _claims_of_team(world))
    ours = (claim for claim in marked if not others.intersection(consumers_of(claim)))
    if (count := sum(len(devices_of(claim)) for claim in ours)) > TEAM_DEVICES:
        yield f"{TEAM} has {count} devices of {TEAM_DEVICES}"


def _has_mark(claim: JSON) -> bool:
    return ALLOCATION_ANNOTATION in (claim["metadata"].get("annotations") or {})


def _claims_of_team(world: "World") -> Iterator[JSON]:
    return (claim for claim in world.holders.values() if _space(claim) == TEAM)


def _count_of_team(world: "World") -> int:
    return sum(len(devices_of(claim)) for claim in _claims_of_team(world))


def nobody_evicts_again_and_again(world: "World") -> Iterator[str]:
    """An eviction helps the pod for which it is done."""
    for pair in world.pairs.values():
        for uid, count in pair.scheduler.evictions.items():
            if count > MOST_EVICTIONS:
                yield f"{uid} has evicted others {count} times and has no devices"


def no_reservation_expires_while_it_is_held(world: "World") -> Iterator[str]:
    """The devices of a pod that the scheduler holds stay reserved, up to the limit."""
    for pair in world.pairs.values():
        for uid in pair.scheduler.expired:
            yield f"the reservation of {uid} has expired, which {pair.host} holds"


def an_allocated_claim_has_its_mark_and_finalizer(world: "World") -> Iterator[str]:
    """Without them, it could vanish while it is in use."""
    for claim in world.holders.values():
        if not claim["metadata"].get("finalizers"):
            yield f"{_name(claim)} is allocated without a finalizer"


def no_pod_that_runs_loses_a_claim(world: "World") -> Iterator[str]:
    """Our allocators take nothing from a pod that is bound and has not ended."""
    for taken in world.taken:
        yield f"an allocator has taken {taken}, which runs"


def what_is_allocated_was_reserved(world: "World") -> Iterator[str]:
    """An allocator writes only devices that nobody else can get meanwhile."""
    for pair in world.pairs.values():
        for name in pair.unreserved:
            yield f"{name} got devices that were not reserved for it"


def no_device_is_reserved_twice(world: "World") -> Iterator[str]:
    """Also in memory, a device is promised to one claim."""
    for pair in world.pairs.values():
        if pair.parts is None or not pair.parts.state.ready:
            continue
        reserved: dict[object, str] = {}
        for uid, active in pair.parts.state.decisions.state.ledger.reservations.items():
            for hold in active.holds:
                if reserved.setdefault(hold.device_id, uid) != uid and not hold.shared:
                    yield f"{pair.host} has reserved {hold.pool.name}/{hold.device} twice"


def one_allocator_leads(world: "World") -> Iterator[str]:
    """Two that may write at the same time could give out one device twice.

    A restore also brings back an old Lease, which hosts can take that the holder never heard of. A
    scheduler that is stopped releases its Lease, and the allocator beside it learns of that when it
    reads the Lease again.
    """
    if min(world.since_restore(), world.since_release()) < LEASE_SECONDS:
        return
    leading = [
        each.host for each in world.pairs.values() if each.parts and each.parts.lease.leading
    ]
    if len(leading) > 1:
        yield f"{' and '.join(leading)} lead"


def nobody_leads_who_knows_that_another_does(world: "World") -> Iterator[str]:
    """What an allocator has read of the Lease counts at once."""
    for pair in world.pairs.values():
        if pair.parts is None or not pair.parts.lease.leading:
            continue
        spec = pair.parts.lease._spec  # noqa: SLF001
        holder = (spec and spec.holder_identity) or ""
        if not holder.startswith(f"{pair.host}_"):
            yield f"{pair.host} leads, and has read that {holder or 'nobody'} has the Lease"


def our_processes_write_only_what_is_theirs(world: "World") -> Iterator[str]:
    """No object of others changes."""
    for who, method, path in world.network.written[world.checked_writes :]:
        allowed = _ALLOWED.get(who.partition(" ")[0])
        is_event = path.endswith("/events") or "/events/" in path
        if allowed and not is_event and not any(part in path for part in allowed):
            yield f"{who}: {method} {path}"
    world.checked_writes = len(world.network.written)


def every_reservation_has_a_pod(world: "World") -> Iterator[str]:
    """No claim is reserved for a pod that is gone."""
    pods = {each["metadata"]["uid"] for each in world.all("pods")}
    for claim in world.all("resourceclaims"):
        if set(consumers_of(claim)) - pods:
            yield f"{claim['metadata']['name']} is reserved for a pod that is gone"


def every_record_has_a_pod(world: "World") -> Iterator[str]:
    """An allocator remembers nothing of a pod that is gone, and one it has not seen for a time.

    Who does not lead keeps what it was writing until it leads again.
    """
    uids = {pod["metadata"]["uid"] for pod in world.all("pods")}
    for pair in world.pairs.values():
        if pair.parts is not None and pair.parts.state.ready:
            records = pair.parts.state.decisions.state.records
            for uid in records:
                is_written = (devices := records.get(uid).devices) is not None and devices.writing
                is_kept = is_written and not pair.scheduler.leads
                is_gone = uid not in uids and records.times.get("unseen", uid) is None
                if is_gone and not is_kept:
                    yield f"{pair.host} has a record of {uid}, which is gone"


def no_pod_waits_beside_free_devices(world: "World") -> Iterator[str]:
    """No device is free for ever while a pod waits that fits; a gang with all that it lacks."""
    held = {device for claim in world.holders.values() for device in devices_of(claim)}
    nodes, team = _open_nodes(world, NODES), _count_of_team(world)
    gangs: dict[str, list[tuple[str, list[int], str]]] = {}
    left: dict[str, int] = {}  # of the quota, for the pods of the team
    for pod in world.all("pods"):
        if not _is_waiting(pod) or not _has_claims(world, pod) or _is_native(pod):
            continue
        counts, node = _needs(world, pod)
        labels = pod["metadata"].get("labels") or {}
        gang = labels.get(GROUP_LABEL, pod["metadata"]["uid"])
        if _space(pod) == TEAM:
            left[gang] = TEAM_DEVICES - team
        gangs.setdefault(gang, []).append((pod["metadata"]["name"], counts, node))
    for gang, members in gangs.items():
        lacks = _lacks(world, gang, len(members))
        if sum(sum(counts) for _, counts, _ in members[:lacks]) > left.get(gang, math.inf):
            continue
        if lacks and _fit_together(
            nodes, held, [(sum(counts), node) for _, counts, node in members[:lacks]]
        ):
            names = ", ".join(name for name, _, _ in members)
            yield f"{names} of {gang} wait, and devices for {lacks} are free"


def no_important_pod_waits_beside_pods_that_can_go(world: "World") -> Iterator[str]:
    """Who may preempt others does so, also if an eviction has failed before."""
    held = {device for claim in world.holders.values() for device in devices_of(claim)}
    of_pods = {pod["metadata"]["uid"]: pod for pod in world.all("pods")}
    nodes = _open_nodes(world, NODES)
    for pod in of_pods.values():
        priority = pod["spec"].get("priority", 0)
        if not priority or not _is_waiting(pod) or not _has_claims(world, pod):
            continue
        left = {
            device
            for claim in world.holders.values()
            if len(users := consumers_of(claim)) == 1 and _can_go(of_pods.get(users[0]), priority)
            for device in devices_of(claim)
        }
        counts, node = _needs(world, pod)
        if _space(pod) == TEAM and _count_of_team(world) + sum(counts) > TEAM_DEVICES:
            continue
        if counts and _fit_together(nodes, held - left, [(sum(counts), node)]):
            yield f"{_name(pod)} waits, and pods with a lower priority have devices"


def _can_go(pod: JSON | None, priority: int) -> bool:
    """Whether a pod of ours is a victim of others; gangs are evicted as a whole."""
    if pod is None or _is_native(pod) or GROUP_LABEL in (pod["metadata"].get("labels") or {}):
        return False
    return "nodeName" in pod["spec"] and pod["spec"].get("priority", 0) < priority


def no_pod_waits_for_the_stock_scheduler(world: "World") -> Iterator[str]:
    """Neither does a pod of others on their nodes; without a defect of Kubernetes."""
    held = {device for claim in world.holders.values() for device in devices_of(claim)}
    free = (BROKEN, "good") not in held and (BROKEN, "broken") not in held
    free = free and bool(_open_nodes(world, [BROKEN]))
    for pod in world.all("pods"):
        if not pod["spec"].get("resourceClaims"):
            continue
        if free and _is_waiting(pod) and _is_native(pod) and _has_claims(world, pod):
            yield f"{_name(pod)} waits, and a device of {BROKEN} is free"


def _is_native(pod: JSON) -> bool:
    return bool(pod["spec"]["schedulerName"] != NAME)


def _lacks(world: "World", gang: str, waiting: int) -> int:
    """Return how many of the waiting members must have devices together; 0 if not enough exist.

    A member that has ended counts no more, as for kube-scheduler, which does not see it.
    """
    members = [
        pod
        for pod in world.all("pods")
        if (pod["metadata"].get("labels") or {}).get(GROUP_LABEL) == gang
    ]
    if not members:
        return 1
    least = int(members[0]["metadata"]["labels"][MIN_LABEL])
    bound = sum("nodeName" in pod["spec"] and not has_ended(pod) for pod in members)
    lacks = max(1, least - bound)
    return lacks if lacks <= waiting else 0


def _needs(world: "World", pod: JSON) -> tuple[list[int], str]:
    """Return how many devices each claim still needs, and the node of those that are allocated."""
    counts, node = [], ""
    for claim in filter(None, _claims_of(world, pod)):
        devices = devices_of(claim)
        node = next((pool for pool, _ in devices), node)
        if not devices:
            counts.append(claim["spec"]["devices"]["requests"][0]["exactly"].get("count", 1))
    return counts, node


def _claims_of(world: "World", pod: JSON) -> list[JSON | None]:
    find, kind = world.network.store.find, named("resourceclaims")
    return [find(kind, _space(pod), name) for name in claim_names(pod)]


def _open_nodes(world: "World", names: Iterable[str]) -> list[str]:
    """Return the nodes on which pods can start."""
    find, kind = world.network.store.find, named("nodes")
    return [name for name in names if (node := find(kind, "", name)) and is_open(node)]


def _fit_together(nodes: Collection[str], held: set[Device], wanted: list[tuple[int, str]]) -> bool:
    """Whether pods that need so many devices, each on one node, fit beside what is held."""
    if not wanted:
        return True
    (count, only), *others = wanted
    for node in nodes if not only else {only} & {*nodes}:
        devices = _free_devices(held, node)[:count]
        if len(devices) >= count and _fit_together(nodes, held.union(devices), others):
            return True
    return False


def _free_devices(held: set[Device], node: str) -> list[Device]:
    """Return devices that a node can give together beside what is held, the smallest first."""
    shape = NODES[node]
    taken = {device: "" for pool, device in held if pool == node}
    given = []
    for device in sorted(shape.devices, key=lambda name: shape.devices[name]):
        if shape.fits(taken, device):
            taken[device] = ""
            given.append((node, device))
    return given


def _is_waiting(pod: JSON) -> bool:
    return "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]


def _name(value: JSON) -> str:
    return str(value["metadata"]["name"])


def _space(value: JSON) -> str:
    return str(value["metadata"]["namespace"])


def every_pod_is_admitted(world: "World") -> Iterator[str]:
    """The webhook answers, and refuses no pod that fits on the nodes."""
    for name, why in world.refused.items():
        _, is_beyond, limit = why.partition(EXCEEDED)
        if not is_beyond or world.quotas.has_room(limit):
            yield f"{name} is refused: {why}"


def every_pod_gets_its_claims(world: "World") -> Iterator[str]:
    """A pod with templates has a claim of each, as far as the quota of the API server allows."""
    if not world.quotas.has_room(DEVICES):
        return
    for pod in world.all("pods"):
        made = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        wanted = [e for e in pod["spec"].get("resourceClaims", ()) if _is_of_template(e)]
        if _is_waiting(pod) and len(made) < len(wanted):
            yield f"{_name(pod)} has {len(made)} claims of {len(wanted)}"


def _is_of_template(entry: JSON) -> bool:
    return "resourceClaimTemplateName" in entry


def _has_claims(world: "World", pod: JSON) -> bool:
    """Whether nobody has deleted or refused a claim of a pod, without which it waits for ever."""
    claims = _claims_of(world, pod)
    if len(claims) < len(pod["spec"].get("resourceClaims", ())):
        return False
    return all(claim and "deletionTimestamp" not in claim["metadata"] for claim in claims)


def a_bound_pod_runs(world: "World") -> Iterator[str]:
    """Its claims are allocated and reserved for it."""
    for pod in world.all("pods"):
        if world.machines[node].kubelet.plugin if (node := pod["spec"].get("nodeName")) else True:
            continue  # no driver prepares its claims until the node is drained
        phase = (pod.get("status") or {}).get("phase", "")
        if "nodeName" in pod["spec"] and not phase and _has_claims(world, pod):
            yield f"{pod['metadata']['name']} is bound and does not run"


def the_ledger_holds_what_claims_hold(world: "World") -> Iterator[str]:
    """Nothing is kept in memory for what is gone: also no device of a vanished pod."""
    uids = {claim["metadata"]["uid"] for claim in world.all("resourceclaims")}
    held = {device for claim in world.holders.values() for device in devices_of(claim)}
    for pair in world.pairs.values():
        if pair.parts is None or not pair.parts.state.ready:
            yield f"the allocator of {pair.host} is not ready"
            continue
        state = pair.parts.state.decisions.state
        ledger = state.ledger
        if state.vanished.claims:
            yield f"{pair.host} keeps devices of vanished pods"
        # What was reserved, or kept for a pod, in an earlier term goes when the next one begins; so
        # do claims that only a scheduler has told of.
        stored = [each for uid, each in ledger.claims.items() if uid in uids]
        observed = {hold.device_id for each in stored for hold in each.holds}
        devices = ledger.devices() if pair.parts.term.leading else observed
        recorded = {(device.pool.name, device.name) for device in devices}
        if recorded != held:
            yield f"the ledger of {pair.host} differs in {sorted(recorded ^ held)}"
        charged = sum(int(f"{line.used}") for line in ledger.quotas.lines(TEAM))
        if pair.parts.term.leading and charged != _count_of_team(world):
            yield f"the ledger of {pair.host} charges {TEAM} {charged}"


def is_gathering(world: "World") -> bool:
    """Whether an interrupted gang keeps what becomes free, which takes a limited time."""
    leading = (pair.parts for pair in world.pairs.values() if pair.parts)
    interrupted = (
        parts.state.decisions.groups.interrupted for parts in leading if parts.term.leading
    )
    return any(each._gathering for each in interrupted)  # noqa: SLF001


def an_allocator_has_what_is_stored(world: "World") -> Iterator[str]:
    """Its caches follow the API server, whatever came in between."""
    for pair in world.pairs.values():
        caches = pair.parts.caches if pair.parts else None
        for cache in (caches.pods, caches.claims, caches.nodes, caches.slices) if caches else ():
            plural = cache.resource.plural
            if cache.problem:
                yield f"{pair.host} does not watch {plural}: {cache.problem}"
            metadata = (each["metadata"] for each in world.all(plural))
            stored = {(e.get("namespace", ""), e["name"], e["resourceVersion"]) for e in metadata}
            cached = {(each.namespace, each.name, each.version) for each in cache.all()}
            if cached != stored:
                yield f"{pair.host} has other {plural} than are stored: {sorted(cached ^ stored)}"


def nothing_crashed(world: "World") -> Iterator[str]:
    """A process that ends without a restore has a bug."""
    for pair in world.pairs.values():
        if pair.failure:
            yield f"{pair.host}: {pair.failure}"


def a_record_moves_as_its_states_allow(world: "World") -> Iterator[str]:
    """What cannot happen to a pod in an allocator does not."""
    for pair in world.pairs.values():
        if pair.parts is not None and pair.parts.state.ready:
            unexpected = pair.parts.state.decisions.state.records.unexpected
            if unexpected:
                yield f"{unexpected} moves of pods in the allocator of {pair.host} cannot happen"


# By what can break them: the use of a device, an allocation, and any write or event.
ALWAYS: Mapping[str, tuple[Invariant, ...]] = {
    "use": (no_device_is_used_by_two_pods, a_pod_runs_where_its_devices_are),
    "allocation": (
        no_device_is_allocated_to_two_claims,
        what_is_allocated_was_reserved,
        a_quota_is_never_exceeded,
        an_allocated_claim_has_its_mark_and_finalizer,
    ),
    "write": (
        no_pod_that_runs_loses_a_claim,
        nobody_evicts_again_and_again,
        no_reservation_expires_while_it_is_held,
        no_device_is_reserved_twice,
        one_allocator_leads,
        nobody_leads_who_knows_that_another_does,
        our_processes_write_only_what_is_theirs,
        nothing_crashed,
    ),
}
AT_THE_END: tuple[Invariant, ...] = (
    every_reservation_has_a_pod,
    every_record_has_a_pod,
    no_pod_waits_beside_free_devices,
    no_important_pod_waits_beside_pods_that_can_go,
    no_pod_waits_for_the_stock_scheduler,
    a_bound_pod_runs,
    every_pod_is_admitted,
    every_pod_gets_its_claims,
    the_ledger_holds_what_claims_hold,
    a_record_moves_as_its_states_allow,
    an_allocator_has_what_is_stored,
)
