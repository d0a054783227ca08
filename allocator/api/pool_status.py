"""Counts the devices of pools, in the form of Kubernetes' ResourcePoolStatusRequest.

The fields have the names and the meaning of KEP-5677. What it does not know, because only the
allocator does, is `reservedDevices`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, field
from msgspec.structs import replace

from allocator.api.messages import ApiCall, Leading, ResponsePart
from allocator.api.reading import format_position
from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.generations import current_slices
from drawbridge.dra.inventory import Inventory, PoolID, find_published_pool
from drawbridge.dra.taints import first_untolerated

# A page ends after so many devices: a pool can have thousands.
MAX_DEVICES: Final = 8_192


class PoolStatus(ResponsePart, frozen=True, omit_defaults=True):
    """How many devices of a pool are free. A pool with `validationError` has no counts."""

    driver: str
    pool_name: str
    generation: int
    node_name: Annotated[
        str, Meta(description="The node that all slices of the pool name, if they name one.")
    ] = ""
    resource_slice_count: int | None = None
    total_devices: int | None = None
    allocated_devices: Annotated[
        int | None, Meta(description="How many are in the allocation of a claim, also as shares.")
    ] = None
    reserved_devices: Annotated[
        int | None,
        Meta(description="How many others are promised to a pod, or kept for one."),
    ] = None
    available_devices: Annotated[int | None, Meta(description="How many are none of these.")] = None
    unavailable_devices: Annotated[
        int | None,
        Meta(description="How many others have a taint that keeps new claims away."),
    ] = None
    validation_error: str = ""


class PoolStatusList(ResponsePart, frozen=True):
    """The owned pools that match, by driver and name; `continue` requests the next page."""

    pool_count: Annotated[int, Meta(description="How many pools match, also on other pages.")]
    pools: tuple[PoolStatus, ...]
    leading: Leading
    next: str = field(default="", name="continue")


class PoolQuery(NamedTuple):
    """Which pools are asked for; empty texts match all. `after` is where a page starts."""

    driver: str
    pool: str
    limit: int
    after: str = ""


LIST_POOLS: Final = ApiCall(
    "GET", "/v1/pools", PoolStatusList, query=("driver", "poolName", "limit", "continue")
)


def list_pools(state: AllocatorState, query: PoolQuery, *, leading: bool) -> PoolStatusList:
    """Return a page of the pools that match."""
    inventory = state.planner.world().inventory
    matching = sorted(
        each
        for each in inventory.pools
        if query.driver in {"", each.driver} and query.pool in {"", each.name}
    )
    driver, _, name = query.after.partition("/")
    start = PoolID(driver, name)
    left = [each for each in matching if each > start]
    page = tuple(_describe_page(state, inventory, left[: query.limit]))
    more = format_position("/".join(left[len(page) - 1])) if len(page) < len(left) else ""
    return PoolStatusList(pool_count=len(matching), pools=page, leading=leading, next=more)


def _describe_page(
    state: AllocatorState, inventory: Inventory, pools: list[PoolID]
) -> Iterator[PoolStatus]:
    devices = 0
    for pool in pools:
        described = describe_pool(inventory, pool, _held_devices(state, pool))
        yield described
        devices += described.total_devices or 0
        if devices >= MAX_DEVICES:
            return


def _held_devices(state: AllocatorState, pool: PoolID) -> Mapping[str, bool]:
    """Return whether a claim has each held device in its allocation; others are only promised."""
    records = state.ledger.claims
    return {
        device: any(uid in records and records[uid].allocation is not None for uid in holders)
        for device, holders in state.ledger.holders_in(pool).items()
        if holders
    }


def describe_pool(inventory: Inventory, pool: PoolID, held: Mapping[str, bool]) -> PoolStatus:
    """Count the devices of a pool; `held` tells which are allocated, and which are promised."""
    slices = current_slices(inventory.published_slices(pool))
    nodes = {each.node_name or "" for each in slices}
    status = PoolStatus(
        driver=pool.driver,
        pool_name=pool.name,
        generation=max(each.generation for each in slices),
        node_name=next(iter(nodes)) if len(nodes) == 1 else "",
    )
    published = find_published_pool(inventory, pool)
    if published is None:
        counted = f"{len(slices)} of {max(each.slice_count for each in slices)} slices"
        return replace(status, validation_error=f"the pool is incomplete: {counted} are published")
    states = [held.get(name) for name in published.devices]
    tainted = sum(
        name not in held and first_untolerated(device.taints, ()) is not None
        for name, device in published.devices.items()
    )
    return replace(
        status,
        resource_slice_count=len(published.slices),
        total_devices=len(states),
        allocated_devices=states.count(True),
        reserved_devices=states.count(False),
        available_devices=states.count(None) - tainted,
        unavailable_devices=tainted,
    )
