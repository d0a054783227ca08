"""Describes allocations and nodes from the state of the allocator, without a search."""

import base64
import binascii
import heapq
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from allocator.api.messages import (
    AllocationList,
    ApiFailureError,
    ClaimAllocation,
    DescribedHold,
    DescribedNode,
    DeviceClaim,
    FailureCode,
    HeldDevice,
    HoldState,
    NodePool,
    PoolCounter,
    PoolDevice,
    QuotaList,
    QuotaState,
)
from allocator.decisions.pod_devices import PodDecisions
from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.allocation import Allocation
from drawbridge.dra.capacity import Amounts
from drawbridge.dra.inventory import PoolID, PublishedPool
from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.holdings import Hold
from drawbridge.ledger.ledger import ClaimRecord
from drawbridge.ledger.quota_use import QuotaLine
from drawbridge.solver.world import PoolUse

_ZERO: Final = Quantity.of(0)


class PageRequest(NamedTuple):
    """A page of the allocations of one namespace, or of all; `after` is a name."""

    namespace: str
    limit: int
    after: str = ""


# --- allocations ---


def list_allocations(state: AllocatorState, page: PageRequest, *, leading: bool) -> AllocationList:
    """Return the allocations behind a name, by name."""
    prefix = f"{page.namespace}/" if page.namespace else ""
    after = max(page.after, prefix)
    claims = state.ledger.claims
    of_reserved = ((claims[uid].name, uid) for uid in state.ledger.reservations if uid in claims)
    reserved = sorted(each for each in of_reserved if each[0] > after)
    # The cost of a page depends on its size, not on the cluster: any tenant may ask for pages.
    names = heapq.merge(state.allocated_claims(after), reserved)
    of_namespace = itertools.takewhile(lambda each: each[0].startswith(prefix), names)
    listed = list(itertools.islice(of_namespace, page.limit + 1))
    more = format_position(listed[page.limit - 1][0]) if len(listed) > page.limit else ""
    items = (_describe_allocation(state, uid) for _, uid in listed[: page.limit])
    return AllocationList(items=tuple(items), leading=leading, next=more)


def _describe_allocation(state: AllocatorState, uid: str) -> ClaimAllocation:
    record = state.ledger.claims[uid]
    namespace, _, name = record.name.partition("/")
    allocation = _find_allocation(state, uid, record)
    results = allocation.devices.results if allocation else ()
    nodes = (state.node_of(PoolID(each.driver, each.pool)) for each in results)
    claim = state.claims.get(uid)
    consumers = claim.status.reserved_for if claim else ()
    return ClaimAllocation(
        namespace=namespace,
        claim=name,
        uid=uid,
        state=find_state(state, uid, record),
        node=next(filter(None, nodes), ""),
        devices=describe_devices(allocation),
        pods=tuple(each.name for each in consumers if each.is_pod),
        pod_groups=tuple(each.name for each in consumers if each.is_pod_group),
    )


def _find_allocation(state: AllocatorState, uid: str, record: ClaimRecord) -> Allocation | None:
    active = state.ledger.reservations.get(uid)
    return record.allocation or (active.reservation.allocation if active else None)


def find_state(state: AllocatorState, uid: str, record: ClaimRecord) -> HoldState:
    """Return how a claim has its devices."""
    if record.allocation is None:
        return HoldState.RESERVED
    return HoldState.RELEASING if uid in state.pods.releasing else HoldState.ALLOCATED


def describe_devices(allocation: Allocation | None) -> tuple[HeldDevice, ...]:
    """Return the devices of an allocation."""
    return tuple(
        HeldDevice(
            request=result.request,
            driver=result.driver,
            pool=result.pool,
            device=result.device,
            share_id=result.share_id or "",
            consumed_capacity=_amounts(result.consumed_capacity),
            admin_access=result.admin_access,
        )
        for result in (allocation.devices.results if allocation else ())
    )


