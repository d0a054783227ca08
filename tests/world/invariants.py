"""What must hold, each a function that yields what breaks it.

`ALWAYS` is looked at when what can break it happens, `AT_THE_END` when the faults have ended and
everything had time to settle.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from allocator.decisions.pod_devices import PodDecisions
from drawbridge.names import MIRRORED_QUOTA
from tests.cluster.fake.kinds import JSON
from tests.world.allocations import (
    a_claim_gets_what_it_asks_for,
    an_allocated_claim_has_its_mark_and_finalizer,
)
from tests.world.books import no_book_is_lost_or_overlaps, the_books_have_what_claims_had
from tests.world.fabric import list_unattached
from tests.world.foreign_taints import our_controller_changes_no_taint_of_others
from tests.world.gangs import COSCHEDULING, GROUP, gang_of, is_reserved_for
from tests.world.mirrors import REFUSING, the_mirror_says_what_the_other_side_leaves
from tests.world.mirrors import SPACE as MIRRORED
from tests.world.network import LEASE_SECONDS, SYSTEM
from tests.world.nodes import (
    Device,
    Hold,
    consumers_of,
    devices_of,
    holds_of,
)
from tests.world.objects import ALL_NODES, MIGRATED
from tests.world.opened_fences import every_node_of_ours_has_its_fence
from tests.world.other_webhooks import a_container_gets_its_devices_once
from tests.world.placed_pods import may_never_run
from tests.world.preemption_invariants import a_preemption_spares_whom_it_can
from tests.world.preemptions import read_holds
from tests.world.quotas import DEVICES, EXCEEDED
from tests.world.rival_invariants import (
    count_uses,
    no_allocator_writes_claims_of_rivals,
    no_pod_that_waits_keeps_what_a_rival_has,
    nobody_gets_what_others_are_seen_to_have,
    what_two_claims_hold_is_reported,
)
from tests.world.rivals import NAME as RIVAL
from tests.world.team_quota import a_quota_is_never_exceeded, list_charges
from tests.world.tries import MOST_TRIES, SECONDS
from tests.world.user_claims import has_template
from tests.world.waiting_pods import (
    Invariant,
    claims_of,
    has_claims,
    is_waiting,
    name_of,
    no_important_pod_waits_beside_pods_that_can_go,
    no_pod_waits_beside_free_devices,
    no_pod_waits_for_the_stock_scheduler,
    of_stored,
)
from tests.world.whole_gangs import a_gang_is_bound_as_a_whole

if TYPE_CHECKING:
    from tests.world.world import World

# A preemptor asks again when its victims stay, or others take their devices.
MOST_EVICTIONS = 5
# What our processes may write; beside it all may write events.
_ALLOWED = {
    "allocator": ("/resourceclaims/", "/pods/[^/]+/(binding|status)$"),
    "controller": (
        f"/namespaces/{SYSTEM}/",
        "/nodes/",
        f"/namespaces/{MIGRATED}[^/]*/resourceclaimtemplates",
        # In both: a restored name without a class can still have claims of its former one.
        f"/namespaces/({MIGRATED}|{MIRRORED}|{REFUSING})/resourcequotas/{MIRRORED_QUOTA}$",
        f"/namespaces/({MIGRATED}|{MIRRORED}|{REFUSING})/resourcequotas$",
        "/mutatingwebhookconfigurations/drawbridge",
        "/validatingadmissionpolicies/drawbridge-owned-devices$",
        "/devicetaintrules",
    ),
}


def no_device_is_used_by_two_pods(world: "World") -> Iterator[str]:
    """From the preparation of a device until the containers of its pod have ended.

    Several use shares of one device, up to its memory.
    """
    count_uses(world)
    used = ((use.claim, use.uid, use.holds) for use in world.uses.all())
    yield from _overlaps(world, used, "used by")


def a_pod_runs_where_its_devices_are(world: "World") -> Iterator[str]:
    """No kubelet prepares devices of another node."""
    for use in world.uses.all():
        if any(pool != use.node for pool, _ in use.devices):
            yield f"{use.pod} runs on {use.node}, and {use.claim} has {sorted(use.devices)}"


def no_device_is_allocated_to_two_claims(world: "World") -> Iterator[str]:
    """As the API server has it; and nothing gives more than its memory or its counters have."""
    held = ((name_of(claim), "", holds_of(claim)) for claim in world.holders.values())
    yield from _overlaps(world, held, "allocated to")


def _overlaps(
    world: "World", holders: Iterable[tuple[str, str, frozenset[Hold]]], word: str
) -> Iterator[str]:
    """Yield devices and nodes of which more is held than they have, and shares with two holders.

    Nobody knows what a withdrawn device takes once its pod's owner has changed the mark. What the
    stock scheduler had decided before a restore, it writes beside what has come back: also devices
    of ours, if their node was given back after the backup. Nobody keeps it off a node that comes
    with the name of one of ours while our processes hear of nothing. A rival takes what it wants.
    """
    # The amounts, by holder and share; a claim can have the name of one that is gone.
    by_device: dict[Device, dict[tuple[str, str], int]] = {}
    for name, uid, holds in holders:
        for hold in () if world.rivals.has(name) else holds:
            by_device.setdefault(hold.device, {})[name, hold.share or uid] = hold.amount
    for (node, device), amounts in sorted(by_device.items()):
        late, shares = world.decided_before_restore, [share for _, share in amounts if share]
        total = sum(amount for (name, _), amount in amounts.items() if name not in late)
        is_beyond = total > ALL_NODES[node].size(device) or len(shares) > len({*shares})
        names = sorted({name for name, _ in amounts})
        if is_beyond and not world.newcomers.excuses(node, names):
            yield f"{node}/{device} is {word} {' and '.join(names)}"
    for node, shape in ALL_NODES.items():
        if not shape.units:
            continue
        on_node = {
            device: {name for name, _ in amounts}
            for (pool, device), amounts in by_device.items()
            if pool == node
        }
        held = [device for device, names in on_node.items() if names - world.forged]
        if sum(shape.devices.get(device, 0) for device in held) > shape.units:
            users = sorted(frozenset[str]().union(*on_node.values()))
            yield f"{node} gives more than it has: {', '.join(sorted(held))} are {word} {users}"


def nobody_evicts_again_and_again(world: "World") -> Iterator[str]:
    """An eviction helps the pod for which it is done."""
    for pair in world.pairs.values():
        for uid, count in pair.scheduler.evictions.counts.items():
            if count > MOST_EVICTIONS:
                yield f"{uid} has evicted others {count} times and has no devices"


def nobody_evicts_before_its_delay(world: "World") -> Iterator[str]:
    """A pod waits for a new node as long as the configuration says, whoever leads meanwhile.

    An allocator compares the condition of a pod with the time of a server, which can be ahead.
    """
    if "skew" in world.network.counted:
        return
    for pair in world.pairs.values():
        for name in pair.scheduler.evictions.early:
            yield f"{name} has not waited for {world.conditions.eviction_delay} s"


def no_server_alone_sets_the_time_of_a_process(world: "World") -> Iterator[str]:
    """A server whose clock is wrong by hours is believed if no other one is heard."""
    yield from world.network.misled


def no_pod_is_tried_without_end(world: "World") -> Iterator[str]:
    """A pod that is refused is woken only if its answer can be another one."""
    for pair in world.pairs.values():
        for uid in pair.scheduler.tries.endless:
            yield f"{uid} was tried {MOST_TRIES} times in {SECONDS:g} s"


def no_reservation_expires_while_it_is_held(world: "World") -> Iterator[str]:
    """The devices of a pod that the scheduler holds stay reserved, up to the limit."""
    for pair in world.pairs.values():
        for uid in pair.scheduler.expired:
            yield f"the reservation of {uid} has expired, which {pair.host} holds"


def no_pod_that_runs_loses_a_claim(world: "World") -> Iterator[str]:
    """Our allocators take nothing from a pod that is bound and has not ended, nor from others."""
    for taken in world.taken:
        yield f"an allocator has taken {taken}"


def no_allocator_takes_devices_of_others(world: "World") -> Iterator[str]:
    """Our allocators allocate on nodes with a fence, on which no other scheduler allocates."""
    for name in world.newcomers.beyond_fences:
        yield f"{name}, which has no fence"


def what_is_allocated_was_reserved(world: "World") -> Iterator[str]:
    """An allocator writes only devices that nobody else can get meanwhile."""
    for pair in world.pairs.values():
        for name in pair.unreserved:
            yield f"{name} got devices that were not reserved for it"


def no_device_is_reserved_twice(world: "World") -> Iterator[str]:
    """Also in memory, a device is promised to one claim, or in shares."""
    for pair in world.pairs.values():
        if pair.parts is None or not pair.parts.state.ready:
            continue
        reservations = pair.parts.state.decisions.state.ledger.reservations
        reserved = ((uid, "", read_holds(active.holds)) for uid, active in reservations.items())
        yield from _overlaps(world, reserved, f"reserved by {pair.host} for")


def one_allocator_leads(world: "World") -> Iterator[str]:
    """Two that may write at the same time could give out one device twice.

    A restore also brings back an old Lease, which hosts can take that the holder never heard of. A
    scheduler that is stopped releases its Lease, later if its host stands still, and the allocator
    beside the one that has it learns of that when it reads the Lease again.
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


