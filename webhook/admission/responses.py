"""Compose the response to a review: one chain of handlers for objects of every kind.

Each handler answers what it is for, and leaves the rest to the next one: deny, report, patch, warn.
The texts are one-line warnings and the reason of a denial. A warning is an HTTP header of limited
length. If the warnings do not fit, the last line names the command that prints all findings.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from drawbridge.agreement import admission_codes
from drawbridge.agreement.scope import Mode
from drawbridge.documents.values import Value
from drawbridge.dra import quota_codes
from drawbridge.finding import Finding, Severity, Trait, find_names
from drawbridge.process.review import (
    AdmissionRequest,
    Denial,
    compose_allowed,
    compose_denied,
)

MAX_WARNING: Final = 256
# The API server truncates the warnings of all webhooks at 4096 characters in total.
MAX_TOTAL: Final = 3584
_MAX_REASON: Final = 8192
# All tables that have such codes: a test compares them with those of all packages.
_FORBIDDEN: Final = find_names(
    (admission_codes.CODES, quota_codes.CODES), Trait.DEPENDS_ON_NAMESPACE
)
TRANSLATE: Final = "drawbridge translate -v"


class PodVerdict(enum.StrEnum):
    """What became of the device requests of a pod, or in report mode would have become of them."""

    TRANSLATED = enum.auto()
    LEFT = enum.auto()
    REFUSED = enum.auto()


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about an object.

    `lines` tell what became of its requests, `audit` is recorded beside a patch, and `verdict` is
    that of a pod that is not denied.
    """

    findings: tuple[Finding, ...] = ()
    lines: Sequence[str] = ()
    patch: Sequence[Mapping[str, Value]] = ()
    audit: Mapping[str, str] = {}
    verdict: PodVerdict | None = None

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings, each once."""
        return tuple(dict.fromkeys(each.code for each in self.findings))

    @property
    def is_denied(self) -> bool:
        """Whether a finding is an error."""
        return Severity.ERROR in [each.severity for each in self.findings]


class ResponseOptions(msgspec.Struct, frozen=True):
    """The commands that print all findings, and the mode.

    `file_command` is for an object that is denied: it reads a file. Without it, `command` does.
    """

    command: str
    mode: Mode = Mode.ENFORCE
    file_command: str = ""


class PartialResponse(msgspec.Struct, frozen=True):
    """A response without its uid, and the values for metrics and logs."""

    tail: bytes  # the part of the response that follows the uid
    outcome: str
    codes: tuple[str, ...] = ()
    verdict: PodVerdict | None = None  # None if the pod asks for nothing


ALLOWED: Final = PartialResponse(compose_allowed(), "allowed")


def respond(decided: Decided, options: ResponseOptions) -> PartialResponse:
    """Compose the response to a decision."""
    for handle in (_deny, _report, _patch):
        response = handle(decided, options)
        if response is not None:
            return response
    return _warn(decided, options)


def _deny(decided: Decided, options: ResponseOptions) -> PartialResponse | None:
    """Deny an object because of the errors among the findings."""
    if options.mode is Mode.REPORT or not decided.is_denied:
        return None
    others = (each for each in decided.findings if each.severity is Severity.WARNING)
    warnings = select_warnings((), others, options.file_command or options.command)
    denial = _build_denial(decided.findings)
    tail = compose_denied(denial, warnings, _audit("denied", decided.codes))
    return PartialResponse(tail, "denied", decided.codes, verdict=PodVerdict.REFUSED)


def _report(decided: Decided, options: ResponseOptions) -> PartialResponse | None:
    """Describe the result in report mode, but allow the object unchanged."""
    if options.mode is not Mode.REPORT:
        return None
    lines, findings, verdict = decided.lines, decided.findings, decided.verdict
    if decided.is_denied:
        lines, verdict = [f"would be denied: {format_reason(findings)}"], PodVerdict.REFUSED
        findings = tuple(each for each in findings if each.severity is not Severity.ERROR)
    if not lines and not findings:
        return PartialResponse(compose_allowed(), "allowed", verdict=verdict)
    warnings = select_warnings(lines, findings, options.command)
    tail = compose_allowed((), warnings, _audit("reported", decided.codes))
    return PartialResponse(tail, "reported", decided.codes, verdict)


def _patch(decided: Decided, options: ResponseOptions) -> PartialResponse | None:
    """Change the object, with warnings."""
    if not decided.patch:
        return None
    codes = decided.codes
    warnings = select_warnings(decided.lines, decided.findings, options.command)
    tail = compose_allowed(
        decided.patch, warnings, {**_audit("translated", codes), **decided.audit}
    )
    return PartialResponse(tail, "translated", codes, decided.verdict)


def _warn(decided: Decided, options: ResponseOptions) -> PartialResponse:
    """Allow the object unchanged, with warnings."""
    warnings = select_warnings(decided.lines, decided.findings, options.command)
    tail = compose_allowed((), warnings, _audit("", decided.codes))
    return PartialResponse(tail, "allowed", decided.codes, decided.verdict)


def compose_file_command(namespace: str) -> str:
    """Return the line with the command that prints all findings about an object of a file.

    It is for an object that does not exist, or that admission has changed. The file need not name
    the namespace, whose labels decide.
    """
    inside = f" -n {namespace}" if namespace else ""
    return f"details: {TRANSLATE} -f FILE{inside} --context"


def compose_command(request: AdmissionRequest, program: str, file_command: str) -> str:
    """Return the line with the command that prints all findings about an object.

    It is the command for a file unless the object will exist with this name.
    """
    if not request.name or request.dry_run:
        return file_command
    kind = f"{request.kind.kind.lower()}{f'.{request.kind.group}' if request.kind.group else ''}"
    inside = f" -n {request.namespace}" if request.namespace else ""
    get = f"kubectl get {kind} {request.name}{inside} -o yaml"
    return shorten(f"details: {get} | {program} -f - --context")


def tell_later(decided: Decided, command: str) -> PartialResponse:
    """Allow an object whose pods are decided later: tell what will become of them, and how to see.

    What is only information is left to the command.
    """
    shown = [each for each in decided.findings if each.severity is not Severity.INFO]
    if not decided.lines and not shown:
        return PartialResponse(compose_allowed(), "allowed", decided.codes)
    selected = select_warnings(decided.lines, shown, command)
    audit = {"outcome": "reported", "findings": ",".join(decided.codes)}
    tail = compose_allowed((), list(dict.fromkeys([*selected, command])), audit)
    return PartialResponse(tail, "reported", decided.codes)


def _audit(outcome: str, codes: tuple[str, ...]) -> dict[str, str]:
    audit = {"outcome": outcome} if outcome else {}
    return audit | ({"findings": ",".join(codes)} if codes else {})


def _build_denial(findings: Iterable[Finding]) -> Denial:
    """Build the status of a denial: 403 if all errors depend on the namespace, otherwise 422."""
    errors = [each for each in findings if each.severity is Severity.ERROR]
    if all(each.code in _FORBIDDEN for each in errors):
        return Denial(403, "Forbidden", format_reason(errors))
    return Denial(422, "Invalid", format_reason(errors))


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
