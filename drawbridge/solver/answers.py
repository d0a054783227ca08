"""Results of the solver for a node: the allocations of a solution, or a failure with reasons."""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from drawbridge.dra.allocation import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocatedConfig,
    AllocatedDevices,
    Allocation,
    AllocationResult,
    Opaque,
    with_share_ids,
)
from drawbridge.dra.claim import Config
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


class Solution(msgspec.Struct, frozen=True):
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


class Failure(msgspec.Struct, frozen=True):
    """Why the claims cannot be allocated on a node. An error applies to all nodes."""

    node: str
    outcome: FailureKind
    reasons: tuple[Reason, ...]


SolverResult: TypeAlias = Solution | Failure


def compose_allocations(
    demand: Demand,
    node_view: NodeView,
    taken: Sequence[ChosenDevice],
    ids: Callable[[], str] | None,
) -> tuple[Allocation, ...]:
    """Compose one allocation for each claim; raises Abort if upstream cannot compose it."""
    chosen = {device.option.request_index: device.option for device in taken}
    allocations = []
    for number in range(len(demand.claims)):
        of_claim = [device for device in taken if device.option.claim == number]
        results = tuple([_result(device, node_view, ids) for device in of_claim])
        devices = AllocatedDevices(results, _config(demand, number, chosen))
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


def _config(
    demand: Demand, number: int, chosen: Mapping[int, Option]
) -> tuple[AllocatedConfig, ...]:
    """Collect the configuration: of each class once, then the relevant entries of the claim."""
    options = [
        chosen.get(request.options[0].request_index, request.options[0])
        for request in demand.requests
        if request.claim == number
    ]
    users_by_class: dict[str, list[str]] = {}
    entries: list[tuple[str, Sequence[str], Opaque | None]] = []
    for option in options:
        name = option.device_class.metadata.name
        users = users_by_class.setdefault(name, [])
        users.append(option.name)
        if len(users) == 1:
            class_config = option.device_class.spec.config
            entries += [(FROM_CLASS, users, config.opaque) for config in class_config]
    for config in demand.claims[number].spec.devices.config:
        if _concerns(config, options):
            entries.append((FROM_CLAIM, config.requests, config.opaque))
    return tuple(
        AllocatedConfig(
            source,
            () if all(_names_option(names, option) for option in options) else tuple(names),
            opaque,
        )
        for source, names, opaque in entries
    )


def _concerns(config: Config, options: Sequence[Option]) -> bool:
    return not config.requests or any(_names_option(config.requests, option) for option in options)


def _names_option(names: Sequence[str], option: Option) -> bool:
    """Return whether a list contains a request or its chosen alternative."""
    return option.name in names or option.name.partition("/")[0] in names


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
