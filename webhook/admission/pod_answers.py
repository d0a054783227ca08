"""Answer about a created pod: its translation by the cache, with what only this pod has.

Current limits and quotas, the label and the annotations of the pod come to what is cached, and
after all mutating webhooks whether it should have been translated.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from drawbridge.agreement import scope
from drawbridge.agreement.device_quotas import ConfiguredQuotas, check_device_quotas
from drawbridge.agreement.scope import Mode
from drawbridge.brief import BriefRuns
from drawbridge.config.model import Configuration, Placement
from drawbridge.config.policy import apply_policies
from drawbridge.documents.patch import Edit
from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.names import TRANSLATE_LABEL
from drawbridge.process import review
from drawbridge.process.review import Malformed, RequestEnvelope
from drawbridge.translate.changes.patch import MAX_ANNOTATION_BYTES
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.essence import reduce_to_essence
from drawbridge.translate.interest import Interest, covers, derive_interest
from webhook.admission import answer_cache, created_pod, guard, pods
from webhook.admission.answer_cache import AnswerCache, AnswerKey
from webhook.admission.claim_summary import ClaimSummaries
from webhook.admission.created_pod import RawPod
from webhook.admission.guard import GuardedPod
from webhook.admission.namespace_scopes import NamespaceDecision
from webhook.admission.pod_responses import (
    AuditedPod,
    PodResponse,
    compose_audit,
    compose_response,
)
from webhook.admission.pods import PodDecision
from webhook.admission.protocols import ClusterView
from webhook.admission.replies import Reply, compose_reply
from webhook.admission.responses import (
    ALLOWED,
    Decided,
    PartialResponse,
    ResponseOptions,
    compose_file_command,
    respond,
)

OPT_OUT: Final = TRANSLATE_LABEL.encode()


class AdmissionCall(msgspec.Struct, frozen=True, gc=False):
    """A call of the webhook. `is_guarded` is whether all mutating webhooks have run."""

    body: bytes
    seconds: float
    is_guarded: bool


class CreatedPodRequest(msgspec.Struct, frozen=True, gc=False):
    """A request for a pod that is being created, and the inputs of the response."""

    call: AdmissionCall
    request: RequestEnvelope
    namespace: NamespaceDecision
    context: TranslationContext
    metadata: bytes  # the joined raw fields that determine the translation

    @property
    def mode(self) -> Mode:
        """The mode of the namespace."""
        return self.namespace.mode


class AnsweredPod(NamedTuple):
    """The reply for a pod whose templates exist."""

    reply: Reply
    decision: PodDecision
    subject: AuditedPod


class PodAnswers:
    """Answers about created pods. All its state is cache."""

    def __init__(
        self,
        cluster: ClusterView,
        cache: AnswerCache,
        briefs: BriefRuns,
        summaries: Mapping[Placement, ClaimSummaries],
        quotas: ConfiguredQuotas,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._briefs = briefs
        self._summaries = summaries
        self._quotas = quotas
        self._interest: tuple[Configuration, Interest] | None = None

    def answer(self, pod: RawPod, pod_request: CreatedPodRequest) -> AnsweredPod | Malformed:
        """Compose the reply for a pod whose templates exist."""
        request = pod_request.request
        cached = self._get_or_compose(pod, pod_request)
        if isinstance(cached, Malformed):
            return cached
        response = self._apply_namespace_limits(pod, cached, pod_request)
        if pod_request.call.is_guarded:
            response = self._briefs.run(
                request.namespace, lambda: self._guard(pod, cached, response, pod_request)
            )
        subject = AuditedPod(
            pod.metadata.name or pod.metadata.generate_name,
            "" if response.verdict is None else created_pod.find_owner(pod, request.namespace),
        )
        reply = _compose_audited(pod_request, response, cached.decision, subject)
        return AnsweredPod(reply, cached.decision, subject)

    def refuse(
        self, answered: AnsweredPod, findings: Sequence[Finding], pod_request: CreatedPodRequest
    ) -> Reply:
        """Compose the reply for a pod of which a template cannot be used."""
        decision, context = answered.decision, pod_request.context
        more, edits = self._check_limits(decision, pod_request)
        response = compose_response(
            decision,
            ResponseOptions(compose_file_command(pod_request.request.namespace)),
            context.facts_digest,
            (*findings, *more),
            edits,
        )
        return _compose_audited(pod_request, response, decision, answered.subject)

    def _get_or_compose(
        self, pod: RawPod, pod_request: CreatedPodRequest
    ) -> PodResponse | Malformed:
        """Return the response from the cache, or compose it and add it to the cache."""
        context, others = pod_request.context, self._cluster.other_webhooks()
        self._cache.invalidate_on_change(context, others)
        namespace = pod_request.request.namespace
        queue = self._cluster.default_queue(namespace)
        key = answer_cache.build_key(
            pod, pod_request.metadata, namespace, pod_request.namespace, queue
        )
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        value = review.decode_review_object(pod_request.call.body)
        if isinstance(value, Malformed):
            return value
        cached = self._briefs.run(namespace, lambda: self._compose_new(value, key, pod_request))
        self._cache.put(key, cached, 2 * len(cached.response.tail))
        return cached

    def _compose_new(
        self, pod: dict[str, Value], own: AnswerKey, pod_request: CreatedPodRequest
    ) -> PodResponse:
        context = pod_request.context
        if not covers(pod, self._get_interest(context)):
            return PodResponse(PodDecision(), ALLOWED)
        placed = context.placed(pod_request.namespace.placement)
        others = self._cluster.other_webhooks()
        return self._compose_for_essence(reduce_to_essence(pod), own, placed, others)

    def _compose_for_essence(
        self, essence: Value, own: AnswerKey, context: TranslationContext, others: Sequence[Finding]
    ) -> PodResponse:
        """Return the response for all pods with the same essence."""
        key = answer_cache.build_essence_key(own, essence)
        cached = self._cache.find(key)
        if cached is not None:
            return cached
        summaries = self._summaries[context.configuration.placement]
        decision = pods.decide(
            essence,
            own.namespace,
            context,
            summaries,
            admin_access=own.admin_access,
            queue=own.queue,
        )
        if decision.edits or decision.is_denied:
            told = apply_policies(others, context.configuration.findings)
            about = (*told, *decision.findings)
            decision = msgspec.structs.replace(decision, findings=about)
        depends_on_namespace = bool(decision.edits) and not decision.is_denied
        options = ResponseOptions(compose_file_command(own.namespace), Mode(own.mode))
        response = compose_response(decision, options, context.facts_digest)
        cached = PodResponse(decision, response, depends_on_namespace)
        self._cache.put(key, cached, 2 * len(cached.response.tail))
        return cached

    def _get_interest(self, context: TranslationContext) -> Interest:
        """Return which pods may have device requests, as the match conditions define it."""
        if self._interest is None or self._interest[0] is not context.configuration:
            self._interest = (context.configuration, derive_interest(context.configuration))
        return self._interest[1]

    def _apply_namespace_limits(
        self, pod: RawPod, cached: PodResponse, pod_request: CreatedPodRequest
    ) -> PartialResponse:
        """Return the response, with findings about current limits, quotas and the pod's label."""
        if not cached.depends_on_namespace:
            return cached.response
        decision, digest = cached.decision, pod_request.context.facts_digest
        findings, edits = self._check_limits(decision, pod_request)
        findings += _check_metadata(pod, decision, pod_request)
        if not findings and not edits:
            return cached.response
        command = compose_file_command(pod_request.request.namespace)
        options = ResponseOptions(command, pod_request.mode)
        return compose_response(decision, options, digest, findings, edits)

    def _check_limits(
        self, decision: PodDecision, pod_request: CreatedPodRequest
    ) -> tuple[tuple[Finding, ...], tuple[Edit, ...]]:
        """Return findings about current limits and quotas, and additional edits of the pod."""
        name, context = pod_request.request.namespace, pod_request.context
        ranges, quotas = self._cluster.limit_ranges(name), self._cluster.resource_quotas(name)
        labels = pod_request.namespace.labels
        selected = self._quotas.selecting(context.configuration, name, labels)
        exceeded = tuple(check_device_quotas(decision.device_charge, name, selected))
        if not (ranges or quotas or exceeded):
            return (), ()
        return self._briefs.run(
            name, lambda: pods.check_namespace_limits(decision, ranges, quotas, exceeded, context)
        )

    def _guard(
        self,
        pod: RawPod,
        cached: PodResponse,
        response: PartialResponse,
        pod_request: CreatedPodRequest,
    ) -> PartialResponse:
        """Deny a pod that should have been translated, or warn."""
        decision, context = cached.decision, pod_request.context
        if pod_request.mode is Mode.REPORT:
            # The webhook for pods has recorded its decision.
            return msgspec.structs.replace(response, verdict=None)
        if not (decision.replaces_requests or decision.is_denied):
            return ALLOWED  # the webhook for pods has reported its findings
        value = review.decode_review_object(pod_request.call.body)
        metadata = created_pod.decode_metadata(pod)
        if isinstance(value, Malformed) or isinstance(metadata, Malformed):
            return response
        name, namespace = pod_request.request.namespace, pod_request.namespace
        guarded = GuardedPod(value, metadata, name, namespace.labels, namespace.admin_access)
        findings = guard.judge_pod(guarded, decision, context, self._cluster.recent_inputs())
        return respond(Decided(findings=findings), ResponseOptions(compose_file_command(name)))


def _compose_audited(
    pod_request: CreatedPodRequest,
    response: PartialResponse,
    decision: PodDecision,
    subject: AuditedPod,
) -> Reply:
    audit = compose_audit(decision, response.verdict, pod_request.mode, subject.owner)
    return compose_reply(pod_request.request, response, subject.name, audit)


def _check_metadata(
    pod: RawPod, decision: PodDecision, pod_request: CreatedPodRequest
) -> tuple[Finding, ...]:
    """Check the label and the annotations of one pod. Cached decisions do not depend on them."""
    raw, context = pod_request.metadata, pod_request.context
    # JSON is longer than what it contains.
    is_short = len(raw) + decision.annotation_bytes <= MAX_ANNOTATION_BYTES
    if is_short and OPT_OUT not in raw:
        return ()
    findings = pods.check_annotations(decision, pod.metadata.annotations)
    metadata = created_pod.decode_metadata(pod)
    if not isinstance(metadata, Malformed):
        findings = (*findings, *scope.find_label_without_effect(metadata, pod_request.mode))
    return tuple(apply_policies(findings, context.configuration.findings))
