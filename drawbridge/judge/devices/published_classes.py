"""Finds for each DeviceClass whether it has devices, and whether more of them may exist.

More may exist in a pool that is incomplete or invalid, or that was published until a short time
ago, and on a slice that selects no known node.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from drawbridge.cel import CompileError
from drawbridge.cel.dra import Selectors, find_reads
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.device import Device, NodeSelector
from drawbridge.dra.families import Family
from drawbridge.dra.generations import current_slices
from drawbridge.dra.inventory import Inventory
from drawbridge.dra.nodes import Node, matches_selector, selector_problems
from drawbridge.dra.slices import Slice
from drawbridge.facts.fleet import PublishedClass
from drawbridge.facts.plugin_nodes import describe_left_to_plugin, find_plugin_nodes
from drawbridge.judge.claims.selector_terms import split_terms
from drawbridge.judge.devices.device_index import DeviceIndex, DeviceReads
from drawbridge.solver.expressions import EvaluationFailure, ExpressionEvaluator

# Beyond this number of doubtful slices of a driver, every class may have devices in them.
MAX_EVALUATED = 64


class _DoubtfulDriver(NamedTuple):
    """Why devices of a driver may exist that cannot be allocated now, and the visible ones."""

    reason: str
    slices: list[Slice]


def find_published_classes(  # noqa: PLR0913, PLR0917  # one argument for each part of a cluster
    index: DeviceIndex,
    classes: Mapping[str, DeviceClass],
    selectors: Selectors,
    expressions: ExpressionEvaluator,
    departed: Iterable[Slice],
    families: Mapping[str, Family],
) -> Mapping[str, PublishedClass]:
    """Return what is published for each class.

    `departed` are slices as they were before they were deleted or changed a short time ago, for
    example by a driver's restart.
    """
    doubtful = _doubtful_drivers(index, departed)
    drivers = frozenset(pool.driver for pool in index.inventory.pools)
    plugins = find_plugin_nodes((node, _publishing(index, node)) for node in index.nodes)
    published = {}
    for name, device_class in classes.items():
        selected = _selected_drivers(device_class, index, selectors, expressions)
        doubt = next(
            (
                about.reason
                for driver, about in doubtful.items()
                if selected.get(driver)
                or driver not in drivers
                or _may_select(device_class, driver, about.slices, expressions)
            ),
            "",
        )
        left = describe_left_to_plugin(
            plugins, selected, device_class.spec.extended_resource_name or "", families
        )
        published[name] = PublishedClass(sum(selected.values()), doubt, left)
    return published


def _publishing(index: DeviceIndex, node: Node) -> Iterable[str]:
    """Return the drivers that publish devices for a node."""
    return (
        pool.id.driver
        for pool in index.pools.get(node.name, ())
        if any(each.devices for each in pool.slices)
    )


def _selected_drivers(
    offered: DeviceClass,
    index: DeviceIndex,
    selectors: Selectors,
    expressions: ExpressionEvaluator,
) -> Mapping[str, int]:
    """Return the number of different devices that the class selects, by driver."""
    devices: dict[str, int] = {}
    # At least one usable device for each result that the class can have.
    nodes = index.representatives(DeviceReads(_read_attributes(offered, index, selectors)))
    for slice_ in index.usable_slices(nodes):
        for device in slice_.devices:
            if selects(offered, slice_.driver, device, expressions) is True:
                devices[slice_.driver] = devices.get(slice_.driver, 0) + 1
    return devices


def _read_attributes(
    offered: DeviceClass, index: DeviceIndex, selectors: Selectors
) -> frozenset[str]:
    names: set[str] = set()
    for selector in offered.spec.selectors:
        try:
            reads = find_reads(
                selectors.stored.compile(selector.cel.expression if selector.cel else "")
            )
        except CompileError:
            continue  # selects nothing
        if reads.reads_whole_map():
            return index.attributes
        names |= {"/".join(each) for each in reads.attributes()}
    return frozenset(names)


def selects(
    offered: DeviceClass, driver: str, device: Device, expressions: ExpressionEvaluator
) -> bool | EvaluationFailure:
    """Evaluate the selectors of a class on a device."""
    for selector in offered.spec.selectors:
        outcome = expressions.selects(
            selector.cel.expression if selector.cel else "", driver, device
        )
        if outcome is not True:
            return outcome
    return True


def may_select_driver(
    offered: DeviceClass, driver: str, selectors: Selectors, expressions: ExpressionEvaluator
) -> bool:
    """Return whether the class may select a device of a driver, whatever else the device has."""
    device = Device("unknown")
    return not any(
        _reads_driver_only(term, selectors) and expressions.selects(term, driver, device) is False
        for selector in offered.spec.selectors
        if selector.cel is not None
        for term in split_terms(selector.cel.expression, selectors.stored)
    )


def _reads_driver_only(term: str, selectors: Selectors) -> bool:
    try:
        reads = find_reads(selectors.stored.compile(term))
    except CompileError:
        return False
    return all(each.path == ("driver",) for each in reads.accesses)


def _may_select(
    offered: DeviceClass, driver: str, slices: list[Slice], expressions: ExpressionEvaluator
) -> bool:
    """Return whether the class may select a device of doubtful slices; an error may be a match."""
    if len(slices) > MAX_EVALUATED or not any(each.devices for each in slices):
        return True
    return any(
        selects(offered, driver, device, expressions) is not False
        for slice_ in slices
        for device in slice_.devices
    )


def _doubtful_drivers(
    index: DeviceIndex, departed: Iterable[Slice]
) -> Mapping[str, _DoubtfulDriver]:
    doubtful: dict[str, _DoubtfulDriver] = {}
    inventory = index.inventory
    seen: set[int] = set()
    for pool in {id(p): p for pools in index.pools.values() for p in pools}.values():
        seen.update(map(id, pool.slices))
        if not pool.usable:
            problem = "is incomplete" if pool.incomplete else f"is invalid: {pool.invalid}"
            reason = f"pool {pool.id.name} of {pool.id.driver} {problem}"
            about = doubtful.setdefault(pool.id.driver, _DoubtfulDriver(reason, []))
            about.slices.extend(inventory.published_slices(pool.id))
    selects_a_node = _make_selector_check(index)
    for newest_slice in _current_slices(inventory):
        if newest_slice.devices and not (id(newest_slice) in seen and selects_a_node(newest_slice)):
            reason = f"no known node can use slice {newest_slice.name} of {newest_slice.driver}"
            doubtful.setdefault(newest_slice.driver, _DoubtfulDriver(reason, [])).slices.append(
                newest_slice
            )
    for device in departed:
        reason = (
            f"{device.driver} withdrew or changed devices of pool {device.pool} a short time ago"
        )
        doubtful.setdefault(device.driver, _DoubtfulDriver(reason, [])).slices.append(device)
    return doubtful


def _make_selector_check(index: DeviceIndex) -> Callable[[Slice], bool]:
    """Return a function that tells whether all devices of a slice select a known node."""
    selecting: dict[NodeSelector, bool] = {}

    def selects_a_node(slice_: Slice) -> bool:
        for device in slice_.devices if slice_.per_device_node_selection else ():
            selector = device.node_selector
            if selector is None or device.all_nodes:
                continue
            if selector not in selecting:
                valid = not selector_problems(selector)
                nodes = index.nodes if valid else ()
                selecting[selector] = any(matches_selector(selector, node) for node in nodes)
            if not selecting[selector]:
                return False
        return True

    return selects_a_node


def _current_slices(inventory: Inventory) -> Iterator[Slice]:
    """Return the slices of each pool that no other slice replaces."""
    for pool in inventory.pools:
        yield from current_slices(inventory.published_slices(pool))
