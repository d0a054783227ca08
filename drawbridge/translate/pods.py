"""Translates one pod or pod template to edits, claim templates and findings.

A refused pod gets no edits at all. A translated pod keeps the user's own claims. Translating a
translated pod changes nothing: the requests that are left are decided together with the original
ones, for the same nodes.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from drawbridge.config.model import Configuration, Placement
from drawbridge.documents.patch import EditError, apply_edits
from drawbridge.documents.values import Value
from drawbridge.finding import Finding, Severity, Trait, find_names
from drawbridge.names import FACTS_ANNOTATION, PLACEMENT_LABEL
from drawbridge.translate import essence
from drawbridge.translate.changeable import (
    check_changeable,
    check_late_node,
    check_late_scheduler,
    report_wrong_types,
)
from drawbridge.translate.changes import (
    class_names,
    dual_nodes,
    environment,
    group_members,
    kueue_roles,
    own_claims,
    resizing,
    scheduler,
)
from drawbridge.translate.changes import codes as change_codes
from drawbridge.translate.changes.patch import Original, Patch, check_annotation_size
from drawbridge.translate.changes.pod_claims import (
    add_claims,
    remove_fields,
    report_repeated_entries,
)
from drawbridge.translate.changes.queues import (
    charge_to_queue,
    find_kueue_queue,
    report_named_claims,
    report_queue,
)
from drawbridge.translate.context import Translation, TranslationContext
from drawbridge.translate.decisions import codes as decision_codes
from drawbridge.translate.decisions.admin_access import check_admin_access
from drawbridge.translate.decisions.codes import (
    LEFT_TO_CLASS,
    PLACE_TAKEN,
    SERVER_UNKNOWN,
)
from drawbridge.translate.decisions.node_offers import PodAsks
from drawbridge.translate.decisions.outcome import Outcome, resolve_asks
from drawbridge.translate.decisions.partition_policy import apply_partition_policy
from drawbridge.translate.legacy import codes as legacy_codes
from drawbridge.translate.legacy.asks import Ask, PodRequests
from drawbridge.translate.legacy.codes import (
    HINT_LOST,
    LABEL_KEPT,
    LIMIT_MISSING,
    REQUESTS_ONLY,
)
from drawbridge.translate.legacy.dialects.sriov import warn_of_networks
from drawbridge.translate.legacy.misspelt_names import accept_served
from drawbridge.translate.legacy.pod_view import annotation_path, report_rejected_amounts
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.original_requests import (
    PodInput,
    is_left_by_translation,
    lower_errors,
    read_original,
    with_namespace,
)
from drawbridge.translate.pod_strategy import add_strategy
from drawbridge.translate.returned_requests import remove_returned_requests, report_changed
from drawbridge.translate.targets import codes as target_codes

_TRANSLATION_ONLY: Final = find_names(
    (legacy_codes.CODES, target_codes.CODES, decision_codes.CODES, change_codes.CODES),
    Trait.ONLY_WHEN_TRANSLATED,
)


def translate(  # noqa: PLR0913  # all but three by name
    pod: Value,
    context: TranslationContext,
    namespace: str = "",
    *,
    admin_access: bool | None = None,
    queue: str = "",
    default_queue: str | None = None,
) -> Translation:
    """Translate a pod or a pod template; accepts any JSON value.

    Networks are looked up in `namespace`, which a template does not contain. `admin_access` is
    whether the namespace has the label that allows admin access, by default as in the context. The
    context also has the placement of namespaces whose labels are known. `queue` is that of a job
    that Kueue charges by the claims of its template; a pod names its own. `default_queue` is that
    of the namespace for pods without a queue, by default as in the context.
    Pods with the same essence share one cached translation.
    """
    if admin_access is None:
        admin_access = context.admin_access.get(namespace)
    if context.placements:
        placements = context.placements
        context = context.placed(placements.get(namespace, placements[""]))
    if _lacks_scheduler(context):
        native = context.placed(Placement.NATIVE)
        translation = translate(
            pod,
            native,
            namespace,
            admin_access=admin_access,
            queue=queue,
            default_queue=default_queue,
        )
        return _report_missing_scheduler(translation)
    if default_queue is None:
        default_queue = context.queues.get(namespace, "")
    queue = queue or find_kueue_queue(pod, default_queue)
    key = (
        essence.essence_key(pod, namespace, admin_access, queue, context.is_manifest)
        if context.translations is not None
        else None
    )
    cached = context.translations.get(key) if context.translations and key else None
    if cached is not None:
        return cached
    translation = _translate_rest(PodInput(pod, namespace, admin_access, queue), context)
    if context.translations is not None and key is not None:
        context.translations.put(key, translation, cost=len(key))
    return translation


def _lacks_scheduler(context: TranslationContext) -> bool:
    """Whether the pods of bridge placement would wait for a scheduler that does not run."""
    is_bridge = context.configuration.placement is Placement.BRIDGE
    return is_bridge and context.facts is not None and not context.facts.scheduler


def _report_missing_scheduler(translation: Translation) -> Translation:
    if not translation.templates:
        return translation
    message = f"the scheduler {scheduler.OURS} does not run, so the pod uses native placement"
    finding = change_codes.BRIDGE_SCHEDULER_MISSING.at("spec.schedulerName", message)
    return msgspec.structs.replace(translation, findings=(finding, *translation.findings))


def _translate_rest(given: PodInput, context: TranslationContext) -> Translation:
    """Translate a pod without the requests that other webhooks put back after a translation."""
    if late := check_late_scheduler(given.pod):
        return Translation(findings=late)
    rest = remove_returned_requests(given, context.configuration, context.facts)
    if _has_error(rest.findings):
        return Translation(findings=rest.findings)
    translation = _translate(given._replace(pod=rest.pod), context)
    translation = _report_missing_limits(rest.pod, translation, context)
    is_requested = bool(translation.templates)
    changed = report_changed(rest.pod, context.configuration, is_requested=is_requested)
    findings = (*rest.findings, *changed, *translation.findings)
    if not rest.edits and not changed:
        return translation
    if _has_error(findings):
        return Translation(findings=findings)
    return msgspec.structs.replace(
        translation,
        edits=(*rest.edits, *translation.edits),
        operations=(*rest.operations, *translation.operations),
        findings=findings,
    )


def _report_missing_limits(
    pod: Value, translation: Translation, context: TranslationContext
) -> Translation:
    """Report requests without a limit that the translation leaves, which refuse a manifest.

    A webhook that runs later may set the limit of a pod; the API server rejects it otherwise.
    """
    findings = translation.findings
    if _has_error(findings) or REQUESTS_ONLY.name not in {each.code for each in findings}:
        return translation
    rejected = report_rejected_amounts(apply_edits(pod, translation.edits))
    left = tuple(each for each in rejected if each.code == LIMIT_MISSING.name)
    paths = {each.path for each in left}
    others = [e for e in findings if e.code != REQUESTS_ONLY.name or e.path not in paths]
    if left and context.is_manifest:
        return Translation(findings=(*left, *others))
    return msgspec.structs.replace(translation, findings=(*lower_errors(left), *others))


def _translate(given: PodInput, context: TranslationContext) -> Translation:
    pod = given.pod
    requests = read_pod(with_namespace(pod, given.namespace), context.configuration)
    requests = add_strategy(requests, pod, context.configuration)
    requests = charge_to_queue(requests, given.queue)
    if named := tuple(report_named_claims(pod, given.queue)):
        requests = msgspec.structs.replace(requests, findings=(*requests.findings, *named))
    if facts := context.facts:
        kept = accept_served(requests.findings, lambda name: facts.plugins_serve({name}))
        requests = msgspec.structs.replace(requests, findings=tuple(kept))
    if not requests.asks:
        # In a manifest, the scheduler may have set the node.
        late = () if context.is_manifest else check_late_node(pod)
        findings = (*requests.findings, *environment.report_visible(pod, ()), *late)
        return _move_to_scheduler(pod, findings, context)
    if unchangeable := check_changeable(pod):
        return Translation(findings=unchangeable)
    requests = apply_partition_policy(requests, context.facts)
    findings = (
        *requests.findings,
        *_report_unknown_server(requests.asks, context),
        *report_wrong_types(pod, requests.asks),
    )
    if _has_error(findings):
        # Another dialect may read what a translation left: the one that read the whole pod was
        # selected by what is translated now.
        is_left = is_left_by_translation(requests, given, context.configuration, context.facts)
        return Translation(findings=lower_errors(findings) if is_left else findings)
    outcome = _resolve_asks(given, requests.asks, context)
    findings += outcome.findings
    if outcome.refused:
        return Translation(findings=findings)
    if not outcome.claims:
        findings += tuple(environment.report_visible(pod, requests.asks))
        findings = _without_translation(findings, outcome)
        return _move_to_scheduler(pod, findings, context, requests_devices=True)
    return _compose(Patch(pod), requests, outcome, findings, context)


def _move_to_scheduler(
    pod: Value,
    findings: tuple[Finding, ...],
    context: TranslationContext,
    *,
    requests_devices: bool = False,
) -> Translation:
    """Set the scheduler of a pod that gets no claim: for claims of its own, or for its group.

    `requests_devices` is whether it requests devices that stay with a device plugin.
    """
    if check_changeable(pod):
        return Translation(findings=findings)
    findings += class_names.report_pending(pod, context.facts)
    has_claims = own_claims.has_claims(pod)
    is_bridge = context.configuration.placement is Placement.BRIDGE
    if not is_bridge or not (has_claims or group_members.moves(pod)):
        return Translation(findings=findings)
    patch, unserved = Patch(pod), class_names.report_kept(pod, context.facts)
    try:
        if has_claims and not requests_devices:
            moved = own_claims.move_pod(patch, context.facts, context.configuration, unserved)
            findings += tuple(moved)
            findings += tuple(group_members.report_left_member(patch.pod, unserved))
        elif not has_claims:
            moved = group_members.move_pod(patch, unserved, requests_devices=requests_devices)
            findings += tuple(moved)
    except EditError as error:
        return Translation(findings=(*findings, PLACE_TAKEN.at("spec.tolerations", f"{error}")))
    _note_original(patch, pod, context)
    findings += check_annotation_size(patch.pod)
    if _has_error(findings):
        return Translation(findings=findings)
    return Translation(tuple(patch.edits), tuple(patch.operations), (), findings)


def _resolve_asks(given: PodInput, asks: tuple[Ask, ...], context: TranslationContext) -> Outcome:
    """Resolve the asks of a pod, or return the cached outcome of equal asks."""
    admin = check_admin_access(asks, context.configuration, labelled=given.admin_access)
    key = PodAsks(asks, admin, _read_original_asks(given, context))
    try:
        cached = context.outcomes.get(key) if context.outcomes is not None else None
    except TypeError:  # the parameters of a network can be lists, which have no hash
        return resolve_asks(key, context.facts, context.configuration)
    if cached is not None:
        return cached
    outcome = resolve_asks(key, context.facts, context.configuration)
    if context.outcomes is not None:
        context.outcomes.put(key, outcome)
    return outcome


def _read_original_asks(given: PodInput, context: TranslationContext) -> tuple[Ask, ...]:
    """Return the asks of a translated pod before its translation; empty for any other pod."""
    if context.facts is None:
        return ()
    original = read_original(given, context.configuration, context.facts)
    return original.requests.asks if original is not None else ()


def _without_translation(findings: Iterable[Finding], outcome: Outcome) -> tuple[Finding, ...]:
    """Return the findings that apply to a pod of which nothing is translated."""
    dropped = _TRANSLATION_ONLY
    if any(each.code == LEFT_TO_CLASS.name for each in outcome.findings):
        # The node labels go away with the plugin, and the pod would stay pending.
        dropped -= {LABEL_KEPT.name}
    return tuple(each for each in findings if each.code not in dropped)


def _compose(
    patch: Patch,
    requests: PodRequests,
    outcome: Outcome,
    findings: tuple[Finding, ...],
    context: TranslationContext,
) -> Translation:
    pod = patch.pod
    queue = requests.asks[0].queue
    findings = warn_of_networks(findings, outcome.asks)
    findings += tuple(
        report_repeated_entries(outcome.claims, queue, is_manifest=context.is_manifest)
    )
    remove_fields(patch, requests.source_fields, {ask.name for ask in outcome.asks})
    add_claims(patch, outcome.claims)
    try:
        findings += tuple(_change_other_fields(patch, requests, outcome))
    except EditError as error:
        findings += (PLACE_TAKEN.at("spec.affinity", f"{error}"),)
    findings = _set_scheduler(patch, findings, outcome, context.configuration)
    findings += class_names.report_translated(patch.pod, context.facts)
    if _has_error(findings):
        return Translation(findings=findings)
    findings += tuple(resizing.report_resizing(patch.pod, context.facts))
    classes, facts = outcome.classes, context.facts
    findings += tuple(scheduler.report_divided_devices(patch.pod, classes, facts, findings))
    if outcome.mappings:
        findings += tuple(report_queue(pod, outcome.mappings, findings, queue))
    if context.original is not Original.NONE:
        _note_inputs(patch, context)
    _note_original(patch, pod, context)
    if too_large := check_annotation_size(patch.pod):
        return Translation(findings=(*findings, *too_large))
    templates = tuple(template for _, template in outcome.claims)
    return Translation(
        tuple(patch.edits),
        tuple(patch.operations),
        templates,
        findings,
        outcome.classes,
        outcome.mappings,
        outcome.classes_of,
    )


def _note_inputs(patch: Patch, context: TranslationContext) -> None:
    """Note on the pod what it takes to translate it again to the same templates."""
    if context.facts_digest:
        patch.put(("metadata", "annotations", FACTS_ANNOTATION), context.facts_digest)
    if context.configuration.placement is Placement.BRIDGE:
        patch.put(("metadata", "annotations", PLACEMENT_LABEL), Placement.BRIDGE.value)


def _note_original(patch: Patch, asked: Value, context: TranslationContext) -> None:
    """Note on the pod what others have to know of it as asked."""
    if not context.is_manifest:
        kueue_roles.keep_role(patch, asked)
    patch.add_undo(context.original)


def _change_other_fields(patch: Patch, requests: PodRequests, outcome: Outcome) -> list[Finding]:
    # What a dialect says of an annotation is more exact.
    told = {finding.path for finding in requests.findings}
    findings = [
        finding
        for finding in environment.change_environment(patch, outcome.asks, requests.asks)
        if not (finding.code == change_codes.DEVICES_BY_NAME.name and finding.path in told)
    ]
    if outcome.dual_findings:
        dual_nodes.avoid_dual_nodes(patch)
    return [*findings, *outcome.dual_findings]


def _set_scheduler(
    patch: Patch, findings: tuple[Finding, ...], outcome: Outcome, configuration: Configuration
) -> tuple[Finding, ...]:
    """Set the scheduler; in bridge placement, drop findings on hints that the allocator follows."""
    if configuration.placement is not Placement.BRIDGE:
        return (*findings, *scheduler.set_scheduler(patch, findings, bridge=False))
    preserved = {
        annotation_path(preference.annotation)
        for ask in outcome.asks
        for preference in ask.preferences
    }
    findings = tuple(e for e in findings if e.code != HINT_LOST.name or e.path not in preserved)
    findings += tuple(scheduler.set_scheduler(patch, findings, bridge=True))
    owned = {str(each.driver) for each in configuration.owned_pools}
    return (*findings, *scheduler.report_drivers_not_owned(patch.pod, outcome.drivers, owned))


def _report_unknown_server(asks: Sequence[Ask], context: TranslationContext) -> list[Finding]:
    names = dict.fromkeys([name for ask in asks for name in ask.resources])
    if context.facts is not None or not names:
        return []
    message = (
        f"{', '.join(names)}: assumed to be served by a device plugin, because no facts about the "
        "cluster are available"
    )
    return [SERVER_UNKNOWN.at("spec", message)]


def _has_error(findings: Sequence[Finding]) -> bool:
    return Severity.ERROR in [each.severity for each in findings]
