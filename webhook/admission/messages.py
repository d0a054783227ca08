"""What a person reads of an answer: warnings of a line each, and the reason of a refusal.

A warning is an HTTP header of limited length; what does not fit is counted, and the last line names
the command that tells it. Decides nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from documents.paths import get
from documents.values import Value
from dra.finding import Finding, Severity
from translate.legacy.pod_view import items, mapping
from webhook.admission.removed_requests import Asked, Holder

LONGEST: Final = 256
# The API server cuts all of them when they are longer than 4096 together; others warn as well.
MOST: Final = 3584
_LONGEST_MESSAGE: Final = 8192
_ORDER: Final = (Severity.ERROR, Severity.WARNING, Severity.INFO)


def line(finding: Finding) -> str:
    """Write a finding in one line."""
    where = f"{finding.path}: " if finding.path else ""
    remedy = f" ({finding.remedy})" if finding.severity is not Severity.INFO else ""
    return f"{finding.code}: {where}{finding.message}{remedy}"


def warnings(lines: Sequence[str], findings: Iterable[Finding], rest: str) -> list[str]:
    """Give the lines that fit: errors, what is translated, warnings, then what is merely told.

    `rest` is the command that tells those which do not fit, or not as a whole.
    """
    ordered = sorted(findings, key=lambda each: _ORDER.index(each.severity))
    errors = [line(each) for each in ordered if each.severity is Severity.ERROR]
    others = [line(each) for each in ordered if each.severity is not Severity.ERROR]
    whole = list(dict.fromkeys((*errors, *lines, *others)))
    told = [short(each) for each in whole]
    if sum(map(len, told)) <= MOST and all(len(each) <= LONGEST for each in whole):
        return told
    last = short(rest)
    left, fitting = MOST - len(last), []
    for each in told:
        left -= len(each)
        if left < 0:
            break
        fitting.append(each)
    return [*fitting, last]


def reason(findings: Iterable[Finding]) -> str:
    """Write why something is refused, the remedies with it."""
    errors = [each for each in findings if each.severity is Severity.ERROR]
    return safe("; ".join(map(line, errors)), _LONGEST_MESSAGE)


def short(text: str) -> str:
    """Write a text as a warning can have it."""
    return safe(text, LONGEST)


def safe(text: str, longest: int) -> str:
    """Cut a text, and write a space for what a header cannot carry."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else " " for each in text)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def translated(
    before: Value, after: Value, made: Mapping[str, str], asked: Asked
) -> tuple[str, ...]:
    """Say what became of what was asked, a line for each new claim.

    `made` says in words what the claims of each template are.
    """
    old = {_name(each) for each in items(get(before, ("spec", "resourceClaims")))}
    users = _users(after, asked)
    lines = []
    for claim in items(get(after, ("spec", "resourceClaims"))):
        name, became = _name(claim), made.get(_text(claim, "resourceClaimTemplateName"))
        if name in old or became is None:
            continue
        theirs = users.get(name, ())
        words = [word for each in theirs for word in each.words()]
        words = words or list(asked.annotations) or [f"container {each.name}" for each in theirs]
        lines.append(f"{', '.join(words)} -> {became} (claim {name})")
    return tuple(lines)


def _users(pod: Value, asked: Asked) -> Mapping[str, Sequence[Holder]]:
    """Sort the containers by the claims that they use; a pod may have very many of both."""
    found: dict[str, list[Holder]] = {}
    for each in asked.holders:
        uses = items(get(pod, (*each.path, "resources", "claims")))
        for name in dict.fromkeys(map(_name, uses)):
            found.setdefault(name, []).append(each)
    return found


def _name(value: Value) -> str:
    return _text(value, "name")


def _text(value: Value, key: str) -> str:
    text = mapping(value).get(key)
    return text if isinstance(text, str) else ""
