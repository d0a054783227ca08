"""An object of any kind to its translation: every pod template in it, or none.

Gives edits of the object, whole template objects beside it, and findings about the object. Knows
nothing of files, dialects or drivers.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from config.policy import treated
from documents.patch import Edit
from documents.paths import get, parse, show
from documents.values import Value
from dra.finding import Finding, Severity
from translate.changes import scheduler
from translate.changes.template import Template
from translate.manifests import argo, quotas
from translate.manifests.codes import ELSEWHERE
from translate.manifests.workloads import Place, elsewhere, group_kind, moved, places
from translate.pods import Given, translate


class Translated(msgspec.Struct, frozen=True):
    """What becomes of one object; without edits it stays as it is."""

    edits: tuple[Edit, ...] = ()
    templates: tuple[Mapping[str, Value], ...] = ()
    findings: tuple[Finding, ...] = ()


def translated(value: Value, name: str, by: Given) -> Translated:
    """Translate an object; where one pod template is refused, nothing of it is changed."""
    found: list[Place] = []
    namespace = _namespace(value)
    edits: list[Edit] = []
    templates: dict[str, Mapping[str, Value]] = {}
    classes: dict[str, None] = {}
    findings: list[Finding] = []
    for place in (*places(value), *argo.places(value)):
        one = translate(place.pod, by, namespace)
        there = argo.written(place, one.edits)
        if there is None:
            continue
        found.append(place)
        edits += there
        templates |= {each.name: _placed(each, value) for each in one.templates}
        findings += (replace(each, path=_path(each.path, place)) for each in one.findings)
        classes |= dict.fromkeys(one.classes)
    findings = [*_untranslatable(value, tuple(found)), *quotas.told(value), *findings]
    if classes and isinstance(value, dict) and not any(place.object for place in found):
        findings = _of_workload(value, tuple(classes), findings)
    named = (replace(each, object=name) for each in findings)
    told = tuple(treated(named, by.configuration.findings))
    if any(each.severity is Severity.ERROR for each in told):
        return Translated(findings=told)
    return Translated(tuple(edits), tuple(templates.values()), told)


def _of_workload(
    value: Mapping[str, Value], classes: tuple[str, ...], findings: Sequence[Finding]
) -> list[Finding]:
    """Add what the object says for all its pods; what it says is not said again of each."""
    own = tuple(scheduler.of_job(dict(value), group_kind(value)))
    codes = {each.code for each in own}
    rest = [each for each in findings if each.code not in codes]
    return [*rest, *own, *scheduler.queued(dict(value), (), classes)]


def _path(path: str, place: Place) -> str:
    tokens = (int(each) if each.isdecimal() else each for each in parse(path))
    return show(moved(tuple(tokens), place))


def _placed(template: Template, value: Value) -> Mapping[str, Value]:
    """Put a template beside the object; where that says no namespace, neither does this."""
    namespace, whole = _namespace(value), template.object
    if not namespace:
        return whole
    metadata = whole.get("metadata")
    before = metadata if isinstance(metadata, dict) else {}
    return {**whole, "metadata": {**before, "namespace": namespace}}


def _namespace(value: Value) -> str:
    namespace = get(value, ("metadata", "namespace"))
    return namespace if isinstance(namespace, str) else ""


def _untranslatable(value: Value, found: tuple[Place, ...]) -> Iterator[Finding]:
    kind = value.get("kind") if isinstance(value, dict) else None
    for each in elsewhere(value, found):
        path = show((*each.path, each.name))
        yield ELSEWHERE.at(
            path, f"{each.name} is asked for where {kind} is not known to keep a pod"
        )
