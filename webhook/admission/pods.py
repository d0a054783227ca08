"""Decide what happens to a created pod, and compose the response.

The decision and the response are separate steps, because a decision can be cached while quotas
change.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.agreement.codes import TABLES
from drawbridge.agreement.scope import Mode
from drawbridge.config.policy import apply_policies
from drawbridge.documents.patch import Edit, apply_edits
from drawbridge.documents.values import Value
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding, Severity, Trait, find_names
from drawbridge.process.review import Denial, compose_allowed, compose_denied
from drawbridge.translate.changes.patch import check_annotation_size, to_operations
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.decisions.codes import NO_NODE_OFFERS_ALL
from drawbridge.translate.pods import Translation, TranslationContext, translate
from webhook.admission import limit_ranges, resource_quotas
from webhook.admission.claim_summary import ClaimSummaries
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.messages import (
    describe_translation,
    format_reason,
    select_warnings,
    shorten,
)
from webhook.admission.removed_requests import RemovedRequests, find_removed_requests

_FORBIDDEN: Final = find_names(TABLES, Trait.DEPENDS_ON_NAMESPACE)

_EARLIER: Final = (
    "now, but a node did a short time ago; the pod stays pending until a node does again"
)
_ANNOTATIONS: Final = ("metadata", "annotations")
# A denied object does not exist, so the command reads a file.
FILE_COMMAND: Final = "details: drawbridge translate -f FILE --context"


class PodDecision(msgspec.Struct, frozen=True):
    """The result of a translation. Without edits the pod stays unchanged."""

    edits: tuple[Edit, ...] = ()
    templates: tuple[ClaimTemplate, ...] = ()
    findings: tuple[Finding, ...] = ()
    removed: RemovedRequests = RemovedRequests()
    charges: Mapping[str, int] = {}
    lines: tuple[str, ...] = ()  # descriptions of the new claims
    operations: Sequence[Mapping[str, Value]] = ()  # the edits as a JSON patch
    annotation_bytes: int = 0  # of the JSON of added annotations

    @property
    def replaces_requests(self) -> bool:
        """Whether claims replace requests. Pods with claims of their own get no templates."""
        return bool(self.templates or self.removed.names or self.removed.annotations)

    @property
    def is_denied(self) -> bool:
        """Whether a finding is an error."""
        return any(map(_is_error, self.findings))


class ResponseOptions(msgspec.Struct, frozen=True):
    """The mode, the hash of the facts, and the commands that print all findings.

    `file_command` is for an object that is denied: it reads a file.
    """

    mode: Mode
    digest: str = ""
    command: str = ""
    file_command: str = FILE_COMMAND


class PartialResponse(msgspec.Struct, frozen=True):
    """A response without its uid, and the values for metrics and logs."""

    tail: bytes  # the part of the response that follows the uid
    outcome: str
    codes: tuple[str, ...] = ()
    has_command: bool = False  # whether it contains the command, and so the name of the pod


class PodResponse(msgspec.Struct, frozen=True):
    """A cached decision, and the response if the namespace has no objections."""

    decision: PodDecision
    response: PartialResponse
    depends_on_namespace: bool = False  # whether limits and quotas can change the response


def build_command(name: str, namespace: str, mode: Mode) -> str:
    """Return the line with the command that prints all findings."""
    pod = f"{name or 'POD'} -n {namespace}"
    if mode is Mode.REPORT:
        # Without nodeName: `drawbridge translate` leaves scheduled pods unchanged.
        manifest = f"kubectl get pod {pod} -o yaml | grep -v nodeName:"
        return f"details: {manifest} | drawbridge translate -f - --context"
    return f"details: kubectl drawbridge explain {pod}"


def build_options(
    name: str, namespace: str, mode: Mode, context: TranslationContext
) -> ResponseOptions:
    """Return the options of a response about the pod with this name."""
    return ResponseOptions(mode, context.facts_digest, build_command(name, namespace, mode))


def decide(
    pod: Value,
    namespace: str,
    context: TranslationContext,
    summaries: ClaimSummaries,
    *,
    admin_access: bool,
) -> PodDecision:
    """Translate a pod. `admin_access` is whether the namespace allows admin access."""
    by_facts = partial(translate, pod, namespace=namespace, admin_access=admin_access)
    translation = _choose(summaries.list_contexts(context), by_facts)
    findings = tuple(apply_policies(translation.findings, context.configuration.findings))
    if not translation.edits:
        return PodDecision(findings=findings)
    after = apply_edits(pod, translation.edits)
    removed = find_removed_requests(pod, after)
    by_name = {each.name: summaries.summarize(each, context) for each in translation.templates}
    charges = Counter[str]()
    for template in translation.templates:
        charges.update(by_name[template.name].charges)
    described = {name: each.description for name, each in by_name.items()}
    return PodDecision(
        translation.edits,
        translation.templates,
        (*findings, *dict.fromkeys(one for each in by_name.values() for one in each.findings)),
        removed,
        charges,
        describe_translation(pod, after, described, removed),
        translation.operations,
        _count_annotation_bytes(translation.edits),
    )


def _choose(
    contexts: Iterator[TranslationContext], by_facts: Callable[[TranslationContext], Translation]
) -> Translation:
    """Return the first translation, unless only older facts offer its devices on one node.

    A driver that restarts publishes again what its nodes offered. Older facts that lack one
    of the devices cause no refusal, but in them no node offered the devices together.
    """
    first = by_facts(next(contexts))
    refused = [e for e in first.findings if e.code == NO_NODE_OFFERS_ALL.name and _is_error(e)]
    for context in contexts if refused else ():
        older = by_facts(context)
        if older.edits and _are_offered_together(older.classes, context.facts):
            warnings = (
                replace(e, severity=Severity.WARNING, message=f"{e.message} {_EARLIER}")
                for e in refused
            )
            return replace(older, findings=(*older.findings, *warnings))
    return first


def _are_offered_together(classes: Sequence[str], facts: Facts | None) -> bool:
    return facts is not None and any(set(classes) <= set(each.classes) for each in facts.offers)


def _is_error(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR


def check_annotations(decision: PodDecision, raw: msgspec.Raw) -> tuple[Finding, ...]:
    """Check the size of the annotations of one translated pod."""
    added = _find_annotation_edits(decision.edits)
    own = msgspec.json.decode(bytes(raw) or b"null")
    metadata: Value = {"annotations": own} if isinstance(own, dict) else {}
    return tuple(check_annotation_size(apply_edits({"metadata": metadata}, added)))


def _find_annotation_edits(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    return tuple(each for each in edits if each.path[:2] == _ANNOTATIONS)


def _count_annotation_bytes(edits: Iterable[Edit]) -> int:
    """Return the size of the added annotations as JSON."""
    return sum(len(msgspec.json.encode(each.value)) for each in _find_annotation_edits(edits))


def check_namespace_limits(
    decision: PodDecision,
    ranges: Sequence[LimitRange],
    quotas: Sequence[ResourceQuota],
    context: TranslationContext,
) -> tuple[tuple[Finding, ...], tuple[Edit, ...]]:
    """Check LimitRanges and ResourceQuotas. Return findings and additional edits of the pod."""
    if not decision.edits:
        return (), ()
    findings = (
        *limit_ranges.check_pod(decision.removed, ranges),
        *resource_quotas.check_quotas(decision.charges, decision.removed.names, quotas),
    )
    edits = limit_ranges.keep_zero_amounts(decision.removed, ranges) if ranges else ()
    return tuple(apply_policies(findings, context.configuration.findings)), edits


def compose_response(
    decision: PodDecision,
    options: ResponseOptions,
    more_findings: Iterable[Finding] = (),
    more_edits: Iterable[Edit] = (),
) -> PartialResponse:
    """Compose the response to a decision, with findings and edits that the namespace adds."""
    findings = (*decision.findings, *more_findings)
    denied = any(each.severity is Severity.ERROR for each in findings)
    if options.mode is Mode.REPORT:
        return _compose_report(decision, findings, options, denied=denied)
    if denied:
        return compose_refusal(findings, options.file_command)
    codes = tuple(dict.fromkeys(each.code for each in findings))
    lines = [f"translated: {each}" for each in decision.lines]
    warnings = select_warnings(lines, findings, options.command)
    has_command = _ends_with_command(warnings, options)
    if not decision.edits:
        tail = compose_allowed((), warnings, _audit("", codes))
        return PartialResponse(tail, "allowed", codes, has_command)
    audit = _audit("translated", codes)
    if decision.templates:
        audit["templates"] = ",".join(each.name for each in decision.templates)
    if options.digest:
        audit["facts"] = options.digest
    patch = [*decision.operations, *to_operations(more_edits)]
    tail = compose_allowed(patch, warnings, audit)
    return PartialResponse(tail, "translated", codes, has_command)


def compose_refusal(
    findings: Iterable[Finding], file_command: str = FILE_COMMAND
) -> PartialResponse:
    """Compose the response that denies an object because of the errors among the findings."""
    findings = tuple(findings)
    codes = tuple(dict.fromkeys(each.code for each in findings))
    others = (each for each in findings if each.severity is Severity.WARNING)
    warnings = select_warnings((), others, file_command)
    tail = compose_denied(build_denial(findings), warnings, _audit("denied", codes))
    return PartialResponse(tail, "denied", codes)


def _compose_report(
    decision: PodDecision,
    findings: tuple[Finding, ...],
    options: ResponseOptions,
    *,
    denied: bool,
) -> PartialResponse:
    """Compose the response in report mode: describe the result, but allow the pod unchanged."""
    lines = [f"would be translated: {each}" for each in decision.lines]
    codes = tuple(dict.fromkeys(each.code for each in findings))
    if denied:
        lines = [f"would be denied: {format_reason(findings)}"]
        findings = tuple(each for each in findings if each.severity is not Severity.ERROR)
    if not lines and not findings:
        return PartialResponse(compose_allowed(), "allowed")
    warnings = select_warnings(lines, findings, options.command)
    tail = compose_allowed((), warnings, _audit("reported", codes))
    return PartialResponse(tail, "reported", codes, _ends_with_command(warnings, options))


def _ends_with_command(warnings: Sequence[str], options: ResponseOptions) -> bool:
    return bool(warnings) and warnings[-1] == shorten(options.command)


def _audit(outcome: str, codes: tuple[str, ...]) -> dict[str, str]:
    audit = {"outcome": outcome} if outcome else {}
    return audit | ({"findings": ",".join(codes)} if codes else {})


def build_denial(findings: Iterable[Finding]) -> Denial:
    """Build the status of a denial: 403 if all errors depend on the namespace, otherwise 422."""
    errors = [each for each in findings if each.severity is Severity.ERROR]
    if all(each.code in _FORBIDDEN for each in errors):
        return Denial(403, "Forbidden", format_reason(errors))
    return Denial(422, "Invalid", format_reason(errors))