def format_position(name: str) -> str:
    """Return the token that requests what is behind a name."""
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def parse_position(token: str) -> str:
    """Return the name in a token; raises ApiFailureError."""
    try:
        padded = token + "=" * (-len(token) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        text = "this is not a token of an earlier page; start with the first page"
        raise ApiFailureError(FailureCode.BAD_REQUEST, text, "continue") from None


# --- quotas ---


def list_quotas(state: AllocatorState, page: PageRequest, *, leading: bool) -> QuotaList:
    """Return the totals that apply to a namespace, or those of all with devices, by namespace.

    What namespaces have together comes first.
    """
    if page.namespace:
        return QuotaList(items=tuple(describe_quotas(state, page.namespace)), leading=leading)
    quotas = state.ledger.quotas
    names = sorted(each for each in quotas.namespaces if each > page.after)
    listed = names[: page.limit]
    lines = [line for name in listed for line in quotas.lines(name) if line.namespace]
    together = () if page.after else quotas.together()
    items = map(_describe_quota, (*together, *lines))
    more = format_position(listed[-1]) if len(names) > len(listed) else ""
    return QuotaList(items=tuple(items), leading=leading, next=more)


def describe_quotas(state: AllocatorState, namespace: str) -> Iterator[QuotaState]:
    """Yield the totals that apply to a namespace."""
    yield from map(_describe_quota, state.ledger.quotas.lines(namespace))


def _describe_quota(line: QuotaLine) -> QuotaState:
    return QuotaState(
        quota=line.quota,
        namespace=line.namespace,
        device_class=line.key.device_class,
        amount=line.key.amount,
        limit=f"{line.limit}",
        used=f"{line.used}",
        left=f"{line.left}",
    )


# --- nodes ---


def namespaces_on(state: AllocatorState, node: str) -> Collection[str]:
    """Return the namespaces of the claims that hold devices on a node, sorted."""
    names = {
        state.ledger.claims[uid].name.partition("/")[0]
        for pool in state.planner.pools_for(node)
        for held in state.ledger.holders_in(pool).values()
        for uid in held
        if uid in state.ledger.claims
    }
    return sorted(names)


def describe_node(
    decisions: PodDecisions, node: str, readable: Collection[str], *, leading: bool
) -> DescribedNode:
    """Return the pools on a node; only claims in `readable` namespaces are named.

    Whoever may get the node can read for which pod devices are held.
    """
    state = decisions.state
    pools = (_describe_pool(state, pool, readable) for pool in state.planner.pools_for(node))
    hold = _describe_hold(decisions, node)
    return DescribedNode(node=node, leading=leading, pools=tuple(pools), hold=hold)


def _describe_hold(decisions: PodDecisions, node: str) -> DescribedHold | None:
    asked = decisions.state.node_holds.get(node)
    if asked is None:
        return None
    kept = decisions.preemptors.find(asked.uid)
    active = kept is not None and kept.planned == asked
    waits_for = len(kept.pending) if kept is not None and active else 0
    return DescribedHold(pod=asked.pod, until=asked.end, active=active, waits_for=waits_for)


def _describe_pool(state: AllocatorState, pool: PoolID, readable: Collection[str]) -> NodePool:
    published = state.planner.find_pool(pool)
    if published is None:
        return NodePool(driver=pool.driver, pool=pool.name, complete=False)
    use, holders = state.ledger.view().use(pool), state.ledger.holders_in(pool)
    devices = (
        _describe_device(state, name, holders[name], use.shares.get(name, {}), readable)
        if name in holders
        else PoolDevice(name=name)
        for name in published.devices
    )
    return NodePool(
        driver=pool.driver,
        pool=pool.name,
        complete=True,
        devices=tuple(devices),
        counters=tuple(_describe_counters(published, use)),
    )


def _describe_device(
    state: AllocatorState,
    device: str,
    holders: Mapping[str, Sequence[Hold]],
    shares: Amounts,
    readable: Collection[str],
) -> PoolDevice:
    """Return a held device; what is kept for a pod that preempts is as a reservation."""
    claims, states = [], []
    for uid, holds in sorted(holders.items()):
        record = state.ledger.claims.get(uid)
        how = find_state(state, uid, record) if record is not None else HoldState.RESERVED
        states.append(how)
        namespace, _, name = record.name.partition("/") if record is not None else ("", "", "")
        if record is not None and namespace in readable:
            consumed = _amounts(_total(each.consumed for each in holds))
            claims.append(
                DeviceClaim(namespace=namespace, claim=name, state=how, consumed_capacity=consumed)
            )
    return PoolDevice(
        name=device,
        held=len(states),
        reserved=states.count(HoldState.RESERVED),
        releasing=states.count(HoldState.RELEASING),
        consumed_capacity=_amounts(shares),
        claims=tuple(claims),
    )


def _describe_counters(published: PublishedPool, use: PoolUse) -> Iterator[PoolCounter]:
    consumed: dict[tuple[str, str], Quantity] = {}
    for device in map(published.devices.get, use.dedicated.union(use.shares)):
        for consumes_counter in device.consumes_counters if device else ():
            for name, counter in consumes_counter.counters.items():
                key = (consumes_counter.counter_set, name)
                consumed[key] = consumed.get(key, _ZERO) + counter.value
    for counter_set in published.counter_sets.values():
        for name, counter in counter_set.counters.items():
            yield PoolCounter(
                counter_set=counter_set.name,
                counter=name,
                value=f"{counter.value}",
                consumed=f"{consumed.get((counter_set.name, name), _ZERO)}",
            )


def _total(amounts: Iterator[Amounts]) -> Mapping[str, Quantity]:
    total: dict[str, Quantity] = {}
    for pool in amounts:
        for name, amount in pool.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _amounts(amounts: Amounts) -> Mapping[str, str]:
    return {name: f"{amount}" for name, amount in sorted(amounts.items())}
