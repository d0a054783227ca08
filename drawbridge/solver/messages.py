"""Messages for the filter stages that leave too few devices, with the nearest miss."""

from collections import Counter
from collections.abc import Callable

from drawbridge.dra.capacity import Misfit, MisfitReason
from drawbridge.dra.compatibility import CounterSetID, Incompatibility
from drawbridge.dra.counters import Shortage
from drawbridge.dra.device import Taint
from drawbridge.dra.guards import without_guards
from drawbridge.dra.quantity import format_nanos
from drawbridge.solver.constraints import AttributeConstraint, DistinctConstraint
from drawbridge.solver.demand import Option
from drawbridge.solver.eligibility import SelectorVerdict, Stage
from drawbridge.solver.filter_stages import StageLoss
from drawbridge.solver.node_view import NodeView
from drawbridge.solver.rules import GroupRule
from drawbridge.solver.state import HELD_BY_POD, UnmetConstraint

MAX_EXPRESSION_LENGTH = 120
_COMPATIBLE = " that is compatible with the allocated devices"


def stage_message(option: Option, loss: StageLoss, requested: int, node_view: NodeView) -> str:
    """Describe what a stage left of the devices for an option."""
    return _MESSAGES[loss.stage](option, loss, requested, node_view)


def stage_example(loss: StageLoss) -> str:
    """Name the first rejected device, or the pair of devices that a rule keeps apart."""
    clash = _clash(loss)
    return str(loss.rejected[0][0]) if clash is None else f"{clash.refusing}, {clash.refused}"


def constraint_message(
    option: Option, constraint: AttributeConstraint, most: int, free: int, requested: int
) -> str:
    """Describe how near the free devices for an option come to satisfying a constraint."""
    devices = f"{free} free {_devices(option, free)}"
    if isinstance(constraint, DistinctConstraint):
        verb = "has" if free == 1 else "have"
        values = "value" if most == 1 else "values"
        text = f"{devices} {verb} {most} different {values} of {constraint.name}"
        return f"{text}, {requested} requested"
    verb = "has" if most == 1 else "have"
    return f"at most {most} of {devices} {verb} the same {constraint.name}, {requested} requested"


def _class_name(option: Option) -> str:
    return option.device_class.metadata.name


def _devices(option: Option, count: int) -> str:
    return f"{_class_name(option)} {'device' if count == 1 else 'devices'}"


def _remaining(
    option: Option, loss: StageLoss, requested: int, condition: str = "", adjective: str = ""
) -> str:
    """Say how many devices meet a condition: none, or fewer than requested."""
    if not loss.after:
        return f"no {adjective}{_devices(option, 1)}{condition}"
    devices = f"{loss.after} {adjective}{_devices(option, loss.after)}{condition}"
    return f"{devices}, {requested} requested"


