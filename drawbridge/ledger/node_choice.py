"""Orders the nodes of a pod by a strategy, and the devices on each of them.

The solver decides what fits. This says what is tried first: it follows what the nodes have left,
and judges a node again only when that changes. What is typical is learned from the pods that got
their devices, and the strategy is made anew from time to time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Final, NamedTuple

from drawbridge.choice.amounts import Task
from drawbridge.choice.catalog import ChosenStrategy, make_strategy
from drawbridge.choice.cluster import NodeChooser, in_turn
from drawbridge.choice.recent import AskedTask
from drawbridge.choice.steps import UNLIMITED, Steps
from drawbridge.choice.strategy import ChoiceStrategy, Part
from drawbridge.choice.typical import TypicalTasks
from drawbridge.dra.allocation import Allocation
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.ledger.cards import (
    AskedCards,
    Card,
    asked_cards,
    driver_of,
    find_cards,
    task_of,
)
from drawbridge.ledger.chosen_strategies import StrategyNames
from drawbridge.ledger.driver_nodes import DriverNodes, NodeAmounts, NodeCards
from drawbridge.ledger.near_cards import find_unpublished
from drawbridge.ledger.node_resources import Amounts
from drawbridge.ledger.other_cards import (
    most_typical_kinds,
    with_kinds,
)
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pool_use import changed_pools
from drawbridge.solver.node_view import PooledDevice
from drawbridge.solver.world import View, World

_score_of: Final = itemgetter(0)  # of a level
# So many states are judged in a turn between decisions, so that decisions that follow each other
# closely are hardly delayed.
_MAX_JUDGED: Final = 16
# What a judgement costs more with devices of other kinds.
_WITH_OTHERS: Final = 4
# Nodes with more take over 20 ms; 8 GPUs have 1,360 with all their partitions.
MAX_DEVICES: Final = 1536
# So many strategies of pods are remembered for each driver.
_MAX_OF_PODS: Final = 4


_FIRST_FIT: Final = ChosenStrategy()


class DecidedPod(NamedTuple):
    """What a pod asks for: its namespace, CPU and memory, and the devices that a search found.

    `strategy` is the one that decides about it; `near` says which devices are near (`find_near`).
    """

    key: str
    strategy: ChosenStrategy
    namespace: str
    requested: Amounts
    node: str
    allocations: tuple[Allocation, ...]
    near: Mapping[str, str] = {}


class RatedNode(NamedTuple):
    """A node in the order of a strategy: its score, and the devices to try first there."""

    name: str
    strategy: ChosenStrategy
    score: int
    first: Callable[[], tuple[PooledDevice, ...]]
    parts: Callable[[], tuple[Part, ...]]
    unpublished: Callable[[], tuple[str, ...]]


class NodeChoice:
    """The order of nodes by a strategy, for one planner.

    `looks` limits how many nodes, and how many new states, one call looks at; those that are left
    come with the next calls, or with `catch_up`, as do large nodes if there is a limit.
    """

    def __init__(self, planner: Planner, names: StrategyNames, *, looks: int = UNLIMITED) -> None:
        self._planner = planner
        self.names = names
        self._looks = looks
        # By driver and strategy.
        self._drivers: dict[tuple[str, ChosenStrategy], DriverNodes] = {}
        self._world: World | None = None
        self._view = View()
        self._nodes_of: dict[PoolID, set[str]] = {}

    def rank(
        self,
        pod: DecidedPod,
        view: View,
        amounts: NodeAmounts,
        limit: int = UNLIMITED,
        out_of_time: Callable[[], bool] | None = None,
    ) -> Iterator[RatedNode]:
        """Yield nodes for a pod, the best first; none for a pod without devices.

        What there is no time to look at comes with the next calls.
        """
        if pod.strategy == _FIRST_FIT:
            return
        asked = asked_cards(pod.allocations, self._cards_of(pod), pod.near)
        if asked is None:
            return
        of_driver = self._nodes_with(asked.driver, pod.strategy)
        self._follow(view, amounts)
        looks = Steps(self._looks, out_of_time)
        self._look_at_pending(of_driver, view, amounts, looks)
        if of_driver.recent.is_outdated and not pod.strategy.is_by_levels:
            self._use_strategy(of_driver)
        # With devices of other kinds there are more choices on each node.
        judgements = self._looks // _WITH_OTHERS if of_driver.kinds else self._looks
        ranked = self._merged(of_driver, asked, pod, Steps(judgements, out_of_time))
        yield from islice(ranked, limit)

    def devices_on(
        self, pod: DecidedPod, view: View, amounts: NodeAmounts
    ) -> tuple[PooledDevice, ...]:
        """Return the devices to try first on the node of a pod."""
        if pod.strategy == _FIRST_FIT:
            return ()
        asked = asked_cards(pod.allocations, self._cards_of(pod), pod.near)
        if asked is None:
            return ()
        of_driver = self._nodes_with(asked.driver, pod.strategy)
        self._follow(view, amounts)
        if of_driver.take(pod.node):
            self._look_at(of_driver, pod.node, view, amounts)
        static = of_driver.static.get(pod.node)
        if static is None or of_driver.strategy is None:
            return ()
        task = static.task(asked, pod.requested)
        room = of_driver.find_room(pod.node, self._planner, view, amounts)
        judged = of_driver.strategy.judge(room, task)
        return static.devices(judged.taken) if judged is not None else ()

    def learn(self, pod: DecidedPod) -> None:
        """Note what a pod with devices has asked for."""
        if pod.strategy == _FIRST_FIT:
            return
        cards = self._cards_of(pod)
        asked = asked_cards(pod.allocations, cards, pod.near)
        if asked is None:
            return
        others = ((kind, cards[driver_of(kind)]) for kind in asked.others)
        task = task_of(asked, pod.requested, cards[asked.driver], others)
        # What pods with a strategy of their own ask for is typical for the default, too.
        for chosen in {pod.strategy, self.names.of_others} - {_FIRST_FIT}:
            of_driver = self._nodes_with(asked.driver, chosen)
            of_driver.recent.note(pod.key, AskedTask(pod.namespace, task))

    def catch_up(
        self, view: View, amounts: NodeAmounts, out_of_time: Callable[[], bool] | None = None
    ) -> bool:
        """Look at some of the nodes that were not looked at, then judge some for recent tasks.

        Return whether others are left.
        """
        self._follow(view, amounts)
        looks = Steps(self._looks, out_of_time)
        followed = [each for each in self._drivers.values() if self.names.knows(each.chosen)]
        for of_driver in followed:
            of_driver.pending |= of_driver.large
            of_driver.large.clear()
            self._look_at_pending(of_driver, view, amounts, looks, decides=False)
        if any(each.pending for each in followed):
            return True
        judgements = Steps(min(looks.left, _MAX_JUDGED), out_of_time)
        for of_driver in followed:
            for chooser in of_driver.choosers.values():
                chooser.catch_up(judgements)
        return not judgements.left

    @property
    def is_used(self) -> bool:
        """Whether any pod had a strategy that orders nodes."""
        return bool(self._drivers)

    def _nodes_with(self, driver: str, chosen: ChosenStrategy) -> DriverNodes:
        of_driver = self._drivers.get((driver, chosen))
        if of_driver is None:
            of_driver = DriverNodes(driver, chosen)
            of_driver.pending = dict.fromkeys(self._planner.nodes)
        elif self.names.names(chosen):
            return of_driver
        # Pods can have as many strategies as tenants like: those that were used last stay.
        self._drivers.pop((driver, chosen), None)
        self._drivers[driver, chosen] = of_driver
        of_pods = [
            key for key in self._drivers if key[0] == driver and not self.names.names(key[1])
        ]
        for key in of_pods[:-_MAX_OF_PODS]:
            del self._drivers[key]
        return of_driver

    def _merged(
        self, of_driver: DriverNodes, asked: AskedCards, pod: DecidedPod, judgements: Steps
    ) -> Iterator[RatedNode]:
        """Yield the nodes of all kinds, the best first."""
        strategy = of_driver.strategy
        assert strategy is not None  # noqa: S101  # there is one after the first look
        tasks: dict[str, Task] = {}
        for label, chooser in of_driver.choosers.items():
            # All nodes of a chooser are of one kind.
            tasks[label] = task = of_driver.static[next(iter(chooser.nodes))].task(
                asked, pod.requested
            )
            chooser.judge_new(task, judgements)
        levels = merge(
            *(chooser.levels(tasks[label]) for label, chooser in of_driver.choosers.items()),
            key=_score_of,
            reverse=True,
        )
        names = chain.from_iterable(
            in_turn(strategy, [*chain(*(each.by_state for each in equal))], pod.key)
            for _, equal in groupby(levels, _score_of)
        )
        for name in names:
            yield self._rated(of_driver, strategy, name, tasks[of_driver.static[name].shape.label])

    @staticmethod
    def _rated(
        of_driver: DriverNodes, strategy: ChoiceStrategy, name: str, task: Task
    ) -> RatedNode:
        static = of_driver.static[name]
        chooser = of_driver.choosers[static.shape.label]
        room, (score, taken) = chooser.nodes[name], chooser.judged(task, name)
        return RatedNode(
            name,
            of_driver.chosen,
            score,
            lambda: static.devices(taken),
            lambda: strategy.parts(room, task, taken),
            lambda: find_unpublished(static.cards, of_driver.chosen),
        )

    # --- what nodes have ---

    def _follow(self, view: View, amounts: NodeAmounts) -> None:
        """Note the nodes that may have changed."""
        changed = set(amounts.take_changed())
        for pool in changed_pools(self._view, view):
            changed.update(self._nodes_of.get(pool, ()))
        world = self._planner.world()
        if world is not self._world:
            changed.update(_nodes_of_changes(self._world, world, self._planner.nodes))
            self._world = world
        self._view = view
        for of_driver in self._drivers.values():
            of_driver.pending |= dict.fromkeys(changed)

    def _look_at_pending(
        self,
        of_driver: DriverNodes,
        view: View,
        amounts: NodeAmounts,
        steps: Steps,
        *,
        decides: bool = True,
    ) -> None:
        """Look at the nodes that may have changed, one in a step."""
        is_brief = decides and self._looks < UNLIMITED
        for name in tuple(islice(of_driver.pending, steps.left)):
            if not steps.take():
                break
            del of_driver.pending[name]
            if is_brief and self._planner.count_devices(name) > MAX_DEVICES:
                of_driver.large[name] = None
            else:
                self._look_at(of_driver, name, view, amounts)
        is_complete = not of_driver.pending and not of_driver.large
        is_first = is_complete and not of_driver.is_complete
        of_driver.is_complete |= is_complete
        if of_driver.strategy is None or is_first:
            self._use_strategy(of_driver)  # other kinds have all nodes looked at again

    def _look_at(self, of_driver: DriverNodes, name: str, view: View, amounts: NodeAmounts) -> None:
        before = of_driver.static.get(name)
        static = of_driver.read(name, self._planner)
        of_driver.put(name, static)
        self._follow_pools(name, before, static)
        if static is None:
            return
        label = static.shape.label
        chooser = of_driver.choosers.get(label)
        if chooser is None:
            strategy = of_driver.strategy or make_strategy(_FIRST_FIT, {}, TypicalTasks({}, 1))
            chooser = of_driver.choosers[label] = NodeChooser({}, strategy)
        chooser.change(name, of_driver.find_room(name, self._planner, view, amounts))

    def _follow_pools(self, name: str, before: NodeCards | None, static: NodeCards | None) -> None:
        """Note which pools a node has."""
        if static is before:
            return
        had, has = (
            {card.pool for card in each.all_cards} if each is not None else set[PoolID]()
            for each in (before, static)
        )
        for pool in has:
            self._nodes_of.setdefault(pool, set()).add(name)
        for pool in had - has:
            names = self._nodes_of.get(pool, set())
            names.discard(name)
            if not names:
                self._nodes_of.pop(pool, None)

    def _cards_of(self, pod: DecidedPod) -> Mapping[str, Sequence[Card]]:
        """Return the cards of the node of a pod, by driver."""
        cards: dict[str, Sequence[Card]] = {}
        for driver in {each.driver for one in pod.allocations for each in one.devices.results}:
            of_driver = self._drivers.get((driver, pod.strategy))
            if of_driver is None:
                cards[driver] = find_cards(self._planner.node_pools(pod.node), driver)
                continue
            static = of_driver.read(pod.node, self._planner)
            cards[driver] = static.cards if static is not None else ()
        return cards

    # --- what is typical ---

    def _use_strategy(self, of_driver: DriverNodes) -> None:
        typical = of_driver.recent.learn()
        kinds = most_typical_kinds(typical)
        if kinds != of_driver.kinds:
            of_driver.kinds, of_driver.is_complete = kinds, False
            of_driver.pending |= dict.fromkeys(self._planner.nodes)
        typical = with_kinds(typical, kinds)
        of_driver.strategy = make_strategy(of_driver.chosen, of_driver.shapes, typical)
        for chooser in of_driver.choosers.values():
            chooser.use(of_driver.strategy)


def _nodes_of_changes(
    before: World | None, after: World, nodes: Mapping[str, Node]
) -> Iterable[str]:
    """Return the nodes that may use a pool which differs between two worlds."""
    if before is None:
        return nodes
    pools = before.inventory.pools, after.inventory.pools
    return {
        name
        for changed in pools[1].changed_keys(pools[0])
        for published in pools
        for name in published.value(changed).nodes.may_concern(nodes)
    }
