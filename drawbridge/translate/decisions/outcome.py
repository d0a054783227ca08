"""Resolves the asks of one pod: which are translated, into which claims, with which findings.

The outcome depends only on the asks, their admin access, the facts and the configuration, so pods
with equal asks share one cached outcome.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from drawbridge.bounded_cache import BoundedCache
from drawbridge.config.model import Configuration
from drawbridge.documents.values import as_mapping
from drawbridge.dra.rules import encode_rules
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.names import RULES_ANNOTATION
from drawbridge.translate.changes import dual_nodes
from drawbridge.translate.changes.queues import MappedClass, Mappings, merge_mappings
from drawbridge.translate.changes.template import ClaimTemplate, make_template
from drawbridge.translate.codes import TOO_MANY_CLAIMS
from drawbridge.translate.decisions.capacity import report_fewer_nodes
from drawbridge.translate.decisions.node_offers import PodAsks, decide_for_one_node
from drawbridge.translate.legacy.asks import Ask
from drawbridge.translate.targets.claims import ClaimLimitError, ComposedClaim, assemble_claims
from drawbridge.translate.targets.plan import TargetResult


class Outcome(msgspec.Struct, frozen=True):
    """The outcome for the asks of a pod; if any ask is refused, nothing is translated."""

    findings: tuple[Finding, ...] = ()
    refused: bool = False
    asks: tuple[Ask, ...] = ()  # the translated ones
    claims: tuple[tuple[ComposedClaim, ClaimTemplate], ...] = ()
    dual_findings: tuple[Finding, ...] = ()  # nodes that offer the same devices twice
    classes: tuple[str, ...] = ()  # the DeviceClasses of the claims
    drivers: tuple[str, ...] = ()  # the drivers of the claims
    mappings: Mappings = {}  # the classes by the legacy name they replace
    classes_of: Mapping[str, Sequence[str]] = {}  # by each name of the asks


OutcomeCache = BoundedCache[PodAsks, Outcome]


def resolve_asks(pod: PodAsks, facts: Facts | None, configuration: Configuration) -> Outcome:
    """Decide about the asks of a pod, and compose the claims of the translated ones."""
    decided = decide_for_one_node(pod, facts, configuration)
    if decided.refused or not decided.results:
        left = () if decided.refused else dual_nodes.report_left(decided.left, facts)
        return Outcome((*decided.findings, *left), decided.refused)
    results, translated, findings = decided.results, decided.asks, decided.findings
    try:
        claims = tuple([(claim, _template(claim)) for claim in assemble_claims(results)])
    except ClaimLimitError as limit:
        return Outcome(
            (*findings, TOO_MANY_CLAIMS.at("spec.resourceClaims", f"{limit}")), refused=True
        )
    dual = dual_nodes.find_dual_sources(translated, results, facts, configuration)
    left = () if dual else dual_nodes.report_left(decided.left, facts)
    classes = tuple(dict.fromkeys(name for result in results for name in result.classes))
    fewer = report_fewer_nodes(translated, dual, classes, facts)
    return Outcome(
        (*findings, *left, *fewer),
        asks=translated,
        claims=claims,
        dual_findings=tuple(dual_nodes.report_dual_sources(dual)),
        classes=classes,
        drivers=tuple(dict.fromkeys(name for result in results for name in result.drivers)),
        mappings=merge_mappings(
            {name: (_map_class(class_, each),)} for each in results for name, class_ in each.names
        ),
        classes_of=_group_by_name(translated, results),
    )


def _group_by_name(
    asks: Iterable[Ask], results: Iterable[TargetResult]
) -> Mapping[str, Sequence[str]]:
    """Return the classes that replace each name of the asks, also one that counts no devices."""
    names, classes = {ask.name: ask.resources for ask in asks}, defaultdict[str, list[str]](list)
    for result in results:
        for ask, (_, class_) in zip(result.asks, result.names, strict=True):
            for name in names[ask]:
                if class_ not in classes[name]:
                    classes[name].append(class_)
    return dict(classes)


def _map_class(name: str, result: TargetResult) -> MappedClass:
    """Return a class of a result; of shares, with the capacity that their requests take.

    Of several capacities, memory is the one that a quota is about.
    """
    exact = (as_mapping(each.body.get("exactly")) for each in result.part.requests)
    taken = [
        capacity
        for each in exact
        if each.get("deviceClassName") == name
        for capacity in as_mapping(as_mapping(each.get("capacity")).get("requests"))
    ]
    if not taken or len(result.drivers) != 1:
        return MappedClass(name)
    capacity = next((each for each in taken if each.rpartition("/")[2] == "memory"), taken[0])
    return MappedClass(name, result.drivers[0], capacity)


def _template(claim: ComposedClaim) -> ClaimTemplate:
    rules = encode_rules(claim.rules)
    template = make_template(
        claim.spec, claim_annotations={RULES_ANNOTATION: rules} if rules else {}
    )
    return msgspec.structs.replace(template, expressions=claim.expressions)
