"""Reasons why a node has no solution, with numbers and the nearest miss.

The reason is the first request that the node cannot satisfy even alone, or else the deepest dead
end of the search. `merge_reasons` and `summarize_reasons` combine the reasons of several nodes.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from drawbridge.dra.counted import count_noun
from drawbridge.finding import Code
from drawbridge.solver import codes
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.constraints import DistinctConstraint, typed_values
from drawbridge.solver.demand import Abort, Cause, Demand, Option
from drawbridge.solver.deviations import UPSTREAM
from drawbridge.solver.eligibility import Stage
from drawbridge.solver.filter_stages import FilterResult, filter_candidates
from drawbridge.solver.messages import constraint_message, stage_example, stage_message
from drawbridge.solver.meter import MOST_SECONDS, SearchLimitExceeded
from drawbridge.solver.node_view import NodeView
from drawbridge.solver.orders import describe_pool
from drawbridge.solver.rule_shortage import find_rule_shortage
from drawbridge.solver.search import DeadEnd
from drawbridge.solver.state import State

# Drawbridge's allocator sees its own pools only: the node may have others.
NONE_OF_ALLOCATOR: Final = "no devices of the allocator"


class Reason(msgspec.Struct, frozen=True, gc=False):
    """One reason: the number of devices before and after a stage, on a number of nodes.

    `message` names no node, pool or device: who reads it may not be allowed to list nodes.
    `example` does: a node, and a device or pool if the reason is about one.
    """

    code: str
    stage: str
    before: int
    after: int
    nodes: int
    example: str
    message: str


class ReasonOfExample(Reason, frozen=True, gc=False):
    """A reason whose message is about its example, and says too little to an administrator alone.

    Its `a node`, `a pool` or `a device` is the example.
    """


_CODE_BY_CAUSE = {
    Cause.REFUSED: codes.CLAIM_REFUSED,
    Cause.SELECTOR: codes.SELECTOR_FAILS,
    Cause.DERIVED: codes.SELECTOR_FAILS,
    Cause.CAPACITY: codes.CAPACITY_UNCOUNTABLE,
    Cause.POOL: codes.POOL_UNUSABLE,
    Cause.NODE_SELECTOR: codes.NODE_SELECTOR_FAILS,
    Cause.SIZE: codes.SEARCH_GAVE_UP,
    Cause.WORK: codes.SELECTOR_TOO_EXPENSIVE,
}


def error_reason(node: str, abort: Abort) -> Reason:
    """Return the reason for an error."""
    code, stage = _CODE_BY_CAUSE[abort.cause], abort.cause.value
    if not abort.about:
        return _plain_reason(code, stage, node, abort.message)
    return ReasonOfExample(code.name, stage, 0, 0, 1, f"{node}: {abort.about}", abort.message)


def search_limit_reason(node: str, steps: int) -> Reason:
    """Return the reason for a search that reached its step limit."""
    return _plain_reason(
        codes.SEARCH_GAVE_UP,
        "search",
        node,
        f"the search ended without a result after {steps:,} steps",
    )


def time_limit_reason(node: str) -> Reason:
    """Return the reason for a search that took too much time of the processor."""
    text = f"the search ended without a result after {MOST_SECONDS * 1000:g} ms"
    return _plain_reason(codes.SEARCH_GAVE_UP, "search", node, text)


def explain_failure(
    demand: Demand,
    node_view: NodeView,
    all_mode_devices: Mapping[Option, Sequence[Candidate]],
    deepest: DeadEnd | None,
) -> tuple[Reason, ...]:
    """Return the reasons why a node has no solution."""
    try:
        reasons = (
            list(_unsatisfiable_request(demand, node_view, all_mode_devices))
            or list(_unsatisfiable_rule(demand, node_view))
            or [_deepest_dead_end(demand, node_view, all_mode_devices, deepest)]
        )
    except SearchLimitExceeded:
        text = "the devices of the node do not suffice for the requests together"
        reasons = [_plain_reason(codes.TOO_FEW_TOGETHER, "search", node_view.node.name, text)]
    unusable = [pool for pool in node_view.pools if not pool.usable]
    if unusable:
        code, before = codes.POOL_UNUSABLE.name, len(node_view.pools)
        message = f"a pool is {'invalid' if unusable[0].invalid else 'incomplete'}"
        example = f"{node_view.node.name}: {describe_pool(unusable[0])}"
        after = before - len(unusable)
        reasons.append(ReasonOfExample(code, "pool", before, after, 1, example, message))
    return tuple(reasons)


def _unsatisfiable_request(
    demand: Demand, node_view: NodeView, all_mode_devices: Mapping[Option, Sequence[Candidate]]
) -> Iterable[Reason]:
    """Return the reasons of the first request that no option satisfies, even without the others."""
    state = State(demand, node_view)
    filtered_by_key: dict[Hashable, FilterResult] = {}
    for request in demand.requests:
        reasons: list[Reason] = []
        for option in request.options:
            rules = state.active_rules.sides_of(option.request_index)
            key = (option.equivalence_key(), rules)
            node_view.meter.spend(1)
            filtered = filtered_by_key.get(key) or filter_candidates(
                state, option, node_view.candidates
            )
            filtered_by_key[key] = filtered
            requested = (
                max(len(all_mode_devices[option]), 1) if option.all_mode else option.wanted.count
            )
            reason = _stage_shortage(
                option, filtered, requested, node_view
            ) or _constraint_shortage(state, option, filtered, requested)
            if reason is None:
                reasons = []
                break
            reasons.append(reason)
        if reasons:
            return reasons
    return ()


def _unsatisfiable_rule(demand: Demand, node_view: NodeView) -> Iterable[Reason]:
    """Yield the reason of the first required rule that the free devices cannot satisfy."""
    shortage = find_rule_shortage(State(demand, node_view)) if demand.rules.required.rules else None
    if shortage is not None:
        before, after, message = shortage
        stage, where = Stage.RULE.value, node_view.node.name
        yield Reason(codes.RULE_UNMET.name, stage, before, after, 1, where, message)


def _stage_shortage(
    option: Option, filtered: FilterResult, requested: int, node_view: NodeView
) -> Reason | None:
    loss = filtered.first_shortage(requested)
    if loss is None:
        if len(filtered.remaining) >= requested:
            return None
        return _class_shortage(option, len(filtered.remaining), requested, node_view)
    return Reason(
        codes.CODE_BY_STAGE[loss.stage].name,
        loss.stage.value,
        loss.before,
        loss.after,
        1,
        f"{node_view.node.name}: {stage_example(loss)}",
        stage_message(option, loss, requested, node_view),
    )


def _class_shortage(option: Option, have: int, requested: int, node_view: NodeView) -> Reason:
    """Return the reason of a node that has too few devices before any is rejected."""
    name = option.device_class.metadata.name
    if have:
        noun = "device" if have == 1 else "devices"
        text = f"the node has {have} {noun}, {requested} of class {name} requested"
    else:
        sees_all = node_view.world.deviations == UPSTREAM
        text = "the node has no devices" if sees_all else NONE_OF_ALLOCATOR
    code = codes.NO_DEVICE_OF_CLASS.name
    return Reason(code, "class selector", have, have, 1, node_view.node.name, text)


def _constraint_shortage(
    state: State, option: Option, filtered: FilterResult, requested: int
) -> Reason | None:
    """Return a reason if too few devices for an option satisfy a constraint together."""
    # A single device always satisfies the constraint.
    for index in option.constraint_indexes if requested > 1 else ():
        constraint = state.demand.constraints[option.claim][index]
        by_value: Counter[Hashable] = Counter()
        state.node_view.meter.spend(1 + len(filtered.remaining) // 2)
        for candidate in filtered.remaining:
            try:
                attribute = state.attribute(option, candidate, constraint.name)
            except Abort:
                # The search does not reach this error.
                return None
            # An attribute of unknown type equals no other.
            by_value.update((typed_values(attribute) if attribute else ()) or (candidate,))
        distinct = isinstance(constraint, DistinctConstraint)
        most = len(by_value) if distinct else max(by_value.values(), default=0)
        if most < requested:
            before = len(filtered.remaining)
            message = constraint_message(option, constraint, most, before, requested)
            return Reason(
                codes.CONSTRAINT_UNMET.name,
                "constraint",
                before,
                most,
                1,
                f"{state.node_view.node.name}: {filtered.remaining[0]}",
                message,
            )
    return None


def _deepest_dead_end(
    demand: Demand,
    node_view: NodeView,
    all_mode_devices: Mapping[Option, Sequence[Candidate]],
    deepest: DeadEnd | None,
) -> Reason:
    """Return the reason at the deepest dead end of the search."""
    if deepest is None:
        text = "every combination of alternatives gives a claim more than 32 devices"
        return _plain_reason(codes.TOO_MANY_RESULTS, "results", node_view.node.name, text)
    state = State(demand, node_view)
    for step in deepest.taken:
        node_view.meter.spend(1)
        state.take(step.option, step.candidate)
    option = deepest.option
    filtered = filter_candidates(state, option, node_view.candidates)
    count = len(all_mode_devices[option]) if option.all_mode else option.wanted.count
    reason = _stage_shortage(option, filtered, 1, node_view)
    if reason is None:
        text = "the requests together need more devices than the node has"
        return _plain_reason(codes.TOO_FEW_TOGETHER, "search", node_view.node.name, text)
    where = f"request {option.name}, device {deepest.number + 1} of {count}"
    number = len(deepest.taken)
    chosen = f" ({number} chosen before)" if number else ""
    return msgspec.structs.replace(reason, message=f"{where}{chosen}: {reason.message}")


def _plain_reason(code: Code, stage: str, node: str, message: str) -> Reason:
    return Reason(code.name, stage, 0, 0, 1, node, message)


def drop_unsuitable_nodes(reasons: Sequence[Reason]) -> Sequence[Reason]:
    """Return the reasons of nodes that have devices of the class; all if no node has any."""
    return [each for each in reasons if not lacks_class(each)] or reasons


def lacks_class(reason: Reason) -> bool:
    """Tell whether the node of a reason has no device of the class at all."""
    return reason.code == codes.NO_DEVICE_OF_CLASS.name and not reason.after


def merge_reasons(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Merge equal reasons of several nodes; the reason of the most nodes comes first."""
    same: dict[tuple[str, str, str], Reason] = {}
    for reason in reasons:
        key = (reason.code, reason.stage, reason.message)
        merged = same.get(key)
        if merged is None:
            same[key] = reason
        else:
            same[key] = msgspec.structs.replace(
                merged,
                nodes=merged.nodes + reason.nodes,
                before=merged.before + reason.before,
                after=merged.after + reason.after,
            )
    return tuple(sorted(same.values(), key=lambda each: -each.nodes))


def summarize_reasons(
    reasons: Iterable[Reason], say: Callable[[Reason], str] = lambda each: each.message
) -> str:
    """Format reasons in one line: `4 nodes: no free gpu device (8 of 8 in use); 1 node: ...`."""
    return "; ".join(
        f"{count_noun(reason.nodes, 'node')}: {say(reason)}" for reason in merge_reasons(reasons)
    )


def say_with_subject(reason: Reason) -> str:
    """Return the message with the node, pool or device that it is about."""
    if isinstance(reason, ReasonOfExample):
        return f"{reason.message} ({reason.example})"
    return reason.message
