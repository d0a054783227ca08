"""Finds the classes of which the allocator of Drawbridge owns no device, and who can use these."""

from collections.abc import Iterable, Mapping, Sequence

from drawbridge.config.model import OwnedPool
from drawbridge.config.placement import selecting_entries
from drawbridge.dra.nodes import Node
from drawbridge.facts.model import Facts
from drawbridge.judge.context import JudgeContext, UnownedClass
from drawbridge.judge.devices.published_classes import may_select_driver, selects


def find_unowned_classes(
    facts: Facts, owned: Sequence[OwnedPool], nodes: Iterable[Node], context: JudgeContext
) -> Mapping[str, UnownedClass]:
    """Return the classes whose devices are all in pools that the allocator does not own.

    Where no Nodes are known, these are the classes of drivers without an entry. `context` has all
    pools.
    """
    drivers = {str(each.driver) for each in owned}
    others = [each.name for each in nodes if not selecting_entries(owned, each.labels)]
    return {
        row.name: UnownedClass()
        if any(_may_select(row.name, each, context) for each in drivers)
        else UnownedClass(row.drivers, elsewhere=_is_on(row.name, others, context))
        for row in facts.classes
        if row.devices and (row.owned == 0 or drivers.isdisjoint(row.drivers))
    }


def _may_select(name: str, driver: str, context: JudgeContext) -> bool:
    offered, expressions = context.world.classes[name], context.caches.proofs.expressions
    return may_select_driver(offered, driver, context.selectors, expressions)


def _is_on(name: str, nodes: Iterable[str], context: JudgeContext) -> bool:
    """Whether a class selects a device of one of these nodes."""
    offered, expressions = context.world.classes[name], context.caches.proofs.expressions
    return any(
        selects(offered, slice_.driver, device, expressions) is True
        for node in nodes
        for pool in context.index.pools.get(node, ())
        for slice_ in pool.slices
        for device in slice_.devices
    )
