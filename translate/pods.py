"""One pod with facts and configuration to its translation: edits, templates, findings.

The same for a pod and for a pod template. What is refused stays as it is in everything; what is
translated keeps the user's own claims. Translating the translated pod changes nothing, because it
asks for nothing any more. Knows no dialect and no driver.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from config.model import Configuration, Placement
from documents.patch import Edit, EditError
from documents.paths import Path, format_path, get_value
from documents.values import Value
from dra.finding import Finding, Severity
from dra.names import FACTS_ANNOTATION
from facts import serialized
from facts.model import Facts
from translate import essence
from translate.changes import dual_nodes, environment, scheduler
from translate.changes.patch import Patch
from translate.changes.template import ClaimTemplate
from translate.decisions.codes import (
    LEFT_TO_CLASS,
    PLACE_TAKEN,
    POD_BOUND,
    POD_MIRRORED,
    SERVER_UNKNOWN,
)
from translate.decisions.memo import TranslationCache
from translate.decisions.outcome import Outcome, OutcomeCache, resolve_asks
from translate.legacy.asks import Ask, PodRequests, SourceField
from translate.legacy.codes import (
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
from translate.legacy.pod_view import annotation_path, as_list, as_mapping
from translate.legacy.read import read_pod
from translate.targets.claims import ComposedClaim

CLAIM: Final = "drawbridge"
_OBJECT: Final = (dict, type(None))
_LIST: Final = (list, type(None))
_MIRROR: Final = "kubernetes.io/config.mirror"
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


class TranslationContext(msgspec.Struct, frozen=True):
    """What decides a translation beside the pod itself."""

    configuration: Configuration = Configuration()
    facts: Facts | None = None
    digest: str = ""  # of the facts
    memo: OutcomeCache | None = None
    kept: TranslationCache[bytes, "Translation"] | None = None  # by the essence of the pod


class Translation(msgspec.Struct, frozen=True):
    """What becomes of one pod; without edits it stays as it is."""

    edits: tuple[Edit, ...] = ()
    operations: tuple[dict[str, Value], ...] = ()  # the edits as a JSON patch
    templates: tuple[ClaimTemplate, ...] = ()
    findings: tuple[Finding, ...] = ()
    classes: tuple[str, ...] = ()  # that the templates ask for


def make_context(configuration: Configuration, facts: Facts | None = None) -> TranslationContext:
    """Put together what decides; the hash of the facts is computed once for all pods."""
    return TranslationContext(
        configuration,
        facts,
        serialized.digest(facts) if facts else "",
        TranslationCache(),
        TranslationCache(),
    )


def translate(pod: Value, by: TranslationContext, namespace: str = "") -> Translation:
    """Translate a pod, or a pod template; any plain value will do.

    A template does not say the `namespace` that its pods will be in, and a network is named in it.
    Pods that differ in nothing that a translation looks at are translated once.
    """
    key = essence.essence_key(pod, namespace) if by.kept is not None else None
    if by.kept is None or key is None:
        return _translated(pod, by, namespace)
    known = by.kept.get(key)
    if known is None:
        known = _translated(pod, by, namespace)
        by.kept.keep(key, known)
    return known


def _translated(pod: Value, by: TranslationContext, namespace: str) -> Translation:
    reading = read_pod(_in(namespace, pod), by.configuration.legacy)
    if not reading.asks:
        return Translation(findings=reading.findings)
    if alone := _left_alone(pod):
        return Translation(findings=alone)
    findings = (*reading.findings, *_unknown_server(reading.asks, by), *_taken(pod, reading.asks))
    if _refused(findings):
        return Translation(findings=findings)
    result = resolve_asks(reading.asks, by.facts, by.configuration, by.memo)
    findings += result.findings
    if result.refused:
        return Translation(findings=findings)
    if not result.claims:
        unsaid = _OF_CLAIMS
        if any(each.code == LEFT_TO_CLASS.name for each in result.findings):
            # The labels go with the plugin all the same, and the pod would wait for ever.
            unsaid -= {LABEL_KEPT.name}
        return Translation(findings=tuple(e for e in findings if e.code not in unsaid))
    return _changed(pod, reading, result, findings, by)


def _in(namespace: str, pod: Value) -> Value:
    if not namespace or not isinstance(pod, dict):
        return pod
    metadata = as_mapping(pod.get("metadata"))
    if metadata.get("namespace"):
        return pod
    return {**pod, "metadata": {**metadata, "namespace": namespace}}


def _changed(
    pod: Value,
    reading: PodRequests,
    result: Outcome,
    findings: tuple[Finding, ...],
    by: TranslationContext,
) -> Translation:
    patch = Patch(pod)
    names = {ask.name for ask in result.asks}
    for trace in reading.source_fields:
        _take_out(patch, trace, names)
    for claim, made in result.claims:
        _claim(patch, claim, made.name)
    try:
        findings += tuple(_beside(patch, reading, result))
    except EditError as error:
        findings += (PLACE_TAKEN.at("spec.affinity", f"{error}"),)
    bridge = by.configuration.placement == Placement.BRIDGE
    if bridge:
        kept = {annotation_path(each.annotation) for ask in result.asks for each in ask.preferences}
        findings = tuple(e for e in findings if e.code != HINT_LOST.name or e.path not in kept)
    findings += tuple(scheduler.set_scheduler(patch, findings, bridge=bridge))
    if _refused(findings):
        return Translation(findings=findings)
    findings += tuple(scheduler.report_queue(pod, result.asks, result.classes, findings))
    if by.digest:
        patch.put(("metadata", "annotations", FACTS_ANNOTATION), by.digest)
    patch.remember()
    templates = tuple(made for _, made in result.claims)
    return Translation(
        tuple(patch.edits), tuple(patch.operations), templates, findings, result.classes
    )


def _beside(patch: Patch, reading: PodRequests, result: Outcome) -> list[Finding]:
    findings = environment.change_environment(patch, result.asks, reading.asks)
    if result.doubled:
        dual_nodes.avoid_dual_nodes(patch)
    return [*findings, *result.doubled]


def _take_out(patch: Patch, trace: SourceField, names: set[str]) -> None:
    """Take a trace out of the pod if all that it asked for is translated."""
    if not names.issuperset(trace.asks):
        return
    path = (*trace.path, trace.name)
    if trace.replacement is not None:
        patch.put(path, trace.replacement)
    elif trace.removed:
        patch.remove(path)


def _claim(patch: Patch, claim: ComposedClaim, made: str) -> None:
    """Let the pod have a claim made from a template, and each container use its requests."""
    path: Path = ("spec", "resourceClaims")
    name = _free(as_list(get_value(patch.pod, path)))
    patch.append(path, {"name": name, "resourceClaimTemplateName": made})
    for use in claim.uses:
        for request in use.requests:
            patch.append(
                (*use.user.path, "resources", "claims"), {"name": name, "request": request}
            )


def _free(claims: Sequence[Value]) -> str:
    taken = [as_mapping(each).get("name") for each in claims]
    name, number = CLAIM, 1
    while name in taken:
        number += 1
        name = f"{CLAIM}-{number}"
    return name


def _left_alone(pod: Value) -> tuple[Finding, ...]:
    """Tell why nothing can be changed: the scheduler does not look at such a pod."""
    whole = as_mapping(pod)
    if as_mapping(as_mapping(whole.get("metadata")).get("annotations")).get(_MIRROR) is not None:
        return (POD_MIRRORED.at(annotation_path(_MIRROR), "the pod is the mirror of a static one"),)
    node = as_mapping(whole.get("spec")).get("nodeName")
    if node:
        return (POD_BOUND.at("spec.nodeName", f"the pod is on node {node} already"),)
    return ()


def _unknown_server(asks: Sequence[Ask], by: TranslationContext) -> list[Finding]:
    names = dict.fromkeys([name for ask in asks for name in ask.resources])
    if by.facts is not None or not names:
        return []
    what = f"{', '.join(names)}: without facts it counts as served by a device plugin"
    return [SERVER_UNKNOWN.at("spec", what)]


def _taken(pod: Value, asks: Sequence[Ask]) -> list[Finding]:
    """Find what is in the way of edits; to replace it would lose something of the user's."""
    metadata, spec = as_mapping(pod).get("metadata"), as_mapping(as_mapping(pod).get("spec"))
    objects: list[tuple[Path, Value]] = [
        (("metadata",), metadata),
        (("metadata", "annotations"), as_mapping(metadata).get("annotations")),
    ]
    lists: list[tuple[Path, Value]] = [
        (("spec", "resourceClaims"), spec.get("resourceClaims")),
        (("spec", "tolerations"), spec.get("tolerations")),
    ]
    for user in dict.fromkeys([user.path for ask in asks for user in ask.users]):
        container = as_mapping(get_value(pod, user))
        resources = container.get("resources")
        objects.append(((*user, "resources"), resources))
        lists.append(((*user, "resources", "claims"), as_mapping(resources).get("claims")))
        lists.append(((*user, "env"), container.get("env")))
    wrong = [(path, "an object") for path, each in objects if not isinstance(each, _OBJECT)]
    wrong += [(path, "a list") for path, each in lists if not isinstance(each, _LIST)]
    return [
        PLACE_TAKEN.at(format_path(path), f"{format_path(path)} is not {what}")
        for path, what in wrong
    ]


def _refused(findings: Sequence[Finding]) -> bool:
    return Severity.ERROR in [each.severity for each in findings]
