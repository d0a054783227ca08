"""Translates an object of any kind: all of its pod templates, or none.

The result has edits of the object, the template objects to create with it, and findings.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from drawbridge.config.policy import apply_policies
from drawbridge.documents.patch import Edit
from drawbridge.documents.paths import format_path, get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.finding import Finding, Severity
from drawbridge.translate.changes import scheduler
from drawbridge.translate.changes.queues import (
    Mappings,
    find_kueue_queue,
    merge_mappings,
    report_queue,
)
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.context import Translation, TranslationContext
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.manifests import argo, gitops, quotas, ray, trainer
from drawbridge.translate.manifests.codes import CLAIMS_REFUSED, OPTED_OUT, REQUEST_NOT_IN_POD
from drawbridge.translate.manifests.custom_fields import raise_refused, report_dropped
from drawbridge.translate.manifests.daemon_sets import report_mixed_nodes
from drawbridge.translate.manifests.named_elsewhere import report_counters, report_named
from drawbridge.translate.manifests.readable_names import rename_templates
from drawbridge.translate.manifests.workloads import (
    Place,
    find_other_requests,
    find_places,
    group_kind,
    map_finding_path,
)
from drawbridge.translate.opt_out import LABEL, TEXT, is_opted_out
from drawbridge.translate.pods import translate

_KNATIVE = "serving.knative.dev"
_INFERENCE_SERVICE = ("serving.kserve.io", "InferenceService")
_KSERVE_MODE = "serving.kserve.io/deploymentMode"
_WITHOUT_KNATIVE = ("RawDeployment", "Standard", "ModelMesh")
# By these annotations, KServe makes a claim of its own (0.20).
_KSERVE_CLAIMS = "serving.kserve.io/dra-"


class TranslatedObject(msgspec.Struct, frozen=True):
    """The translation of one object; without edits the object stays as it is."""

    edits: tuple[Edit, ...] = ()
    templates: tuple[Mapping[str, Value], ...] = ()
    findings: tuple[Finding, ...] = ()


def translate_object(value: Value, name: str, context: TranslationContext) -> TranslatedObject:
    """Translate an object; if one pod template is refused, the object stays as it is."""
    translated_places: list[Place] = []
    namespace = _namespace(value) or context.namespace
    context = replace(context, is_manifest=True)
    edits: list[Edit] = []
    templates: dict[str, Mapping[str, Value]] = {}
    mappings: list[Mappings] = []
    findings: list[Finding] = []
    for place in (*find_places(value), *argo.find_places(value)):
        if is_opted_out(place.pod):
            translated_places.append(place)
            findings += _report_opted_out(place, context)
            continue
        translation = translate(place.pod, context, namespace, queue=find_kueue_queue(value))
        if context.readable_names:
            translation = rename_templates(value, place, translation)
        place_edits = argo.map_edits(place, translation.edits)
        if place_edits is None:
            continue
        translated_places.append(place)
        edits += place_edits
        templates |= {each.name: _with_namespace(each, value) for each in translation.templates}
        findings += _report_place(value, place, translation)
        mappings.append(translation.mappings)
    carried = list(gitops.report_carried(value))
    findings = [
        *(carried or _report_other_requests(value, tuple(translated_places), context)),
        *quotas.report_quotas(value, context.facts),
        *report_named(value),
        *report_counters(value),
        *_report_own_claims(value),
        *(_report_serverless(value) if edits else ()),
        *report_dropped(value, edits, context.definitions),
        *raise_refused(value, findings, context.definitions),
    ]
    merged = merge_mappings(mappings)
    if merged and isinstance(value, dict) and not any(place.is_pod for place in translated_places):
        default = context.queues.get(namespace, "")
        findings = _add_workload_findings(value, merged, findings, default)
        findings += report_mixed_nodes(value, merged, context.facts)
    named = (replace(each, object=name) for each in findings)
    reported = tuple(apply_policies(named, context.configuration.findings))
    if any(each.severity is Severity.ERROR for each in reported):
        return TranslatedObject(findings=reported)
    return TranslatedObject(tuple(edits), tuple(templates.values()), reported)


def _report_opted_out(place: Place, context: TranslationContext) -> Iterator[Finding]:
    """Report a pod template that requests devices and keeps its requests."""
    if read_pod(place.pod, context.configuration).source_fields:
        yield OPTED_OUT.at(map_finding_path(LABEL, place), TEXT)


def _report_place(value: Value, place: Place, translation: Translation) -> Iterator[Finding]:
    """Yield the findings about a pod template, with paths in the object."""
    for finding in translation.findings:
        yield replace(finding, path=map_finding_path(finding.path, place))
    yield from ray.report_lost_gpus(value, place, translation)
    yield from ray.report_queue_of_cluster(value, place, translation)
    yield from trainer.report_lost_gpus(value, place, translation)


def _add_workload_findings(
    value: Mapping[str, Value], mappings: Mappings, findings: Sequence[Finding], default_queue: str
) -> list[Finding]:
    """Add the findings that apply to all pods of the object, instead of one for each pod."""
    own = (
        *scheduler.report_workload(dict(value), group_kind(value)),
        *report_queue(dict(value), mappings, (), default_queue),
    )
    codes = {each.code for each in own}
    return [*(each for each in findings if each.code not in codes), *own]


def _with_namespace(template: ClaimTemplate, value: Value) -> Mapping[str, Value]:
    """Give a template the namespace of the object, if the object has one."""
    namespace, fields = _namespace(value), template.object
    if not namespace:
        return fields
    metadata = fields.get("metadata")
    before = metadata if isinstance(metadata, dict) else {}
    return {**fields, "metadata": {**before, "namespace": namespace}}


def _namespace(value: Value) -> str:
    namespace = get_value(value, ("metadata", "namespace"))
    return namespace if isinstance(namespace, str) else ""


def report_unreadable(value: Value, name: str) -> Iterator[Finding]:
    """Report the device requests of a document that is not an object, such as values of a chart.

    What is wrong with an object, such as a placeholder, is reported at its field.
    """
    if isinstance(value, dict) and {"apiVersion", "kind"} <= value.keys():
        return
    for other_request in find_other_requests(value, ()):
        yield REQUEST_NOT_IN_POD.at(
            format_path((*other_request.path, other_request.name)),
            f"the document is not a Kubernetes object, but requests {other_request.name}",
            object=name,
            remedy="Render the document with its tool, and pass the output.",
        )


def _report_serverless(value: Value) -> Iterator[Finding]:
    """Report an InferenceService that KServe may run with Knative, which refuses claims."""
    if not isinstance(value, dict) or group_kind(value) != _INFERENCE_SERVICE:
        return
    mode = get_value(value, ("metadata", "annotations", _KSERVE_MODE))
    if mode not in _WITHOUT_KNATIVE:
        yield CLAIMS_REFUSED.at(
            format_path(("metadata", "annotations", _KSERVE_MODE)),
            f"Knative refuses claims, and {_KSERVE_MODE} is {mode or 'not set'}",
            remedy=f"Set `{_KSERVE_MODE}: Standard`, or `RawDeployment` in older versions.",
        )


def _report_own_claims(value: Value) -> Iterator[Finding]:
    """Report the annotations by which KServe makes claims beside those of a translation."""
    annotations = as_mapping(get_value(value, ("metadata", "annotations")))
    for key in annotations:
        if key.startswith(_KSERVE_CLAIMS):
            what = f"KServe makes a claim by {key}, beside those of the translation"
            yield REQUEST_NOT_IN_POD.at(
                format_path(("metadata", "annotations", key)),
                what,
                remedy="Keep either the annotation or the request of the container.",
            )


def _report_other_requests(
    value: Value, places: tuple[Place, ...], context: TranslationContext
) -> Iterator[Finding]:
    kind = value.get("kind") if isinstance(value, dict) else None
    knative = isinstance(value, dict) and group_kind(value)[0] == _KNATIVE
    legacy = context.configuration.legacy
    names = (*context.configuration.named_devices, *legacy.renames, *legacy.networks.values())
    configured = frozenset(map(str, names))
    for other_request in find_other_requests(value, places, configured):
        path = format_path((*other_request.path, other_request.name))
        if knative:
            message = f"Knative refuses claims in a {kind}, so {other_request.name} stays in it"
            yield CLAIMS_REFUSED.at(path, message)
            continue
        yield REQUEST_NOT_IN_POD.at(
            path, f"{kind} requests {other_request.name} outside a known pod template"
        )