def one_controller_writes(world: "World") -> Iterator[str]:
    """Nothing is sent behind the fence of a Lease that another one has, which a restore undoes.

    What a process was about to send when it stood still comes later; versions keep it from harm.
    """
    beside, world.controllers.beside = world.controllers.beside, []
    if world.since_restore() >= LEASE_SECONDS:
        yield from beside


def our_processes_write_only_what_is_theirs(world: "World") -> Iterator[str]:
    """No object of others changes."""
    for who, method, path in world.network.written[world.checked_writes :]:
        allowed = _ALLOWED.get(who.partition(" ")[0])
        is_event = path.endswith("/events") or "/events/" in path
        if allowed and not is_event and not any(re.search(part, path) for part in allowed):
            yield f"{who}: {method} {path}"
    world.checked_writes = len(world.network.written)


@of_stored
def every_reservation_has_a_pod(world: "World") -> Iterator[str]:
    """No claim is reserved for a pod or a PodGroup that is gone."""
    users = (*world.all("pods"), *world.all(GROUP.long_name))
    uids = {each["metadata"]["uid"] for each in users}
    for claim in world.all("resourceclaims"):
        if set(consumers_of(claim)) - uids:
            yield f"{claim['metadata']['name']} is reserved for a pod that is gone"


def every_record_has_a_pod(world: "World") -> Iterator[str]:
    """An allocator remembers nothing of a pod that is gone, and one it has not seen for a time."""
    uids = {pod["metadata"]["uid"] for pod in world.all("pods")}
    for pair in world.pairs.values():
        if pair.parts is not None and pair.parts.state.ready:
            records = pair.parts.state.decisions.state.records
            for uid in records:
                if uid not in uids and records.times.get("unseen", uid) is None:
                    yield f"{pair.host} has a record of {uid}, which is gone"


