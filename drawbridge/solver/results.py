"""Composes allocations in the wire format from the chosen devices.

The results are plain dicts. Empty fields are omitted, as in the API.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drawbridge.dra.allocation import Opaque
from drawbridge.dra.claim import Config
from drawbridge.dra.device import NodeSelector, Requirement
from drawbridge.dra.taints import Toleration
from drawbridge.solver.abort import Abort, Cause
from drawbridge.solver.demand import Demand, Option, claim_name
from drawbridge.solver.node_view import NodeView, reads_skip_node_operations
from drawbridge.solver.state import ChosenDevice

AllocationJSON = dict[str, Any]


def compose_allocations(
    demand: Demand, node_view: NodeView, taken: Sequence[ChosenDevice], ids: Callable[[], str]
) -> tuple[AllocationJSON, ...]:
    """Compose one allocation for each claim; raises Abort if upstream cannot compose it."""
    chosen = {each.option.request_index: each.option for each in taken}
    written = []
    for number in range(len(demand.claims)):
        mine = [each for each in taken if each.option.claim == number]
        devices: AllocationJSON = {}
        if mine:
            devices["results"] = [_result(each, node_view, ids) for each in mine]
        if config := _config(demand, number, chosen):
            devices["config"] = config
        allocation: AllocationJSON = {"devices": devices}
        if selector := _node_selector(demand, number, mine, node_view):
            allocation["nodeSelector"] = selector
        written.append(allocation)
    return tuple(written)


def with_new_share_ids(
    allocations: Sequence[AllocationJSON], ids: Callable[[], str]
) -> tuple[AllocationJSON, ...]:
    """Return equal allocations whose shares have other IDs."""
    renewed = []
    for allocation in allocations:
        results = [
            {**result, "shareID": ids()} if "shareID" in result else result
            for result in allocation["devices"].get("results", ())
        ]
        devices = (
            {**allocation["devices"], "results": results} if results else allocation["devices"]
        )
        renewed.append({**allocation, "devices": devices})
    return tuple(renewed)


def _result(taken: ChosenDevice, node_view: NodeView, ids: Callable[[], str]) -> AllocationJSON:
    option, candidate = taken.option, taken.candidate
    device = candidate.device
    result: AllocationJSON = {
        "request": option.name,
        "driver": candidate.pool.driver,
        "pool": candidate.pool.name,
        "device": candidate.name,
    }
    if option.admin:
        result["adminAccess"] = True
    if option.wanted.tolerations:
        result["tolerations"] = [_toleration(each) for each in option.wanted.tolerations]
    if node_view.gates.supports_binding_conditions:
        if device.binding_conditions:
            result["bindingConditions"] = list(device.binding_conditions)
        if device.binding_failure_conditions:
            result["bindingFailureConditions"] = list(device.binding_failure_conditions)
    if candidate.shared:
        result["shareID"] = ids()
        if taken.amounts:
            result["consumedCapacity"] = {k: str(v) for k, v in sorted(taken.amounts.items())}
    if candidate.slice.skip_node_operations and reads_skip_node_operations(node_view.gates):
        result["skipNodeOperations"] = list(candidate.slice.skip_node_operations)
    return result


def _toleration(each: Toleration) -> AllocationJSON:
    written: AllocationJSON = {
        field: value
        for field, value in (
            ("key", each.key),
            ("operator", each.operator),
            ("value", each.value),
            ("effect", each.effect),
        )
        if value
    }
    if each.toleration_seconds is not None:
        written["tolerationSeconds"] = each.toleration_seconds
    return written


def _config(demand: Demand, number: int, chosen: Mapping[int, Option]) -> list[AllocationJSON]:
    """Collect the configuration: of each class once, then the relevant entries of the claim."""
    requests = [request for request in demand.requests if request.claim == number]
    options = [
        chosen.get(request.options[0].request_index, request.options[0]) for request in requests
    ]
    written: list[tuple[str, list[str], Opaque | None]] = []
    users_by_class: dict[str, list[str]] = {}
    for option in options:
        name = option.device_class.metadata.name
        users = users_by_class.setdefault(name, [])
        users.append(option.name)
        if len(users) == 1:
            class_config = option.device_class.spec.config
            written += [("FromClass", users, each.opaque) for each in class_config]
    for config in demand.claims[number].spec.devices.config:
        if _concerns(config, options):
            written.append(("FromClaim", list(config.requests), config.opaque))
    result = []
    for source, names, opaque in written:
        entry: AllocationJSON = {"source": source}
        if names and not all(_names_option(names, option) for option in options):
            entry["requests"] = list(names)
        if opaque is not None:
            entry["opaque"] = {"driver": opaque.driver, "parameters": opaque.parameters}
        result.append(entry)
    return result


def _concerns(config: Config, options: Sequence[Option]) -> bool:
    return not config.requests or any(_names_option(config.requests, option) for option in options)


def _names_option(names: Sequence[str], option: Option) -> bool:
    """Return whether a list contains a request or its chosen alternative."""
    return option.name in names or option.name.partition("/")[0] in names


def _node_selector(
    demand: Demand, number: int, taken: Sequence[ChosenDevice], node_view: NodeView
) -> AllocationJSON | None:
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for choice in taken:
        name, selector = _node_of_device(choice)
        if name is not None or choice.candidate.device.binds_to_node:
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
    written: AllocationJSON = {}
    if expressions:
        written["matchExpressions"] = [_requirement(each) for each in expressions]
    if fields:
        written["matchFields"] = [_requirement(each) for each in fields]
    return {"nodeSelectorTerms": [written]} if written else None


def _node_of_device(taken: ChosenDevice) -> tuple[str | None, NodeSelector | None]:
    """Return the node name and the node selector of a device."""
    each, device = taken.candidate.slice, taken.candidate.device
    if each.per_device_node_selection:
        return device.node_name, device.node_selector
    return each.node_name, each.node_selector


def _this_node_only(node_view: NodeView) -> AllocationJSON:
    name = {"key": "metadata.name", "operator": "In", "values": [node_view.node.name]}
    return {"nodeSelectorTerms": [{"matchFields": [name]}]}


def _add_new(known: list[Requirement], more: Sequence[Requirement]) -> None:
    """Add missing requirements, regardless of the order of values."""
    for requirement in more:
        if not any(_same(requirement, other) for other in known):
            known.append(requirement)


def _same(one: Requirement, other: Requirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (
        other.key, other.operator, set(other.values),
    )  # fmt: skip


def _requirement(each: Requirement) -> AllocationJSON:
    written: AllocationJSON = {"key": each.key, "operator": each.operator}
    if each.values:
        written["values"] = list(each.values)
    return written
