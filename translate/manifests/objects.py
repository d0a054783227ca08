"""An object of any kind to its translation: every pod template in it, or none.

Gives edits of the object, whole template objects beside it, and findings about the object. Knows
nothing of files, dialects or drivers.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from config.policy import treated
from documents.patch import Edit
from documents.paths import format_path, get_value, parse_path
from documents.values import Value
from dra.finding import Finding, Severity
from translate.changes import scheduler
from translate.changes.template import ClaimTemplate
from translate.manifests import argo, quotas
from translate.manifests.codes import ELSEWHERE
from translate.manifests.workloads import (
    Place,
    find_other_requests,
    find_places,
    group_kind,
    map_path,
)
from translate.pods import TranslationContext, translate


class TranslatedObject(msgspec.Struct, frozen=True):
    """What becomes of one object; without edits it stays as it is."""

    edits: tuple[Edit, ...] = ()
    templates: tuple[Mapping[str, Value], ...] = ()
    findings: tuple[Finding, ...] = ()


def translate_object(value: Value, name: str, by: TranslationContext) -> TranslatedObject:
    """Translate an object; where one pod template is refused, nothing of it is changed."""
    found: list[Place] = []
    namespace = _namespace(value)
    edits: list[Edit] = []
    templates: dict[str, Mapping[str, Value]] = {}
    classes: dict[str, None] = {}
    findings: list[Finding] = []
    for place in (*find_places(value), *argo.find_places(value)):
        one = translate(place.pod, by, namespace)
        there = argo.map_edits(place, one.edits)
        if there is None:
            continue
        found.append(place)
        edits += there
        templates |= {each.name: _placed(each, value) for each in one.templates}
        findings += (replace(each, path=_path(each.path, place)) for each in one.findings)
        classes |= dict.fromkeys(one.classes)
    findings = [*_untranslatable(value, tuple(found)), *quotas.report_quotas(value), *findings]
    if classes and isinstance(value, dict) and not any(place.object for place in found):
        findings = _of_workload(value, tuple(classes), findings)
    named = (replace(each, object=name) for each in findings)
    told = tuple(treated(named, by.configuration.findings))
    if any(each.severity is Severity.ERROR for each in told):
        return TranslatedObject(findings=told)
    return TranslatedObject(tuple(edits), tuple(templates.values()), told)


def _of_workload(
    value: Mapping[str, Value], classes: tuple[str, ...], findings: Sequence[Finding]
) -> list[Finding]:
    """Add what the object says for all its pods; what it says is not said again of each."""
    own = tuple(scheduler.report_workload(dict(value), group_kind(value)))
    codes = {each.code for each in own}
    rest = [each for each in findings if each.code not in codes]
    return [*rest, *own, *scheduler.report_queue(dict(value), (), classes)]


def _path(path: str, place: Place) -> str:
    tokens = (int(each) if each.isdecimal() else each for each in parse_path(path))
    return format_path(map_path(tuple(tokens), place))


def _placed(template: ClaimTemplate, value: Value) -> Mapping[str, Value]:
    """Put a template beside the object; where that says no namespace, neither does this."""
    namespace, whole = _namespace(value), template.object
    if not namespace:
        return whole
    metadata = whole.get("metadata")
    before = metadata if isinstance(metadata, dict) else {}
    return {**whole, "metadata": {**before, "namespace": namespace}}


def _namespace(value: Value) -> str:
    namespace = get_value(value, ("metadata", "namespace"))
    return namespace if isinstance(namespace, str) else ""


def _untranslatable(value: Value, found: tuple[Place, ...]) -> Iterator[Finding]:
    kind = value.get("kind") if isinstance(value, dict) else None
    for each in find_other_requests(value, found):
        path = format_path((*each.path, each.name))
        yield ELSEWHERE.at(
            path, f"{each.name} is asked for where {kind} is not known to keep a pod"
        )
