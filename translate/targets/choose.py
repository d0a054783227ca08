"""Asks to parts of claims: the door of the targets.

Each ask goes to the first target that can say it without losing isolation or exclusivity; asks
with one joint become one part, because constraints do not reach across claims. What to do with an
ask that can be said with losses, or not at all, is decided elsewhere.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from config.model import Configuration, Placement
from dra.attributes import NUMA_NODE, PCIE_ROOT
from dra.finding import Finding
from facts.model import Facts
from translate.legacy.asks import Ask, Kind, TopologyScope
from translate.targets import codes
from translate.targets.available import get_printer, list_targets
from translate.targets.joint import Grouping, count_linked, find_primary, group_asks
from translate.targets.plan import (
    ClaimPart,
    DriverTarget,
    Expressibility,
    ProximityRule,
    RequestConfig,
    RequestConstraint,
    TargetResult,
    UnnamedRequest,
    make_finding,
)
from translate.targets.requests import MAX_RESULTS, ExpandedPlan, compose_request, expand_plan
from translate.targets.vocabulary import NotExpressibleError

MAX_ENTRIES = 32
# Far above what a node has, and not what a claim may be made of by a slip of the keyboard.
MAX_DEVICES = 256
# Partitions of the link between GPUs, by how many GPUs they have.
_LINKED = (2, 4, 8)


class _Chosen(NamedTuple):
    """An ask with the target that says it."""

    ask: Ask
    aim: DriverTarget
    drawn: ExpandedPlan


def express_asks(
    asks: Sequence[Ask], facts: Facts | None, configuration: Configuration
) -> tuple[TargetResult, ...]:
    """Say every ask, in order; those with one joint together, where the first of them stands."""
    bundles: dict[str, list[Ask]] = {}
    for number, ask in enumerate(asks):
        bundles.setdefault(ask.joint.name if ask.joint else f"\0{number}", []).append(ask)
    return tuple(said for each in bundles.values() for said in _bundles(each, facts, configuration))


def _bundles(
    asks: Sequence[Ask], facts: Facts | None, configuration: Configuration
) -> tuple[TargetResult, ...]:
    """Say asks together; where that is only preferred and cannot be said, each by itself."""
    together = _bundle(asks, facts, configuration)
    joint = asks[0].joint
    if (
        together.answer is not Expressibility.UNSAYABLE
        or len(asks) == 1
        or (joint and joint.required)
    ):
        return (together,)
    return tuple(_bundle([each], facts, configuration) for each in asks)


def _bundle(asks: Sequence[Ask], facts: Facts | None, configuration: Configuration) -> TargetResult:
    names = tuple(each.name for each in asks)
    try:
        chosen = [_choose(each, facts, configuration) for each in asks]
        bridge = configuration.placement == Placement.BRIDGE
        if len(chosen) == 1:
            part, more = _alone(chosen[0], bridge=bridge)
        else:
            part, more = _together(chosen, facts, bridge=bridge)
        _bounded(part)
        if bridge:
            wishes = dict.fromkeys(wish for each in asks for wish in each.preferences)
            part = replace(part, wishes=tuple(wishes))
    except NotExpressibleError as reason:
        ask = find_primary(asks)
        return TargetResult(
            names,
            Expressibility.UNSAYABLE,
            findings=(make_finding(codes.NOT_EXPRESSIBLE, ask, f"{reason}"),),
        )
    findings = (*(finding for each in chosen for finding in each.drawn.findings), *more)
    lost = tuple(dict.fromkeys(codes.LOSES[f.code] for f in findings if f.code in codes.LOSES))
    return TargetResult(
        names,
        Expressibility.LOSSY if lost else Expressibility.EQUAL,
        part,
        findings,
        lost,
        tuple(dict.fromkeys(each.aim.driver for each in chosen)),
        tuple(dict.fromkeys(each.drawn.plan.class_ for each in chosen)),
    )


def _choose(ask: Ask, facts: Facts | None, configuration: Configuration) -> _Chosen:
    """Take the first target that can say an ask."""
    reasons = []
    if ask.count is not None and not 0 < ask.count <= MAX_DEVICES:
        raise NotExpressibleError(f"{ask.count} devices are asked for, and no node has them")
    for aim in list_targets(ask, facts, configuration):
        try:
            drawn = expand_plan(ask, get_printer(aim).plan(ask, aim), aim)
        except NotExpressibleError as reason:
            reasons.append(f"{reason}")
            continue
        lost = {codes.LOSES.get(each.code, "") for each in drawn.findings} & codes.GUARDED
        refused = sorted(lost - set(configuration.decisions.allow_loss_of))
        if not refused:
            return _Chosen(ask, aim, drawn)
        reasons += [
            f"{each.message.partition(': ')[2]}, so {codes.LOSES[each.code]} is lost"
            for each in drawn.findings
            if codes.LOSES.get(each.code) in refused
        ]
    raise NotExpressibleError("; ".join(dict.fromkeys(reasons)) or _nobody(ask, configuration))


def _nobody(ask: Ask, configuration: Configuration) -> str:
    """Say why no target was even tried."""
    if ask.kind is Kind.OTHER:
        return "no DRA driver for it is known"
    whose = f"{ask.vendor} {ask.kind}".strip()
    if configuration.targets:
        return f"no target of the configuration is for {whose}"
    return f"no known driver with a DeviceClass here serves {whose}"


def _alone(chosen: _Chosen, *, bridge: bool) -> tuple[ClaimPart, tuple[Finding, ...]]:
    ask, aim, drawn = chosen
    requests, settings = _requests(chosen, ask.count, 0)
    numbers = tuple(range(len(requests)))
    rules = _distinct([(chosen, numbers, ask.count)])
    apart = aim.driver if drawn.plan.apart else ""
    part = ClaimPart(tuple(requests), rules, tuple(settings), apart)
    return _gathered(part, [chosen], bridge=bridge)


def _gathered(
    part: ClaimPart, chosen: Iterable[_Chosen], *, bridge: bool
) -> tuple[ClaimPart, tuple[Finding, ...]]:
    """Keep the devices of each ask near each other, as it says of itself."""
    told: list[Finding] = []
    for ask, aim, drawn in chosen:
        numbers = tuple(n for n, each in enumerate(part.requests) if each.ask == ask.name)
        if ask.colocation and any(
            _within(ask.colocation.scope, numbers, each) for each in part.rules
        ):
            continue
        if bridge and ask.colocation and not ask.colocation.required and ask.count != 1:
            attribute, findings = _neighbourhood(ask, ask.colocation.scope, drawn, aim)
            if attribute:
                told += findings
                link = ProximityRule(numbers, (), (attribute,), required=False)
                part = replace(part, links=(*part.links, link))
                continue
        near, findings = _near(ask, drawn, aim, numbers)
        told += findings
        part = replace(part, rules=(*part.rules, *near))
    return part, tuple(told)


def _requests(
    chosen: _Chosen, count: int | None, start: int
) -> tuple[list[UnnamedRequest], list[RequestConfig]]:
    """Print an ask for so many devices; each with settings of its own is a request of its own."""
    ask, aim, drawn = chosen
    parameters = drawn.plan.parameters
    requests: list[UnnamedRequest] = []
    settings = []
    left = count
    for number, each in enumerate(parameters):
        if left == 0:
            break
        requests.append(compose_request(ask, drawn, 1 if left is not None else None))
        if each is not None:
            settings.append(RequestConfig(start + number, aim.driver, each))
        left = None if left is None else left - 1
    while left is None or left > 0:
        if left is None:
            if not requests:
                requests.append(compose_request(ask, drawn, None))
            break
        size = min(left, MAX_RESULTS)
        requests.append(compose_request(ask, drawn, size))
        left -= size
    return requests, settings


def _distinct(
    asked: Iterable[tuple[_Chosen, tuple[int, ...], int | None]],
) -> tuple[RequestConstraint, ...]:
    """Keep devices that may be handed out twice apart, where an ask is for several."""
    rules = []
    for chosen, numbers, count in asked:
        attribute = chosen.drawn.plan.distinct
        if attribute and count is not None and count > 1:
            chosen.aim.keeps("constraints.distinctAttribute")
            rules.append(RequestConstraint("distinctAttribute", attribute, numbers))
    return tuple(rules)


def _within(scope: TopologyScope, numbers: tuple[int, ...], rule: RequestConstraint) -> bool:
    """Whether a rule keeps requests as near as a scope wants; a PCIe root is in one NUMA node."""
    enough = {TopologyScope.PCIE: (PCIE_ROOT,), TopologyScope.NUMA: (PCIE_ROOT, NUMA_NODE)}.get(
        scope, ()
    )
    return (
        rule.word == "matchAttribute"
        and rule.attribute in enough
        and set(numbers) <= set(rule.requests)
    )


def _near(
    ask: Ask, drawn: ExpandedPlan, aim: DriverTarget, numbers: tuple[int, ...]
) -> tuple[tuple[RequestConstraint, ...], tuple[Finding, ...]]:
    """Keep the devices of one ask in one neighbourhood, if anything published tells it."""
    if ask.colocation is None or ask.colocation.scope is TopologyScope.NODE or ask.count == 1:
        return (), ()
    if not ask.colocation.required:
        message = "a claim can require devices to be near each other, and cannot prefer it"
        return (), (make_finding(codes.ALIGNMENT_LOST, ask, message),)
    attribute, findings = _neighbourhood(ask, ask.colocation.scope, drawn, aim)
    if not attribute and not findings:
        message = f"{aim.driver} publishes nothing that tells which devices are near each other"
        findings = (make_finding(codes.ALIGNMENT_LOST, ask, message),)
    rules = (RequestConstraint("matchAttribute", attribute, numbers),) if attribute else ()
    return rules, findings


def _neighbourhood(
    ask: Ask, scope: TopologyScope, drawn: ExpandedPlan, aim: DriverTarget
) -> tuple[str, tuple[Finding, ...]]:
    """The attribute for a scope; empty where none is known to be published."""
    if scope is TopologyScope.DEVICE:
        return drawn.plan.parent, ()
    if scope is TopologyScope.LINK:
        linked = f"{aim.driver}/partition{ask.count}"
        if ask.count in _LINKED and aim.publishes(linked):
            return linked, ()
        if ask.count is None or ask.count > _LINKED[1] or not aim.publishes(NUMA_NODE):
            return "", ()
        if 0 < (most := _most_by_numa(aim)) < ask.count:
            message = f"no partition of the link is published, and a NUMA node has at most {most}"
            return "", (make_finding(codes.ALIGNMENT_LOST, ask, message),)
        message = "no partition of the link is published: one NUMA node instead"
        return NUMA_NODE, (make_finding(codes.NEIGHBOURHOOD_CHANGED, ask, message),)
    standard = PCIE_ROOT if scope is TopologyScope.PCIE else NUMA_NODE
    return (standard if aim.publishes(standard) else ""), ()


def _most_by_numa(aim: DriverTarget) -> int:
    """How many devices of a target the fullest NUMA node has; 0 where no shape is known."""
    shapes = [each for each in (aim.facts.shapes if aim.facts else ()) if each.gpu == aim.driver]
    return max((place.gpus for each in shapes for place in each.numa), default=0)


def _together(
    chosen: Sequence[_Chosen], facts: Facts | None, *, bridge: bool
) -> tuple[ClaimPart, tuple[Finding, ...]]:
    """Make one part of asks that go together: a group of requests for each neighbourhood.

    In bridge placement it is one group, and the rule beside it.
    """
    first = find_primary([each.ask for each in chosen])
    leading = next(each for each in chosen if each.ask is first)
    others = [each for each in chosen if each is not leading]
    drivers = {each.aim.driver for each in others}
    if len(drivers) > 1:
        raise NotExpressibleError(f"{' and '.join(sorted(drivers))} cannot be grouped in one claim")
    asks, between = [each.ask for each in others], (leading.aim.driver, drivers.pop())
    cut = (count_linked if bridge else group_asks)(first, asks, between, facts)
    if not (bridge and cut.attribute):
        part, told = _gathered(_groups(leading, others, cut), chosen, bridge=bridge)
        return part, (*cut.findings, *told)
    part = _groups(leading, others, replace(cut, attribute=""))
    numbers = range(len(part.requests))
    own = tuple(n for n in numbers if part.requests[n].ask == first.name)
    beside = tuple(n for n in numbers if n not in own)
    required = first.joint is None or first.joint.required
    part = replace(part, links=(ProximityRule(own, beside, (cut.attribute,), required),))
    part, told = _gathered(part, chosen, bridge=bridge)
    return part, (*cut.findings, *told)


def _groups(leading: _Chosen, others: Sequence[_Chosen], cut: Grouping) -> ClaimPart:
    requests: list[UnnamedRequest] = []
    settings: list[RequestConfig] = []
    rules: list[RequestConstraint] = []
    members: dict[int, list[int]] = {id(each): [] for each in (leading, *others)}
    counts = dict.fromkeys(members, 0)
    rows: list[tuple[int | None, ...]] = [(each.primary, *each.others) for each in cut.groups]
    for row in rows or [tuple(each.ask.count for each in (leading, *others))]:
        begin = len(requests)
        for each, count in zip((leading, *others), row, strict=True):
            more, set_up = _requests(each, count, len(requests))
            members[id(each)] += range(len(requests), len(requests) + len(more))
            counts[id(each)] += count or 0
            requests += more
            settings += set_up
        if cut.attribute:
            numbers = tuple(range(begin, len(requests)))
            rules.append(RequestConstraint("matchAttribute", cut.attribute, numbers))
    if cut.apart:
        rules += _separate(others[0], cut, members[id(others[0])])
    rules += _distinct(
        (each, tuple(members[id(each)]), counts[id(each)]) for each in (leading, *others)
    )
    apart = leading.aim.driver if leading.drawn.plan.apart else ""
    return ClaimPart(tuple(requests), tuple(rules), tuple(settings), apart)


def _separate(
    other: _Chosen, cut: Grouping, numbers: Sequence[int]
) -> tuple[RequestConstraint, ...]:
    """Keep two groups from one neighbourhood, by a member of which each group has just one."""
    if any(each.others[0] != 1 for each in cut.groups):
        return ()
    if other.aim.facts and not other.aim.facts.keeps("constraints.distinctAttribute"):
        return ()
    return (RequestConstraint("distinctAttribute", cut.attribute, tuple(numbers)),)


def _bounded(part: ClaimPart) -> None:
    """Refuse what no single claim can hold; what nothing binds together may be split."""
    if not part.rules and not part.apart and not part.links:
        return
    devices = sum(each.devices for each in part.requests)
    for what, count in (
        ("requests", len(part.requests)),
        ("devices", devices),
        ("constraints", len(part.rules)),
    ):
        if count > MAX_ENTRIES:
            raise NotExpressibleError(f"{count} {what} in one claim are more than {MAX_ENTRIES}")