def _class(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    noun = "devices" if loss.after > 1 else "device"
    text = f"{loss.after or 'no'} {noun} of class {_class_name(option)}"
    more = f", {requested} requested" if loss.after else ""
    total = f"{loss.before} {'device' if loss.before == 1 else 'devices'}"
    return f"{text}{more} ({loss.after} of {total})"


def _request(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    numbers = Counter(each.number for _, each in loss.rejected if isinstance(each, SelectorVerdict))
    source = without_guards(option.request_filter.selectors[1][numbers.most_common(1)[0][0]])
    if len(source) > MAX_EXPRESSION_LENGTH:
        source = f"{source[:MAX_EXPRESSION_LENGTH]}..."
    devices = f"{loss.before} {_devices(option, loss.before)}"
    if not loss.after:
        return f"none of {devices} matches: {source}"
    verb = "matches" if loss.after == 1 else "match"
    return f"{loss.after} of {devices} {verb}, {requested} requested: {source}"


def _node(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    verb = "is" if loss.after == 1 else "are"
    devices = f"{loss.after} of {loss.before} {_devices(option, loss.before)}"
    return f"{devices} {verb} available to this node, {requested} requested"


def _held(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    by_pod = sum(each == HELD_BY_POD.detail for _, each in loss.rejected)
    by_claims = len(loss.rejected) - by_pod
    causes = [f"{by_claims} of {loss.before} in use"] if by_claims else []
    if by_pod:
        causes.append(f"{by_pod} chosen for other requests of this pod")
    return f"{_remaining(option, loss, requested, adjective='free ')} ({', '.join(causes)})"


def _capacity(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    misfits = [each for _, each in loss.rejected if isinstance(each, Misfit)]
    if not misfits:
        return _remaining(option, loss, requested, " with free capacity")
    nearest = max(misfits, key=lambda each: each.available.nanos() if each.available else -1)
    if nearest.why is MisfitReason.ABSENT:
        return _remaining(option, loss, requested, f" with capacity {nearest.name}")
    if nearest.why is MisfitReason.POLICY:
        condition = f" whose request policy allows {nearest.requested} of {nearest.name}"
        return _remaining(option, loss, requested, condition)
    condition = f" with {nearest.requested} of {nearest.name} free"
    most = f" (largest free amount: {nearest.available})" if nearest.available is not None else ""
    return f"{_remaining(option, loss, requested, condition)}{most}"


def _support(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    features = {each for _, each in loss.rejected if isinstance(each, str)}
    needed = ", ".join(sorted(features)) or "DRADeviceBindingConditions"
    rejected = len(loss.rejected)
    verb = "needs" if rejected == 1 else "need"
    text = f"{rejected} of {loss.before} {_devices(option, loss.before)} {verb} {needed}"
    more = f"; {requested} requested" if loss.after else ""
    return f"{text}, which is not available{more}"


def _groups(option: Option, loss: StageLoss, requested: int, node_view: NodeView) -> str:
    error = next((each for _, each in loss.rejected if isinstance(each, str)), "")
    if error:
        text = _remaining(option, loss, requested, " with readable compatibility groups")
        return f"{text}: {error}"
    active: set[str] = set()
    for candidate, _each in loss.rejected:
        for use in candidate.counter_uses:
            states = node_view.group_states(candidate.pool)
            state = states.get(CounterSetID(candidate.pool, use.counter_set))
            active |= state.groups or set() if state else set()
    groups = f"active groups: {', '.join(sorted(active))}" if active else "no active group"
    return f"{_remaining(option, loss, requested, _COMPATIBLE)} ({groups})"


def _company(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    text = _remaining(option, loss, requested, _COMPATIBLE)
    clash = _clash(loss)
    if clash is None:
        return text
    if clash.error:
        return f"{text}: cannot compare a device with another: {clash.error}"
    return f"{text}: a device is compatible only with {clash.expression}"


def _clash(loss: StageLoss) -> Incompatibility | None:
    return next((each for _, each in loss.rejected if isinstance(each, Incompatibility)), None)


def _counters(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    shortages = [each for _, each in loss.rejected if isinstance(each, Shortage)]
    nearest = min(shortages, key=lambda each: each.requested - each.available)
    where = f"counter {nearest.counter} of {nearest.counter_set}"
    if not nearest.requested:
        text = _remaining(option, loss, requested, " with usable counters")
        return f"{text}: {where} is over-committed"
    text = _remaining(option, loss, requested, " with enough free counters")
    left, needed = format_nanos(nearest.available), format_nanos(nearest.requested)
    return f"{text}: {where} has {left} left, {needed} needed"


def _taint(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    taints = Counter(each for _, each in loss.rejected if isinstance(each, Taint))
    taint = taints.most_common(1)[0][0]
    value = f"={taint.value}" if taint.value else ""
    text = _remaining(option, loss, requested, " without an untolerated taint")
    return f"{text} ({len(loss.rejected)} of {loss.before}: {taint.key}{value}:{taint.effect})"


def _constraint(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    unmet = [each for _, each in loss.rejected if isinstance(each, UnmetConstraint)]
    most = Counter(each.constraint for each in unmet).most_common(1)[0][0]
    attributes = [each.attribute for each in unmet if each.constraint is most]
    if all(each is None for each in attributes):
        condition = f" with attribute {most.name}"
    elif isinstance(most, DistinctConstraint):
        condition = f" with a {most.name} that differs from those of the chosen devices"
    else:
        condition = f" with the {most.name} of the chosen devices"
    return _remaining(option, loss, requested, condition)


def _rule(option: Option, loss: StageLoss, requested: int, _: NodeView) -> str:
    rules = [each for _, each in loss.rejected if isinstance(each, GroupRule)]
    rule = Counter(rules).most_common(1)[0][0]
    attribute = " or ".join(rule.attributes)
    if len(rule.names) == 1:
        condition = f" with the {attribute} of the chosen devices of {rule.names[0]}"
    else:
        side = next(i for i, each in enumerate(rule.sides) if option.request_index in each)
        others = ", ".join(name for i, name in enumerate(rule.names) if i != side)
        condition = f" with a {attribute} in common with {others}"
    return f"{_remaining(option, loss, requested, condition)} ({rule.name})"


_MESSAGES: dict[Stage, Callable[[Option, StageLoss, int, NodeView], str]] = {
    Stage.CLASS: _class,
    Stage.REQUEST: _request,
    Stage.NODE: _node,
    Stage.HELD: _held,
    Stage.CAPACITY: _capacity,
    Stage.SUPPORT: _support,
    Stage.GROUPS: _groups,
    Stage.COMPANY: _company,
    Stage.COUNTERS: _counters,
    Stage.TAINT: _taint,
    Stage.CONSTRAINT: _constraint,
    Stage.RULE: _rule,
}
