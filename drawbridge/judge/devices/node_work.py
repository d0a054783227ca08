"""Counts the work of comparing claims with nodes, before it is done."""

from collections.abc import Iterable, Sequence
from typing import Final

from drawbridge.dra.claim import Claim, request_choices
from drawbridge.dra.nodes import Node
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.device_index import DeviceReads
from drawbridge.judge.work import COMPARISONS, Work
from drawbridge.solver.demand import Demand, Option
from drawbridge.solver.world import World

# To compare the values of an attribute on so many devices of one node.
DEVICES_OF_PATTERN: Final = 4


class NodeWork:
    """Counts the work of solving the requests of a demand on nodes of a world."""

    def __init__(self, demand: Demand, world: World, context: JudgeContext) -> None:
        self.world = world
        self._options = tuple(demand.options())
        self._context = context

    def spend(self, nodes: Iterable[Node]) -> None:
        """Count the work for nodes. The search counts its own steps."""
        for node in nodes:
            spend_selectors(self._options, node, self.world, self._context)
            pools = self._context.index.pools.get(node.name, ())
            devices = sum(len(each.devices) for pool in pools for each in pool.slices)
            self._context.work.spend(2 + len(self._options) * devices // 2)


def spend_claims(claims: Iterable[Claim], work: Work) -> None:
    """Count the reading of the requests of claims, and of what the claims constrain."""
    for claim in claims:
        devices = claim.spec.devices
        choices = [choice for each in devices.requests for choice in request_choices(each)]
        selectors = sum(len(each.requested.selectors) for each in choices)
        checks = len(choices) * len(devices.constraints)
        work.spend(2 + len(choices) + selectors + checks // COMPARISONS)


def spend_grouping(reads: DeviceReads, context: JudgeContext) -> None:
    """Count the grouping of nodes by what is read. The index keeps the groups."""
    index, work = context.index, context.work
    columns = 2 + len((reads.values | reads.patterns) & index.attributes)
    work.spend_once(reads, columns * len(index.inventory.slices) // COMPARISONS)
    for name in reads.patterns & index.attributes:
        work.spend_once(("pattern", name), index.devices // DEVICES_OF_PATTERN)


def spend_selectors(
    options: Sequence[Option], node: Node, world: World, context: JudgeContext
) -> None:
    """Count the evaluations of selectors on the devices that a node sees, in each world once.

    Expensive ones count in addition when they are made.
    """
    work = context.work
    if work.left is None:
        return
    pools = context.index.pools.get(node.name, ())
    for texts in dict.fromkeys(each.request_filter.selectors for each in options):
        selectors = sum(map(len, texts))
        for pool in pools:
            devices = sum(len(each.devices) for each in pool.slices)
            work.spend_once((texts, id(pool), id(world)), devices * selectors)
