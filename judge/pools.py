"""Is a pool whole? The number of its slices, their generations, and names that must differ in it.

The scheduler takes nothing from a pool that is incomplete or invalid, and says little of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dra.finding import Finding
from dra.inventory import PoolID
from dra.slices import KIND, Slice
from judge import codes

Pools = Mapping[PoolID, tuple[Slice, ...]]


def newest_generations(slices: Iterable[Slice]) -> Pools:
    """Give the slices of each pool that count: those of its highest generation, by name."""
    pools: dict[PoolID, list[Slice]] = {}
    for each in sorted(slices, key=lambda each: each.name):
        pools.setdefault(PoolID(each.driver, each.pool), []).append(each)
    return {pool: _newest(members) for pool, members in pools.items()}


def _newest(members: Sequence[Slice]) -> tuple[Slice, ...]:
    highest = max(each.generation for each in members)
    return tuple(each for each in members if each.generation == highest)


def latest_slices(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    """Of a slice that is there twice keep the later one: in a cluster it is the only one."""
    return tuple({each.name: each for each in slices}.values())


def find_repeated(slices: Iterable[Slice]) -> Iterator[Finding]:
    """Tell of slices that are there twice: in a cluster, the later one replaces the other."""
    seen: set[str] = set()
    for each in slices:
        if each.name in seen:
            message = f"slice {each.name} is there twice; the last one counts"
            yield codes.OBJECT_TWICE.at("metadata.name", message, object=f"{KIND}/{each.name}")
        seen.add(each.name)


def find_outdated(slices: Iterable[Slice], pools: Pools) -> Iterator[Finding]:
    """Tell of slices that no longer count."""
    for each in slices:
        pool = PoolID(each.driver, each.pool)
        highest = pools[pool][0].generation
        if each.generation < highest:
            message = (
                f"generation {each.generation} of pool {pool.name} of {pool.driver} is ignored: "
                f"slice {pools[pool][0].name} has generation {highest}"
            )
            yield codes.SLICE_OLD.at("spec.pool.generation", message, object=f"{KIND}/{each.name}")


def check_slice_counts(pools: Pools) -> Iterator[Finding]:
    """Tell of pools whose slices are not as many as they say, or do not say the same."""
    path = "spec.pool.resourceSliceCount"
    for pool, members in pools.items():
        first, there = members[0], len(members)
        differing = next((m for m in members if m.slice_count != first.slice_count), None)
        if differing is not None:
            message = (
                f"pool {pool.name} of {pool.driver} has {differing.slice_count} slices by this "
                f"one, {first.slice_count} by {first.name}"
            )
            about = f"{KIND}/{differing.name}"
            yield codes.POOL_COUNT_DISAGREES.at(path, message, object=about)
        elif there != first.slice_count:
            message = (
                f"pool {pool.name} of {pool.driver} has {there} of {first.slice_count} slices at "
                f"generation {first.generation}: nothing can be allocated from it"
            )
            yield codes.POOL_INCOMPLETE.at(path, message, object=f"{KIND}/{first.name}")


def check_unique_names(pools: Pools) -> Iterator[Finding]:
    """Tell of devices and counter sets that have a name of another slice of the pool."""
    for pool, members in pools.items():
        where = f"pool {pool.name} of {pool.driver}"
        devices = ((m, "spec.devices", [d.name for d in m.devices]) for m in members)
        yield from _named(devices, f"device %s is in {where} twice")
        sets = ((m, "spec.sharedCounters", [s.name for s in m.shared_counters]) for m in members)
        yield from _named(sets, f"counter set %s is in {where} twice")


def _named(members: Iterable[tuple[Slice, str, Sequence[str]]], message: str) -> Iterator[Finding]:
    """Tell of a name in another slice; twice in one is a limit of the API server."""
    seen: dict[str, str] = {}
    for member, path, names in members:
        for i, name in enumerate(names):
            other = seen.setdefault(name, member.name)
            if other != member.name:
                text = f"{message % name}, first in slice {other}"
                at = f"{path}[{i}].name"
                yield codes.NAME_TAKEN.at(at, text, object=f"{KIND}/{member.name}")
