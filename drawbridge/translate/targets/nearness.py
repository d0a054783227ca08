"""Keeps the devices of an ask near each other: by constraints, or by rules for the allocator.

A claim can require devices to be near each other, but cannot prefer it. With `placement: bridge`
the claim carries the preferences as rules.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from drawbridge.dra.attributes import NUMA_NODE, PCIE_ROOT
from drawbridge.facts.model import of_several
from drawbridge.finding import Code, Finding
from drawbridge.translate.legacy.asks import Ask, Colocation, TopologyScope
from drawbridge.translate.targets import codes
from drawbridge.translate.targets.plan import (
    ClaimPart,
    DriverTarget,
    ProximityRule,
    RequestConstraint,
    make_finding,
)
from drawbridge.translate.targets.requests import MAX_RESULTS, ChosenTarget, ExpandedPlan

# Sizes of the published partitions of the link between GPUs.
_LINK_PARTITIONS = (2, 4, 8)


def colocate(
    part: ClaimPart, chosen: Iterable[ChosenTarget], *, bridge: bool
) -> tuple[ClaimPart, tuple[Finding, ...]]:
    """Keep the devices of each ask near each other, as it requests and as its scheduler prefers."""
    added: list[Finding] = []
    for choice in chosen:
        numbers = tuple(n for n, one in enumerate(part.requests) if one.ask == choice.ask.name)
        part, findings = _colocate_one(part, choice, numbers, bridge=bridge)
        added += findings
        if bridge:
            rules = tuple(_prefer_scopes(part, choice, numbers))
            part = replace(part, proximity_rules=(*part.proximity_rules, *rules))
    return part, tuple(added)


def _colocate_one(
    part: ClaimPart, chosen: ChosenTarget, numbers: tuple[int, ...], *, bridge: bool
) -> tuple[ClaimPart, tuple[Finding, ...]]:
    ask, target, expanded = chosen
    colocation = ask.colocation
    if colocation and any(
        _is_near_enough(colocation.scope, numbers, constraint) for constraint in part.constraints
    ):
        return part, ()
    if bridge and colocation and ask.count != 1:
        rule, findings = _find_rule(chosen, colocation, numbers)
        if rule:
            return replace(part, proximity_rules=(*part.proximity_rules, rule)), findings
    near, findings = _compose_near(ask, expanded, target, numbers)
    return replace(part, constraints=(*part.constraints, *near)), findings


def _find_rule(
    chosen: ChosenTarget, colocation: Colocation, numbers: tuple[int, ...]
) -> tuple[ProximityRule | None, tuple[Finding, ...]]:
    """Return the rule for what no constraint can express: preferences, configured partitions."""
    ask, target, expanded = chosen
    attributes = _list_attributes(ask, colocation.scope, target)
    findings: tuple[Finding, ...] = ()
    if not _is_configured(ask, colocation.scope, target):
        if colocation.required:
            return None, ()
        attribute, findings = _find_attribute(ask, colocation.scope, expanded, target)
        attributes = (attribute,) if attribute else ()
    if not attributes:
        return None, ()
    return ProximityRule(numbers, (), attributes, colocation.required), findings


def _is_configured(ask: Ask, scope: TopologyScope, target: DriverTarget) -> bool:
    return scope is TopologyScope.LINK and (ask.count or 0) in target.partitions


def _list_attributes(ask: Ask, scope: TopologyScope, target: DriverTarget) -> tuple[str, ...]:
    """Return the published attribute of exactly this scope, and those of the configuration."""
    published = _published_attribute(ask, scope, target)
    configured = target.partitions[ask.count or 0] if _is_configured(ask, scope, target) else ()
    return (*((published,) if published else ()), *configured)


def _prefer_scopes(
    part: ClaimPart, chosen: ChosenTarget, numbers: tuple[int, ...]
) -> Iterator[ProximityRule]:
    """Yield the preferences of an ask's scheduler that nothing else fulfills.

    The first rule also tells among which devices to pack, so there is one even if it holds anyway:
    a single device is near itself, and a constraint may require the scope.
    """
    ask, target, _ = chosen
    if ask.count is None or ask.count > MAX_RESULTS:
        return
    rules = part.proximity_rules
    for scope in ask.nearness:
        if (ask.count == 1 and rules) or 0 < _most_in_scope(target, scope) < ask.count:
            continue
        attributes = _list_attributes(ask, scope, target)
        rule = ProximityRule(numbers, (), attributes, required=False)
        ensured = any(_is_near_enough(scope, numbers, each) for each in part.constraints)
        stated = {rule, replace(rule, required=True)} & {*rules}
        if attributes and not (ensured and rules) and not stated:
            rules = (*rules, rule)
            yield rule


def _published_attribute(ask: Ask, scope: TopologyScope, target: DriverTarget) -> str:
    """Return the attribute of exactly this scope; empty if it is not published."""
    if scope is TopologyScope.LINK:
        name = f"{target.driver}/partition{ask.count}"
        return name if ask.count in _LINK_PARTITIONS and target.publishes(name) else ""
    standard = PCIE_ROOT if scope is TopologyScope.PCIE else NUMA_NODE
    return standard if target.publishes(standard) else ""


def _is_near_enough(
    scope: TopologyScope, numbers: tuple[int, ...], constraint: RequestConstraint
) -> bool:
    """Whether a constraint keeps requests within a scope; a PCIe root is in one NUMA node."""
    enough = {TopologyScope.PCIE: (PCIE_ROOT,), TopologyScope.NUMA: (PCIE_ROOT, NUMA_NODE)}.get(
        scope, ()
    )
    return (
        constraint.kind == "matchAttribute"
        and constraint.attribute in enough
        and set(numbers) <= set(constraint.requests)
    )


def _compose_near(
    ask: Ask, expanded: ExpandedPlan, target: DriverTarget, numbers: tuple[int, ...]
) -> tuple[tuple[RequestConstraint, ...], tuple[Finding, ...]]:
    """Require the devices of one ask in one location, if a published attribute shows it."""
    if ask.colocation is None or ask.colocation.scope is TopologyScope.NODE or ask.count == 1:
        return (), ()
    if not ask.colocation.required:
        message = (
            "a claim can require devices to be near each other, but cannot express a preference"
        )
        return (), (_lost(codes.ALIGNMENT_LOST, ask, message),)
    attribute, findings = _find_attribute(ask, ask.colocation.scope, expanded, target)
    if not attribute and not findings:
        message = (
            f"{target.driver} publishes no attribute that shows which devices are near each other"
        )
        findings = (_lost(codes.ALIGNMENT_LOST, ask, message),)
    constraints = (RequestConstraint("matchAttribute", attribute, numbers),) if attribute else ()
    return constraints, findings


def _lost(code: Code, ask: Ask, message: str) -> Finding:
    annotation = ask.colocation.annotation if ask.colocation else ""
    return make_finding(code, ask, message, annotation=annotation)


def _find_attribute(
    ask: Ask, scope: TopologyScope, expanded: ExpandedPlan, target: DriverTarget
) -> tuple[str, tuple[Finding, ...]]:
    """Return the attribute for a scope; empty if none is known to be published."""
    if scope is TopologyScope.DEVICE:
        return expanded.plan.parent, ()
    if scope is TopologyScope.LINK:
        if partition := _published_attribute(ask, scope, target):
            return partition, ()
        if ask.count is None or ask.count > _LINK_PARTITIONS[1] or not target.publishes(NUMA_NODE):
            return "", ()
        if 0 < (most := _most_in_scope(target, TopologyScope.NUMA)) < ask.count:
            message = (
                f"{target.driver} publishes no link partition of {ask.count} devices, and no NUMA "
                f"node has more than {most} of them"
            )
            return "", (_lost(codes.ALIGNMENT_LOST, ask, message),)
        message = (
            f"{target.driver} publishes no link partition of {ask.count} devices, so they share a "
            "NUMA node instead"
        )
        return NUMA_NODE, (_lost(codes.NEIGHBOURHOOD_CHANGED, ask, message),)
    return _published_attribute(ask, scope, target), ()


def _most_in_scope(target: DriverTarget, scope: TopologyScope) -> int:
    """Return the largest number of GPUs in one scope of a known node shape; 0 if none is known."""
    published = target.facts.shapes if target.facts else ()
    shapes = of_several(shape for shape in published if shape.gpu == target.driver)
    rows = {TopologyScope.PCIE: [each.pcie for each in shapes]}
    rows[TopologyScope.NUMA] = [each.numa for each in shapes]
    return max((row.gpus for each in rows.get(scope, ()) for row in each), default=0)
