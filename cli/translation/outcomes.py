"""Describes the outcome of a translation: the requests, the claims, and where the pods fit.

The report of `translate` and the demo use it. The report has one line for all workloads with the
same outcome.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from cli.translation.edited_manifests import EditedObject, EditResult
from drawbridge.documents.document import LocatedFinding
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.finding import Finding, Severity, Trait, find_names
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.report.claim_requests import describe_claim, short_selectors
from drawbridge.report.pod_requests import describe_requests
from drawbridge.report.tables import escape_unprintable
from drawbridge.translate.changes.codes import REQUEST_RETURNED
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.decisions import codes as decision_codes
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests import codes as manifest_codes
from drawbridge.translate.manifests.replicas import count_pods
from drawbridge.translate.manifests.workloads import Place, find_places

if TYPE_CHECKING:
    from cli.translation.placement_preview import PlacementPreview

Row = tuple[str, str]  # a label, and its text
_COLUMN: Final = 11
_WIDTH: Final = 120
_MOST_NAMES: Final = 2
_LEFT: Final = find_names((decision_codes.CODES, manifest_codes.CODES), Trait.LEAVES_REQUEST)
# The fields of a pod that select its nodes, so that equal requests may fit elsewhere.
_SELECTING: Final = ("nodeName", "nodeSelector", "affinity")


class WorkloadOutcome(NamedTuple):
    """The requests of an object, the claims for them, and where its first pods fit."""

    asked: tuple[str, ...]
    became: tuple[str, ...]
    fits: tuple[Row, ...] = ()


class Outcomes:
    """Describes the results of one translation; `preview` is None without a cluster."""

    def __init__(
        self, context: TranslationContext | None, preview: "PlacementPreview | None" = None
    ) -> None:
        self._context = context or TranslationContext()
        self._preview = preview

    def describe(self, result: EditResult, *, verbose: bool = False) -> tuple[list[str], list[str]]:
        """Return the lines about the workloads, and the lines of the summary."""
        asked = {id(each): self.asked(each.document.value) for each in result.objects}
        groups: dict[object, list[EditedObject]] = {}
        for obj in result.objects:
            if asked[id(obj)]:
                groups.setdefault(_outcome_key(obj, asked[id(obj)]), []).append(obj)
        lines: list[str] = []
        for group in sorted(groups.values(), key=len, reverse=True):
            outcome = self._outcome(group[0], asked[id(group[0])])
            lines += format_line(_subject(group), outcome)
            if verbose and len(group) > _MOST_NAMES:
                lines += [f"    {escape_unprintable(each.document.name)}" for each in group]
        return lines, list(_summary(result, asked))

    def describe_undone(self, result: EditResult, templates: int) -> tuple[list[str], list[str]]:
        """Return the lines about the undone workloads, and the lines of the summary."""
        groups: dict[tuple[str, ...], list[EditedObject]] = {}
        for obj in result.objects:
            if obj.changed:
                restored = self.asked(apply_edits(obj.document.value, obj.result.edits))
                groups.setdefault(restored, []).append(obj)
        lines: list[str] = []
        for restored, group in sorted(groups.items(), key=lambda item: -len(item[1])):
            lines += format_line(_subject(group), WorkloadOutcome(("undone",), restored))
        undone = count_noun(sum(map(len, groups.values())), "workload")
        summary = f"{undone} undone; {count_noun(templates, 'claim template')} left out"
        return lines, [summary]

    def asked(self, value: Value) -> tuple[str, ...]:
        """Return what each kind of pod of an object requests, with the role of the pods."""
        texts: dict[str, None] = {}
        for place in (*find_places(value), *argo.find_places(value)):
            requests = read_pod(place.pod, self._context.configuration)
            if listed := ", ".join(describe_requests(requests)):
                texts[_with_role(value, place, listed)] = None
        return tuple(texts)

    def _outcome(self, edited: EditedObject, asked: tuple[str, ...]) -> WorkloadOutcome:
        result = edited.result
        if result.edits and not edited.changed:
            return WorkloadOutcome(asked, ("not written",))
        after = apply_edits(edited.document.value, result.edits)
        became = tuple(_became(after, result.templates)) or tuple(_unchanged(result.findings))
        if self._preview is None or _refused(result.findings):
            return WorkloadOutcome(asked, became)
        ledger = self._preview.new_ledger()
        fits = self._preview.place(edited.document, after, result.templates, ledger)
        return WorkloadOutcome(asked, became, tuple(dict.fromkeys(fits)))


def _with_role(value: Value, place: Place, text: str) -> str:
    """Add the role of the pods, such as `worker`, if the object has pods of several kinds."""
    several = len(find_places(value)) > 1
    role = count_pods(value, place).name if several else ""
    return f"{role}: {text}" if role else text


def _became(after: Value, templates: Sequence[Mapping[str, Value]]) -> Iterator[str]:
    """Yield the lines that describe the claims of each kind of pod, with its role."""
    by_name = {get_value(dict(each), ("metadata", "name")): each for each in templates}
    for place in (*find_places(after), *argo.find_translated_places(after)):
        claims = as_list(get_value(place.pod, ("spec", "resourceClaims")))
        names = (as_mapping(claim).get("resourceClaimTemplateName") for claim in claims)
        for line in became_claims(by_name[name] for name in names if name in by_name):
            yield _with_role(after, place, line)


def became_claims(templates: Iterable[Mapping[str, Value]]) -> Iterator[str]:
    """Yield the lines that describe the claims of templates."""
    for template in templates:
        yield from describe_claim(get_value(dict(template), ("spec",)), short_selectors)


def _unchanged(findings: Sequence[Finding]) -> Iterator[str]:
    errors = [each for each in findings if each.severity is Severity.ERROR]
    left = [each for each in findings if each.code in _LEFT]
    if errors:
        yield f"refused [{', '.join(dict.fromkeys(each.code for each in errors))}]"
    elif left:
        yield from dict.fromkeys(each.message for each in left)
    elif any(each.code == REQUEST_RETURNED.name for each in findings):
        yield "removed, as the pod has a claim for it"
    else:
        yield "unchanged"


def _refused(findings: Iterable[Finding]) -> bool:
    return any(each.severity is Severity.ERROR for each in findings)


def _outcome_key(edited: EditedObject, asked: tuple[str, ...]) -> object:
    """Return what workloads with the same outcome have in common."""
    names = tuple(
        get_value(dict(template), ("metadata", "name")) for template in edited.result.templates
    )
    unchanged = () if names else tuple(_unchanged(edited.result.findings))
    places: tuple[Place, ...] = find_places(edited.document.value)
    selecting = [get_value(one.pod, ("spec", name)) for one in places for name in _SELECTING]
    return asked, names, unchanged, msgspec.json.encode(selecting)


def _subject(group: Sequence[EditedObject]) -> str:
    if len(group) > _MOST_NAMES:
        return count_noun(len(group), "workload")
    return ", ".join(escape_unprintable(each.document.name) for each in group)


def format_line(subject: str, outcome: WorkloadOutcome) -> list[str]:
    """Format an outcome on one line, or with one line for each part if it is long."""
    fits = [f"{label}: {text}" for label, text in outcome.fits]
    parts = [list(outcome.asked), list(outcome.became), *([fits] if fits else [])]
    parts = [[escape_unprintable(text) for text in part] for part in parts]
    line = f"{subject}: {' -> '.join('; '.join(part) for part in parts)}"
    if len(line) <= _WIDTH:
        return [line]
    first, *others = parts
    lines = [f"{subject}: {first[0]}", *(f"    {text}" for text in first[1:])]
    for part in others:
        lines += [f"    {'   ' if number else '-> '}{text}" for number, text in enumerate(part)]
    return lines


def format_rows(rows: Sequence[Row]) -> Iterator[str]:
    """Format rows in two columns; drop repeated rows, and a label that is that of the row above."""
    before = ""
    for label, text in dict.fromkeys(rows):
        yield f"  {'' if label == before else label:<{_COLUMN}}{escape_unprintable(text)}"
        before = label


def _summary(result: EditResult, asked: Mapping[int, tuple[str, ...]]) -> Iterator[str]:
    """Yield the counts by outcome and by code."""
    workloads = [each for each in result.objects if _is_workload(each, asked)]
    kinds = Counter(_kind(each, asked[id(each)]) for each in workloads)
    counted = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
    total = count_noun(len(workloads), "workload")
    templates = count_noun(len(result.templates), "claim template")
    yield f"{total}: {counted}; {templates} added" if workloads else "no workloads in the input"
    names = {(each.document.source.name, each.document.name) for each in workloads}
    codes = _attention(result.findings)
    concerned = [found for name, found in codes.items() if name in names]
    if concerned:
        by_code = Counter(code for found in concerned for code in found)
        listed = ", ".join(f"{code} in {number:,}" for code, number in by_code.most_common())
        verb = "needs" if len(concerned) == 1 else "need"
        yield f"{len(concerned):,} of {total} {verb} attention: {listed}"


def _attention(findings: Iterable[LocatedFinding]) -> dict[tuple[str, str], dict[str, None]]:
    """Return the codes of warnings and errors by the file and the name of the object."""
    codes: dict[tuple[str, str], dict[str, None]] = {}
    for finding in findings:
        if finding.finding.severity is not Severity.INFO:
            messages = codes.setdefault((finding.source, finding.finding.object), {})
            messages[finding.finding.code] = None
    return codes


def _is_workload(edited: EditedObject, asked: Mapping[int, tuple[str, ...]]) -> bool:
    return bool(asked[id(edited)] or edited.result.findings or find_places(edited.document.value))


def _kind(edited: EditedObject, asked: tuple[str, ...]) -> str:
    if edited.changed:
        return "translated"
    if _refused(edited.result.findings):
        return "refused"
    if asked:
        return "unchanged"
    translated = any(
        get_value(place.pod, ("metadata", "annotations", ORIGINAL_ANNOTATION)) is not None
        for place in find_places(edited.document.value)
    )
    if translated:
        return "translated before"
    # A request that stays, such as one of an unknown name, has a finding.
    return "unchanged" if edited.result.findings else "without device requests"
