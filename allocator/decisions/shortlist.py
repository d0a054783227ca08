"""Finds nodes on which the claims of a pod can be allocated, without a search of all nodes.

Nodes that the scheduler would reject anyway are skipped: node selector, required node affinity,
taints and unschedulable. The scheduler's own plugins decide about everything else.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from allocator.scheduler.protocol import SchedulingPod
from allocator.state.cluster_state import AllocatorState
from drawbridge.agreement import allocator_codes as codes
from drawbridge.dra.allocation import Allocation, ClaimStatus
from drawbridge.dra.claim import Claim
from drawbridge.dra.device import NodeSelector, Taint
from drawbridge.dra.nodes import (
    Node,
    matches_selector,
    named_nodes,
    with_sets_of_values,
    without_malformed_terms,
)
from drawbridge.dra.taints import UNSCHEDULABLE, first_untolerated
from drawbridge.ledger.holdings import Hold, read_holds
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.node_fit import has_labels, make_reason, reachable_nodes
from drawbridge.ledger.quota_room import find_excess_with, quota_reason
from drawbridge.ledger.ranking import SolutionRank, rank_solution
from drawbridge.solver.answers import Failure, FailureKind, Solution
from drawbridge.solver.memo import CutOnNodeError, OutOfTimeError
from drawbridge.solver.reasons import NONE_OF_ALLOCATOR, Reason, merge_reasons
from drawbridge.solver.world import View

MAX_BATCH: Final = 64
# An expression that fails on more nodes is at fault itself: not every node is tried with it.
MAX_FAILING_NODES: Final = 16
# A claim that is cut on more nodes is at fault itself. Each of them takes the time of one search.
MAX_PASSED: Final = 4
# Each expression is compared with each node.
_MAX_EXPRESSIONS: Final = 256


def never() -> bool:
    """Set no time limit."""
    return False


class NodeSearch(msgspec.Struct, frozen=True, kw_only=True):
    """What to search for: a pod and its claims, with the allocations that are decided already.

    `limit` is the number of nodes to find (0 for all), `visits` the number of nodes to examine.
    `first` is examined first. The nodes in `without` are not, and with `only` no others are.
    If it `stays`, the next one begins with the node that is found last, whose answer is remembered.
    `out_of_time` is asked between batches of nodes and ends the search. So does a node whose search
    is cut.
    """

    pod: SchedulingPod
    claims: tuple[Claim, ...]
    limit: int = 0
    visits: int = 1 << 62
    start: int = 0
    stays: bool = False
    first: str = ""
    without: Collection[str] = frozenset()
    only: frozenset[str] | None = None
    out_of_time: Callable[[], bool] = never

    @property
    def unallocated(self) -> tuple[Claim, ...]:
        """The claims that need devices."""
        return tuple(each for each in self.claims if each.status.allocation is None)

    @property
    def lacking(self) -> frozenset[str]:
        """The UIDs of the claims that need devices."""
        return frozenset(map(uid_of, self.unallocated))

    def as_unallocated(self, uids: Collection[str]) -> "NodeSearch":
        """Return the search as if these claims had no allocation."""
        claims = (
            replace(each, status=ClaimStatus()) if uid_of(each) in uids else each
            for each in self.claims
        )
        return replace(self, claims=tuple(claims))

    @property
    def required(self) -> NodeSelector | None:
        """The required node affinity of the pod."""
        affinity = self.pod.node_affinity
        return affinity.required_during_scheduling_ignored_during_execution if affinity else None


class FittingNode(msgspec.Struct, frozen=True):
    """A node on which the claims fit, and the rank of the solution there."""

    name: str
    rank: SolutionRank
    solution: Solution | None = None

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """What the claims that need devices get, in their order."""
        return self.solution.allocations if self.solution else ()

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The devices that they get."""
        return tuple(hold for each in self.allocations for hold in read_holds(each))

    def by_claim(self, claims: Iterable[Claim]) -> dict[str, Allocation]:
        """Return what each of the claims that need devices gets, by UID."""
        return dict(zip(map(uid_of, claims), self.allocations, strict=True))


class Shortlist(msgspec.Struct, kw_only=True):
    """The nodes that were found, and the reasons for those that were examined and do not fit.

    `error` is the first of the errors that occurred on nodes, and `errors` counts those that other
    nodes can have as well. `exceeding` says which quotas the pod would exceed with the devices of
    nodes.
    """

    fitting: list[FittingNode] = []
    reasons: list[Reason] = []
    exceeding: list[Reason] = []
    examined: int = 0
    visited: int = 0  # examined, or passed over
    candidates: int = 0
    error: Failure | None = None
    errors: int = 0
    # Whether the search was cut on a node, and ended before it had visited those behind it.
    goes_behind_cut: bool = False
    # Whether devices with a penalty were left out.
    excludes_devices: bool = False

    def list_reasons(self) -> tuple[Reason, ...]:
        """Return why nodes do not fit, the error first, and then quotas."""
        errors = self.error.reasons if self.error is not None else ()
        return (*errors, *merge_reasons(self.exceeding), *merge_reasons(self.reasons))

    def copy(self) -> "Shortlist":
        """Return the same lists, as they are now."""
        lists = {name: [*getattr(self, name)] for name in ("fitting", "reasons", "exceeding")}
        return replace(self, **lists)

    @property
    def exceeds_everywhere(self) -> bool:
        """Whether no node has other devices, which would be in the quotas when pods are gone."""
        return sum(each.nodes for each in self.exceeding) >= self.candidates > 0

    @property
    def complete(self) -> bool:
        """Whether no other node fits."""
        return self.examined >= self.candidates and not self.excludes_devices

    @property
    def has_failed(self) -> bool:
        """Whether the claims have an error on so many nodes that no others are examined."""
        return self.errors >= MAX_FAILING_NODES

    @property
    def has_ended(self) -> bool:
        """Whether the search has nothing to continue with."""
        return self.complete or self.has_failed


