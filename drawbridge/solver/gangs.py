"""Finds nodes for the members of a gang together.

Members that ask the same are one question with a count. Whether some of them fit on a node, the
solver says about their claims as if they were those of one pod: so devices, shares, counters and
rules count as they do for a pod. What one node gives changes no other node, because pools are local
to nodes; the caller notices the others when it reserves.

    def ask(node, claims):
        answer = planner.solve_nodes(view, claims, (node,), ids=ids).get(node)
        return answer if isinstance(answer, Solution) else None

    found = place_gang([MemberKind(claims_of_one_member, 8, names_of_nodes)], ask)
    # found.placed of 8 fit; found.nodes says where, and each solution has the allocations.

`placing` is the same in small steps, so that a `CutSearch` of them can be cut after each and
continued later; `find_largest` and `add_up` are parts of such searches.

The plan:

1. For each node, find how many members of each kind fit there: the largest numbers that fit
   together, by bisection. Nodes are asked in batches, as long as more members can be placed.
2. Add up what the nodes can take, so that as many members as possible have a place. If members of
   one kind need the nodes of another one, that one moves to other nodes here.
3. Leave a node to others if a fuller one has enough left.

The result is exact for up to `EXACT_KINDS` kinds or `EXACT_NUMBERS` numbers of members, as six
single ones have, and `MAX_STATES` partial results; beyond, it may find fewer members than fit, but
never more.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from math import prod
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from drawbridge.dra.allocation import Allocation
from drawbridge.dra.claim import Claim
from drawbridge.solver.answers import Solution
from drawbridge.solver.memo import OutOfTimeError

# A kubelet runs some hundred pods.
MAX_MEMBERS_ON_NODE: Final = 128
EXACT_KINDS: Final = 3
# Of more kinds, all numbers are asked about if these are few, as those of six single members.
EXACT_NUMBERS: Final = 64
MAX_STATES: Final = 256
_BATCH: Final = 64
# So many numbers of members are compared in one step.
_COMPARED: Final = 64
# With more kinds, fewer results are kept and compared, so that their price stays the same.
_MANY_KINDS: Final = 16
_FEWEST_STATES: Final = 16

# How many members of each kind.
Counts: TypeAlias = tuple[int, ...]
# Returns a solution for the claims on a node, as if they were those of one pod, if there is one.
Ask: TypeAlias = Callable[[str, Sequence[Claim]], Solution | None]
# A question to the solver: it always has time for one node. Without one, a step is work of the
# search itself.
Question: TypeAlias = tuple[str, Sequence[Claim]]
Q = TypeVar("Q")
T = TypeVar("T")
Steps: TypeAlias = Generator[Question | None, Solution | None, T]
# Asks whether so many members fit on a node, and ends with the largest numbers that fit.
_Questions: TypeAlias = Generator[Counts, bool, list[Counts]]


class MemberKind(msgspec.Struct, frozen=True):
    """Members that ask the same: the claims of one that need devices, and the nodes it can use.

    Members that share claims need one node, and count as one, of this `size`.
    """

    claims: tuple[Claim, ...]
    count: int
    nodes: Collection[str]
    size: int = 1


class NodeMembers(msgspec.Struct, frozen=True):
    """The members on one node; `solution` has the allocations of each kind's members in turn."""

    node: str
    counts: Counts
    solution: Solution

    def allocations(self, kinds: Sequence[MemberKind]) -> list[list[tuple[Allocation, ...]]]:
        """Return the allocations of each member, by kind."""
        left = iter(self.solution.allocations)
        return [
            [tuple(next(left) for _ in kind.claims) for _ in range(count)]
            for kind, count in zip(kinds, self.counts, strict=True)
        ]


class GangPlacement(msgspec.Struct, frozen=True):
    """Where members fit together, and how many."""

    nodes: tuple[NodeMembers, ...]
    placed: int

    def only_on(self, kinds: Sequence[MemberKind]) -> "GangPlacement":
        """Return what is placed on nodes that members of these kinds can still use."""
        usable = [frozenset(kind.nodes) for kind in kinds]
        nodes = tuple(
            each
            for each in self.nodes
            if all(
                not count or each.node in names
                for count, names in zip(each.counts, usable, strict=True)
            )
        )
        return GangPlacement(nodes, _count_placed(nodes, kinds))


class CutSearch(Generic[Q, T]):
    """A search that was cut goes on when it is run again; each run does at least one step.

    Its steps are questions to the solver, or None. If the use of devices changes between two runs,
    the result may be that of before the change.
    """

    def __init__(self, steps: Generator[Q | None, Solution | None, T]) -> None:
        self._steps = steps
        self._next = next(steps)
        self._result: T | None = None

    def run(
        self,
        ask: Callable[[Q], Solution | None],
        out_of_time: Callable[[], bool] = lambda: False,
    ) -> T | None:
        """Return the result; None if the search was cut.

        That is after a step that ran `out_of_time`, or because `ask` raised OutOfTimeError. What
        the solver has answered by then is in its memo.
        """
        try:
            while self._result is None:
                answer = ask(self._next) if self._next is not None else None
                self._next = self._steps.send(answer)
                if out_of_time():
                    return None
        except OutOfTimeError:
            return None
        except StopIteration as end:
            self._result = end.value
        return self._result


