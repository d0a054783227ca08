"""Finds the pods to evict so that enough members of a group fit.

It is one question for all members: nobody is evicted unless enough of them fit then, and none of
the victims could stay. What a node gives changes no other node, so that each is asked by itself:

1. Nodes are used as they are. Others are used without the pods of a lower priority, those with the
   least important ones first, until enough members fit.
2. As many of these pods as possible are kept: by budgets, by priority, by the work that their
   eviction loses.
3. If more important pods are among them, or others than another choice of members needs, it is
   tried without these.

The search has small steps, and goes on where it was cut. A step asks about one node and the pods
that are removed there: it costs no more in a large cluster, and is never cut for lack of time. What
runs can change meanwhile, so that at the end it is looked once which victims can stay now, and the
members are placed in the state of that moment.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from allocator.decisions.group_searches import NodeCuts
from allocator.scheduler.protocol import PotentialVictim, PreemptRequest
from drawbridge.dra.claim import Claim
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import (
    Counts,
    CutSearch,
    GangPlacement,
    MemberKind,
    Steps,
    add_up,
    find_largest,
    placing,
)

# The lost work of so many nodes is weighed in one step.
_NODES_PER_STEP: Final = 8

# A node and claims, when some pods of the node are gone.
Question: TypeAlias = tuple[frozenset[str], str, Sequence[Claim]]
# The work that the eviction of pods loses.
LostBy: TypeAlias = Callable[[Collection[PotentialVictim]], int]
Ask: TypeAlias = Callable[[Question], Solution | None]
T = TypeVar("T")
_Pods: TypeAlias = Mapping[str, Sequence[PotentialVictim]]
_Steps: TypeAlias = Generator[Question | None, Solution | None, T]


class ChosenVictims(msgspec.Struct, frozen=True):
    """The pods to evict by node, and where members fit then; too `few` fit without any of them."""

    pods: Mapping[str, tuple[PotentialVictim, ...]] = {}
    nodes: frozenset[str] = frozenset()
    few: int | None = None

    @property
    def uids(self) -> frozenset[str]:
        """The UIDs of the pods."""
        return frozenset(pod.uid for of_node in self.pods.values() for pod in of_node)


class ContinuedVictims(NamedTuple):
    """By what pod and request a search began that was cut, if there is one; whether it has ended.

    The pod can ask for the end.
    """

    asked: PreemptRequest = PreemptRequest(pod_uid="")
    ended: bool = True


class GroupVictimSearch:
    """The search for one group, of which `needed` members must fit.

    `choices` are the kinds of members of which these can be, and the first that fits counts. The
    scheduler has asked by `request`; `pods` are those of its nodes that can be evicted, and `lost`
    tells what that costs.
    """

    def __init__(
        self,
        request: PreemptRequest,
        choices: Sequence[Sequence[MemberKind]],
        needed: int,
        pods: _Pods,
        lost: LostBy = lambda _pods: 0,
    ) -> None:
        self.request = request
        self.choices = choices
        self.choice = 0
        self.needed = needed
        self.epoch: int | None = None  # the state in which it began
        self.over_quota = False  # whether a node fits that has more than a quota has room for
        self.cuts = NodeCuts()
        self._lost = lost
        self.chosen: ChosenVictims | None = None
        self._search = CutSearch(self._choose(pods))
        self._is_review = False
        self._placing: tuple[int, CutSearch[Question, GangPlacement]] | None = None

    @property
    def kinds(self) -> Sequence[MemberKind]:
        """What is searched for now."""
        return self.choices[self.choice]

    def run(self, ask: Ask, epoch: int, out_of_time: Callable[[], bool]) -> ChosenVictims | None:
        """Return the victims, in the state `epoch`; None if the search was cut.

        After a change since it began, it is looked once which of them can stay.
        """
        if self.epoch is None:
            self.epoch = epoch
        if self.chosen is None:
            self.chosen = self._search.run(ask, out_of_time)
        chosen = self.chosen
        if chosen is not None and chosen.pods and epoch != self.epoch and not self._is_review:
            self._is_review, self.epoch = True, epoch
            self._search = CutSearch(self._choose_among(chosen))
            self.chosen = self._search.run(ask, out_of_time)
        return self.chosen

    def place(self, ask: Ask, epoch: int, out_of_time: Callable[[], bool]) -> GangPlacement | None:
        """Return where members fit in the state `epoch`; None if the search was cut."""
        chosen = self.chosen or ChosenVictims()
        if self._placing is None or self._placing[0] != epoch:
            kinds = [
                msgspec.structs.replace(
                    kind, nodes=list(filter(chosen.nodes.__contains__, kind.nodes))
                )
                for kind in self.kinds
            ]
            self._placing = epoch, CutSearch(_ask_without(chosen.pods, placing(kinds)))
        return self._placing[1].run(ask, out_of_time)

    def _choose(self, pods: _Pods) -> _Steps[ChosenVictims]:
        """Choose the victims for the first choice of members that fits without some of the pods.

        Then the most important of them are spared, and those that another choice does not need.
        """
        yield None  # so that a search has begun before its first question
        chosen = yield from self._choose_first(pods)
        while chosen.pods:
            top = max(map(_rank, chain.from_iterable(chosen.pods.values())))
            less = {name: [pod for pod in some if _rank(pod) < top] for name, some in pods.items()}
            if not any(less.values()):
                break
            choice, other = self.choice, (yield from self._choose_first(less))
            if other.few is not None:
                self.choice = choice
                break
            chosen = other
        choice = self.choice
        for number in range(len(self.choices)):
            if chosen.pods and number != choice:
                self.choice = number
                other = yield from self._choose_in(chosen.pods)
                if other.few is None and len(other.uids) < len(chosen.uids):
                    chosen, choice = other, number
        self.choice = choice
        return chosen

    def _choose_among(self, chosen: ChosenVictims) -> _Steps[ChosenVictims]:
        """Choose again from what was chosen; the same if too few members fit by now."""
        yield None
        again = yield from self._choose_in(chosen.pods)
        return chosen if again.few is not None else again

    def _choose_first(self, pods: _Pods) -> _Steps[ChosenVictims]:
        """Choose the victims for the first choice of members that fits."""
        most = 0
        for number in range(len(self.choices)):
            self.choice = number
            chosen = yield from self._choose_in(pods)
            if chosen.few is None:
                return chosen
            most = max(most, chosen.few)
        return ChosenVictims(few=most)

    def _choose_in(self, pods: _Pods) -> _Steps[ChosenVictims]:
        """Choose the victims for one choice of members."""
        usable = dict.fromkeys(name for kind in self.kinds for name in kind.nodes)
        fitting = yield from self._fitting(usable, {})
        emptied = yield from self._fitting([name for name in usable if pods.get(name)], pods)
        most = yield from self._count(fitting | emptied)
        if most < self.needed:
            return ChosenVictims(few=most)
        removed: dict[str, list[PotentialVictim]] = {}
        keys = yield from _in_steps(emptied, lambda name: self._importance(pods[name]))
        for name in sorted(keys, key=keys.__getitem__):
            if (yield from self._count(fitting)) >= self.needed:
                break
            if emptied[name] != fitting.get(name):
                fitting[name], removed[name] = emptied[name], list(pods[name])
        yield from self._keep_most(removed, fitting)
        _, nodes = yield from self._add_up(fitting)
        of_node = {name: tuple(some) for name, some in removed.items() if some}
        return ChosenVictims(of_node, frozenset(nodes))

    def _importance(self, pods: Collection[PotentialVictim]) -> tuple[int, int, int, int]:
        """Return a key that is smaller for less important victims."""
        return (
            sum(pod.violates for pod in pods),
            max((pod.priority for pod in pods), default=0),
            self._lost(pods),
            len(pods),
        )

    def _keep_most(
        self, removed: dict[str, list[PotentialVictim]], fitting: dict[str, list[Counts]]
    ) -> _Steps[None]:
        """Keep the pods without which enough members fit as well."""
        lost = yield from _in_steps(
            removed, lambda name: [self._lost((pod,)) for pod in removed[name]]
        )
        order = sorted(
            (
                # A pod that must be evicted in any case is the first to release its devices.
                ((pod.required, not pod.violates, -pod.priority, -each), name, pod)
                for name in removed
                for pod, each in zip(removed[name], lost[name], strict=True)
            ),
            key=itemgetter(0),
        )
        for _, name, pod in order:
            others = [each for each in removed[name] if each != pod]
            here = yield from self._fitting([name], {name: others})
            without = {node: each for node, each in fitting.items() if node != name} | here
            if (yield from self._count(without)) >= self.needed:
                removed[name] = others
                fitting.clear()
                fitting.update(without)

    def _fitting(self, nodes: Iterable[str], removed: _Pods) -> _Steps[dict[str, list[Counts]]]:
        """Find how many members fit on each node without some pods."""
        steps = find_largest(list(nodes), self.kinds)
        return (yield from _ask_without(removed, steps))

    def _count(self, fitting: Mapping[str, list[Counts]]) -> _Steps[int]:
        placed, _ = yield from self._add_up(fitting)
        return placed

    def _add_up(
        self, fitting: Mapping[str, list[Counts]]
    ) -> _Steps[tuple[int, Mapping[str, Counts]]]:
        return (yield from _ask_without({}, add_up(fitting, self.kinds)))


def _rank(pod: PotentialVictim) -> tuple[bool, bool, int]:
    """Return how important it is to keep a pod; one that must be evicted in any case is least."""
    return not pod.required, pod.violates, pod.priority


def _in_steps(nodes: Collection[str], compute: Callable[[str], T]) -> _Steps[dict[str, T]]:
    """Compute something for each node, few nodes in one step."""
    computed = {}
    for number, name in enumerate(nodes, 1):
        computed[name] = compute(name)
        if number % _NODES_PER_STEP == 0:
            yield None
    return computed


def _ask_without(removed: _Pods, steps: Steps[T]) -> _Steps[T]:
    """Ask the questions of some steps about nodes without some of their pods."""
    try:
        question = next(steps)
        while True:
            asked: Question | None = None  # work of the search itself is a step, too
            if question is not None:
                node, claims = question
                asked = frozenset(pod.uid for pod in removed.get(node, ())), node, claims
            question = steps.send((yield asked))
    except StopIteration as end:
        result: T = end.value
        return result
