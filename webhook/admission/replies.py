"""Compose the replies of the webhooks: texts, responses, and the body for the API server.

The texts are one-line warnings and the reason of a denial. A warning is an HTTP header of limited
length. If the warnings do not fit, the last line names the command that prints all findings.
"""

import enum
from collections.abc import Coroutine, Iterable, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from drawbridge.agreement import admission_codes
from drawbridge.agreement.scope import Mode
from drawbridge.documents.patch import Edit
from drawbridge.dra import quota_codes
from drawbridge.finding import Finding, Severity, Trait, find_names
from drawbridge.process import review
from drawbridge.process.review import (
    Denial,
    Malformed,
    RequestEnvelope,
    compose_allowed,
    compose_denied,
)
from drawbridge.translate.changes.patch import to_operations
from drawbridge.translate.pods import TranslationContext
from webhook.admission.pods import PodDecision

MAX_WARNING: Final = 256
# The API server truncates the warnings of all webhooks at 4096 characters in total.
MAX_TOTAL: Final = 3584
_MAX_REASON: Final = 8192
_MAX_NAME: Final = 253  # of an object
_MAX_OWNER: Final = 400
_MAX_CHANGES: Final = 16
_FORBIDDEN: Final = find_names(
    (admission_codes.CODES, quota_codes.CODES), Trait.DEPENDS_ON_NAMESPACE
)
# A denied object does not exist, so the command reads a file.
FILE_COMMAND: Final = "details: drawbridge translate -f FILE --context"


class PodVerdict(enum.StrEnum):
    """What became of the device requests of a pod, or in report mode would have become of them."""

    TRANSLATED = enum.auto()
    LEFT = enum.auto()
    REFUSED = enum.auto()


class AuditRecord(msgspec.Struct, frozen=True):
    """The decision about a created pod, for the audit log: what it asked for, and what it became.

    Texts of tenants are cut: admission runs before the API server validates the pod.
    """

    verdict: PodVerdict
    mode: Mode
    owner: str
    changes: tuple[str, ...]


class Reply(msgspec.Struct, frozen=True):
    """The HTTP response for the API server, and the values for metrics and logs.

    `outcome` is one of allowed, translated, reported, denied, error.
    """

    status: int
    body: bytes
    uid: str = ""
    operation: str = ""
    outcome: str = "allowed"
    codes: tuple[str, ...] = ()
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    audit: AuditRecord | None = None


PendingReply = Coroutine[Any, Any, Reply]


async def await_reply(reply: Reply | PendingReply) -> Reply:
    """Wait for a reply, if it is not given at once."""
    return reply if isinstance(reply, Reply) else await reply


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
    verdict: PodVerdict | None = None  # None if the pod asks for nothing


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


def compose_reply(
    request: RequestEnvelope,
    response: PartialResponse,
    name: str = "",
    audit: AuditRecord | None = None,
) -> Reply:
    """Compose the reply for a request. `name` replaces the name in the request."""
    return Reply(
        200,
        review.compose_review(request.uid, response.tail),
        request.uid,
        request.operation,
        response.outcome,
        response.codes,
        request.namespace,
        sanitize(name or request.name, _MAX_NAME),
        bool(request.dry_run),
        audit,
    )


def compose_audit(
    decision: PodDecision, verdict: PodVerdict | None, mode: Mode, owner: str
) -> AuditRecord | None:
    """Compose the audit record of a decision; None if the pod asks for nothing."""
    if verdict is None:
        return None
    unchanged = (f"{asked} -> {verdict}" for asked in decision.asked)
    changes = (verdict is PodVerdict.TRANSLATED and decision.lines) or unchanged
    shown = tuple(shorten(each) for each in islice(changes, _MAX_CHANGES))
    return AuditRecord(verdict, mode, sanitize(owner, _MAX_OWNER), shown)


def reply_invalid(request: RequestEnvelope, why: str) -> Reply:
    """Deny a valid review whose object is invalid."""
    denial = Denial(400, "BadRequest", sanitize(why, 1024))
    return compose_reply(request, PartialResponse(compose_denied(denial), "error"))


def reply_unready(request: RequestEnvelope, why: str) -> Reply:
    """Deny a review that cannot be handled yet."""
    denial = Denial(503, "ServiceUnavailable", f"{why}; try again")
    return compose_reply(request, PartialResponse(compose_denied(denial), "error"))


