"""Checks pools: the number of slices, their generations, and unique names.

The scheduler allocates nothing from an incomplete or invalid pool.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from drawbridge.dra.generations import current_parts, current_slices, find_replaced, is_complete
from drawbridge.dra.inventory import PoolID, group_by_pool
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes


class PoolPart(NamedTuple):
    """What of a pool the scheduler counts together: all of it, or what is for one node."""

    driver: str
    name: str
    number: int


Pools = Mapping[PoolPart, tuple[Slice, ...]]


SlicesByPool = Mapping[PoolID, Sequence[Slice]]


def current_pools(slices: SlicesByPool) -> Pools:
    """Return the slices of each pool that no other slice replaces."""
    return {
        PoolPart(*pool, number): part
        for pool, members in slices.items()
        for number, part in enumerate(current_parts(members))
    }


def latest_slices(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    """Return the last slice of each name; in a cluster it replaces the others."""
    return tuple({each.name: each for each in slices}.values())


def list_current(slices: Iterable[Slice]) -> list[Slice]:
    """Return the slices that no other slice replaces."""
    pools = current_pools(group_by_pool(latest_slices(slices)))
    return [each for members in pools.values() for each in members]


def find_repeated(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report slices that occur more than once; in a cluster the last one replaces the others."""
    seen: set[str] = set()
    for slice_ in slices:
        if slice_.name in seen:
            message = f"slice {slice_.name} occurs more than once; the last one applies"
            yield codes.OBJECT_TWICE.at("metadata.name", message, object=f"{KIND}/{slice_.name}")
        seen.add(slice_.name)


def find_outdated(slices: SlicesByPool) -> Iterator[Finding]:
    """Report slices of old generations."""
    for slice_, newer in chain.from_iterable(map(find_replaced, slices.values())):
        message = (
            f"generation {slice_.generation} of pool {slice_.pool} of {slice_.driver} is "
            f"ignored: slice {newer.name} has generation {newer.generation}"
        )
        yield codes.SLICE_OLD.at("spec.pool.generation", message, object=f"{KIND}/{slice_.name}")


def find_foreign_slices(slices: SlicesByPool) -> Iterator[Finding]:
    """Report slices for one node that name the pool of another node."""
    for pool, members in slices.items():
        current = current_slices(members)
        nodes = {each.node_name for each in current}
        if pool.name not in nodes or is_complete(current):
            continue  # nobody knows whose it is, or it is one pool of several nodes
        foreign = [each for each in current if each.node_name not in {None, pool.name}]
        for resource_slice in foreign:
            message = (
                f"this slice for node {resource_slice.node_name} names pool {pool.name}, which "
                f"node {pool.name} publishes"
            )
            yield codes.POOL_OF_ANOTHER_NODE.at(
                "spec.pool.name", message, object=f"{KIND}/{resource_slice.name}"
            )


def check_slice_counts(pools: Pools) -> Iterator[Finding]:
    """Report pools with a wrong or inconsistent number of slices."""
    path = "spec.pool.resourceSliceCount"
    for pool, members in pools.items():
        first, number = members[0], len(members)
        differing = next((m for m in members if m.slice_count != first.slice_count), None)
        if differing is not None:
            message = (
                f"this slice states {differing.slice_count} slices for pool {pool.name} of "
                f"{pool.driver}, but slice {first.name} states {first.slice_count}"
            )
            about = f"{KIND}/{differing.name}"
            yield codes.POOL_COUNT_DISAGREES.at(path, message, object=about)
        elif number != first.slice_count:
            message = (
                f"pool {pool.name} of {pool.driver} has {number} of {first.slice_count} slices at "
                f"generation {first.generation}: nothing can be allocated from it"
            )
            yield codes.POOL_INCOMPLETE.at(path, message, object=f"{KIND}/{first.name}")


def check_unique_names(pools: Pools) -> Iterator[Finding]:
    """Report devices and counter sets whose name occurs in another slice of the pool."""
    for pool, members in pools.items():
        where = f"pool {pool.name} of {pool.driver}"
        devices = ((m, "spec.devices", [d.name for d in m.devices]) for m in members)
        yield from _check_names(devices, f"device %s occurs more than once in {where}")
        sets = ((m, "spec.sharedCounters", [s.name for s in m.shared_counters]) for m in members)
        yield from _check_names(sets, f"counter set %s occurs more than once in {where}")


def _check_names(
    members: Iterable[tuple[Slice, str, Sequence[str]]], message: str
) -> Iterator[Finding]:
    """Report names in several slices; the API server rejects duplicates within one slice."""
    seen: dict[str, str] = {}
    for member, path, names in members:
        for i, name in enumerate(names):
            other = seen.setdefault(name, member.name)
            if other != member.name:
                text = f"{message % name}, first in slice {other}"
                at = f"{path}[{i}].name"
                yield codes.NAME_TAKEN.at(at, text, object=f"{KIND}/{member.name}")
