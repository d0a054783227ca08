"""One sentence for each stage at which too many devices fell out, with the nearest miss."""

from collections import Counter
from collections.abc import Callable

from dra.capacity import Misfit, Why
from dra.compatibility import Clash
from dra.counters import Shortage
from dra.device import Taint
from dra.quantity import Format, Quantity
from solver.constraints import Constraint, Distinct
from solver.demand import Option
from solver.eligibility import Stage, Verdict
from solver.filter_stages import Loss
from solver.node_view import Site
from solver.state import OURS, Unmet

LONGEST = 120
_NANO = -9


def words(option: Option, loss: Loss, wanted: int, site: Site) -> str:
    """Say what a stage left of the devices for an option."""
    return _WORDS[loss.stage](option, loss, wanted, site)


def _name(option: Option) -> str:
    return option.device_class.metadata.name


def _few(loss: Loss, wanted: int, what: str) -> str:
    """Start a sentence: none, or so few of so many wanted."""
    return f"{loss.after} {what}, {wanted} wanted" if loss.after else f"no {what}"


def _class(option: Option, loss: Loss, wanted: int, _: Site) -> str:
    few = _few(loss, wanted, f"device of class {_name(option)}")
    return f"{few} ({loss.after} of {loss.before} devices)"


def _request(option: Option, loss: Loss, wanted: int, _: Site) -> str:
    numbers = Counter(each.number for _, each in loss.lost if isinstance(each, Verdict))
    source = option.screen.selectors[1][numbers.most_common(1)[0][0]]
    shown = source if len(source) <= LONGEST else f"{source[:LONGEST]}..."
    share = f"{loss.after} of {loss.before} {_name(option)}"
    few = (
        f"{share} match, {wanted} wanted"
        if loss.after
        else f"none of {loss.before} {_name(option)} matches"
    )
    return f"{few}: {shown}"


def _node(option: Option, loss: Loss, wanted: int, _: Site) -> str:
    return f"{loss.after} of {loss.before} {_name(option)} are for this node, {wanted} wanted"


def _held(option: Option, loss: Loss, wanted: int, _: Site) -> str:
    mine = sum(each == OURS.detail for _, each in loss.lost)
    others = len(loss.lost) - mine
    held = [f"{others} of {loss.before} held"] if others else []
    if mine:
        held.append(f"{mine} taken by this pod's other requests")
    return f"{_few(loss, wanted, f'free {_name(option)}')} ({', '.join(held)})"


def _capacity(option: Option, loss: Loss, wanted: int, _: Site) -> str:
    misfits = [each for _, each in loss.lost if isinstance(each, Misfit)]
    if not misfits:
        return _few(loss, wanted, f"{_name(option)} with capacity left")
    nearest = max(misfits, key=lambda each: each.left.nanos() if each.left else -1)
    name = _few(loss, wanted, _name(option))
    if nearest.why is Why.ABSENT:
        return f"{name} with a capacity {nearest.name}"
    if nearest.why is Why.POLICY:
        return f"{name} allows {nearest.wanted} {nearest.name} to be asked for"
    most = f", the most is {nearest.left}" if nearest.left is not None else ""
    return f"{name} with {nearest.wanted} {nearest.name} left{most}"


def _support(option: Option, loss: Loss, wanted: int, _: Site) -> str:
    features = {each for _, each in loss.lost if isinstance(each, str)}
    needed = ", ".join(sorted(features)) or "binding conditions"
    return f"{_few(loss, wanted, _name(option))} without need of {needed}"


def _groups(option: Option, loss: Loss, wanted: int, site: Site) -> str:
    broken = next((each for _, each in loss.lost if isinstance(each, str)), "")
    if broken:
        return f"{_few(loss, wanted, _name(option))} whose groups are known: {broken}"
    active: set[str] = set()
    for candidate, _each in loss.lost:
        for use in candidate.uses:
            company = site.companies.get((candidate.pool, use.counter_set))  # type: ignore[call-overload]
            active |= company.groups or set() if company else set()
    said = f"groups active: {', '.join(sorted(active))}" if active else "no group is active"
    text = f"{_few(loss, wanted, _name(option))} that goes with what is allocated beside it"
    return f"{text} ({said})"


def _company(option: Option, loss: Loss, wanted: int, _: Site) -> str:
    text = f"{_few(loss, wanted, _name(option))} that goes with what is allocated beside it"
    found = next((each for _, each in loss.lost if isinstance(each, Clash)), None)
    if found is None:
        return text
    if found.error:
        return f"{text}: {found.refusing} and {found.refused} cannot be compared: {found.error}"
    return f"{text}: {found.refusing} goes only with {found.expression}"


def _counters(option: Option, loss: Loss, wanted: int, _: Site) -> str:
    text = _few(loss, wanted, _name(option))
    short = [each for _, each in loss.lost if isinstance(each, Shortage)]
    nearest = min(short, key=lambda each: each.wanted - each.left)
    left, drawn = _amount(nearest.left), _amount(nearest.wanted)
    if not nearest.wanted:
        return f"{text}: counter {nearest.counter} of {nearest.counter_set} is over-committed"
    where = f"counter {nearest.counter} of {nearest.counter_set}"
    return f"{text} for which counters are left: {where} has {left}, {drawn} are drawn"


def _amount(nanos: int) -> str:
    form = Format.BINARY_SI if nanos % (10**9 * 1024) == 0 else Format.DECIMAL_SI
    return str(Quantity(nanos, _NANO, form, decimal=True))


def _taint(option: Option, loss: Loss, wanted: int, _: Site) -> str:
    taints = Counter(each for _, each in loss.lost if isinstance(each, Taint))
    taint = taints.most_common(1)[0][0]
    value = f"={taint.value}" if taint.value else ""
    text = _few(loss, wanted, f"{_name(option)} without an untolerated taint")
    return f"{text} ({len(loss.lost)} of {loss.before}: {taint.key}{value}:{taint.effect})"


def _constraint(option: Option, loss: Loss, wanted: int, _: Site) -> str:
    unmet = [each for _, each in loss.lost if isinstance(each, Unmet)]
    most = Counter(each.constraint for each in unmet).most_common(1)[0][0]
    have = [each.attribute for each in unmet if each.constraint is most]
    text = _few(loss, wanted, _name(option))
    if all(each is None for each in have):
        return f"{text} with an attribute {most.name}"
    if isinstance(most, Distinct):
        return f"{text} with another {most.name} than those chosen"
    return f"{text} with the {most.name} of those chosen"


def apart(option: Option, constraint: Constraint, most: int, count: int, wanted: int) -> str:
    """Say how near the devices for one option come to a constraint."""
    of = f"{count} free {_name(option)}"
    if isinstance(constraint, Distinct):
        return f"{of} have {most} different {constraint.name}, {wanted} wanted"
    return f"at most {most} of {of} have the same {constraint.name}, {wanted} wanted"


_WORDS: dict[Stage, Callable[[Option, Loss, int, Site], str]] = {
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
}
