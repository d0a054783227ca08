"""Judges the pods of a manifest after their translation, with the claims of the translation.

A pod that requests devices in the old way is translated first. A request that stays and that a
class serves gets the claim that the scheduler makes for it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from cli.checking.checked_cluster import CheckedCluster, UsedPools
from cli.checking.wrong_pods import (
    move_errors,
    move_to_object,
    namespace_of,
    read_pod_of,
    report_wrong_specs,
)
from cli.input.cluster_objects import ClusterObjects
from cli.simulation.schedulers import default_allocator
from drawbridge.config.model import Legacy
from drawbridge.documents.document import Document, LayoutCache, LocatedFinding
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.claim import TEMPLATE, Template, template_reader
from drawbridge.dra.codes import CLASS_NAME_UNSERVED
from drawbridge.dra.gates import Gates
from drawbridge.dra.validation import format_object_name
from drawbridge.facts.offers import served_resources
from drawbridge.finding import Finding, Severity
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.judgement import judge_pod_of_file, judge_subject
from drawbridge.judge.subject import JudgedClaim, Subject, pod_subject, template_subject
from drawbridge.ledger.extended_resources import (
    ServingClass,
    class_by_resource_name,
    requested_names,
)
from drawbridge.ledger.generated_claims import claim_for_extended_resources
from drawbridge.ledger.pods import Pod
from drawbridge.translate.changes.codes import CLAIMS_LEFT_TO_SCHEDULER
from drawbridge.translate.changes.queues import find_kueue_queue
from drawbridge.translate.changes.scheduler import OURS
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.legacy.codes import AMOUNT_UNREADABLE
from drawbridge.translate.legacy.pod_view import report_rejected_amounts
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests.objects import translate_object
from drawbridge.translate.manifests.workloads import Place, find_places
from drawbridge.translate.opt_out import is_opted_out
from drawbridge.translate.pods import translate
from drawbridge.translate.returned_requests import report_beside_claims

# The codes of what the scheduler of a pod does not allocate.
_NOT_ALLOCATED: Final = frozenset({CLAIMS_LEFT_TO_SCHEDULER.name, CLASS_NAME_UNSERVED.name})
# In findings about the claim that the scheduler makes, until they are moved to the pod.
_SCHEDULERS_CLAIM: Final = "(the scheduler's claim)"


class TranslatedPod(NamedTuple):
    """A pod of an object after its translation, and the templates that the translation added."""

    document: Document
    place: Place
    pod: Pod
    templates: tuple[Template, ...]


class PodsOfDocument(NamedTuple):
    """The pods of a document, and what their translation says that is no verdict.

    These are errors that keep pods from being judged, pods that cannot use owned nodes, and
    requests beside the claims that replaced them.
    """

    pods: tuple[TranslatedPod, ...] = ()
    findings: tuple[Finding, ...] = ()


def translate_pods(document: Document, context: TranslationContext) -> PodsOfDocument:
    """Translate the pods of a document; pods that cannot be translated stay as they are."""
    places = (*find_places(document.value), *argo.find_places(document.value))
    wrong = tuple(report_wrong_specs(document))
    beside = tuple(_report_beside(document, places, context))
    if not places:
        return PodsOfDocument(findings=(*wrong, *beside))
    translated = translate_object(document.value, document.name, context)
    errors = [*wrong, *(e for e in translated.findings if e.severity is Severity.ERROR)]
    left = [e for e in translated.findings if e.code in _NOT_ALLOCATED]
    pods = []
    for place in places:
        if is_opted_out(place.pod):
            errors += move_errors(report_rejected_amounts(place.pod), document, place)
        read = _translate_place(document, place, context, keep=bool(errors))
        if isinstance(read, TranslatedPod):
            pods.append(read)
        else:
            errors += move_errors(read, document, place)
    told = {each.path for each in errors}
    unread = (e for e in translated.findings if e.code == AMOUNT_UNREADABLE.name)
    left += [each for each in (*beside, *unread) if each.path not in told]
    return PodsOfDocument(tuple(pods), (*errors, *left))


def _report_beside(
    document: Document, places: Iterable[Place], context: TranslationContext
) -> Iterator[Finding]:
    """Report the requests beside claims, also of translated templates, which stay as they are."""
    for place in (*places, *argo.find_translated_places(document.value)):
        for finding in report_beside_claims(place.pod, context.configuration, context.facts):
            yield move_to_object(finding, document.name, place)


def _translate_place(
    document: Document, place: Place, context: TranslationContext, *, keep: bool
) -> TranslatedPod | tuple[Finding, ...]:
    space = namespace_of(document, context.namespace)
    value, added = place.pod, tuple[ClaimTemplate, ...]()
    if not keep and not is_opted_out(value):
        queue = find_kueue_queue(document.value)
        translation = translate(value, context, space, queue=queue)
        value, added = apply_edits(value, translation.edits), translation.templates
    pod = read_pod_of(document, value, space)
    if not isinstance(pod, Pod):
        return pod
    templates = (_decode_template(each, space) for each in added)
    return TranslatedPod(document, place, pod, tuple(filter(None, templates)))


def _decode_template(template: ClaimTemplate, namespace: str) -> Template | None:
    metadata = get_value(template.object, ("metadata",))
    written: Mapping[str, Value] = metadata if isinstance(metadata, dict) else {}
    decoded = template_reader().read(
        {**template.object, "metadata": {**written, "namespace": namespace}}
    )
    return decoded if isinstance(decoded, Template) else None


def judge_pod(
    translated: TranslatedPod, served: Mapping[str, ServingClass], context: JudgeContext
) -> Iterator[Finding]:
    """Judge a pod with all of its claims; findings about claims that it brings name its object.

    `served` are the extended resources that only classes serve, with the class of each.
    """
    generated = {format_object_name(TEMPLATE, one.metadata) for one in translated.templates}
    subject = pod_subject(translated.pod, context.lookups, translated.document.name)
    subject = _with_schedulers_claim(subject, translated.pod, served)
    for finding in judge_pod_of_file(subject, context):
        if finding.object in generated or finding.object == _SCHEDULERS_CLAIM:
            yield _move_to_pod(finding, translated)
        elif finding.object == subject.object:
            yield move_to_object(finding, translated.document.name, translated.place)
        else:
            yield finding


def judge_translations(
    documents: Iterable[Document],
    translation: TranslationContext,
    objects: ClusterObjects,
    enabled: Gates,
) -> Iterator[LocatedFinding]:
    """Judge the claims that the translation of documents makes, on the devices of a cluster."""
    configuration = translation.configuration
    allocator = default_allocator(configuration)
    cluster = CheckedCluster(
        ClusterObjects(), objects, is_read=True, gates=enabled, configuration=configuration,
        allocator=allocator,
    )  # fmt: skip
    pods = [each for document in documents for each in translate_pods(document, translation).pods]
    all_pools = cluster.judge_context()
    contexts = cluster.contexts_of_pods(all_pools, (), translation.facts)
    layouts = LayoutCache()
    # The name of a template is a hash of its content, so pods with the same names share a verdict.
    verdicts: dict[tuple[str, ...], tuple[Finding, ...]] = {}
    for pod in pods:
        if not pod.templates:
            continue
        used = contexts(pod.pod)
        names = tuple(format_object_name(TEMPLATE, one.metadata) for one in pod.templates)
        key = used.which, *names
        if key not in verdicts:
            verdicts[key] = tuple(judge_in_pools(_judge_templates(pod), all_pools, used))
        for finding in verdicts[key]:
            yield pod.document.locate_finding(_move_to_pod(finding, pod), layouts)


def _judge_templates(translated: TranslatedPod) -> Callable[[JudgeContext], Iterable[Finding]]:
    claims = tuple(one for made in translated.templates for one in template_subject(made).claims)
    subject = Subject(translated.document.name, translated.pod.namespace, claims)
    return lambda context: judge_subject(subject, context)


def judge_in_pools(
    judge: Callable[[JudgeContext], Iterable[Finding]], all_pools: JudgeContext, used: UsedPools
) -> Iterator[Finding]:
    """Judge with the pools that the allocator of a pod uses; say what only that limit causes."""
    reported = frozenset(judge(all_pools)) if used.which else ()
    for finding in judge(used.context):
        if not used.which or finding in reported:
            yield finding
        else:
            yield replace(finding, message=f"{used.which}: {finding.message}")


def _move_to_pod(finding: Finding, translated: TranslatedPod) -> Finding:
    """Return a finding about a claim that a pod brings as one about the object of the pod."""
    message = f"the claim for its devices: {finding.message}"
    moved = replace(finding, path="spec", message=message)
    return move_to_object(moved, translated.document.name, translated.place)


def find_served_names(context: JudgeContext, legacy: Legacy) -> Mapping[str, ServingClass]:
    """Return the class of each extended resource that classes serve and no node advertises."""
    if not context.gates.extended_resource:
        return {}
    plugins = {name for node in context.nodes for name in served_resources(node, legacy)}
    classes = class_by_resource_name(context.world.classes.values())
    return {name: served for name, served in classes.items() if name not in plugins}


def _with_schedulers_claim(
    subject: Subject, pod: Pod, served: Mapping[str, ServingClass]
) -> Subject:
    """Add the claim that the scheduler makes for extended resources that only classes serve.

    The scheduler of Drawbridge makes none, which the translation reports.
    """
    if pod.spec.scheduler_name == OURS:
        return subject
    requested = {name: served[name] for name in requested_names(pod) if name in served}
    claim = claim_for_extended_resources(pod, requested)
    if claim is None:
        return subject
    return replace(subject, claims=(*subject.claims, JudgedClaim(claim, _SCHEDULERS_CLAIM)))
