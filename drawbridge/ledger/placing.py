"""Simulates the placement of pods on nodes, one after the other, in memory.

Of the scheduler's node filters, those of `drawbridge.ledger.node_fit` apply, and the amounts of
resources if they are given, but not the rules about other pods, volumes or ports. Each placement
reserves its devices in the ledger, and counts its requests.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from drawbridge.choice.levels import ChosenWeights
from drawbridge.choice.strategy import Part
from drawbridge.dra.allocation import Allocation, with_share_ids
from drawbridge.dra.claim import Claim, Template
from drawbridge.dra.counted import count_noun, join_words
from drawbridge.dra.nodes import Node
from drawbridge.finding import Finding
from drawbridge.ledger import codes, generated_claims, node_fit
from drawbridge.ledger.claim_references import PodClaims, find_pod_claims
from drawbridge.ledger.ledger import Ledger, Reservation, ReservationRefusal, name_of, uid_of
from drawbridge.ledger.node_choice import NodeChoice
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.node_order import NodeOrder
from drawbridge.ledger.node_resources import Amounts, NodeResources, requested_amounts
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.quota_room import find_least_excess, narrow_claims, quota_reason
from drawbridge.solver.answers import Failure, FailureKind, Solution, SolverResult
from drawbridge.solver.reasons import Reason, merge_reasons
from drawbridge.solver.world import View


class NodeRating(NamedTuple):
    """What a strategy thinks of the node of a pod: the score is the sum of the parts.

    No device of the node publishes what is `unpublished`, so that the strategy cannot compare it.
    """

    strategy: str
    weights: ChosenWeights
    score: int
    parts: tuple[Part, ...]
    unpublished: tuple[str, ...] = ()


class PodPlacement(msgspec.Struct, frozen=True):
    """The result for a pod, or for claims without a pod: a node and allocations, or reasons.

    `preempted` names the pods that were evicted for it. A pod that takes nothing leaves devices and
    counted resources as they were.
    """

    pod: str | None
    node: str | None
    claims: tuple[tuple[str, Allocation | None], ...]
    reasons: tuple[Reason, ...] = ()
    preempted: tuple[str, ...] = ()
    takes_nothing: bool = False
    rating: NodeRating | None = None


class HeldClaims(NamedTuple):
    """The claims by name and the ledger that they are in, and the templates of further claims."""

    ledger: Ledger
    claims: dict[str, Claim]
    templates: Mapping[str, Template]


def hold_claims(
    ledger: Ledger, claims: Iterable[Claim], templates: Iterable[Template]
) -> HeldClaims:
    """Enter claims in a ledger, and return what placers share."""
    by_name = {name_of(each): each for each in claims}
    for claim in by_name.values():
        ledger.observe(claim)
    return HeldClaims(ledger, by_name, {name_of(each): each for each in templates})


class PlacedPod(NamedTuple):
    """A pod and the node that it was placed on."""

    pod: Pod
    node: str


# The claims of a pod, the answer of each node with the claims there, and reasons of other nodes.
_Answers: TypeAlias = tuple[
    Sequence[Claim], dict[str, tuple[Sequence[Claim], SolverResult]], tuple[Reason, ...]
]


class Placer:
    """Places pods; keeps the claims and the ledger from one pod to the next."""

    def __init__(
        self,
        planner: Planner,
        cluster: ClusterNodes,
        held: HeldClaims,
        *,
        resources: NodeResources | None = None,
        choice: NodeChoice | None = None,
    ) -> None:
        """Without `resources`, CPU, memory and the like do not count.

        Without `choice`, the first of equally good nodes and devices is taken.
        """
        self._planner = planner
        self.resources = resources
        self._resources = resources or NodeResources(())
        self._cluster = cluster
        self._order = NodeOrder(planner, held.ledger, self._resources, choice)
        self._held = held
        self.ledger = held.ledger
        self._claims, self._templates = held.claims, held.templates

    def beside(
        self, planner: Planner, cluster: ClusterNodes, choice: NodeChoice | None = None
    ) -> "Placer":
        """Return a placer for the pods of another scheduler, with the same claims and ledger."""
        return Placer(planner, cluster, self._held, resources=self.resources, choice=choice)

    def place_pod(self, pod: Pod) -> PodPlacement:
        """Place a pod, or return the reasons of all nodes why not."""
        nodes, unfit = node_fit.selected_nodes(pod, self._cluster)
        return self.place_on(pod, nodes, unfit)

    def place_on(
        self, pod: Pod, nodes: Sequence[Node], unfit: tuple[Reason, ...] = ()
    ) -> PodPlacement:
        """Place a pod on one of these nodes; `unfit` are the reasons of the others."""
        claims, answers, reasons = self._answer(pod, self.ledger.view(), nodes, unfit)
        return self._choose_node(pod, claims, answers, reasons)

    def fitting_nodes(
        self,
        pod: Pod,
        released: Collection[str],
        only: Collection[str] | None = None,
        ended: Sequence[tuple[str, Amounts]] = (),
    ) -> Collection[str]:
        """Return the nodes on which a pod fits if claims, by name, are deallocated before.

        `ended` has the nodes and the requests of pods that are gone then. None fits if the pod has
        an error on one of the nodes, as in the scheduler.
        """
        uids = [uid_of(self._claims[name]) for name in released]
        nodes, _ = node_fit.selected_nodes(pod, self._cluster)
        if only is not None:
            nodes = [each for each in nodes if each.name in only]
        for node, amounts in ended:
            self._resources.remove(node, amounts)
        _, answers, _ = self._answer(pod, self.ledger.view_without(uids), nodes)
        for node, amounts in ended:
            self._resources.add(node, amounts)
        by_node = {node: answer for node, (_, answer) in answers.items()}
        if any(_is_error(each) for each in by_node.values()):
            return ()
        return [node for node, each in by_node.items() if isinstance(each, Solution)]

    def release(self, names: Iterable[str]) -> None:
        """Deallocate claims, as after all their pods ended."""
        for name in names:
            claim = self._claims[name]
            version = f"{self.ledger.claims[uid_of(claim)].version + 1}"
            metadata = replace(claim.metadata, resource_version=version)
            self._claims[name] = replace(freed(claim), metadata=metadata)
            self.ledger.rollback([uid_of(claim)])
            self.ledger.observe(self._claims[name])

    @property
    def claims(self) -> dict[str, Claim]:
        """A copy of the claims by name, as they are after the placements so far."""
        return dict(self._claims)

    def withdraw(self, pods: Iterable[PlacedPod], before: Mapping[str, Claim]) -> None:
        """Take placements back; `before` are the claims before them."""
        for placed in pods:
            self._resources.remove(placed.node, requested_amounts(placed.pod))
        allocated = [name for name, each in self._claims.items() if each.status.allocation]
        self.release(
            name
            for name in allocated
            if name not in before or before[name].status.allocation is None
        )
        # Claims that were allocated before have the consumers that they had.
        self._claims |= {name: each for name, each in before.items() if each.status.allocation}

    def find_shared_question(self, pod: Pod) -> tuple[Sequence[Claim], Sequence[Node]]:
        """Return the claims of a pod that need devices, and the nodes that it can use.

        There are none if the question cannot be shared with other pods: the claims depend on the
        node, or another pod can have one of them.
        """
        asked = find_pod_claims(pod, self._claims, self._templates)
        nodes, _ = node_fit.selected_nodes(pod, self._cluster)
        served = node_fit.group_nodes_by_service(pod, nodes, self._cluster)
        by_name = any(each.resource_claim_name for each in pod.spec.resource_claims)
        is_held = any(each.status.allocation for each in asked.claims)
        if asked.problems or by_name or is_held or list(served.groups) != [()]:
            return (), ()
        fitting, _ = self._resources.fitting(requested_amounts(pod), served.groups[()])
        reachable, _ = node_fit.reachable_nodes(asked.claims, fitting)
        return asked.claims, reachable

    def solve(self, claims: Sequence[Claim], names: Sequence[str]) -> Mapping[str, SolverResult]:
        """Solve for claims as if they were those of one pod, on these nodes."""
        view = self.ledger.view()
        return self._planner.solve_nodes(view, claims, names)

    def place_at(self, pod: Pod, node: Node, allocations: Sequence[Allocation]) -> PodPlacement:
        """Place a pod that `find_shared_question` returned claims of, with these devices."""
        claims = find_pod_claims(pod, self._claims, self._templates).claims
        _, lacking = self._resources.fitting(requested_amounts(pod), [node])
        if lacking:
            return _failed(pod, claims, tuple(lacking))
        # The devices of a gang were found together: others could take those of the next member.
        refusal = self._reserve(claims, Solution(node.name, tuple(allocations)), pod)
        if refusal is not None:
            return _failed(pod, claims, (_not_promised(node.name, refusal),))
        return self._placed(pod, node.name, claims, None)

    def _answer(
        self, pod: Pod, view: View, nodes: Sequence[Node], unfit: tuple[Reason, ...] = ()
    ) -> _Answers:
        """Solve for the nodes that the pod can use."""
        pod_claims = find_pod_claims(pod, self._claims, self._templates)
        served = node_fit.group_nodes_by_service(pod, nodes, self._cluster)
        reasons = (*pod_claims.problems, *unfit, *served.reasons)
        requested = requested_amounts(pod)
        groups = [
            (names, _with_extended_claim(pod, pod_claims, names, self._cluster))
            for names in served.groups
        ]
        claims = groups[0][1] if groups else pod_claims.claims
        answers: dict[str, tuple[Sequence[Claim], SolverResult]] = {}
        if pod_claims.problems:
            return claims, answers, reasons
        for names, of_group in groups:
            fitting, insufficient = self._resources.fitting(requested, served.groups[names])
            solved, elsewhere = self._solve(of_group, fitting, view)
            answers |= {node: (of_group, answer) for node, answer in solved.items()}
            reasons = (*reasons, *insufficient, *elsewhere)
        return claims, answers, reasons

    def place_claims(self, names: Sequence[str], nodes: Sequence[Node]) -> PodPlacement:
        """Place existing claims together, in their order, like the claims of one pod."""
        claims = tuple(self._claims[name] for name in names)
        open_nodes, unfit = node_fit.schedulable_nodes(nodes)
        solved, elsewhere = self._solve(claims, open_nodes, self.ledger.view())
        answers = {node: (claims, answer) for node, answer in solved.items()}
        return self._choose_node(None, claims, answers, (*unfit, *elsewhere))

    def _solve(
        self, claims: Sequence[Claim], nodes: Sequence[Node], view: View
    ) -> tuple[dict[str, SolverResult], tuple[Reason, ...]]:
        """Solve for the nodes on which the allocated claims can be used."""
        reachable, elsewhere = node_fit.reachable_nodes(claims, nodes)
        claims = self._narrow(claims)
        unallocated = [each for each in claims if each.status.allocation is None]
        names = [node.name for node in reachable]
        if not unallocated:
            return {name: Solution(name, ()) for name in names}, elsewhere
        answers = self._planner.solve_nodes(view, unallocated, names)
        return answers, elsewhere

    def _choose_node(
        self,
        pod: Pod | None,
        claims: Sequence[Claim],
        answers: Mapping[str, tuple[Sequence[Claim], SolverResult]],
        reasons: tuple[Reason, ...],
    ) -> PodPlacement:
        """Choose the node with the best-ranked solution; of equal nodes the first by name.

        In the scheduler, an error on any node stops the pod.
        """
        if (excess := self.find_excess(claims)) is not None:
            return _failed(pod, claims, (*reasons, excess))
        failed = [each for _, each in answers.values() if isinstance(each, Failure)]
        stops = not self._planner.world().deviations.errors_stay_on_their_node
        errors = sum(map(_is_error, failed)) if stops else 0
        solutions = sum(isinstance(each, Solution) for _, each in answers.values())
        reasons = (*reasons, *_errors_that_stop_pod(errors, solutions))
        for node, rated in () if errors else self._order.best_first(pod, answers):
            of_node, answer = answers[node]
            if rated is not None:
                answer = self._order.with_devices_first(of_node, answer, rated.first())
            refusal = self._reserve(of_node, answer, pod)
            if refusal is None:
                rating = rated and NodeRating(
                    *rated.strategy, rated.score, rated.parts(), rated.unpublished()
                )
                return self._placed(pod, node, of_node, rating)
            reasons = (*reasons, _not_promised(node, refusal))
        of_nodes = chain.from_iterable(each.reasons for each in failed)
        return _failed(pod, claims, (*reasons, *merge_reasons(of_nodes)))

    def find_excess(self, claims: Sequence[Claim]) -> Reason | None:
        """Return which quota has no room for claims, where the allocator knows quotas."""
        if not claims or not self._planner.obeys_rules:
            return None
        namespace = claims[0].metadata.namespace or "default"
        excess = find_least_excess(self.ledger.quotas, namespace, claims)
        return None if excess is None else quota_reason(excess)

    def _narrow(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Return claims without the alternatives that a quota has no room for."""
        if not claims or not self._planner.obeys_rules:
            return claims
        namespace = claims[0].metadata.namespace or "default"
        return narrow_claims(self.ledger.quotas, namespace, claims)

    def _placed(
        self,
        pod: Pod | None,
        node: str,
        claims: Sequence[Claim],
        rating: NodeRating | None,
    ) -> PodPlacement:
        """Count a pod whose devices are reserved, and return its placement."""
        placed = ((each, self._claims[each].status.allocation) for each in map(name_of, claims))
        if pod is not None:
            self._order.learn(pod, [self._claims[name_of(each)] for each in claims], node)
        takes_nothing = not self._count(pod, node) and not claims
        name = None if pod is None else pod.full_name
        return PodPlacement(name, node, tuple(placed), takes_nothing=takes_nothing, rating=rating)

    def _count(self, pod: Pod | None, node: str) -> bool:
        """Count the requests of a pod; False if the node has as much left as before."""
        if pod is None:
            return False
        requested = requested_amounts(pod)
        self._resources.add(node, requested)
        return self._resources.counts(node, requested)

    def _reserve(
        self, claims: Sequence[Claim], answer: SolverResult, pod: Pod | None
    ) -> ReservationRefusal | None:
        """Reserve a solution, and keep the claims as they would be written."""
        allocations = answer.allocations if isinstance(answer, Solution) else ()
        unallocated = [each for each in claims if each.status.allocation is None]
        allocated: dict[str, Claim] = {}
        reservations = {}
        for claim, solved in zip(unallocated, allocations, strict=True):
            make_id = partial(generated_claims.generate_share_id, name_of(claim))
            allocation = with_share_ids(solved, make_id)
            status = replace(claim.status, allocation=allocation)
            allocated[name_of(claim)] = replace(claim, status=status)
            reservations[uid_of(claim)] = Reservation(allocation)
            self.ledger.observe(claim)
        # What was found is current, so only a whole device with shares in use, or more than a quota
        # has left, can be refused.
        refusal = self.ledger.assume(reservations, within_quotas=self._planner.obeys_rules)
        if refusal is not None:
            return refusal
        self._claims |= allocated
        if pod is not None:
            for name in map(name_of, claims):
                self._claims[name] = node_fit.with_consumer(self._claims[name], pod)
        return None


