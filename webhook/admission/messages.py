"""Write the texts of an admission response: one-line warnings, and the reason of a denial.

A warning is an HTTP header of limited length. If the warnings do not fit, the last line names the
command that prints all findings.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.finding import Finding, Severity
from drawbridge.translate.legacy.pod_view import as_list, as_mapping
from webhook.admission.removed_requests import ContainerRequests, RemovedRequests

MAX_WARNING: Final = 256
# The API server truncates the warnings of all webhooks at 4096 characters in total.
MAX_TOTAL: Final = 3584
_MAX_REASON: Final = 8192
_ORDER: Final = (Severity.ERROR, Severity.WARNING, Severity.INFO)


def format_finding(finding: Finding) -> str:
    """Write a finding in one line."""
    path = f"{finding.path}: " if finding.path else ""
    remedy = f" ({finding.remedy})" if finding.severity is not Severity.INFO else ""
    return f"{finding.code}: {path}{finding.message}{remedy}"


def select_warnings(lines: Sequence[str], findings: Iterable[Finding], command: str) -> list[str]:
    """Return the lines that fit: errors, translated claims, warnings, and information.

    If a line is cut or left out, the last line is `command`.
    """
    ordered = sorted(findings, key=lambda each: _ORDER.index(each.severity))
    errors = [format_finding(each) for each in ordered if each.severity is Severity.ERROR]
    others = [format_finding(each) for each in ordered if each.severity is not Severity.ERROR]
    full_lines = list(dict.fromkeys((*errors, *lines, *others)))
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


def describe_translation(
    before: Value, after: Value, descriptions: Mapping[str, str], removed: RemovedRequests
) -> tuple[str, ...]:
    """Write one line for each new claim: the removed requests, and the claim that replaces them.

    `descriptions` describes the claims of each template, by template name.
    """
    old = {_read_name(each) for each in as_list(get_value(before, ("spec", "resourceClaims")))}
    users = _group_by_claim(after, removed)
    lines = []
    for claim in as_list(get_value(after, ("spec", "resourceClaims"))):
        name = _read_name(claim)
        description = descriptions.get(_read_string(claim, "resourceClaimTemplateName"))
        if name in old or description is None:
            continue
        containers = users.get(name, ())
        sources = [text for each in containers for text in each.describe_removed()]
        sources = sources or list(removed.annotations)
        sources = sources or [f"container {each.name}" for each in containers]
        lines.append(f"{', '.join(sources)} -> {description} (claim {name})")
    return tuple(lines)


def _group_by_claim(
    pod: Value, removed: RemovedRequests
) -> Mapping[str, Sequence[ContainerRequests]]:
    """Group the containers by the claims that they use, in one pass over all containers."""
    groups: dict[str, list[ContainerRequests]] = {}
    for container in removed.containers:
        claims = as_list(get_value(pod, (*container.path, "resources", "claims")))
        for name in dict.fromkeys(map(_read_name, claims)):
            groups.setdefault(name, []).append(container)
    return groups


def _read_name(value: Value) -> str:
    return _read_string(value, "name")


def _read_string(value: Value, key: str) -> str:
    text = as_mapping(value).get(key)
    return text if isinstance(text, str) else ""