def place_gang(kinds: Sequence[MemberKind], ask: Ask) -> GangPlacement:
    """Place as many members of a gang as fit together; each kind has claims."""
    placement = CutSearch(placing(kinds)).run(lambda question: ask(*question))
    return placement or GangPlacement((), 0)


def placing(kinds: Sequence[MemberKind]) -> Steps[GangPlacement]:
    """Find where members fit, in steps."""
    yield None  # so that a search has begun before its first question
    names = [*dict.fromkeys(chain.from_iterable(kind.nodes for kind in kinds))]
    fitting: dict[str, list[Counts]] = {}
    chosen: Mapping[str, Counts] = {}
    lacking = tuple(kind.count for kind in kinds)
    for start in range(0, len(names), _BATCH):
        of_batch = yield from find_largest(names[start : start + _BATCH], kinds)
        fitting |= of_batch
        for counts in chain.from_iterable(of_batch.values()):
            lacking = tuple(map(int.__sub__, lacking, counts))
        if start + _BATCH < len(names) and max(lacking) > 0:
            continue  # however they are added up
        placed, chosen = yield from add_up(fitting, kinds)
        if placed == count_all(kinds):
            break
    filled = yield from _fill_nodes(chosen, fitting)
    nodes = yield from _solve(filled, kinds)
    return GangPlacement(nodes, _count_placed(nodes, kinds))


def count_all(kinds: Iterable[MemberKind]) -> int:
    """Return how many members there are."""
    return sum(kind.count * kind.size for kind in kinds)


def _count_placed(nodes: Iterable[NodeMembers], kinds: Sequence[MemberKind]) -> int:
    return sum(_count_members(node.counts, kinds) for node in nodes)


def _count_members(counts: Counts, kinds: Sequence[MemberKind]) -> int:
    return sum(count * kind.size for count, kind in zip(counts, kinds, strict=True))


def _solve(
    chosen: Mapping[str, Counts], kinds: Sequence[MemberKind]
) -> Steps[tuple[NodeMembers, ...]]:
    placed = []
    for node, counts in chosen.items():
        solution = yield node, _claims(kinds, counts)
        # The solver can give up for fewer members too, at the limit of its steps.
        if solution is not None:
            placed.append(NodeMembers(node, counts, solution))
    return tuple(placed)


def _claims(kinds: Sequence[MemberKind], counts: Counts) -> tuple[Claim, ...]:
    """Return the claims of so many members, as if they were those of one pod."""
    of_kinds = zip(kinds, counts, strict=True)
    members = chain.from_iterable(repeat(kind.claims, count) for kind, count in of_kinds)
    return tuple(chain.from_iterable(members))


# --- what one node takes ---


def find_largest(
    nodes: Iterable[str], kinds: Sequence[MemberKind]
) -> Steps[dict[str, list[Counts]]]:
    """Find for each node the largest numbers of members that fit there together.

    The nodes are asked in rounds, because equal nodes share their answers.
    """
    by_node: dict[str, list[Counts]] = {}
    usable = _usable_kinds(nodes, kinds)
    questions = {node: _questions_about(some, kinds) for node, some in usable.items()}
    told: dict[str, bool | None] = dict.fromkeys(questions)
    while told:
        asked: dict[Counts, list[str]] = {}
        for node, answer in told.items():
            try:
                following = questions[node]
                counts = next(following) if answer is None else following.send(answer)
                asked.setdefault(counts, []).append(node)
            except StopIteration as end:
                by_node[node] = yield from _largest(end.value)
        told = {}
        for counts, some in asked.items():
            claims = _claims(kinds, counts)
            for node in some:
                told[node] = (yield node, claims) is not None
    return {node: each for node, each in by_node.items() if any(map(any, each))}


def _usable_kinds(nodes: Iterable[str], kinds: Sequence[MemberKind]) -> Mapping[str, Sequence[int]]:
    """Return which kinds can use each node that some can use: of many kinds, most can not."""
    usable: dict[str, list[int]] = {node: [] for node in nodes}
    for at, kind in enumerate(kinds):
        for node in kind.nodes:
            if node in usable:
                usable[node].append(at)
    return {node: some for node, some in usable.items() if some}


def _questions_about(some: Sequence[int], kinds: Sequence[MemberKind]) -> _Questions:
    limits = tuple(min(kind.count, MAX_MEMBERS_ON_NODE) for kind in kinds)
    none = (0,) * len(kinds)
    if len(some) <= EXACT_KINDS or prod(limits[at] + 1 for at in some) <= EXACT_NUMBERS:
        return _all_largest(limits, some, none)
    return _some_largest(limits, some, none)


def _all_largest(limits: Counts, some: Sequence[int], base: Counts) -> _Questions:
    """Find all largest numbers of some kinds, with those of `base` before them."""
    at, *others = some
    most = yield from _most(limits, at, base)
    if not others:
        return [_with(base, at, most)]
    largest: list[Counts] = []
    for count in range(most, -1, -1):
        largest += yield from _all_largest(limits, others, _with(base, at, count))
    return largest


