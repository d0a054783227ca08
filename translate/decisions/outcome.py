"""What becomes of the asks of one pod: which are translated, into which claims, and what is told.

Depends on the asks, the facts and the configuration alone, so that pods which ask the same share
one answer. Knows nothing of the pod they came from.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from config.model import Configuration
from dra.finding import Finding
from dra.names import RULES_ANNOTATION
from dra.rules import written
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
    """What becomes of asks; one that is refused translates nothing."""

    findings: tuple[Finding, ...] = ()
    refused: bool = False
    asks: Asks = ()  # those that are translated
    claims: tuple[tuple[ComposedClaim, ClaimTemplate], ...] = ()
    doubled: tuple[Finding, ...] = ()  # of nodes that hand out the same devices twice
    classes: tuple[str, ...] = ()  # that the claims ask for


OutcomeCache = TranslationCache[Asks, Outcome]


def resolve_asks(
    asks: Asks, facts: Facts | None, configuration: Configuration, memo: OutcomeCache | None = None
) -> Outcome:
    """Decide about the asks of a pod, and print the claims of those that are translated."""
    if memo is not None and (known := memo.get(asks)) is not None:
        return known
    fresh = _outcome(asks, facts, configuration)
    if memo is not None:
        memo.keep(asks, fresh)
    return fresh


def _outcome(asks: Sequence[Ask], facts: Facts | None, configuration: Configuration) -> Outcome:
    # What stays with its plugin cannot be near what does not.
    alone = {ask.joint.name for ask in asks if ask.joint and stays_with_plugin(ask, facts)}
    asks = [
        replace(ask, joint=None) if ask.joint and ask.joint.name in alone else ask for ask in asks
    ]
    named = {ask.name: ask for ask in asks}
    findings: tuple[Finding, ...] = ()
    kept: list[TargetResult] = []
    refused = False
    for said in express_asks(asks, facts, configuration):
        decision = decide([named[name] for name in said.asks], said, facts, configuration)
        findings += decision.findings
        refused = refused or decision.verdict is Verdict.REFUSE
        if decision.verdict is Verdict.TRANSLATE:
            kept.append(said)
    if refused or not kept:
        return Outcome(findings, refused)
    names = {name for said in kept for name in said.asks}
    claims = tuple((claim, _template(claim)) for claim in assemble_claims(kept))
    translated = tuple(ask for ask in asks if ask.name in names)
    doubled = tuple(
        dual_nodes.report_dual_sources(
            dual_nodes.find_dual_sources(translated, kept, facts, configuration)
        )
    )
    classes = tuple(dict.fromkeys(name for said in kept for name in said.classes))
    return Outcome(findings, asks=translated, claims=claims, doubled=doubled, classes=classes)


def _template(claim: ComposedClaim) -> ClaimTemplate:
    rules = written(claim.rules)
    return make_template(claim.spec, claim_annotations={RULES_ANNOTATION: rules} if rules else {})
