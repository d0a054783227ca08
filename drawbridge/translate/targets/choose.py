"""Chooses a target for each ask, and composes parts of claims from the asks.

Each ask goes to the first target that can express it without losing isolation or exclusivity. Asks
with the same joint allocation become one part, because constraints do not reach across claims.
`drawbridge.translate.decisions` decides about asks that are expressed with losses, or not at all.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from drawbridge.config.model import Configuration, Placement
from drawbridge.dra.families import BY_VENDOR_WITHOUT_DRIVER, OTHER_DRIVERS, SERVED_VENDORS
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, Kind
from drawbridge.translate.targets import codes
from drawbridge.translate.targets.available import get_module, list_targets
from drawbridge.translate.targets.claims import MAX_ENTRIES
from drawbridge.translate.targets.derived import derive_numa
from drawbridge.translate.targets.joint import Grouping, find_primary, group_asks
from drawbridge.translate.targets.linked import LinkedCounts, count_linked
from drawbridge.translate.targets.nearness import colocate
from drawbridge.translate.targets.plan import (
    ClaimPart,
    DriverTarget,
    Expressibility,
    ProximityRule,
    RequestConfig,
    RequestConstraint,
    TargetResult,
    UnnamedRequest,
    is_bound,
    make_finding,
)
from drawbridge.translate.targets.requests import (
    MAX_RESULTS,
    ChosenTarget,
    compose_counted_request,
    compose_request,
    expand_plan,
)
from drawbridge.translate.targets.vocabulary import NotExpressibleError

# Far above what a node has; a larger count is a typing error.
MAX_DEVICES = 256
_DISTINCT = "constraints.distinctAttribute"


def express_asks(
    asks: Sequence[Ask], facts: Facts | None, configuration: Configuration
) -> tuple[TargetResult, ...]:
    """Express every ask, in order; asks of one joint allocation are expressed together."""
    bundles: dict[str, list[Ask]] = {}
    for number, ask in enumerate(asks):
        bundles.setdefault(ask.joint.name if ask.joint else f"\0{number}", []).append(ask)
    return tuple(
        result
        for bundle in bundles.values()
        for result in _express_bundle(bundle, facts, configuration)
    )


def _express_bundle(
    asks: Sequence[Ask], facts: Facts | None, configuration: Configuration
) -> tuple[TargetResult, ...]:
    """Express asks together; if that is only preferred and not possible, each by itself."""
    together = _express_together(asks, facts, configuration)
    joint = asks[0].joint
    if (
        together.expressibility is not Expressibility.NOT_EXPRESSIBLE
        or len(asks) == 1
        or (joint and joint.required)
    ):
        return (together,)
    alone = [_express_together([each], facts, configuration) for each in asks]
    if all(each.expressibility is not Expressibility.NOT_EXPRESSIBLE for each in alone):
        alone[0] = _add_lost_alignment(alone[0], find_primary(asks), together.findings[0])
    return tuple(alone)


def _add_lost_alignment(result: TargetResult, ask: Ask, reason: Finding) -> TargetResult:
    """Return a result with the finding that a preferred joint allocation is not possible."""
    message = reason.message.partition(": ")[2]
    annotation = ask.joint.annotation if ask.joint else ""
    finding = make_finding(codes.ALIGNMENT_LOST, ask, message, annotation=annotation)
    return replace(
        result,
        expressibility=Expressibility.LOSSY,
        findings=(*result.findings, finding),
        lost=tuple(dict.fromkeys((*result.lost, codes.LOSES[finding.code]))),
    )


def _express_together(
    asks: Sequence[Ask], facts: Facts | None, configuration: Configuration
) -> TargetResult:
    names = tuple(each.name for each in asks)
    try:
        chosen = [_choose(each, facts, configuration) for each in asks]
        part, more = _compose_part(chosen, facts, configuration)
    except NotExpressibleError as reason:
        ask = find_primary(asks)
        code = codes.QUEUE_REFUSES_REQUEST if reason.by_queue else codes.NOT_EXPRESSIBLE
        finding = make_finding(code, ask, f"{reason}", remedy=reason.remedy)
        return TargetResult(
            names,
            Expressibility.NOT_EXPRESSIBLE,
            findings=(finding,),
        )
    findings = (*(finding for each in chosen for finding in each.expanded.findings), *more)
    lost = tuple(dict.fromkeys(codes.LOSES[f.code] for f in findings if f.code in codes.LOSES))
    return TargetResult(
        names,
        Expressibility.LOSSY if lost else Expressibility.EQUAL,
        part,
        findings,
        lost,
        tuple(dict.fromkeys(each.target.driver for each in chosen)),
        tuple(dict.fromkeys(each.expanded.plan.class_ for each in chosen)),
        tuple((_find_count_name(each.ask), each.expanded.plan.class_) for each in chosen),
    )


def _find_count_name(ask: Ask) -> str:
    return next((name for name in ask.resources if name not in ask.amounts), "")


def _compose_part(
    chosen: Sequence[ChosenTarget], facts: Facts | None, configuration: Configuration
) -> tuple[ClaimPart, tuple[Finding, ...]]:
    bridge = configuration.placement == Placement.BRIDGE
    if len(chosen) == 1:
        part, findings = _compose_single(chosen[0], bridge=bridge)
    else:
        part, findings = _compose_joint(chosen, facts, bridge=bridge)
    if bridge and facts and not facts.keeps_field(_DISTINCT):
        part = _move_distinct_to_rules(part)
    _check_limits(part)
    if bridge:
        preferences = dict.fromkeys(one for each in chosen for one in each.ask.preferences)
        part = replace(part, preferences=tuple(preferences))
    return part, findings


def _move_distinct_to_rules(part: ClaimPart) -> ClaimPart:
    """Let the allocator keep devices distinct, because the API server drops the constraint."""
    moved = tuple(each for each in part.constraints if each.kind == "distinctAttribute")
    kept = tuple(each for each in part.constraints if each.kind != "distinctAttribute")
    return replace(part, constraints=kept, distinct_rules=moved)


def _choose(ask: Ask, facts: Facts | None, configuration: Configuration) -> ChosenTarget:
    """Choose the first target that can express an ask, those for devices of one node last."""
    reasons, remedies = [], []
    if ask.count is not None and not 0 < ask.count <= MAX_DEVICES:
        raise NotExpressibleError(
            f"{ask.count} devices requested, but a request must be for 1 to {MAX_DEVICES} devices",
            f"Request 1 to {MAX_DEVICES} devices in each pod.",
        )
    if ask.queue and ask.count is None:
        raise NotExpressibleError(
            f"queue {ask.queue} of Kueue refuses allocationMode All",
            "Request a number of devices.",
            by_queue=True,
        )
    by_queue = False
    of_one_node: ChosenTarget | None = None
    for target in list_targets(ask, facts, configuration):
        try:
            expanded = expand_plan(ask, get_module(target).plan_device(ask, target), target)
        except NotExpressibleError as reason:
            reasons.append(f"{reason}")
            remedies.append(reason.remedy)
            by_queue = by_queue or reason.by_queue
            continue
        lost = {codes.LOSES.get(each.code, "") for each in expanded.findings} & codes.GUARDED
        refused = sorted(lost - set(configuration.decisions.allow_loss_of))
        if not refused:
            findings = (*expanded.findings, *_report_vendor(ask, target))
            chosen = ChosenTarget(ask, target, replace(expanded, findings=findings))
            if not (expanded.plan.single or target.single):
                return chosen
            of_one_node = of_one_node or chosen
            continue
        reasons += [
            f"{finding.message.partition(': ')[2]}, so {codes.LOSES[finding.code]} is lost"
            for finding in expanded.findings
            if codes.LOSES.get(finding.code) in refused
        ]
        remedies.append(
            f"To accept the loss, add {', '.join(refused)} to `decisions.allowLossOf`; else "
            "configure a driver without it in `targets`."
        )
    if of_one_node is not None:
        return of_one_node
    if not reasons:
        raise _make_no_target_error(ask, configuration)
    raise NotExpressibleError(
        "; ".join(dict.fromkeys(reasons)), " ".join(dict.fromkeys(remedies)), by_queue=by_queue
    )


def _report_vendor(ask: Ask, target: DriverTarget) -> Iterator[Finding]:
    """Report a driver of which nothing says that its devices are those that the pod names."""
    if ask.vendor and not (ask.named or target.family or target.vendor):
        message = (
            f"becomes a device of {target.driver}, of which the configuration does not say that "
            f"it is a driver of {ask.vendor} devices"
        )
        yield make_finding(codes.VENDOR_NOT_DECLARED, ask, message)


def _make_no_target_error(ask: Ask, configuration: Configuration) -> NotExpressibleError:
    """Return why an ask has no targets to try."""
    if ask.kind is Kind.OTHER:
        is_known = ask.row.startswith("vendors/") and ask.vendor in OTHER_DRIVERS
        unserved = "such shares of GPUs" if ask.vendor in SERVED_VENDORS else "it"
        return NotExpressibleError(
            "its DRA driver is not configured"
            if is_known
            else f"no DRA driver for {unserved} is known",
            "Keep its device plugin, or declare its DRA driver in `targets`.",
        )
    devices = f"{ask.vendor} {ask.kind}".strip()
    if ask.vendor in BY_VENDOR_WITHOUT_DRIVER:
        return NotExpressibleError(
            f"no DRA driver for {devices} devices is known",
            f"Keep the device plugin, or declare a driver with `kind: {ask.kind}` and `vendor: "
            f"{ask.vendor}` in `targets`.",
        )
    if configuration.targets:
        reason = f"no configured target supports {devices} devices"
        return NotExpressibleError(reason, "Add a target for these devices to `targets`.")
    return NotExpressibleError(
        f"no known driver with a DeviceClass in this cluster supports {devices} devices",
        "Install the DRA driver of these devices and its DeviceClass.",
    )


def _compose_single(chosen: ChosenTarget, *, bridge: bool) -> tuple[ClaimPart, tuple[Finding, ...]]:
    ask, target, expanded = chosen
    requests, configs = _compose_requests(chosen, ask.count, 0)
    numbers = tuple(range(len(requests)))
    constraints = _compose_distinct([(chosen, numbers, ask.count)], bridge=bridge)
    separation_key = target.driver if expanded.plan.exclusive else ""
    part = ClaimPart(tuple(requests), constraints, tuple(configs), separation_key)
    return colocate(part, [chosen], bridge=bridge)


def _compose_requests(
    chosen: ChosenTarget, count: int | None, start: int
) -> tuple[list[UnnamedRequest], list[RequestConfig]]:
    """Compose the requests of an ask; a device with its own settings gets its own request."""
    ask, target, expanded = chosen
    parameters = expanded.plan.parameters
    requests: list[UnnamedRequest] = []
    configs = []
    left = count
    for number, request_parameters in enumerate(parameters):
        if left == 0:
            break
        requests.append(compose_request(ask, expanded, 1 if left is not None else None))
        if request_parameters is not None:
            configs.append(RequestConfig(start + number, target.driver, request_parameters))
        left = None if left is None else left - 1
    while left is None or left > 0:
        if left is None:
            if not requests:
                requests.append(compose_request(ask, expanded, None))
            break
        size = min(left, MAX_RESULTS)
        requests.append(compose_request(ask, expanded, size))
        left -= size
    return requests, configs


def _compose_distinct(
    chosen_requests: Iterable[tuple[ChosenTarget, tuple[int, ...], int | None]], *, bridge: bool
) -> tuple[RequestConstraint, ...]:
    """Require distinct devices where the devices are shareable and an ask is for several."""
    constraints = []
    for chosen, numbers, count in chosen_requests:
        attribute = chosen.expanded.plan.distinct
        if attribute and count is not None and count > 1:
            if not bridge:
                chosen.target.require_field(_DISTINCT)
            constraints.append(RequestConstraint("distinctAttribute", attribute, numbers))
    return tuple(constraints)


def _compose_joint(
    chosen: Sequence[ChosenTarget], facts: Facts | None, *, bridge: bool
) -> tuple[ClaimPart, tuple[Finding, ...]]:
    """Compose one part from joint asks, with a group of requests for each location.

    With `placement: bridge` the part has one request of each ask, and a rule for the allocator.
    """
    first = find_primary([each.ask for each in chosen])
    leading = next(each for each in chosen if each.ask is first)
    others = [each for each in chosen if each is not leading]
    drivers = {each.target.driver for each in others}
    if len(drivers) > 1:
        raise NotExpressibleError(
            f"devices of {' and '.join(sorted(drivers))} cannot be grouped in one claim",
            "Request these devices without a common location.",
        )
    asks, between = [each.ask for each in others], (leading.target.driver, drivers.pop())
    is_free = bridge and not first.queue  # counted requests are alternatives
    linked = count_linked(first, asks, between, facts) if is_free else None
    if linked:
        part, findings = _compose_linked(leading, others, linked), linked.findings
    else:
        grouping = group_asks(first, asks, between, facts)
        part, findings = (
            _compose_groups(leading, others, grouping, bridge=bridge),
            grouping.findings,
        )
    part, added = colocate(part, chosen, bridge=bridge)
    return part, (*findings, *added)


def _compose_linked(
    leading: ChosenTarget, others: Sequence[ChosenTarget], linked: LinkedCounts
) -> ClaimPart:
    """Compose one request of each ask, and what relates their locations.

    One device has one location, so that a constraint says what a rule would, and autoscalers and
    every other reader of the claim know it.
    """
    requests, configs = _compose_requests(leading, linked.primary, 0)
    members = [(leading, tuple(range(len(requests))), linked.primary)]
    for linked_target, counts in zip(others, linked.others, strict=True):
        begin = len(requests)
        if len(counts) == 1:
            more, more_configs = _compose_requests(linked_target, counts[0], begin)
            requests, configs = [*requests, *more], [*configs, *more_configs]
        else:
            requests.append(
                compose_counted_request(linked_target.ask, linked_target.expanded, counts)
            )
        members.append((linked_target, tuple(range(begin, len(requests))), max(counts)))
    own, *beside = (numbers for _, numbers, _ in members)
    joint = leading.ask.joint
    rule = ProximityRule(
        own,
        tuple(chain.from_iterable(beside)),
        (linked.attribute,),
        required=joint is None or joint.required,
    )
    constraints = _compose_distinct(members, bridge=True)
    rules: tuple[ProximityRule, ...] = (rule,)
    if rule.required and linked.primary == 1:
        together = RequestConstraint(
            "matchAttribute", linked.attribute, tuple(range(len(requests)))
        )
        constraints, rules = (together, *constraints), ()
    separation_key = leading.target.driver if leading.expanded.plan.exclusive else ""
    return ClaimPart(tuple(requests), constraints, tuple(configs), separation_key, rules)


def _compose_groups(
    leading: ChosenTarget, others: Sequence[ChosenTarget], grouping: Grouping, *, bridge: bool
) -> ClaimPart:
    requests: list[UnnamedRequest] = []
    configs: list[RequestConfig] = []
    constraints: list[RequestConstraint] = []
    if grouping.derived:
        leading, others = derive_numa(leading), [derive_numa(each) for each in others]
    members: dict[int, list[int]] = {id(each): [] for each in (leading, *others)}
    counts = dict.fromkeys(members, 0)
    rows: list[tuple[int | None, ...]] = [(each.primary, *each.others) for each in grouping.groups]
    for row in rows or [tuple(each.ask.count for each in (leading, *others))]:
        begin = len(requests)
        for chosen, count in zip((leading, *others), row, strict=True):
            more, more_configs = _compose_requests(chosen, count, len(requests))
            members[id(chosen)] += range(len(requests), len(requests) + len(more))
            counts[id(chosen)] += count or 0
            requests += more
            configs += more_configs
        if grouping.attribute:
            numbers = tuple(range(begin, len(requests)))
            constraints.append(RequestConstraint("matchAttribute", grouping.attribute, numbers))
    if grouping.separate:
        constraints += _separate_groups(others[0], grouping, members[id(others[0])])
    shared = [(each, tuple(members[id(each)]), counts[id(each)]) for each in (leading, *others)]
    constraints += _compose_distinct(shared, bridge=bridge)
    separation_key = leading.target.driver if leading.expanded.plan.exclusive else ""
    return ClaimPart(tuple(requests), tuple(constraints), tuple(configs), separation_key)


def _separate_groups(
    other: ChosenTarget, grouping: Grouping, numbers: Sequence[int]
) -> tuple[RequestConstraint, ...]:
    """Keep groups in different locations, by an ask of which each group has one device."""
    if any(each.others[0] != 1 for each in grouping.groups):
        return ()
    if other.target.facts and not other.target.facts.keeps_field(_DISTINCT):
        return ()
    return (RequestConstraint("distinctAttribute", grouping.attribute, tuple(numbers)),)


def _check_limits(part: ClaimPart) -> None:
    """Raise NotExpressibleError if a part that cannot be split exceeds the limits of a claim."""
    if not is_bound(part):
        return
    devices = sum(each.devices for each in part.requests)
    for name, count in (
        ("requests", len(part.requests)),
        ("devices", devices),
        ("constraints", len(part.constraints)),
    ):
        if count > MAX_ENTRIES:
            raise NotExpressibleError(
                f"the claim needs {count} {name}, but the limit is {MAX_ENTRIES}",
                "Request fewer devices, or devices of fewer kinds, in each pod.",
            )