def find_nodes(search: NodeSearch, state: AllocatorState, view: View) -> Shortlist:
    """Examine nodes until enough are found, or too many have an error.

    A node on which the search is cut keeps no pod from the nodes behind it, because what it
    publishes can be the cause. If none of these fits, the search ended there.
    """
    names, selected = candidate_names(search, state), SelectedNodes(search, state)
    at_cut, passed = None, 0
    shortlist = Shortlist(candidates=len(names))
    unfit: Counter[str] = Counter()
    last = min(len(names), search.visits)
    size = search.limit or MAX_BATCH
    while shortlist.examined < last and not shortlist.has_failed:
        batch = names[shortlist.examined : min(shortlist.examined + size, last)]
        before, reasons_before = len(shortlist.fitting), len(shortlist.reasons)
        unfit_here: Counter[str] = Counter()
        try:
            nodes = selected.among(batch, unfit_here)
            _examine(nodes, search, state, view, shortlist)
        except OutOfTimeError as error:
            del shortlist.reasons[reasons_before:]
            if not isinstance(error, CutOnNodeError):
                break
            passed += 1
            at_cut = at_cut or shortlist.copy()
            # What fits in front of it counts, however many nodes are cut behind it.
            in_front = batch.index(error.node)
            size = max(in_front, 1)
            names = [each for each in names if each != error.node]
            last = min(len(names), search.visits)
            if passed > MAX_PASSED or search.out_of_time():
                last = shortlist.examined + in_front
            continue
        unfit += unfit_here
        shortlist.examined += len(batch)
        missing = search.limit - len(shortlist.fitting)
        if (search.limit and missing <= 0) or search.out_of_time():
            break
        # Nodes that do not fit are examined in larger batches.
        size = max(missing, 1) if len(shortlist.fitting) > before else min(2 * size, MAX_BATCH)
    visited = shortlist.examined + passed
    if at_cut is not None and shortlist.fitting:
        state.planner.forget_cut()
    elif at_cut is not None:
        shortlist = at_cut
        shortlist.goes_behind_cut = passed <= MAX_PASSED and visited < shortlist.candidates
    shortlist.visited = visited
    shortlist.reasons += _reasons_beside_devices(search, state, unfit, shortlist.candidates)
    return shortlist


def is_open(node: str, pod: SchedulingPod, state: AllocatorState) -> bool:
    """Whether the scheduler can select a node for a pod, whatever devices it has."""
    return bool(open_nodes((node,), NodeSearch(pod=pod, claims=()), state))


def open_nodes(names: Iterable[str], search: NodeSearch, state: AllocatorState) -> list[str]:
    """Return those of some nodes that the scheduler can select for a pod, in order."""
    return [node.name for node in SelectedNodes(search, state).among(names, Counter())]


def usable_nodes(search: NodeSearch, state: AllocatorState) -> list[str]:
    """Return the nodes that the scheduler can select for a pod, whatever devices they have."""
    nodes = SelectedNodes(search, state).among(candidate_names(search, state), Counter())
    near, _ = reachable_nodes(search.claims, nodes)
    return [node.name for node in near]


def _reasons_beside_devices(
    search: NodeSearch, state: AllocatorState, unfit: Counter[str], candidates: int
) -> Iterator[Reason]:
    """Yield why nodes cannot be used whatever devices they have."""
    for text, count in unfit.most_common():
        yield make_reason(codes.NODE_REFUSED, "nodes", text, nodes=count)
    others = len(state.planner.nodes) - candidates
    if others > 0 and search.only is None and _only_nodes_with_pools(search):
        unfenced = 0
        if state.unfenced:
            waiting = {*state.unfenced.values()}.difference(state.nodes_with_pools)
            unfenced = min(len(waiting), others)
        texts = {"the fence is missing or has not settled": unfenced}
        texts[NONE_OF_ALLOCATOR] = others - unfenced
        for text, count in texts.items():
            if count:
                yield make_reason(codes.NO_OWNED_POOL, "nodes", text, nodes=count)