def reply_malformed(malformed: Malformed) -> Reply:
    """Respond to a malformed review: a denial if it has a uid, otherwise HTTP status 400."""
    why = sanitize(malformed.why, 1024)
    if not malformed.uid:
        return Reply(400, why.encode(), outcome="error")
    denied = compose_denied(Denial(400, "BadRequest", why))
    return Reply(200, review.compose_review(malformed.uid, denied), malformed.uid, outcome="error")


def reply_busy(uid: str) -> Reply:
    """Deny a review because too many large ones are in progress."""
    message = "too many large objects are in review; try again"
    denied = compose_denied(Denial(429, "TooManyRequests", message))
    return Reply(200, review.compose_review(uid, denied), uid, outcome="error")


def reply_unreviewed(uid: str, consequence: str) -> Reply:
    """Allow an object without a review because too many large ones are in progress."""
    warnings = [f"too many large objects are in review; {consequence}"]
    allowed = compose_allowed((), warnings)
    return Reply(200, review.compose_review(uid, allowed), uid, outcome="error")


# --- responses ---


def compose_response(
    decision: PodDecision,
    options: ResponseOptions,
    more_findings: Iterable[Finding] = (),
    more_edits: Iterable[Edit] = (),
) -> PartialResponse:
    """Compose the response to a decision, with findings and edits that the namespace adds."""
    findings = (*decision.findings, *more_findings)
    denied = any(each.severity is Severity.ERROR for each in findings)
    verdict = decide_verdict(decision, denied=denied)
    if options.mode is Mode.REPORT:
        return replace(_compose_report(decision, findings, options, denied=denied), verdict=verdict)
    if denied:
        return replace(compose_refusal(findings, options.file_command), verdict=verdict)
    codes = tuple(dict.fromkeys(each.code for each in findings))
    lines = [f"translated: {each}" for each in decision.lines]
    warnings = select_warnings(lines, findings, options.command)
    has_command = _ends_with_command(warnings, options)
    if not decision.edits:
        tail = compose_allowed((), warnings, _audit("", codes))
        return PartialResponse(tail, "allowed", codes, has_command, verdict)
    audit = _audit("translated", codes)
    if decision.templates:
        audit["templates"] = ",".join(each.name for each in decision.templates)
    if options.digest:
        audit["facts"] = options.digest
    patch = [*decision.operations, *to_operations(more_edits)]
    tail = compose_allowed(patch, warnings, audit)
    return PartialResponse(tail, "translated", codes, has_command, verdict)


def decide_verdict(decision: PodDecision, *, denied: bool) -> PodVerdict | None:
    """Decide what became of the requests of a pod; None if it asks for nothing."""
    if denied:
        return PodVerdict.REFUSED
    if decision.edits:
        return PodVerdict.TRANSLATED
    return PodVerdict.LEFT if decision.asked else None


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


# --- texts ---


def format_finding(finding: Finding) -> str:
    """Write a finding in one line."""
    path = f"{finding.path}: " if finding.path else ""
    return f"{finding.code}: {path}{finding.message} ({finding.remedy})"


def select_warnings(lines: Sequence[str], findings: Iterable[Finding], command: str) -> list[str]:
    """Return the lines that fit: errors, translated claims, and warnings.

    Information is in the audit annotation and in what `command` prints: nobody wants to read it
    at each apply. If a line is cut or left out, the last line is `command`.
    """
    told = [(each.severity, format_finding(each)) for each in findings]
    errors = [text for severity, text in told if severity is Severity.ERROR]
    warned = [text for severity, text in told if severity is Severity.WARNING]
    full_lines = list(dict.fromkeys((*errors, *lines, *warned)))
    warnings = [shorten(each) for each in full_lines]
    if sum(map(len, warnings)) <= MAX_TOTAL and all(
        len(full_line) <= MAX_WARNING for full_line in full_lines
    ):
        return warnings
    last = shorten(command)
    left, fitting = MAX_TOTAL - len(last), []
    for warning in warnings:
        left -= len(warning)
        if left < 0:
            break
        fitting.append(warning)
    return [*fitting, last]


def format_reason(findings: Iterable[Finding]) -> str:
    """Write the reason of a denial: all errors with their remedies."""
    errors = [each for each in findings if each.severity is Severity.ERROR]
    return sanitize("; ".join(map(format_finding, errors)), _MAX_REASON)


def shorten(text: str) -> str:
    """Cut a text to the length of a warning."""
    return sanitize(text, MAX_WARNING)


def sanitize(text: str, max_length: int) -> str:
    """Cut a text, and replace characters that a header cannot contain by spaces."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else " " for each in text)
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."
