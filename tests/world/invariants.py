"""What must hold, each a function that yields what breaks it.

`ALWAYS` is looked at after each write and each preparation, `AT_THE_END` when the faults have ended
and everything had time to settle.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tests.cluster.fake.kinds import JSON
from tests.world.network import LEASE_SECONDS
from tests.world.nodes import claim_names, consumers_of, devices_of

if TYPE_CHECKING:
    from tests.world.world import World

Invariant = Callable[["World"], Iterator[str]]
# Whose requests may write what; beside them everybody may write events.
_ALLOWED = ("resourceclaims/", "/binding")


def no_device_is_used_by_two_pods(world: "World") -> Iterator[str]:
    """From the preparation of a device until the containers of its pod have ended."""
    users: dict[tuple[str, str], str] = {}
    for use in world.uses.values():
        for device in use.devices:
            if use.lost:
                continue
            other = users.setdefault(device, use.claim)
            if other != use.claim:
                yield f"{'/'.join(device)} is used by {use.claim} and {other}"


def no_device_is_allocated_to_two_claims(world: "World") -> Iterator[str]:
    """As the API server has it."""
    holders: dict[tuple[str, str], str] = {}
    for claim in world.all("resourceclaims"):
        for device in devices_of(claim):
            other = holders.setdefault(device, claim["metadata"]["name"])
            if other != claim["metadata"]["name"]:
                yield f"{'/'.join(device)} is allocated to {claim['metadata']['name']} and {other}"


def an_allocated_claim_has_its_mark_and_finalizer(world: "World") -> Iterator[str]:
    """Without them, it could vanish while it is in use."""
    for claim in world.all("resourceclaims"):
        if devices_of(claim) and not claim["metadata"].get("finalizers"):
            yield f"{claim['metadata']['name']} is allocated without a finalizer"


def one_allocator_leads(world: "World") -> Iterator[str]:
    """Two that may write at the same time could give out one device twice.

    A restore also brings back an old Lease, which hosts can take that the holder never heard of.
    """
    if world.since_restore() < LEASE_SECONDS:
        return
    leading = [
        each.host for each in world.pairs.values() if each.parts and each.parts.lease.leading
    ]
    if len(leading) > 1:
        yield f"{' and '.join(leading)} lead"


def an_allocator_writes_only_claims_and_bindings(world: "World") -> Iterator[str]:
    """No object of others changes."""
    for who, method, path in world.network.written[world.checked_writes :]:
        is_event = path.endswith("/events") or "/events/" in path
        if who.startswith("allocator") and not is_event and not any(e in path for e in _ALLOWED):
            yield f"{who}: {method} {path}"
    world.checked_writes = len(world.network.written)


def every_reservation_has_a_pod(world: "World") -> Iterator[str]:
    """No claim is reserved for a pod that is gone."""
    pods = {each["metadata"]["uid"] for each in world.all("pods")}
    for claim in world.all("resourceclaims"):
        if set(consumers_of(claim)) - pods:
            yield f"{claim['metadata']['name']} is reserved for a pod that is gone"


def no_pod_waits_beside_free_devices(world: "World") -> Iterator[str]:
    """No device is free for ever while a pod waits that fits."""
    held = {device for claim in world.all("resourceclaims") for device in devices_of(claim)}
    for pod in world.all("pods"):
        needed = len(claim_names(pod))
        fits = any(
            count - sum(pool == node for pool, _ in held) >= needed
            for node, count in world.devices.items()
        )
        if "nodeName" not in pod["spec"] and fits and _has_claims(world, pod):
            yield f"{pod['metadata']['name']} waits, and its devices are free on one node"


def _has_claims(world: "World", pod: JSON) -> bool:
    """Whether nobody has deleted a claim of a pod, without which it waits for ever."""
    claims = {each["metadata"]["name"]: each["metadata"] for each in world.all("resourceclaims")}
    own = [claims.get(name) for name in claim_names(pod)]
    return all(each is not None and "deletionTimestamp" not in each for each in own)


def a_bound_pod_runs(world: "World") -> Iterator[str]:
    """Its claims are allocated and reserved for it."""
    for pod in world.all("pods"):
        phase = (pod.get("status") or {}).get("phase", "")
        if "nodeName" in pod["spec"] and not phase and _has_claims(world, pod):
            yield f"{pod['metadata']['name']} is bound and does not run"


def the_ledger_holds_what_claims_hold(world: "World") -> Iterator[str]:
    """Nothing is kept in memory for what is gone: also no device of a vanished pod."""
    held = {device for claim in world.all("resourceclaims") for device in devices_of(claim)}
    for pair in world.pairs.values():
        if pair.parts is None or not pair.parts.state.ready:
            yield f"the allocator of {pair.host} is not ready"
            continue
        state = pair.parts.state.decisions.state
        recorded = {(each.pool.name, each.name) for each in state.ledger.devices()}
        if recorded != held:
            yield f"the ledger of {pair.host} differs in {sorted(recorded ^ held)}"


def nothing_crashed(world: "World") -> Iterator[str]:
    """A process that ends without a restore has a bug."""
    for pair in world.pairs.values():
        if pair.failure:
            yield f"{pair.host}: {pair.failure}"


ALWAYS: tuple[Invariant, ...] = (
    no_device_is_used_by_two_pods,
    no_device_is_allocated_to_two_claims,
    an_allocated_claim_has_its_mark_and_finalizer,
    one_allocator_leads,
    an_allocator_writes_only_claims_and_bindings,
    nothing_crashed,
)
AT_THE_END: tuple[Invariant, ...] = (
    every_reservation_has_a_pod,
    no_pod_waits_beside_free_devices,
    a_bound_pod_runs,
    the_ledger_holds_what_claims_hold,
)
