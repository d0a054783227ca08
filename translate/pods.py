"""One pod with facts and configuration to its translation: edits, templates, findings.

The same for a pod and for a pod template. What is refused stays as it is in everything; what is
translated keeps the user's own claims. Translating the translated pod changes nothing, because it
asks for nothing any more. Knows no dialect and no driver.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from config.model import Configuration, Placement
from documents.patch import Edit, EditError
from documents.paths import Path, get, show
from documents.values import Value
from dra.finding import Finding, Severity
from facts import text
from facts.model import Facts
from translate import beside, dual, essence, schedulers
from translate.asks import Ask, Reading, Trace
from translate.codes import (
    CONTAINER_WITHOUT_CLAIM,
    HINT_LOST,
    INIT_ADDS_UP,
    INIT_SEES_MORE,
    LABEL_DROPPED,
    LABEL_KEPT,
    LABEL_LOOSE,
    MEANING_CHANGES,
    REPLICAS_ARE_ONE,
    SCHEDULER_KEPT,
    SCHEDULER_LEFT,
)
from translate.memo import Memo
from translate.outcome import Known, Outcome, outcome
from translate.patch import Patch
from translate.podview import annotation_path, items, mapping
from translate.read import read
from translate.targets.claims import ClaimOf
from translate.template import Template
from translate.verdicts import PLACE_TAKEN, POD_BOUND, POD_MIRRORED, SERVER_UNKNOWN

CLAIM: Final = "drawbridge"
FACTS: Final = "drawbridge.dev/facts"
_MIRROR: Final[Path] = ("metadata", "annotations", "kubernetes.io/config.mirror")
# What a translation changes; of a pod that is left as it is none of it is true.
_OF_CLAIMS: Final = frozenset(
    code.name
    for code in (
        CONTAINER_WITHOUT_CLAIM,
        HINT_LOST,
        INIT_ADDS_UP,
        INIT_SEES_MORE,
        LABEL_DROPPED,
        LABEL_KEPT,
        LABEL_LOOSE,
        MEANING_CHANGES,
        REPLICAS_ARE_ONE,
        SCHEDULER_KEPT,
        SCHEDULER_LEFT,
    )
)


class Given(msgspec.Struct, frozen=True):
    """What decides a translation beside the pod itself."""

    configuration: Configuration = Configuration()
    facts: Facts | None = None
    digest: str = ""  # of the facts
    memo: Known | None = None
    kept: Memo[bytes, "Translation"] | None = None  # by the essence of the pod


class Translation(msgspec.Struct, frozen=True):
    """What becomes of one pod; without edits it stays as it is."""

    edits: tuple[Edit, ...] = ()
    templates: tuple[Template, ...] = ()
    findings: tuple[Finding, ...] = ()
    classes: tuple[str, ...] = ()  # that the templates ask for


def given(configuration: Configuration, facts: Facts | None = None) -> Given:
    """Put together what decides; the hash of the facts is computed once for all pods."""
    return Given(configuration, facts, text.digest(facts) if facts else "", Memo(), Memo())


def translate(pod: Value, by: Given, namespace: str = "") -> Translation:
    """Translate a pod, or a pod template; any plain value will do.

    A template does not say the `namespace` that its pods will be in, and a network is named in it.
    Pods that differ in nothing that a translation looks at are translated once.
    """
    key = essence.key(pod, namespace) if by.kept is not None else None
    if by.kept is None or key is None:
        return _translated(pod, by, namespace)
    known = by.kept.get(key)
    if known is None:
        known = _translated(pod, by, namespace)
        by.kept.keep(key, known)
    return known


def _translated(pod: Value, by: Given, namespace: str) -> Translation:
    reading = read(_in(namespace, pod), by.configuration.legacy)
    if not reading.asks:
        return Translation(findings=reading.findings)
    if alone := _left_alone(pod):
        return Translation(findings=alone)
    findings = (*reading.findings, *_unknown_server(reading.asks, by), *_taken(pod, reading.asks))
    if _refused(findings):
        return Translation(findings=findings)
    result = outcome(reading.asks, by.facts, by.configuration, by.memo)
    findings += result.findings
    if result.refused:
        return Translation(findings=findings)
    if not result.claims:
        return Translation(findings=tuple(e for e in findings if e.code not in _OF_CLAIMS))
    return _changed(pod, reading, result, findings, by)


def _in(namespace: str, pod: Value) -> Value:
    metadata = mapping(get(pod, ("metadata",)))
    if not namespace or metadata.get("namespace") or not isinstance(pod, dict):
        return pod
    return {**pod, "metadata": {**metadata, "namespace": namespace}}


def _changed(
    pod: Value, reading: Reading, result: Outcome, findings: tuple[Finding, ...], by: Given
) -> Translation:
    patch = Patch(pod)
    names = {ask.name for ask in result.asks}
    for trace in reading.traces:
        _take_out(patch, trace, names)
    for claim, made in result.claims:
        _claim(patch, claim, made.name)
    try:
        findings += tuple(_beside(patch, reading, result))
    except EditError as error:
        findings += (PLACE_TAKEN.at("spec.affinity", f"{error}"),)
    bridge = by.configuration.placement == Placement.BRIDGE
    if bridge:
        kept = {annotation_path(each.key) for ask in result.asks for each in ask.wishes}
        findings = tuple(e for e in findings if e.code != HINT_LOST.name or e.path not in kept)
    findings += tuple(schedulers.change(patch, findings, bridge=bridge))
    if _refused(findings):
        return Translation(findings=findings)
    findings += tuple(schedulers.queued(pod, result.asks, result.classes, findings))
    if by.digest:
        patch.put(("metadata", "annotations", FACTS), by.digest)
    patch.remember()
    templates = tuple(made for _, made in result.claims)
    return Translation(tuple(patch.edits), templates, findings, result.classes)


def _beside(patch: Patch, reading: Reading, result: Outcome) -> Iterator[Finding]:
    yield from beside.change(patch, result.asks, reading.asks)
    yield from dual.keep_off(patch, result.plugins)


def _take_out(patch: Patch, trace: Trace, names: set[str]) -> None:
    """Take a trace out of the pod if all that it asked for is translated."""
    if not names.issuperset(trace.asks):
        return
    path = (*trace.path, trace.name)
    if trace.instead is not None:
        patch.put(path, trace.instead)
    elif trace.removed:
        patch.remove(path)


def _claim(patch: Patch, claim: ClaimOf, made: str) -> None:
    """Let the pod have a claim made from a template, and each container use its requests."""
    path: Path = ("spec", "resourceClaims")
    name = _free(items(get(patch.pod, path)))
    patch.append(path, {"name": name, "resourceClaimTemplateName": made})
    for use in claim.uses:
        for request in use.requests:
            patch.append(
                (*use.user.path, "resources", "claims"), {"name": name, "request": request}
            )


def _free(claims: Sequence[Value]) -> str:
    taken = [mapping(each).get("name") for each in claims]
    name, number = CLAIM, 1
    while name in taken:
        number += 1
        name = f"{CLAIM}-{number}"
    return name


def _left_alone(pod: Value) -> tuple[Finding, ...]:
    """Tell why nothing can be changed: the scheduler does not look at such a pod."""
    if get(pod, _MIRROR) is not None:
        return (POD_MIRRORED.at(show(_MIRROR), "the pod is the mirror of a static one"),)
    node = get(pod, ("spec", "nodeName"))
    if node:
        return (POD_BOUND.at("spec.nodeName", f"the pod is on node {node} already"),)
    return ()


def _unknown_server(asks: Sequence[Ask], by: Given) -> Iterator[Finding]:
    names = dict.fromkeys(name for ask in asks for name in ask.resources)
    if by.facts is None and names:
        yield SERVER_UNKNOWN.at(
            "spec", f"{', '.join(names)}: without facts it counts as served by a device plugin"
        )


def _taken(pod: Value, asks: Sequence[Ask]) -> Iterator[Finding]:
    """Find what is in the way of edits; to replace it would lose something of the user's."""
    users = dict.fromkeys(user.path for ask in asks for user in ask.users)
    objects: list[Path] = [("metadata",), ("metadata", "annotations")]
    objects += [(*user, "resources") for user in users]
    lists: list[Path] = [("spec", "resourceClaims"), ("spec", "tolerations")]
    lists += [(*user, *part) for user in users for part in (("resources", "claims"), ("env",))]
    for paths, kind, what in ((objects, dict, "an object"), (lists, list, "a list")):
        for path in paths:
            held = get(pod, path)
            if held is not None and not isinstance(held, kind):
                yield PLACE_TAKEN.at(show(path), f"{show(path)} is not {what}")


def _refused(findings: Sequence[Finding]) -> bool:
    return any(each.severity is Severity.ERROR for each in findings)
