"""What all decisions are made from: the cluster, what pods have, and what is asked elsewhere."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from msgspec.structs import replace

from allocator.decisions.lost_work import LostWork
from allocator.decisions.node_searches import UNLIMITED, NodeSearches
from allocator.decisions.pod_requests import ReceivedRequests
from allocator.decisions.quota import QuotaChecks
from allocator.decisions.shortlist import NodeSearch, never
from allocator.decisions.strategy import ConfiguredStrategy
from allocator.state.cluster_state import AllocatorState
from allocator.state.group_records import GroupTable
from allocator.state.preemptors import Preemptors
from allocator.state.records import PodRequest
from allocator.state.releases import Releases
from allocator.state.reserved_pods import DEFAULT_LIMITS, HoldLimits, ReservedPods
from drawbridge.brief import NamespaceTimes
from drawbridge.dra.claim import Claim
from drawbridge.ledger.chosen_strategies import ALL_FIRST_FIT, StrategyNames
from drawbridge.ledger.pods import Pod
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import Ask
from drawbridge.solver.world import View


class Surroundings(NamedTuple):
    """What decisions ask elsewhere.

    `find_pod` returns the pod with a namespace and a name, and `min_member` the minimum in the
    PodGroup of Coscheduling of a namespace and a name, or 0.
    `unread_groups` returns why these PodGroups are not known yet, or "".
    `server_time` is the Unix time of the API server.
    """

    strategy: StrategyNames = ALL_FIRST_FIT
    nodes_per_call: int = UNLIMITED
    limits: HoldLimits = DEFAULT_LIMITS
    min_member: Callable[[str, str], int] = lambda _namespace, _name: 0
    unread_groups: Callable[[], str] = str
    find_pod: Callable[[str, str], Pod | None] = lambda _namespace, _name: None
    server_time: Callable[[], float] = time.time


class Basis:
    """What all decisions of an allocator share."""

    def __init__(self, state: AllocatorState, around: Surroundings) -> None:
        self.state, self.around = state, around
        # Whether the decision that is being made has no time left.
        self.out_of_time: Callable[[], bool] = never
        self.groups = GroupTable()
        self.reserved = ReservedPods(state, self.groups, around.limits)
        self.quotas = QuotaChecks(state)
        self.requests = ReceivedRequests(state, self.quotas, around.find_pod)
        self.preemptors, self.releases = Preemptors(state), Releases(state)
        self.searches = NodeSearches(state, around.nodes_per_call)
        self.strategy = ConfiguredStrategy(state, around.strategy)
        self.lost_work = LostWork(state, around.server_time)
        self._briefs = NamespaceTimes()

    @contextmanager
    def deciding(
        self, namespace: str, now: float, out_of_time: Callable[[], bool] = never
    ) -> Iterator[None]:
        """Make a decision for a namespace, in which the search on a node has its time."""
        planner, self.out_of_time = self.state.planner, out_of_time
        planner.begin_decision(self._briefs.seconds(namespace, now))
        try:
            yield
        finally:
            self.out_of_time = never
            if planner.is_slow:
                self._briefs.note_cut(namespace, now)

    def search(self, request: PodRequest, limit: int = 0) -> NodeSearch:
        """Return the search for nodes of a pod in the decision that is being made."""
        return replace(self.requests.search(request, limit), out_of_time=self.out_of_time)

    def ask_in(self, view: View) -> Ask:
        """Return the question to the solver in one use of devices, in this decision."""
        state, out_of_time = self.state, self.out_of_time

        def ask(node: str, claims: Sequence[Claim]) -> Solution | None:
            answers = state.planner.solve_nodes(
                view, claims, (node,), ids=state.ids, checks_size=True, out_of_time=out_of_time
            )
            answer = answers.get(node)
            return answer if isinstance(answer, Solution) else None

        return ask
