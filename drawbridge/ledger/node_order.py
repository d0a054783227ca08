"""The order of the nodes on which a pod fits: by its claims, then by the strategy."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from drawbridge.dra.claim import Claim
from drawbridge.dra.rules import PackingPolicy
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.node_choice import DecidedPod, NodeChoice, RatedNode
from drawbridge.ledger.node_resources import NodeResources, requested_amounts
from drawbridge.ledger.other_cards import find_near
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.ranking import preferred_nodes, rank_solution, rank_use
from drawbridge.solver.answers import Solution, SolverResult
from drawbridge.solver.node_view import PooledDevice


class NodeOrder:
    """Orders nodes; without `choice`, equal ones by name."""

    def __init__(
        self,
        planner: Planner,
        ledger: Ledger,
        resources: NodeResources,
        choice: NodeChoice | None,
    ) -> None:
        self._planner = planner
        self._ledger = ledger
        self._resources = resources
        self._choice = choice

    def best_first(
        self, pod: Pod | None, answers: Mapping[str, tuple[Sequence[Claim], SolverResult]]
    ) -> Iterator[tuple[str, RatedNode | None]]:
        """Yield the nodes with a solution by rank, equal ones in the order of the strategy."""
        by_rank: dict[tuple[int, int, float], set[str]] = {}
        first: tuple[Sequence[Claim], Solution] | tuple[()] = ()
        policy: PackingPolicy | None = None
        for node, (claims, answer) in answers.items():
            if isinstance(answer, Solution):
                if not first:
                    # Claims for extended resources differ between nodes, and have no rules.
                    first = claims, answer
                    policy = preferred_nodes(claims) if self._planner.obeys_rules else None
                by_rank.setdefault(self._rank(claims, answer, policy), set()).add(node)
        # A reservation rarely fails, so the nodes behind the first are not rated.
        for rank in sorted(by_rank):
            names = by_rank[rank]
            for rated in self._rate(pod, *first) if first else ():
                if rated.name in names:
                    names.remove(rated.name)
                    yield rated.name, rated
            yield from ((node, None) for node in sorted(names))

    def _rate(
        self, pod: Pod | None, claims: Sequence[Claim], solution: Solution
    ) -> Iterable[RatedNode]:
        """Return the nodes in the order of the strategy."""
        if self._choice is None or pod is None:
            return ()
        decided = _decided(self._choice, pod, claims, solution)
        return self._choice.rank(decided, self._ledger.view(), self._resources)

    def learn(self, pod: Pod, claims: Sequence[Claim], node: str) -> None:
        """Learn from a pod that got its devices; the claims have them."""
        if self._choice is not None:
            allocations = (each.status.allocation for each in claims)
            solution = Solution(node, tuple(filter(None, allocations)))
            self._choice.learn(_decided(self._choice, pod, claims, solution))

    def with_devices_first(
        self, claims: Sequence[Claim], answer: SolverResult, first: Sequence[PooledDevice]
    ) -> SolverResult:
        """Return a solution with these devices if there is one, else the answer."""
        unallocated = [each for each in claims if each.status.allocation is None]
        if not unallocated or not first:
            return answer
        view = self._ledger.view()
        solved = self._planner.solve_nodes(view, unallocated, [answer.node], first=first)
        better = solved.get(answer.node)
        return better if isinstance(better, Solution) else answer

    def _rank(
        self, claims: Sequence[Claim], solution: Solution, policy: PackingPolicy | None
    ) -> tuple[int, int, float]:
        """Return the rank of a solution; the smallest one is the best."""
        alternatives, preferences = rank_solution(claims, solution)
        used = self._planner.part_in_use(solution.node, self._ledger.view()) if policy else 0.0
        return -alternatives, -preferences, -rank_use(policy, used)


def _decided(
    choice: NodeChoice, pod: Pod, claims: Sequence[Claim], solution: Solution
) -> DecidedPod:
    return DecidedPod(
        pod.full_name,
        choice.names.of(claims),
        pod.namespace,
        requested_amounts(pod),
        solution.node,
        solution.allocations,
        find_near(claims, solution.allocations),
    )