def every_pod_is_admitted(world: "World") -> Iterator[str]:
    """The webhook answers, and refuses no pod that fits on the nodes."""
    for name, why in world.admitted.refused.items():
        _, is_beyond, limit = why.partition(EXCEEDED)
        if not is_beyond or world.quotas.has_room(limit):
            yield f"{name} is refused: {why}"


def every_pod_gets_its_claims(world: "World") -> Iterator[str]:
    """A pod with templates has a claim of each, as far as the quota of the API server allows."""
    if not world.quotas.has_room(DEVICES):
        return
    for pod in world.all("pods"):
        made = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        entries = pod["spec"].get("resourceClaims", ())
        wanted = [entry for entry in entries if has_template(world, pod, entry)]
        if is_waiting(pod) and len(made) < len(wanted) and _has_group(world, pod):
            yield f"{name_of(pod)} has {len(made)} claims of {len(wanted)}"


def _has_group(world: "World", pod: JSON) -> bool:
    """Whether the PodGroup of a pod exists, and stays, if it names one."""
    gang = gang_of(pod)
    if gang is None or gang.kind is not GROUP:
        return True
    group = world.network.store.find(*gang.place)
    return group is not None and "deletionTimestamp" not in group["metadata"]


def a_bound_pod_runs(world: "World") -> Iterator[str]:
    """Its claims are allocated and reserved for it."""
    for pod in world.all("pods"):
        if world.machines[node].kubelet.plugin if (node := pod["spec"].get("nodeName")) else True:
            continue  # no driver prepares its claims until the node is drained
        if pod["spec"]["schedulerName"] == RIVAL:
            continue  # it binds whatever becomes of its claims
        if may_never_run(world, pod):
            continue
        phase = (pod.get("status") or {}).get("phase", "")
        is_late = pod["metadata"]["uid"] in world.bound_late
        if is_late and not all(devices_of(claim) for claim in claims_of(world, pod) if claim):
            continue
        if "nodeName" in pod["spec"] and not phase and has_claims(world, pod):
            yield f"{pod['metadata']['name']} is bound and does not run"


def the_ledger_holds_what_claims_hold(world: "World") -> Iterator[str]:
    """Nothing is kept in memory for what is gone: also no device of a vanished pod."""
    uids = {claim["metadata"]["uid"] for claim in world.all("resourceclaims")}
    held = {hold for claim in world.holders.values() for hold in holds_of(claim)}
    for pair in world.pairs.values():
        if pair.parts is None or not pair.parts.state.ready:
            yield f"the allocator of {pair.host} is not ready"
            continue
        state = pair.parts.state.decisions.state
        ledger = state.ledger
        if state.vanished.claims:
            yield f"{pair.host} keeps devices of vanished pods"
        # Who does not lead has claims that only a scheduler has told of until it leads again.
        stored = [each for uid, each in ledger.claims.items() if uid in uids]
        holders = (*stored, *ledger.reservations.values())
        counted = [hold for each in holders for hold in each.holds]
        if pair.parts.term.leading:
            by_device = map(ledger.holders, ledger.devices())
            counted = [
                hold for each in by_device for of_claim in each.values() for hold in of_claim
            ]
        recorded = read_holds(counted)
        if recorded != held:
            yield f"the ledger of {pair.host} differs in {sorted(recorded ^ held)}"
    yield from list_charges(world)


