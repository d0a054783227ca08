"""What the solver remembers from call to call; without it the answers are the same, only later.

Bound to one world at a time: with other gates or compatibility rules everything is forgotten, with
another inventory what belongs to slices that are gone.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dra.capacity import Amounts
from dra.compatibility import Companies, Company, CounterSetID, start
from dra.counters import Counters, Draw, available, draw
from dra.device import CounterUse, Device
from dra.inventory import Inventory, Pool
from dra.inventory import Memo as InventoryMemo
from dra.nodes import Node
from solver.candidates import Candidate, Candidates
from solver.eligibility import Screen
from solver.expressions import Expressions
from solver.world import Use, World

MOST_SCREENS = 512
_Texts = tuple[tuple[str, ...], tuple[str, ...]]


class Baseline(NamedTuple):
    """What the allocated devices of a pool leave: counters, and company on its counter sets."""

    use: Use
    counters: Counters
    companies: Companies


class Memo:
    """Remembers what devices were asked, which pools nodes see, and what is left in pools."""

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = ()
        self._inventory: Inventory | None = None
        self.questions: dict[bytes, Any] = {}

    def bind(self, world: World) -> None:
        """Forget what does not hold in this world."""
        basis = (world.gates, world.compatibility, world.unset_groups, world.deviations)
        if basis != self._basis:
            self._basis = basis
            self._inventory = None
            self.questions = {}
            self.expressions = Expressions(world.gates)
            self.candidates = Candidates(world, self.expressions)
            self._screens: dict[tuple[object, ...], Screen] = {}
        if world.inventory is not self._inventory:
            self._inventory = world.inventory
            self._pools = InventoryMemo()
            self._of_node: dict[int, tuple[Node, tuple[Pool, ...]]] = {}
            self._of_pool: dict[Pool, tuple[Candidate, ...]] = {}
            self._baselines: dict[Pool, Baseline] = {}
            self.candidates.keep(world.inventory.slices)
        self._world = world

    def pools(self, node: Node) -> tuple[Pool, ...]:
        """Give the pools visible from a node; raises NodeSelectorError."""
        known = self._of_node.get(id(node))
        if known is None:
            pools = self._world.inventory.pools_for(node, self._pools)
            # Kept beside what it saw, so that its number is not given to another node.
            known = self._of_node[id(node)] = (node, pools)
        return known[1]

    def in_pool(self, pool: Pool) -> tuple[Candidate, ...]:
        """Give the candidates of a pool."""
        known = self._of_pool.get(pool)
        if known is None:
            known = self._of_pool[pool] = self.candidates.in_pool(pool)
        return known

    def screen(self, selectors: _Texts, asked: Amounts) -> Screen:
        """Give the screen of a question; one as long as it is remembered."""
        key = (selectors, tuple(sorted((name, str(amount)) for name, amount in asked.items())))
        known = self._screens.get(key)
        if known is None:
            if len(self._screens) >= MOST_SCREENS:
                # What devices remember of a screen goes with the screens and the devices.
                self._screens.clear()
                self.questions.clear()
                self.candidates.keep(())
                self._of_pool.clear()
            gates = self._world.gates
            known = self._screens[key] = Screen(
                self.expressions,
                selectors,
                asked,
                binding=gates.binding,
                fractional=gates.fractional_capacity_range,
            )
        return known

    def baseline(self, pool: Pool, use: Use) -> Baseline:
        """Say what the allocated devices of a pool leave; the last answer for it is kept."""
        known = self._baselines.get(pool)
        if known is None or known.use is not use:
            known = self._baselines[pool] = self._left(pool, use)
        return known

    def _left(self, pool: Pool, use: Use) -> Baseline:
        slices = (*pool.slices, *pool.elsewhere)
        known = [candidate for each in slices for candidate in self.candidates.of(each)]
        held = [candidate for candidate in known if use.holds(candidate.name)]
        published = (candidate.device for candidate in known)
        counters = available(pool.counter_sets, published, {each.name for each in held})
        groups = [(pool.id, each.uses) for each in held]
        if self._world.deviations.snapshots_count and use.snapshots:
            counters = _stricter(counters, use.snapshots, {each.name: each.draw for each in held})
            groups += [(pool.id, use.snapshots[name]) for name in sorted(use.snapshots)]
        companies = dict(start(groups, self._world.unset_groups))
        for each in held:
            if each.broken:
                # Nothing can safely join a device whose groups cannot be told.
                companies |= {CounterSetID(pool.id, u.counter_set): NOBODY_JOINS for u in each.uses}
        return Baseline(use, counters, companies)


NOBODY_JOINS = Company(members=True, groups=frozenset())


def _stricter(
    counters: Counters, snapshots: Mapping[str, tuple[CounterUse, ...]], drawn: Mapping[str, Draw]
) -> Counters:
    """Take away what devices drew when they were allocated, beyond what they draw by now."""
    left = dict(counters.left)
    for name, uses in snapshots.items():
        now = drawn.get(name, {})
        for key, amount in draw(Device(name, consumes_counters=uses)).items():
            if key in left:
                left[key] -= max(0, amount - now.get(key, 0))
    return Counters(left, frozenset(key for key, rest in left.items() if rest < 0))
