"""Translates one pod or pod template to edits, claim templates and findings.

A refused pod gets no edits at all. A translated pod keeps the user's own claims. Translating a
translated pod changes nothing, because it has no requests left to translate.
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
# Findings about changes that a translation makes; they do not apply to a pod that stays as it is.
_TRANSLATION_ONLY: Final = frozenset(
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
    """The input of a translation beside the pod, and the caches that translations share."""

    configuration: Configuration = Configuration()
    facts: Facts | None = None
    facts_digest: str = ""  # empty without facts
    outcomes: OutcomeCache | None = None
    translations: TranslationCache[bytes, "Translation"] | None = None  # by pod essence


class Translation(msgspec.Struct, frozen=True):
    """The translation of one pod; without edits the pod stays as it is."""

    edits: tuple[Edit, ...] = ()
    operations: tuple[dict[str, Value], ...] = ()  # the edits as a JSON patch
    templates: tuple[ClaimTemplate, ...] = ()
    findings: tuple[Finding, ...] = ()
    classes: tuple[str, ...] = ()  # the DeviceClasses of the templates


def make_context(configuration: Configuration, facts: Facts | None = None) -> TranslationContext:
    """Build a context with empty caches; computes the hash of the facts once for all pods."""
    return TranslationContext(
        configuration,
        facts,
        serialized.facts_hash(facts) if facts else "",
        TranslationCache(),
        TranslationCache(),
    )


def translate(pod: Value, context: TranslationContext, namespace: str = "") -> Translation:
    """Translate a pod or a pod template; accepts any JSON value.

    Networks are looked up in `namespace`, which a template does not contain. Pods with the same
    essence share one cached translation.
    """
    key = essence.essence_key(pod, namespace) if context.translations is not None else None
    if context.translations is None or key is None:
        return _translate(pod, context, namespace)
    cached = context.translations.get(key)
    if cached is None:
        cached = _translate(pod, context, namespace)
        context.translations.put(key, cached)
    return cached


def _translate(pod: Value, context: TranslationContext, namespace: str) -> Translation:
    requests = read_pod(_with_namespace(pod, namespace), context.configuration.legacy)
    if not requests.asks:
        return Translation(findings=requests.findings)
    if unchangeable := _check_changeable(pod):
        return Translation(findings=unchangeable)
    findings = (
        *requests.findings,
        *_report_unknown_server(requests.asks, context),
        *_report_wrong_types(pod, requests.asks),
    )
    if _has_error(findings):
        return Translation(findings=findings)
    outcome = resolve_asks(requests.asks, context.facts, context.configuration, context.outcomes)
    findings += outcome.findings
    if outcome.refused:
        return Translation(findings=findings)
    if not outcome.claims:
        dropped = _TRANSLATION_ONLY
        if any(each.code == LEFT_TO_CLASS.name for each in outcome.findings):
            # The node labels go away with the plugin, and the pod would stay pending.
            dropped -= {LABEL_KEPT.name}
        return Translation(findings=tuple(e for e in findings if e.code not in dropped))
    return _compose(pod, requests, outcome, findings, context)


def _with_namespace(pod: Value, namespace: str) -> Value:
    if not namespace or not isinstance(pod, dict):
        return pod
    metadata = as_mapping(pod.get("metadata"))
    if metadata.get("namespace"):
        return pod
    return {**pod, "metadata": {**metadata, "namespace": namespace}}


def _compose(
    pod: Value,
    requests: PodRequests,
    outcome: Outcome,
    findings: tuple[Finding, ...],
    context: TranslationContext,
) -> Translation:
    patch = Patch(pod)
    names = {ask.name for ask in outcome.asks}
    for field in requests.source_fields:
        _remove_field(patch, field, names)
    for claim, template in outcome.claims:
        _add_claim(patch, claim, template.name)
    try:
        findings += tuple(_change_other_fields(patch, requests, outcome))
    except EditError as error:
        findings += (PLACE_TAKEN.at("spec.affinity", f"{error}"),)
    bridge = context.configuration.placement == Placement.BRIDGE
    if bridge:
        preserved = {
            annotation_path(each.annotation) for ask in outcome.asks for each in ask.preferences
        }
        findings = tuple(e for e in findings if e.code != HINT_LOST.name or e.path not in preserved)
    findings += tuple(scheduler.set_scheduler(patch, findings, bridge=bridge))
    if _has_error(findings):
        return Translation(findings=findings)
    findings += tuple(scheduler.report_queue(pod, outcome.asks, outcome.classes, findings))
    if context.facts_digest:
        patch.put(("metadata", "annotations", FACTS_ANNOTATION), context.facts_digest)
    patch.add_undo()
    templates = tuple(template for _, template in outcome.claims)
    return Translation(
        tuple(patch.edits), tuple(patch.operations), templates, findings, outcome.classes
    )


def _change_other_fields(patch: Patch, requests: PodRequests, outcome: Outcome) -> list[Finding]:
    findings = environment.change_environment(patch, outcome.asks, requests.asks)
    if outcome.dual_findings:
        dual_nodes.avoid_dual_nodes(patch)
    return [*findings, *outcome.dual_findings]


def _remove_field(patch: Patch, field: SourceField, names: set[str]) -> None:
    """Remove or replace a source field of the pod if all of its asks are translated."""
    if not names.issuperset(field.asks):
        return
    path = (*field.path, field.name)
    if field.replacement is not None:
        patch.put(path, field.replacement)
    elif field.removed:
        patch.remove(path)


def _add_claim(patch: Patch, claim: ComposedClaim, template: str) -> None:
    """Add a claim to the pod, and reference its requests from the containers."""
    path: Path = ("spec", "resourceClaims")
    name = _unused_name(as_list(get_value(patch.pod, path)))
    patch.append(path, {"name": name, "resourceClaimTemplateName": template})
    for use in claim.uses:
        for request in use.requests:
            patch.append(
                (*use.user.path, "resources", "claims"), {"name": name, "request": request}
            )


def _unused_name(claims: Sequence[Value]) -> str:
    taken = [as_mapping(each).get("name") for each in claims]
    name, number = CLAIM, 1
    while name in taken:
        number += 1
        name = f"{CLAIM}-{number}"
    return name


def _check_changeable(pod: Value) -> tuple[Finding, ...]:
    """Report a pod that the scheduler never handles, so that claims would not be allocated."""
    fields = as_mapping(pod)
    if as_mapping(as_mapping(fields.get("metadata")).get("annotations")).get(_MIRROR) is not None:
        return (POD_MIRRORED.at(annotation_path(_MIRROR), "the pod is the mirror of a static pod"),)
    node = as_mapping(fields.get("spec")).get("nodeName")
    if node:
        return (POD_BOUND.at("spec.nodeName", f"the pod is already assigned to node {node}"),)
    return ()


def _report_unknown_server(asks: Sequence[Ask], context: TranslationContext) -> list[Finding]:
    names = dict.fromkeys([name for ask in asks for name in ask.resources])
    if context.facts is not None or not names:
        return []
    message = (
        f"{', '.join(names)}: assumed to be served by a device plugin, because no facts about the "
        "cluster are available"
    )
    return [SERVER_UNKNOWN.at("spec", message)]


def _report_wrong_types(pod: Value, asks: Sequence[Ask]) -> list[Finding]:
    """Report fields of a wrong type; replacing them would lose something of the user's."""
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
        PLACE_TAKEN.at(format_path(path), f"{format_path(path)} must be {expected}")
        for path, expected in wrong
    ]


def _has_error(findings: Sequence[Finding]) -> bool:
    return Severity.ERROR in [each.severity for each in findings]
