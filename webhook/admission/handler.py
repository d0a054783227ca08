"""Handle AdmissionReviews of pods and workloads: bytes in, bytes out.

A review is replied to at once, except for a template that does not exist yet and a namespace that
was just created: then the caller awaits the reply. Malformed input gets a response. An exception is
a bug, and the caller handles it.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from drawbridge.agreement import scope
from drawbridge.agreement.device_quotas import ConfiguredQuotas
from drawbridge.agreement.scope import Mode
from drawbridge.brief import Brief, BriefRuns
from drawbridge.config.model import Placement
from drawbridge.config.policy import apply_policies
from drawbridge.finding import Finding
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.process import review
from drawbridge.process.review import AdmissionRequest, Malformed, RequestEnvelope
from drawbridge.translate.changes.patch import to_operations
from drawbridge.translate.context import TranslationContext
from webhook.admission import created_pod, updates, workloads
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.claim_summary import ClaimSummaries
from webhook.admission.created_pod import RawPod
from webhook.admission.namespace_scopes import (
    NamespaceDecision,
    NamespaceScopes,
    allow_out_of_scope,
)
from webhook.admission.pod_answers import (
    OPT_OUT,
    AdmissionCall,
    AnsweredPod,
    CreatedPodRequest,
    PodAnswers,
)
from webhook.admission.protocols import (
    ClusterView,
    PendingState,
    TemplateEnsurer,
    TemplateState,
    TemplateStatus,
    await_states,
)
from webhook.admission.replies import (
    PendingReply,
    Reply,
    await_reply,
    compose_reply,
    reply_error,
    reply_malformed,
)
from webhook.admission.responses import (
    ALLOWED,
    Decided,
    ResponseOptions,
    compose_file_command,
    respond,
)
from webhook.admission.templates import report_template

T = TypeVar("T")
_ORIGINAL: Final = ORIGINAL_ANNOTATION.encode()
# Comparing values recurses. The API server sends such values only for kinds without a schema.
_NOT_LOADED: Final = "configuration and facts are not loaded yet; try again"
_TOO_DEEP: Final = "the object is nested too deeply"
EXISTING: Final = frozenset({TemplateStatus.CREATED, TemplateStatus.PRESENT})


class AdmissionHandler:
    """Handles reviews. All its state is cache.

    With `briefs`, what takes long is interrupted: a review, or waiting for its reply, raises
    CutShort, and then it has no effect. `scopes` decides about namespaces.
    """

    def __init__(
        self,
        cluster: ClusterView,
        templates: TemplateEnsurer,
        cache: AnswerCache,
        briefs: BriefRuns | None = None,
        *,
        scopes: NamespaceScopes | None = None,
    ) -> None:
        self._cluster = cluster
        self._templates = templates
        self._briefs = briefs or BriefRuns(Brief(), lambda: 0.0)
        self._summaries = {
            each: ClaimSummaries(lambda: cluster.recent_inputs().facts) for each in Placement
        }
        self._quotas = ConfiguredQuotas()
        self._answers = PodAnswers(cluster, cache, self._briefs, self._summaries, self._quotas)
        # Scopes without a decision yet are empty.
        self.scopes = NamespaceScopes(cluster) if scopes is None else scopes

    def review_pod(self, body: bytes, seconds: float) -> Reply | PendingReply:
        """Handle the review of a pod. `seconds` is the time until the API server gives up."""
        return self._review_pod(AdmissionCall(body, seconds, is_guarded=False))

    def review_guarded_pod(self, body: bytes, seconds: float) -> Reply | PendingReply:
        """Handle the review of a created pod after all mutating webhooks."""
        return self._review_pod(AdmissionCall(body, seconds, is_guarded=True))

    def _review_pod(self, call: AdmissionCall) -> Reply | PendingReply:
        created = created_pod.decode_create_request(call.body)
        if created is not None and created.object is not None:
            return self._review_create(created, created.object, call)
        request = review.decode_review(call.body)
        if isinstance(request, Malformed):
            return reply_malformed(request)
        if request.kind.kind != "Pod" or request.kind.group:
            return reply_error(request, 400, f"/admit/pods accepts pods, not {request.kind.kind}")
        if request.sub_resource or request.operation not in {"CREATE", "UPDATE"}:
            return compose_reply(request, ALLOWED)
        if request.operation == "UPDATE":
            return self._review_update(request)
        pod = created_pod.decode_pod(request.object)
        return self._review_create(request, pod, call)

    def _review_create(
        self, request: RequestEnvelope, pod: RawPod | Malformed, call: AdmissionCall
    ) -> Reply | PendingReply:
        context = self._cluster.translation_context()
        if context is None:
            return reply_error(request, 503, _NOT_LOADED)
        if not request.namespace:
            return reply_error(request, 400, "request.namespace is empty, but pods are namespaced")
        namespace = self.scopes.find(request.namespace, context.configuration)
        if namespace is None:
            return self._read_namespace(request, pod, call, context)
        return self._review_in_namespace(request, pod, call, context, namespace)

    async def _read_namespace(
        self,
        request: RequestEnvelope,
        pod: RawPod | Malformed,
        call: AdmissionCall,
        context: TranslationContext,
    ) -> Reply:
        """Review a pod in a namespace that is not in memory."""
        configured = context.configuration
        namespace = await self.scopes.read(request.namespace, configured, call.seconds)
        if namespace is None:
            why = f"namespace {request.namespace} is not cached yet; try again"
            return reply_error(request, 503, why)
        reply = self._review_in_namespace(request, pod, call, context, namespace)
        return await await_reply(reply)

    def _review_in_namespace(
        self,
        request: RequestEnvelope,
        pod: RawPod | Malformed,
        call: AdmissionCall,
        context: TranslationContext,
        namespace: NamespaceDecision,
    ) -> Reply | PendingReply:
        if namespace.mode is Mode.OFF:
            return compose_reply(request, allow_out_of_scope(namespace))
        if isinstance(pod, Malformed):
            return reply_error(request, 400, pod.why)
        metadata = created_pod.join_metadata(pod)
        pod_request = CreatedPodRequest(call, request, namespace, context, metadata)
        excluded = _is_excluded(pod, pod_request)
        if isinstance(excluded, Malformed):
            return reply_error(request, 400, excluded.why)
        if excluded:
            return compose_reply(request, ALLOWED)
        return self._translate(pod, pod_request)

    async def review_workload(self, body: bytes, seconds: float) -> Reply:
        """Handle the review of an object that creates pods: warn or deny, but never change it."""
        request = review.decode_review(body)
        if isinstance(request, Malformed):
            return reply_malformed(request)
        context = self._cluster.translation_context()
        is_write = request.operation in {"CREATE", "UPDATE"}
        if request.sub_resource or not is_write or context is None:
            return compose_reply(request, ALLOWED)
        configured = context.configuration
        decided = await self.scopes.read(request.namespace, configured, seconds)
        if decided is None or decided.mode is Mode.OFF:
            return compose_reply(request, allow_out_of_scope(decided))
        workload_context = workloads.WorkloadContext(
            decided,
            context.placed(decided.placement),
            self._summaries[decided.placement],
            self._cluster.limit_ranges(request.namespace),
            self._cluster.inactive_conditions(),
            self._cluster.default_queue(request.namespace),
            self._quotas.selecting(configured, request.namespace, decided.labels),
        )
        try:
            response = self._briefs.run(
                request.namespace, lambda: workloads.review_workload(request, workload_context)
            )
        except RecursionError:
            response = Malformed(_TOO_DEEP)
        if isinstance(response, Malformed):
            return reply_error(request, 400, response.why)
        return compose_reply(request, response)

    def _translate(self, pod: RawPod, pod_request: CreatedPodRequest) -> Reply | PendingReply:
        request = pod_request.request
        answered = self._answers.answer(pod, pod_request)
        if isinstance(answered, Malformed):
            return reply_error(request, 400, answered.why)
        reply, decision, _ = answered
        if pod_request.call.is_guarded or reply.outcome != "translated":
            return reply
        seconds, dry_run = pod_request.call.seconds, bool(request.dry_run)
        states = [
            self._templates.ensure(request.namespace, template, seconds, dry_run=dry_run)
            for template in decision.templates
        ]
        if EXISTING.issuperset(states):
            return reply
        return self._await_templates(answered, states, pod_request)

    async def _await_templates(
        self,
        answered: AnsweredPod,
        states: Sequence[TemplateState | PendingState],
        pod_request: CreatedPodRequest,
    ) -> Reply:
        """Wait for the templates. Deny the pod if one has a conflict or cannot be created."""
        request, templates = pod_request.request, answered.decision.templates
        problems = [
            state
            if isinstance(state, Finding)
            else report_template(request.namespace, template, state)
            for template, state in zip(templates, await await_states(states), strict=True)
            if state not in EXISTING and not (request.dry_run and state is TemplateStatus.PENDING)
        ]
        findings = tuple(apply_policies(problems, pod_request.context.configuration.findings))
        if not findings:
            return answered.reply
        return self._answers.refuse(answered, findings, pod_request)

    def _review_update(self, request: AdmissionRequest) -> Reply:
        """Keep the translation of an updated pod. Allow all other updates unchanged."""
        if _ORIGINAL not in bytes(request.old_object):
            return compose_reply(request, ALLOWED)
        old, new = review.decode_object(request.old_object), review.decode_object(request.object)
        if isinstance(old, Malformed) or isinstance(new, Malformed):
            return reply_error(request, 400, "a review of an UPDATE needs object and oldObject")
        if not updates.is_translated(old):
            return compose_reply(request, ALLOWED)
        context = self._cluster.translation_context() or TranslationContext()
        try:
            edits, reported = self._briefs.run(
                request.namespace,
                lambda: updates.preserve_translation(old, new, context.configuration),
            )
        except RecursionError:
            return reply_error(request, 400, _TOO_DEEP)
        findings = tuple(apply_policies(reported, context.configuration.findings))
        decided = Decided(findings=findings, patch=to_operations(edits))
        response = respond(decided, ResponseOptions(compose_file_command(request.namespace)))
        if edits and not decided.is_denied:  # counted as what it is: nothing new is translated
            response = msgspec.structs.replace(response, outcome="allowed")
        return compose_reply(request, response)


def _is_excluded(pod: RawPod, pod_request: CreatedPodRequest) -> bool | Malformed:
    """Return whether the pod opted out, or the rollout does not include it yet."""
    configured = pod_request.context.configuration.scope
    if configured.rollout.percent >= 100 and OPT_OUT not in pod_request.metadata:
        return False
    metadata = created_pod.decode_metadata(pod)
    if isinstance(metadata, Malformed):
        return metadata
    return not scope.is_included(pod_request.request.namespace, metadata, configured)
