"""Review an object that creates pods: warn about each claim, and deny it if no pod could start.

The object is not changed, because its pods are translated when they are created. An update that
leaves the pod templates unchanged gets no warnings.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.agreement import scope
from drawbridge.agreement.device_quotas import check_device_quotas
from drawbridge.agreement.scope import Mode, PodMetadata, PodOwner
from drawbridge.config.policy import apply_policies
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping, equal_json
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.finding import Finding
from drawbridge.process.review import AdmissionRequest, Malformed, decode_object
from drawbridge.translate.changes.queues import merge_mappings
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.manifests.daemon_sets import report_mixed_nodes
from drawbridge.translate.manifests.job_queues import find_queue_of_pods, report_read_templates
from drawbridge.translate.manifests.workloads import Place, find_places, map_finding_path
from webhook.admission import limit_ranges, pods
from webhook.admission.claim_summary import ClaimSummaries
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.namespace_scopes import NamespaceDecision
from webhook.admission.pods import PodDecision
from webhook.admission.responses import (
    ALLOWED,
    TRANSLATE,
    Decided,
    PartialResponse,
    ResponseOptions,
    compose_command,
    compose_file_command,
    respond,
    tell_later,
)

# Pod templates that a review translates. Each takes some milliseconds, however small it is.
MAX_TEMPLATES: Final = 64


class WorkloadContext(NamedTuple):
    """The namespace, its LimitRanges and quotas, and findings about pods that may not be sent."""

    namespace: NamespaceDecision
    translation: TranslationContext
    summaries: ClaimSummaries
    ranges: Sequence[LimitRange] = ()
    inactive_conditions: Sequence[Finding] = ()
    default_queue: str = ""
    device_quotas: tuple[DeviceQuota, ...] = ()


def review_workload(
    request: AdmissionRequest, context: WorkloadContext
) -> PartialResponse | Malformed:
    """Compose the response for an object that creates pods."""
    new = decode_object(request.object)
    if isinstance(new, Malformed):
        return new
    if has_same_pods(request, new):
        return ALLOWED
    all_places, configured = find_places(new), context.translation.configuration.scope
    name = get_value(new, ("metadata", "name"))
    owner = PodOwner(request.kind.kind, name if isinstance(name, str) else "")
    places = [
        each
        for each in all_places
        if scope.is_included(request.namespace, _read_metadata(each, owner), configured)
    ][:MAX_TEMPLATES]
    queue = find_queue_of_pods(new, context.default_queue)
    decisions = [(place, _decide(place, request.namespace, context, queue)) for place in places]
    findings = tuple(dict.fromkeys(each for one in decisions for each in _move_findings(*one)))
    if any(one.edits for _, one in decisions):
        translated = [place for place, one in decisions if one.replaces_requests]
        # The webhook for workloads may be active while the one for pods is not.
        mappings = merge_mappings(one.mappings for _, one in decisions)
        unconfigured = (
            *context.inactive_conditions,
            *report_read_templates(new, translated),
            *report_mixed_nodes(new, mappings, context.translation.facts),
        )
        findings += tuple(apply_policies(unconfigured, context.translation.configuration.findings))
    denied = [one for _, one in decisions if one.is_denied]
    file_command = compose_file_command(request.namespace)
    mode = context.namespace.mode
    is_certain = configured.rollout.percent >= 100 or scope.is_shown_by_pods(owner)
    if denied and len(denied) == len(all_places) and mode is Mode.ENFORCE and is_certain:
        return respond(Decided(findings=findings), ResponseOptions(file_command))
    lines = list(_describe_claims((one for _, one in decisions), mode))
    command = compose_command(request, TRANSLATE, file_command)
    return tell_later(Decided(findings=findings, lines=lines), command)


def _decide(place: Place, namespace: str, context: WorkloadContext, queue: str) -> PodDecision:
    decision = pods.decide(
        place.pod,
        namespace,
        context.translation,
        context.summaries,
        admin_access=context.namespace.admin_access,
        queue=queue,
    )
    return _add_findings(decision, place, namespace, context)


def _add_findings(
    decision: PodDecision, place: Place, namespace: str, context: WorkloadContext
) -> PodDecision:
    """Add findings about LimitRanges, device quotas and the label of the pod template."""
    if not decision.edits:
        return decision
    unconfigured = (
        *limit_ranges.check_pod(decision.removed, context.ranges),
        *check_device_quotas(decision.device_charge, namespace, context.device_quotas),
        *scope.find_label_without_effect(_read_metadata(place), context.namespace.mode),
    )
    findings = apply_policies(unconfigured, context.translation.configuration.findings)
    return replace(decision, findings=(*decision.findings, *findings))


def _describe_claims(decisions: Iterable[PodDecision], mode: Mode) -> Iterator[str]:
    prefix = "pods will be translated" if mode is Mode.ENFORCE else "pods would be translated"
    for decision in decisions:
        for line in () if decision.is_denied else decision.lines:
            yield f"{prefix}: {line}"


def _move_findings(place: Place, decision: PodDecision) -> Iterator[Finding]:
    """Yield the findings about a pod template, with paths relative to the whole object."""
    for finding in decision.findings:
        yield replace(finding, path=map_finding_path(finding.path, place))


def _read_metadata(place: Place, owner: PodOwner | None = None) -> PodMetadata:
    """Return what decides the scope of the pods of a template, as far as it shows."""
    labels = as_mapping(get_value(place.pod, ("metadata", "labels")))
    return PodMetadata(
        labels={key: text for key, text in labels.items() if isinstance(text, str)},
        owner_references=(owner,) if owner else None,
    )


def has_same_pods(request: AdmissionRequest, new: Value) -> bool:
    """Return whether an update leaves all pod templates unchanged."""
    if request.operation != "UPDATE":
        return False
    old = decode_object(request.old_object)
    if isinstance(old, Malformed):
        return False
    before, after = find_places(old), find_places(new)
    return len(before) == len(after) and all(
        equal_json(one.pod, other.pod) for one, other in zip(before, after, strict=True)
    )
