"""Results of the solver for a node: the allocations of a solution, or a failure with reasons."""

import enum
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import msgspec

from drawbridge.dra.allocation import (
    FROM_CLAIM,
    FROM_CLASS,
    MAX_CONFIGS,
    AllocatedConfig,
    AllocatedDevices,
    Allocation,
    AllocationResult,
    Opaque,
    with_share_ids,
)
from drawbridge.dra.claim import Claim, refers_to
from drawbridge.dra.device import NodeSelector, NodeSelectorTerm, Requirement
from drawbridge.solver.demand import Abort, Cause, Demand, Option, claim_name
from drawbridge.solver.node_view import NodeView, reads_skip_node_operations
from drawbridge.solver.reasons import Reason
from drawbridge.solver.state import ChosenDevice


class FailureKind(enum.StrEnum):
    """Kinds of failure: on this node, for the whole pod, or the search reached its limit."""

    NO = "not this node"
    ERROR = "error"
    GAVE_UP = "gave up"


class Solution(msgspec.Struct, frozen=True, gc=False):
    """The allocations of the claims in order.

    `preferences` is how many preferred rules of the claims hold.
    """

    node: str
    allocations: tuple[Allocation, ...]
    preferences: int = 0

    def with_new_share_ids(self, ids: Callable[[], str]) -> "Solution":
        """Return the solution with other share IDs."""
        renewed = tuple(with_share_ids(each, lambda *_: ids()) for each in self.allocations)
        return Solution(self.node, renewed, self.preferences)


class Failure(msgspec.Struct, frozen=True, gc=False):
    """Why the claims cannot be allocated on a node.

    An error applies to all nodes, unless it is `of_node`.
    """

    node: str
    outcome: FailureKind
    reasons: tuple[Reason, ...]
    of_node: bool = False


SolverResult: TypeAlias = Solution | Failure


def compose_allocations(
    demand: Demand,
    node_view: NodeView,
    taken: Sequence[ChosenDevice],
    ids: Callable[[], str] | None,
) -> tuple[Allocation, ...]:
    """Compose one allocation for each claim; raises Abort if it cannot be written."""
    chosen = {device.option.request_index: device.option for device in taken}
    by_claim: list[list[ChosenDevice]] = [[] for _ in demand.claims]
    for device in taken:
        by_claim[device.option.claim].append(device)
    # A request without devices counts with its first option, because it can have a configuration.
    options: list[list[Option]] = [[] for _ in demand.claims]
    for request in demand.requests:
        first = request.options[0]
        options[request.claim].append(chosen.get(first.request_index, first))
    allocations = []
    for number, of_claim in enumerate(by_claim):
        results = tuple([_result(device, node_view, ids) for device in of_claim])
        config = _config(demand.claims[number], options[number])
        if len(config) > MAX_CONFIGS and node_view.world.deviations.limits_configurations:
            text = f"it and its classes have {len(config)} configurations for its devices"
            limit = f"an allocation can have at most {MAX_CONFIGS}"
            name = claim_name(demand.claims[number])
            raise Abort(Cause.REFUSED, f"claim {name}: {text}, but {limit}")
        devices = AllocatedDevices(results, config)
        selector = _node_selector(demand, number, of_claim, node_view)
        allocations.append(Allocation(devices, selector))
    return tuple(allocations)


def _result(
    taken: ChosenDevice, node_view: NodeView, ids: Callable[[], str] | None
) -> AllocationResult:
    option, candidate, amounts = taken.option, taken.candidate, taken.amounts
    device, gates = candidate.device, node_view.gates
    binds, shared = gates.supports_binding_conditions, candidate.shared
    skips = candidate.slice.skip_node_operations and reads_skip_node_operations(gates)
    return AllocationResult(
        request=option.name,
        driver=candidate.pool.driver,
        pool=candidate.pool.name,
        device=candidate.name,
        admin_access=option.admin,
        tolerations=option.wanted.tolerations,
        binding_conditions=device.binding_conditions if binds else (),
        binding_failure_conditions=device.binding_failure_conditions if binds else (),
        share_id=(ids() if ids is not None else "") if shared else None,
        consumed_capacity=dict(sorted(amounts.items())) if shared and amounts else {},
        skip_node_operations=candidate.slice.skip_node_operations if skips else (),
    )


def _config(claim: Claim, options: Sequence[Option]) -> tuple[AllocatedConfig, ...]:
    """Collect the configuration: of each class once, then the relevant entries of the claim."""
    users_by_class: dict[str, list[str]] = {}
    entries: list[tuple[str, Sequence[str], Opaque | None]] = []
    for option in options:
        name = option.device_class.metadata.name
        users = users_by_class.setdefault(name, [])
        users.append(option.name)
        if len(users) == 1:
            class_config = option.device_class.spec.config
            entries += [(FROM_CLASS, users, config.opaque) for config in class_config]
    named = {each for option in options for each in (option.name, option.name.partition("/")[0])}
    for config in claim.spec.devices.config:
        if not config.requests or not named.isdisjoint(config.requests):
            entries.append((FROM_CLAIM, config.requests, config.opaque))
    return tuple(
        AllocatedConfig(
            source,
            () if _names_all(frozenset(names), options) else tuple(names),
            opaque,
        )
        for source, names, opaque in entries
    )


def _names_all(names: Collection[str], options: Sequence[Option]) -> bool:
    """Return whether names contain each request or its chosen alternative."""
    return all(refers_to(names, option.name) for option in options)


def _node_selector(
    demand: Demand, number: int, taken: Sequence[ChosenDevice], node_view: NodeView
) -> NodeSelector | None:
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for device in taken:
        name, selector = _node_of_device(device)
        if name is not None or device.candidate.device.binds_to_node:
            return _this_node_only(node_view)
        terms = selector.node_selector_terms if selector else ()
        if len(terms) > 1:
            if node_view.world.deviations.several_terms_bind:
                return _this_node_only(node_view)
            text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            claim = demand.claims[number]
            raise Abort(Cause.NODE_SELECTOR, f"claim {claim_name(claim)}: {text}")
        for term in terms:
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not expressions and not fields:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _node_of_device(taken: ChosenDevice) -> tuple[str | None, NodeSelector | None]:
    """Return the node name and the node selector of a device."""
    of_slice, device = taken.candidate.slice, taken.candidate.device
    if of_slice.per_device_node_selection:
        return device.node_name, device.node_selector
    return of_slice.node_name, of_slice.node_selector


def _this_node_only(node_view: NodeView) -> NodeSelector:
    name = Requirement("metadata.name", "In", (node_view.node.name,))
    return NodeSelector((NodeSelectorTerm(match_fields=(name,)),))


def _add_new(requirements: list[Requirement], more: Sequence[Requirement]) -> None:
    """Add missing requirements, regardless of the order of values."""
    for requirement in more:
        if not any(_same(requirement, other) for other in requirements):
            requirements.append(requirement)


def _same(first: Requirement, other: Requirement) -> bool:
    return (first.key, first.operator, set(first.values)) == (
        other.key, other.operator, set(other.values),
    )  # fmt: skip
