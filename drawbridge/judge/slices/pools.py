"""Checks pools: the number of slices, their generations, and unique names.

The scheduler allocates nothing from an incomplete or invalid pool.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import codes

Pools = Mapping[PoolID, tuple[Slice, ...]]


def newest_generations(slices: Iterable[Slice]) -> Pools:
    """Return the slices of the newest generation of each pool, by name."""
    pools: dict[PoolID, list[Slice]] = {}
    for slice_ in sorted(slices, key=lambda each: each.name):
        pools.setdefault(PoolID(slice_.driver, slice_.pool), []).append(slice_)
    return {pool: _newest(members) for pool, members in pools.items()}


def _newest(members: Sequence[Slice]) -> tuple[Slice, ...]:
    highest = max(each.generation for each in members)
    return tuple(each for each in members if each.generation == highest)


def latest_slices(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    """Return the last slice of each name; in a cluster it replaces the others."""
    return tuple({each.name: each for each in slices}.values())


def find_repeated(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Report slices that occur more than once; in a cluster the last one replaces the others."""
    seen: set[str] = set()
    for slice_ in slices:
        if slice_.name in seen:
            message = f"slice {slice_.name} occurs more than once; the last one applies"
            yield codes.OBJECT_TWICE.at("metadata.name", message, object=f"{KIND}/{slice_.name}")
        seen.add(slice_.name)


def find_outdated(slices: Iterable[Slice], pools: Pools) -> Iterator[Finding]:
    """Report slices of old generations."""
    for slice_ in slices:
        pool = PoolID(slice_.driver, slice_.pool)
        highest = pools[pool][0].generation
        if slice_.generation < highest:
            message = (
                f"generation {slice_.generation} of pool {pool.name} of {pool.driver} is ignored: "
                f"slice {pools[pool][0].name} has generation {highest}"
            )
            yield codes.SLICE_OLD.at(
                "spec.pool.generation", message, object=f"{KIND}/{slice_.name}"
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
