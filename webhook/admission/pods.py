"""A pod that is created: what becomes of it, and the answer that says so.

Deciding is apart from saying, because what is decided can be remembered while quotas change. Knows
nothing of templates that are there or not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from config.policy import treated
from documents.patch import Edit, patched
from documents.values import Value
from dra.finding import Finding, Severity
from registration.admission_codes import (
    LIMIT_EXCEEDED,
    LIMIT_UNMEETABLE,
    QUOTA_EXCEEDED,
    TEMPLATE_TAKEN,
)
from registration.scope import Mode
from runtime.review import Denial, allowed, denied
from translate.changes.patch import operations
from translate.changes.template import Template
from translate.pods import Given, translate
from webhook.admission import limit_ranges, resource_quotas
from webhook.admission.claim_summary import Claims
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.messages import reason, short, translated, warnings
from webhook.admission.removed_requests import Asked, asked
from webhook.admission.resource_quotas import ResourceQuota

# What may be had by somebody else, or at another time.
_FORBIDDEN: Final = frozenset(
    each.name for each in (LIMIT_EXCEEDED, LIMIT_UNMEETABLE, QUOTA_EXCEEDED, TEMPLATE_TAKEN)
)

# What is refused is not there to be asked about.
_OF_A_FILE: Final = "all of it: drawbridge translate -f FILE --context"


class Outcome(msgspec.Struct, frozen=True):
    """What a translation comes to; without edits the pod stays as it is."""

    edits: tuple[Edit, ...] = ()
    templates: tuple[Template, ...] = ()
    findings: tuple[Finding, ...] = ()
    asked: Asked = Asked()
    charges: Mapping[str, int] = {}
    lines: tuple[str, ...] = ()
    operations: Sequence[Mapping[str, Value]] = ()  # the edits as a JSON patch

    @property
    def refused(self) -> bool:
        """Whether it is refused."""
        return any(each.severity is Severity.ERROR for each in self.findings)


class Manner(msgspec.Struct, frozen=True):
    """How an answer is put: the mode, the hash of the facts, the command that tells the rest."""

    mode: Mode
    digest: str = ""
    rest: str = ""


class Said(msgspec.Struct, frozen=True):
    """An answer without its uid, and what is counted of it."""

    rest: bytes
    outcome: str
    codes: tuple[str, ...] = ()
    named: bool = False  # whether the command in it, and with it the pod's name, is told


class Answer(msgspec.Struct, frozen=True):
    """What is remembered of a pod: what was decided, and the answer where nothing is against it."""

    outcome: Outcome
    said: Said


def decide(pod: Value, namespace: str, by: Given, claims: Claims) -> Outcome:
    """Translate a pod."""
    done = translate(pod, by, namespace)
    findings = tuple(treated(done.findings, by.configuration.findings))
    if not done.edits:
        return Outcome(findings=findings)
    after = patched(pod, done.edits)
    taken = asked(pod, after)
    about = {each.name: claims.of(each, by.facts) for each in done.templates}
    total: Counter[str] = Counter()
    for template in done.templates:
        total.update(about[template.name].charges)
    words = {name: each.words for name, each in about.items()}
    lines = translated(pod, after, words, taken)
    return Outcome(done.edits, done.templates, findings, taken, total, lines, done.operations)


def surroundings(
    outcome: Outcome,
    ranges: Sequence[LimitRange],
    quotas: Sequence[ResourceQuota],
    by: Given,
) -> tuple[tuple[Finding, ...], tuple[Edit, ...]]:
    """Say what the namespace has against a translation, and what else has to be left in the pod."""
    if not outcome.edits:
        return (), ()
    found = (
        *limit_ranges.findings(outcome.asked, ranges),
        *resource_quotas.findings(outcome.charges, outcome.asked.names, quotas),
    )
    edits = limit_ranges.kept(outcome.asked, ranges) if ranges else ()
    return tuple(treated(found, by.configuration.findings)), edits


def say(
    outcome: Outcome,
    manner: Manner,
    found: Iterable[Finding] = (),
    edits: Iterable[Edit] = (),
) -> Said:
    """Write the answer; `found` and `edits` come from the pod's surroundings."""
    findings = (*outcome.findings, *found)
    refused = any(each.severity is Severity.ERROR for each in findings)
    if manner.mode is Mode.REPORT:
        return _reported(outcome, findings, manner, refused=refused)
    if refused:
        return refusal(findings)
    codes = tuple(dict.fromkeys(each.code for each in findings))
    lines = [f"translated: {each}" for each in outcome.lines]
    shown = warnings(lines, findings, manner.rest)
    named = _ends(shown, manner)
    if not outcome.edits:
        return Said(allowed((), shown, _audit("", codes)), "allowed", codes, named)
    audit = _audit("translated", codes)
    if outcome.templates:
        audit["templates"] = ",".join(each.name for each in outcome.templates)
    if manner.digest:
        audit["facts"] = manner.digest
    patch = [*outcome.operations, *operations(edits)]
    return Said(allowed(patch, shown, audit), "translated", codes, named)


def refusal(findings: Iterable[Finding]) -> Said:
    """Write the answer that refuses something for the errors among the findings."""
    findings = tuple(findings)
    codes = tuple(dict.fromkeys(each.code for each in findings))
    others = (each for each in findings if each.severity is Severity.WARNING)
    shown = warnings((), others, _OF_A_FILE)
    return Said(denied(denial(findings), shown, _audit("denied", codes)), "denied", codes)


def _reported(
    outcome: Outcome, findings: tuple[Finding, ...], manner: Manner, *, refused: bool
) -> Said:
    """Say what would happen, and let everything in."""
    would = [f"would be translated: {each}" for each in outcome.lines]
    codes = tuple(dict.fromkeys(each.code for each in findings))
    if refused:
        would = [f"would be refused: {reason(findings)}"]
        findings = tuple(each for each in findings if each.severity is not Severity.ERROR)
    if not would and not findings:
        return Said(allowed(), "allowed")
    shown = warnings(would, findings, manner.rest)
    rest = allowed((), shown, _audit("reported", codes))
    return Said(rest, "reported", codes, _ends(shown, manner))


def _ends(shown: Sequence[str], manner: Manner) -> bool:
    """Tell whether warnings end with the command that tells the rest."""
    return bool(shown) and shown[-1] == short(manner.rest)


def _audit(outcome: str, codes: tuple[str, ...]) -> dict[str, str]:
    audit = {"outcome": outcome} if outcome else {}
    return audit | ({"findings": ",".join(codes)} if codes else {})


def denial(findings: Iterable[Finding]) -> Denial:
    """Give the reason of a refusal; what somebody else holds or forbids is another code."""
    errors = [each for each in findings if each.severity is Severity.ERROR]
    if all(each.code in _FORBIDDEN for each in errors):
        return Denial(403, "Forbidden", reason(errors))
    return Denial(422, "Invalid", reason(errors))