def candidate_names(search: NodeSearch, state: AllocatorState) -> Sequence[str]:
    """Return the nodes to examine in order: `first`, then from `start` on, around the list."""
    names: Sequence[str]
    named = find_named(search)
    if named is not None:
        names = sorted(named)
    elif _only_nodes_with_pools(search):
        names = state.nodes_with_pools
    else:
        names = tuple(state.planner.nodes)
    start = search.start % len(names) if names else 0
    ordered = [*names[start:], *names[:start]]
    if search.first in named if named is not None else bool(search.first):
        ordered = [search.first, *(each for each in ordered if each != search.first)]
    return [each for each in ordered if each not in search.without] if search.without else ordered


def _only_nodes_with_pools(search: NodeSearch) -> bool:
    """Whether only nodes with owned devices can have a solution."""
    unallocated = search.unallocated
    return bool(unallocated) and all(each.spec.devices.requests for each in unallocated)


def find_named(search: NodeSearch) -> frozenset[str] | None:
    """Return the nodes that the search, the pod or its allocated claims name, if they do."""
    selectors = [
        claim.status.allocation.node_selector
        for claim in search.claims
        if claim.status.allocation is not None
    ]
    named = search.only
    if search.pod.node_name:
        own = frozenset({search.pod.node_name})
        named = own if named is None else named & own
    for selector in (search.required, *selectors):
        names = named_nodes(selector) if selector is not None else None
        if names is not None:
            named = names if named is None else named & names
    return named


def count_expressions(search: NodeSearch) -> int:
    """Count the expressions of the required node affinity of a pod."""
    terms = search.required.node_selector_terms if search.required else ()
    return sum(max(1, len(each.match_expressions) + len(each.match_fields)) for each in terms)


class SelectedNodes:
    """The nodes that the scheduler can select for a pod, whatever devices they have.

    What the pod says is prepared once, and not read again for each node.
    """

    def __init__(self, search: NodeSearch, state: AllocatorState) -> None:
        self._nodes, self._pod = state.planner.nodes, search.pod
        required = search.required
        self._too_long = count_expressions(search) > _MAX_EXPRESSIONS
        self._required = None
        if required is not None and not self._too_long:
            self._required = with_sets_of_values(without_malformed_terms(required))
        self._tolerated: dict[Taint, bool] = {}

    def among(self, names: Iterable[str], unfit: Counter[str]) -> list[Node]:
        """Return those of some nodes that can be selected, and count the reasons for others."""
        selected = []
        for name in names:
            node = self._nodes.get(name)
            text = "the node is not known" if node is None else self._find_problem(node)
            if node is None or text:
                unfit[text] += 1
            else:
                selected.append(node)
        return selected

    def _find_problem(self, node: Node) -> str:
        if self._too_long:
            return f"the required node affinity has more than {_MAX_EXPRESSIONS} expressions"
        if self._pod.node_selector and not has_labels(self._pod.node_selector, node):
            return "excluded by the node selector of the pod"
        required = self._required
        if required is not None and not matches_selector(required, node):
            return "excluded by the required node affinity of the pod"
        taint = self._untolerated_taint(node)
        if taint is None:
            return ""
        text = f"the node has the taint {taint.key}:{taint.effect}, which the pod does not "
        return text + "tolerate"

    def _untolerated_taint(self, node: Node) -> Taint | None:
        taints = (*node.taints, UNSCHEDULABLE) if node.unschedulable else node.taints
        for taint in taints:
            if taint not in self._tolerated:
                untolerated = first_untolerated((taint,), self._pod.tolerations or ())
                self._tolerated[taint] = untolerated is None
            if not self._tolerated[taint]:
                return taint
        return None


def _examine(
    nodes: Sequence[Node],
    search: NodeSearch,
    state: AllocatorState,
    view: View,
    shortlist: Shortlist,
) -> None:
    """Solve for nodes, and add the results to `found`."""
    near, elsewhere = reachable_nodes(search.claims, nodes)
    shortlist.reasons += elsewhere
    unallocated = search.unallocated
    if not unallocated:
        shortlist.fitting += [FittingNode(node.name, (0, 0)) for node in near]
        return
    names = [node.name for node in near]
    answers = state.planner.solve_nodes(
        view,
        unallocated,
        names,
        ids=state.ids,
        checks_size=True,
        out_of_time=search.out_of_time,
    )
    for name, answer in answers.items():
        if isinstance(answer, Solution):
            fit = fit_solution(name, answer, search, state)
            if isinstance(fit, FittingNode):
                shortlist.fitting.append(fit)
            else:
                shortlist.exceeding.append(fit)
        elif answer.outcome is FailureKind.ERROR:
            shortlist.error = shortlist.error or answer
            shortlist.errors += not answer.of_node
        else:
            shortlist.reasons += answer.reasons


def fit_solution(
    name: str, solution: Solution, search: NodeSearch, state: AllocatorState
) -> FittingNode | Reason:
    """Return a node with the devices that a pod gets there, or which quota it would exceed."""
    quotas, namespace = state.ledger.quotas, search.pod.namespace
    excess = find_excess_with(quotas, namespace, search.claims, solution.allocations)
    if excess is not None:
        # Other devices can have less.
        return replace(quota_reason(excess._replace(never_fits=False)), nodes=1)
    return FittingNode(name, rank_solution(search.unallocated, solution), solution)
