"""What the nodes with cards of one driver have, in all and left, and what is asked of them.

A strategy judges nodes by this. What does not change with the use of a node is kept until its
objects change.
"""

from functools import cache
from itertools import chain
from typing import Final, NamedTuple, Protocol

from drawbridge.choice.amounts import NodeRoom, Shape, Taken, Task
from drawbridge.choice.catalog import ChosenStrategy
from drawbridge.choice.cluster import NodeChooser
from drawbridge.choice.recent import RecentTasks
from drawbridge.choice.strategy import ChoiceStrategy
from drawbridge.ledger.cards import AskedCards, Card, find_cards, task_of
from drawbridge.ledger.near_cards import find_groups
from drawbridge.ledger.node_resources import CPU, MEMORY, Amounts, allocatable_amounts
from drawbridge.ledger.other_cards import OtherCards, find_other_cards
from drawbridge.ledger.planner import Planner
from drawbridge.solver.node_view import PooledDevice
from drawbridge.solver.world import View

# Machines of one kind differ by less memory than this, and count as one shape.
_SAME_MEMORY: Final = 1 << 30
# What a node has of a resource that it does not report.
_UNKNOWN: Final = 1 << 60


class NodeAmounts(Protocol):
    """What nodes have left beside devices."""

    def left(self, node: str) -> Amounts:
        """Return what a node has left."""

    def take_changed(self) -> frozenset[str]:
        """Return the nodes that have changed since the last call."""


class NodeCards(NamedTuple):
    """What does not change with the use of a node: the objects that it was read from, its cards."""

    origin: tuple[object, ...]
    shape: Shape
    cards: tuple[Card, ...]
    others: tuple[OtherCards, ...]

    @property
    def all_cards(self) -> tuple[Card, ...]:
        """The cards and those of other kinds, numbered as what a task takes."""
        return (*self.cards, *chain.from_iterable(each.cards for each in self.others))

    def task(self, asked: AskedCards, requested: Amounts) -> Task:
        """Return the task of a pod on nodes with such cards."""
        others = ((each.devices.kind, each.cards) for each in self.others if asked.others)
        return task_of(asked, requested, self.cards, others)

    def devices(self, taken: Taken) -> tuple[PooledDevice, ...]:
        """Return the devices of the cards that are taken."""
        cards = self.all_cards
        return tuple(
            (device.pool, device.name) for number in taken for device in cards[number].devices
        )


class DriverNodes:
    """The nodes with cards of one driver, by kind, and the tasks that are typical for them."""

    def __init__(self, driver: str, chosen: ChosenStrategy) -> None:
        self.driver, self.chosen = driver, chosen
        self.recent = RecentTasks()
        self.kinds: tuple[str, ...] = ()
        self.static: dict[str, NodeCards] = {}
        self.shapes: dict[Shape, int] = {}  # how many nodes have each
        self.choosers: dict[str, NodeChooser] = {}
        self.strategy: ChoiceStrategy | None = None
        self.pending: dict[str, None] = {}  # nodes to look at, in order
        self.large: dict[str, None] = {}  # those that wait until nothing is decided
        self.is_complete = False  # whether each node was looked at once

    def take(self, name: str) -> bool:
        """Return whether a node waits to be looked at, which it does no more."""
        # Those that wait have None.
        return None in [each.pop(name, False) for each in (self.pending, self.large)]

    def put(self, name: str, static: NodeCards | None) -> None:
        """Set what a node has, or remove it. Nothing stays of a kind that no node has."""
        before = self.static.pop(name, None)
        if before is not None and (static is None or static.shape.label != before.shape.label):
            chooser = self.choosers[before.shape.label]
            chooser.change(name, None)
            if not chooser.nodes:
                del self.choosers[before.shape.label]
        for read, more in ((before, -1), (static, 1)):
            if read is not None and before is not static:
                shape = read.shape._replace(memory=read.shape.memory & -_SAME_MEMORY)
                self.shapes[shape] = self.shapes.get(shape, 0) + more
                if not self.shapes[shape]:
                    del self.shapes[shape]
        if static is not None:
            self.static[name] = static

    def read(self, name: str, planner: Planner) -> NodeCards | None:
        """Return what a node has; what was read before if it has not changed."""
        node = planner.nodes.get(name)
        if node is None:
            return None
        pools = planner.node_pools(name)
        before, near = self.static.get(name), self.chosen.near
        origin: tuple[object, ...] = (self.kinds, node, *(pool for pool, _ in pools))
        if before is not None and list(map(id, before.origin)) == list(map(id, origin)):
            return before
        cards = find_cards(pools, self.driver)
        if not cards:
            return None
        total = allocatable_amounts(node)
        cpu, memory = total.get(CPU, _UNKNOWN), total.get(MEMORY, _UNKNOWN)
        groups = find_groups(cards, near) if near else ()
        others = find_other_cards(pools, cards, self.kinds)
        label = " ".join((cards[0].kind, *(e.cards[0].kind if e.cards else "" for e in others)))
        devices = tuple(each.devices for each in others)
        return NodeCards(
            origin, Shape(label, cpu, memory, len(cards), groups, devices), cards, others
        )

    def find_room(self, name: str, planner: Planner, view: View, amounts: NodeAmounts) -> NodeRoom:
        """Return what a node that has cards has left."""
        static, left = self.static[name], amounts.left(name)
        use_of = cache(view.use)  # once for each pool, which has many cards
        counters_of = cache(lambda pool: planner.counters_left(name, pool, view))

        def find_free(card: Card) -> int:
            counters = counters_of(card.pool) if card.counters else {}
            return card.free(use_of(card.pool), counters)

        free, *others = (
            tuple(map(find_free, cards))
            for cards in (static.cards, *(each.cards for each in static.others))
        )
        capacities = self.chosen.capacities
        used = tuple(
            each.used(capacities, use_of(each.pool), part)
            for each, part in zip(static.cards, free, strict=True)
            if capacities
        )
        shape = static.shape
        cpu, memory = left.get(CPU, shape.cpu), left.get(MEMORY, shape.memory)
        return NodeRoom(shape, cpu, memory, free, used, tuple(others))