def is_gathering(world: "World") -> bool:
    """Whether an interrupted gang keeps what becomes free, which takes a limited time."""
    interrupted = (each.groups.interrupted for each in _list_deciding(world))
    return any(each._gathering for each in interrupted)  # noqa: SLF001


def is_evicting(world: "World") -> bool:
    """Whether devices are kept for a pod whose victims are still there."""
    pods = {pod["metadata"]["uid"] for pod in world.all("pods")}
    records = (r for each in _list_deciding(world) for r in each.state.records.having("kept"))
    return any(each.kept and not pods.isdisjoint(each.kept.victims) for each in records)


def is_pausing(world: "World", left: str) -> bool:
    """Whether what is left is a pod that can evict others, and one pauses after vain questions."""
    now = asyncio.get_running_loop().time()
    return left.startswith(no_important_pod_waits_beside_pods_that_can_go.__name__) and any(
        record.victim_pause.until > now
        for each in _list_deciding(world)
        for record in each.state.records.having("victims")
    )


def _list_deciding(world: "World") -> list[PodDecisions]:
    parts = (pair.parts for pair in world.pairs.values() if pair.parts)
    return [each.state.decisions for each in parts if each.term.leading]


def an_allocator_has_what_is_stored(world: "World") -> Iterator[str]:
    """Its caches follow the API server, whatever came in between."""
    for pair in world.pairs.values():
        caches = pair.parts.caches if pair.parts else None
        if caches is None:
            continue
        for cache in (caches.pods, caches.claims, caches.nodes, caches.slices, caches._groups):  # noqa: SLF001
            assert cache is not None, "PodGroups of Coscheduling are served"
            is_group = cache.resource.plural == COSCHEDULING.plural
            plural = COSCHEDULING.long_name if is_group else cache.resource.plural
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


def a_pod_is_bound_with_its_claims(world: "World") -> Iterator[str]:
    """What it names when we bind it is allocated, reserved and attached, or is being deleted.

    A restore can take the allocation back, and leave the version of the pod that a binding names.
    Such a pod never runs; a user can have deleted its claim by then.
    """
    pod = world.bound
    if world.binds_from_before_restore():
        world.network.count("binding soon after a restore")
        world.bound_late.add(pod["metadata"]["uid"])
        return
    if not has_claims(world, pod):
        return
    for claim in filter(None, claims_of(world, pod)):
        if not devices_of(claim) or not is_reserved_for(pod, claim):
            yield f"{name_of(pod)} is bound, and {name_of(claim)} is not reserved for it"
        for device in list_unattached(claim):
            yield f"{name_of(pod)} is bound, and {device} of {name_of(claim)} is not attached"


# By what can break them: the use of a device, a binding, an allocation, and any write or event.
ALWAYS: Mapping[str, tuple[Invariant, ...]] = {
    "binding": (a_pod_is_bound_with_its_claims,),
    "use": (no_device_is_used_by_two_pods, a_pod_runs_where_its_devices_are),
    "allocation": (
        no_device_is_allocated_to_two_claims,
        no_allocator_takes_devices_of_others,
        what_is_allocated_was_reserved,
        a_quota_is_never_exceeded,
        a_claim_gets_what_it_asks_for,
        an_allocated_claim_has_its_mark_and_finalizer,
    ),
    "write": (
        no_pod_that_runs_loses_a_claim,
        nobody_evicts_again_and_again,
        nobody_evicts_before_its_delay,
        a_preemption_spares_whom_it_can,
        no_pod_is_tried_without_end,
        no_reservation_expires_while_it_is_held,
        no_device_is_reserved_twice,
        one_allocator_leads,
        nobody_leads_who_knows_that_another_does,
        one_controller_writes,
        no_book_is_lost_or_overlaps,
        no_allocator_writes_claims_of_rivals,  # before the next one, which notes what it has seen
        our_processes_write_only_what_is_theirs,
        our_controller_changes_no_taint_of_others,
        no_server_alone_sets_the_time_of_a_process,
        a_container_gets_its_devices_once,
        nothing_crashed,
        nobody_gets_what_others_are_seen_to_have,
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
    no_pod_that_waits_keeps_what_a_rival_has,
    what_two_claims_hold_is_reported,
    every_node_of_ours_has_its_fence,
    a_gang_is_bound_as_a_whole,
    the_books_have_what_claims_had,
    the_mirror_says_what_the_other_side_leaves,
)