def _some_largest(limits: Counts, some: Sequence[int], none: Counts) -> _Questions:
    """Find some largest numbers: each kind is once the first to get as many as fit."""
    bases = []
    for first in range(len(some)):
        base = none
        for at in (*some[first:], *some[:first]):
            most = yield from _most(limits, at, base)
            base = _with(base, at, most)
        bases.append(base)
    return bases


def _most(limits: Counts, at: int, base: Counts) -> Generator[Counts, bool, int]:
    """Find how many members of kind `at` fit beside those of `base`, which fit."""
    least, most, doubled = 0, limits[at], 1
    while least < most:
        middle = min(doubled, most) if doubled else (least + most + 1) // 2
        if (yield _with(base, at, middle)):
            least, doubled = middle, 2 * doubled
        else:
            most, doubled = middle - 1, 0
    return least


def _with(base: Counts, at: int, count: int) -> Counts:
    return (*base[:at], count, *base[at + 1 :])


# --- what all nodes take ---


def add_up(
    fitting: Mapping[str, list[Counts]], kinds: Sequence[MemberKind]
) -> Steps[tuple[int, Mapping[str, Counts]]]:
    """Find how many members have a place on the nodes together, and where.

    The nodes that take most come first, so that the members are on few nodes. Of too many results,
    those are kept with which most members can have a place on the nodes that follow.
    """
    wanted = tuple(kind.count for kind in kinds)
    none = (0,) * len(wanted)
    states: dict[Counts, Mapping[str, Counts]] = {none: {}}
    nodes = sorted(fitting, key=lambda each: -_total(fitting[each]))
    following: Counts | None = None
    for at, node in enumerate(nodes):
        reached = dict(states)
        for before, chosen in states.items():
            for largest in fitting[node]:
                taken = tuple(map(_taken, largest, wanted, before))
                after = tuple(map(int.__add__, before, taken))
                if after not in reached:
                    reached[after] = {**chosen, node: taken}
            yield None
        if wanted in reached:
            return count_all(kinds), reached[wanted]
        if following is not None:
            following = tuple(map(int.__sub__, following, map(max, none, *fitting[node])))
        elif len(reached) > _FEWEST_STATES:
            following = yield from _add_most(map(fitting.__getitem__, nodes[at + 1 :]), none)
        possible = partial(_count_possible, wanted, following or none)
        states = {each: reached[each] for each in (yield from _largest(reached, possible))}
    best = max(states, key=lambda each: (_count_members(each, kinds), each))
    return _count_members(best, kinds), states[best]


def _taken(largest: int, wanted: int, before: int) -> int:
    return min(largest, wanted - before)


def _add_most(largest: Iterable[list[Counts]], none: Counts) -> Steps[Counts]:
    """Add up the most members of each kind that some nodes take, whatever else they take."""
    total = none
    for number, of_node in enumerate(largest, 1):
        total = tuple(map(int.__add__, total, map(max, none, *of_node)))
        if number % _BATCH == 0:
            yield None
    return total


def _count_possible(wanted: Counts, following: Counts, placed: Counts) -> int:
    """Return how many members can have a place if the nodes that follow take so many."""
    return sum(map(min, wanted, map(int.__add__, placed, following)))


def _total(largest: Iterable[Counts]) -> int:
    return max(map(sum, largest))


def _largest(
    all_counts: Iterable[Counts], possible: Callable[[Counts], int] = sum
) -> Steps[list[Counts]]:
    """Find the numbers that no others contain, at most MAX_STATES, or fewer of many kinds."""
    kept: list[Counts] = []
    ordered = sorted(all_counts, key=lambda e: (possible(e), sum(e), e), reverse=True)
    times = max(1, len(ordered[0]) // _MANY_KINDS) if ordered else 1
    most, at_once = max(MAX_STATES // times, _FEWEST_STATES), max(1, _COMPARED // times)
    for number, counts in enumerate(ordered):
        if len(kept) < most and not any(_contains(other, counts) for other in kept):
            kept.append(counts)
        if number % at_once == at_once - 1:
            yield None
    return kept


def _contains(larger: Counts, smaller: Counts) -> bool:
    return all(map(int.__le__, smaller, larger))


def _fill_nodes(
    chosen: Mapping[str, Counts], fitting: Mapping[str, list[Counts]]
) -> Steps[dict[str, Counts]]:
    """Move the members of a node to one that takes no more than they need, if there is one."""
    filled: dict[str, Counts] = {}
    totals = {node: _total(largest) for node, largest in fitting.items()}
    free = sorted(fitting.keys() - chosen.keys(), key=lambda each: (totals[each], each))
    for node, counts in chosen.items():
        needed = [(at, count) for at, count in enumerate(counts) if count]
        others = (
            other
            for other in free
            if totals[other] < totals[node] and any(_takes(each, needed) for each in fitting[other])
        )
        filled[next(others, node)] = counts
        free = [each for each in free if each not in filled]
        yield None
    return filled


def _takes(largest: Counts, needed: Iterable[tuple[int, int]]) -> bool:
    return all(largest[at] >= count for at, count in needed)
