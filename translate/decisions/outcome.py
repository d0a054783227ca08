"""Resolves the asks of one pod: which are translated, into which claims, with which findings.

The outcome depends only on the asks, the facts and the configuration, so pods with equal asks
share one cached outcome.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from config.model import Configuration
from dra.finding import Finding
from dra.names import RULES_ANNOTATION
from dra.rules import encode_rules
from facts.model import Facts
from translate.changes import dual_nodes
from translate.changes.template import ClaimTemplate, make_template
from translate.decisions.decide import Verdict, decide, stays_with_plugin
from translate.decisions.memo import TranslationCache
from translate.legacy.asks import Ask
from translate.targets.choose import express_asks
from translate.targets.claims import ComposedClaim, assemble_claims
from translate.targets.plan import TargetResult

Asks = tuple[Ask, ...]


class Outcome(msgspec.Struct, frozen=True):
    """The outcome for the asks of a pod; if any ask is refused, nothing is translated."""

    findings: tuple[Finding, ...] = ()
    refused: bool = False
    asks: Asks = ()  # the translated ones
    claims: tuple[tuple[ComposedClaim, ClaimTemplate], ...] = ()
    dual_findings: tuple[Finding, ...] = ()  # nodes that offer the same devices twice
    classes: tuple[str, ...] = ()  # the DeviceClasses of the claims


OutcomeCache = TranslationCache[Asks, Outcome]


def resolve_asks(
    asks: Asks, facts: Facts | None, configuration: Configuration, cache: OutcomeCache | None = None
) -> Outcome:
    """Decide about the asks of a pod, and compose the claims of the translated ones."""
    if cache is not None and (known := cache.get(asks)) is not None:
        return known
    resolved = _resolve(asks, facts, configuration)
    if cache is not None:
        cache.put(asks, resolved)
    return resolved


def _resolve(asks: Sequence[Ask], facts: Facts | None, configuration: Configuration) -> Outcome:
    # A device that stays with its plugin cannot be aligned with a device of a claim.
    left_joints = {ask.joint.name for ask in asks if ask.joint and stays_with_plugin(ask, facts)}
    asks = [
        replace(ask, joint=None) if ask.joint and ask.joint.name in left_joints else ask
        for ask in asks
    ]
    asks_by_name = {ask.name: ask for ask in asks}
    findings: tuple[Finding, ...] = ()
    translated_results: list[TargetResult] = []
    refused = False
    for result in express_asks(asks, facts, configuration):
        decision = decide(
            [asks_by_name[name] for name in result.asks], result, facts, configuration
        )
        findings += decision.findings
        refused = refused or decision.verdict is Verdict.REFUSE
        if decision.verdict is Verdict.TRANSLATE:
            translated_results.append(result)
    if refused or not translated_results:
        return Outcome(findings, refused)
    names = {name for result in translated_results for name in result.asks}
    claims = tuple((claim, _template(claim)) for claim in assemble_claims(translated_results))
    translated = tuple(ask for ask in asks if ask.name in names)
    dual_findings = tuple(
        dual_nodes.report_dual_sources(
            dual_nodes.find_dual_sources(translated, translated_results, facts, configuration)
        )
    )
    classes = tuple(dict.fromkeys(name for result in translated_results for name in result.classes))
    return Outcome(
        findings, asks=translated, claims=claims, dual_findings=dual_findings, classes=classes
    )


def _template(claim: ComposedClaim) -> ClaimTemplate:
    rules = encode_rules(claim.rules)
    return make_template(claim.spec, claim_annotations={RULES_ANNOTATION: rules} if rules else {})
