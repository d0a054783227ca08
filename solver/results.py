"""Allocations as the API server stores them, made of what a search took.

Plain dicts in the wire format: fields that the API leaves out when they are empty are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dra.allocation import Opaque
from dra.claim import Config
from dra.device import NodeSelector, Requirement
from dra.taints import Toleration
from solver.abort import Abort, Cause
from solver.demand import Demand, Option, shown
from solver.node_view import Site, minds_operations
from solver.state import Taken

Json = dict[str, Any]


def allocations(
    demand: Demand, site: Site, taken: Sequence[Taken], ids: Callable[[], str]
) -> tuple[Json, ...]:
    """Write one allocation for each claim; raises Abort where upstream cannot write one."""
    chosen = {each.option.wish: each.option for each in taken}
    written = []
    for number in range(len(demand.claims)):
        mine = [each for each in taken if each.option.claim == number]
        devices: Json = {}
        if mine:
            devices["results"] = [_result(each, site, ids) for each in mine]
        if config := _config(demand, number, chosen):
            devices["config"] = config
        allocation: Json = {"devices": devices}
        if selector := _node_selector(demand, number, mine, site):
            allocation["nodeSelector"] = selector
        written.append(allocation)
    return tuple(written)


def _result(taken: Taken, site: Site, ids: Callable[[], str]) -> Json:
    option, candidate = taken.option, taken.candidate
    device = candidate.device
    result: Json = {
        "request": option.name,
        "driver": candidate.pool.driver,
        "pool": candidate.pool.name,
        "device": candidate.name,
    }
    if option.admin:
        result["adminAccess"] = True
    if option.wanted.tolerations:
        result["tolerations"] = [_toleration(each) for each in option.wanted.tolerations]
    if site.gates.binding:
        if device.binding_conditions:
            result["bindingConditions"] = list(device.binding_conditions)
        if device.binding_failure_conditions:
            result["bindingFailureConditions"] = list(device.binding_failure_conditions)
    if candidate.shared:
        result["shareID"] = ids()
        if taken.amounts:
            result["consumedCapacity"] = {k: str(v) for k, v in sorted(taken.amounts.items())}
    if candidate.slice.skip_node_operations and minds_operations(site.gates):
        result["skipNodeOperations"] = list(candidate.slice.skip_node_operations)
    return result


def _toleration(each: Toleration) -> Json:
    written: Json = {
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


def _config(demand: Demand, number: int, chosen: Mapping[int, Option]) -> list[Json]:
    """Gather configuration: of each class once, then of the claim what concerns it."""
    wishes = [wish for wish in demand.wishes if wish.claim == number]
    options = [chosen.get(wish.options[0].wish, wish.options[0]) for wish in wishes]
    written: list[tuple[str, list[str], Opaque | None]] = []
    of_class: dict[str, list[str]] = {}
    for option in options:
        name = option.device_class.metadata.name
        users = of_class.setdefault(name, [])
        users.append(option.name)
        if len(users) == 1:
            of_this = option.device_class.spec.config
            written += [("FromClass", users, each.opaque) for each in of_this]
    for config in demand.claims[number].spec.devices.config:
        if _concerns(config, options):
            written.append(("FromClaim", list(config.requests), config.opaque))
    result = []
    for source, names, opaque in written:
        entry: Json = {"source": source}
        if names and not all(_named(names, option) for option in options):
            entry["requests"] = list(names)
        if opaque is not None:
            entry["opaque"] = {"driver": opaque.driver, "parameters": opaque.parameters}
        result.append(entry)
    return result


def _concerns(config: Config, options: Sequence[Option]) -> bool:
    return not config.requests or any(_named(config.requests, option) for option in options)


def _named(names: Sequence[str], option: Option) -> bool:
    """Tell whether a list names a request, or the alternative that was chosen of it."""
    return option.name in names or option.name.partition("/")[0] in names


def _node_selector(demand: Demand, number: int, taken: Sequence[Taken], site: Site) -> Json | None:
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for each in taken:
        name, selector = _where(each)
        if name is not None or each.candidate.device.binds_to_node:
            return _only(site)
        terms = selector.node_selector_terms if selector else ()
        if len(terms) > 1:
            if site.world.deviations.several_terms_bind:
                return _only(site)
            text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            claim = demand.claims[number]
            raise Abort(Cause.NODE_SELECTOR, f"claim {shown(claim)}: {text}")
        for term in terms:
            _add(fields, term.match_fields)
            _add(expressions, term.match_expressions)
    written: Json = {}
    if expressions:
        written["matchExpressions"] = [_requirement(each) for each in expressions]
    if fields:
        written["matchFields"] = [_requirement(each) for each in fields]
    return {"nodeSelectorTerms": [written]} if written else None


def _where(taken: Taken) -> tuple[str | None, NodeSelector | None]:
    """Give the node name and the selector that say where the device is."""
    each, device = taken.candidate.slice, taken.candidate.device
    if each.per_device_node_selection:
        return device.node_name, device.node_selector
    return each.node_name, each.node_selector


def _only(site: Site) -> Json:
    name = {"key": "metadata.name", "operator": "In", "values": [site.node.name]}
    return {"nodeSelectorTerms": [{"matchFields": [name]}]}


def _add(known: list[Requirement], more: Sequence[Requirement]) -> None:
    """Add what is not there yet; the order of values does not count."""
    for each in more:
        if not any(_same(each, other) for other in known):
            known.append(each)


def _same(one: Requirement, other: Requirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (
        other.key, other.operator, set(other.values),
    )  # fmt: skip


def _requirement(each: Requirement) -> Json:
    written: Json = {"key": each.key, "operator": each.operator}
    if each.values:
        written["values"] = list(each.values)
    return written
