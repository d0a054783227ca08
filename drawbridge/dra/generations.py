"""Which slices of a pool count, seen from the whole cluster: `Inventory.pools_for` sees a node.

A driver on a node may write slices for that node only. Such a slice therefore says nothing about
the slices for other nodes, whatever pool and generation it names: only a slice for the same node,
or one that names no node, replaces a slice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from drawbridge.dra.slices import Slice


def current_slices(published: Iterable[Slice]) -> tuple[Slice, ...]:
    """Return the slices of one pool that no other slice replaces, in order."""
    slices = tuple(published)
    newest = _newest_by_node(slices)
    return tuple(
        [each for each in slices if each.generation >= _newest_for(each, newest).generation]
    )


def find_replaced(published: Iterable[Slice]) -> Iterator[tuple[Slice, Slice]]:
    """Yield each slice of one pool that others replace, with one of the newest of these."""
    slices = tuple(published)
    newest = _newest_by_node(slices)
    for resource_slice in slices:
        newer = _newest_for(resource_slice, newest)
        if newer.generation > resource_slice.generation:
            yield resource_slice, newer


def current_parts(published: Iterable[Slice]) -> Iterator[tuple[Slice, ...]]:
    """Group the current slices of one pool by what the scheduler counts together.

    This is the whole pool, unless slices for several nodes do not make one. Then the slices of each
    node are a part of their own.
    """
    generations: dict[int, list[Slice]] = {}
    for resource_slice in current_slices(published):
        generations.setdefault(resource_slice.generation, []).append(resource_slice)
    for members in generations.values():
        yield from [tuple(members)] if is_complete(members) else _parts_by_node(members)


def is_complete(members: Sequence[Slice]) -> bool:
    """Tell whether these are all slices of a pool, by the number that each of them states."""
    return all(each.slice_count == len(members) for each in members)


def _parts_by_node(members: Iterable[Slice]) -> Iterator[tuple[Slice, ...]]:
    nodes: dict[str | None, list[Slice]] = {}
    for resource_slice in members:
        nodes.setdefault(resource_slice.node_name, []).append(resource_slice)
    # Slices that name no node can complete those that do, so that nothing can be told apart.
    if None in nodes:
        yield tuple(member for part in nodes.values() for member in part)
    else:
        yield from map(tuple, nodes.values())


def _newest_by_node(slices: Iterable[Slice]) -> dict[str | None, Slice]:
    newest: dict[str | None, Slice] = {}
    for resource_slice in slices:
        before = newest.setdefault(resource_slice.node_name, resource_slice)
        if resource_slice.generation > before.generation:
            newest[resource_slice.node_name] = resource_slice
    return newest


def _newest_for(resource_slice: Slice, newest: Mapping[str | None, Slice]) -> Slice:
    of_node = newest[resource_slice.node_name]
    return max(newest.get(None, of_node), of_node, key=lambda each: each.generation)