def freed(claim: Claim) -> Claim:
    """Return a claim without devices and users."""
    return replace(claim, status=replace(claim.status, allocation=None, reserved_for=()))


def report_unpublished(placements: Iterable[PodPlacement]) -> Iterator[Finding]:
    """Report what strategies could not compare, once for each strategy."""
    told = set[tuple[str, tuple[str, ...]]]()
    for placement in placements:
        rating = placement.rating
        if rating is None or not rating.unpublished or (rating[0], rating.unpublished) in told:
            continue
        told.add((rating.strategy, rating.unpublished))
        names = join_words(rating.unpublished, "or")
        text = (
            f"{rating.strategy} cannot compare {names}: no device of {placement.node} publishes it"
        )
        yield codes.STRATEGY_WITHOUT_DATA.at("", text, object=f"Pod/{placement.pod}")


def _with_extended_claim(
    pod: Pod, pod_claims: PodClaims, names: Sequence[str], cluster: ClusterNodes
) -> tuple[Claim, ...]:
    """Return a pod's claims; the last one is for extended resources that classes serve."""
    classes = {name: cluster.classes[name] for name in names}
    claim = generated_claims.claim_for_extended_resources(pod, classes) if names else None
    return pod_claims.claims if claim is None else (*pod_claims.claims, claim)


def _errors_that_stop_pod(errors: int, solutions: int) -> Iterator[Reason]:
    if not errors or not solutions:
        return
    failed, solved = count_noun(errors, "node"), count_noun(solutions, "node")
    verb = "has" if solutions == 1 else "have"
    text = f"an error on {failed} stops the pod, although {solved} {verb} a solution"
    yield node_fit.make_reason(codes.NODE_ERROR_STOPS_POD, "nodes", text, nodes=errors)


def _not_promised(node: str, refusal: ReservationRefusal) -> Reason:
    message = f"devices of a node suit the pod, but cannot be reserved: {refusal}"
    return node_fit.make_reason(codes.NOT_PROMISED, "ledger", message, nodes=1, about=node)


def _is_error(answer: SolverResult) -> bool:
    return isinstance(answer, Failure) and answer.outcome is FailureKind.ERROR


def _failed(pod: Pod | None, claims: Iterable[Claim], reasons: tuple[Reason, ...]) -> PodPlacement:
    name = None if pod is None else pod.full_name
    return PodPlacement(name, None, tuple((name_of(each), None) for each in claims), reasons)
