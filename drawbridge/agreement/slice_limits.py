"""Decides which nodes publish too much: the allocator uses nothing of what they publish.

The work after a change of a slice grows with the slices of its node and pool. A driver of a node
may write slices for that node only, so that they are counted for it, whichever pools they name.
Real drivers publish up to 16 slices for a node: 8 GPUs have some 170 partitions, at most 64 of them
in a slice, and 8 network cards 2,048 functions, at most 128 in a slice. While a generation follows
another one, both are there.

Only who may write slices for all nodes writes those that name none, such as the driver of a fabric.
They are counted by their pool, which has room for 131,072 devices. They only say that the pool is
not local to a node, and beyond the limit one of them does.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from drawbridge.agreement.operation_codes import TOO_MANY_SLICES
from drawbridge.config.model import OwnedPool
from drawbridge.dra.slices import Slice
from drawbridge.finding import Finding

MAX_OF_DRIVER: Final = 64
MAX_OF_NODE: Final = 256
MAX_OF_NO_NODE: Final = 1024


class SliceGroup(NamedTuple):
    """Slices that are counted together: for a node, of a driver or of all; or of a pool."""

    node: str
    driver: str = ""
    pool: str = ""

    @property
    def limit(self) -> int:
        """How many slices count; with more, none does."""
        if not self.node:
            return MAX_OF_NO_NODE
        return MAX_OF_DRIVER if self.driver else MAX_OF_NODE


def find_slice_groups(resource_slice: Slice) -> tuple[SliceGroup, ...]:
    """Return the groups of a slice."""
    driver = resource_slice.driver
    if resource_slice.node_name:
        node = resource_slice.node_name
        return SliceGroup(node, driver), SliceGroup(node)
    return (SliceGroup("", driver, resource_slice.pool),)


def find_crowded(slices: Iterable[Slice]) -> frozenset[SliceGroup]:
    """Return the groups with too many slices."""
    names: dict[SliceGroup, set[str]] = {}
    for resource_slice in slices:
        for group in find_slice_groups(resource_slice):
            names.setdefault(group, set()).add(resource_slice.name)
    return frozenset(each for each, of_one in names.items() if len(of_one) > each.limit)


def within_limits(slices: Sequence[Slice]) -> tuple[Slice, ...]:
    """Return the slices that count, in order; those without a node say that a pool is not local."""
    crowded = {each for each in find_crowded(slices) if each.node}
    return tuple([each for each in slices if crowded.isdisjoint(find_slice_groups(each))])


def report_crowded(owned: Sequence[OwnedPool], slices: Sequence[Slice]) -> Iterator[Finding]:
    """Report the nodes of whose owned drivers nothing is used, because they publish too much."""
    crowded = find_crowded(slices)
    drivers = {each.driver for each in owned} if crowded else set()
    concerned = {
        group: None
        for each in slices
        if each.driver in drivers and each.node_name
        for group in find_slice_groups(each)
        if group in crowded
    }
    for group in sorted(concerned):
        of_driver = f" of driver {group.driver}" if group.driver else ""
        # Without their number, which can change all the time.
        message = f"node {group.node} has more than {group.limit} ResourceSlices{of_driver}"
        yield TOO_MANY_SLICES.at("metadata.name", message, object=f"Node/{group.node}")
