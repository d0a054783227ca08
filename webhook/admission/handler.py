"""Handle AdmissionReviews of pods and workloads: bytes in, bytes out.

A review is replied to at once, except for a template that does not exist yet and a namespace that
was just created: then the caller awaits the reply. Malformed input gets a response. An exception is
a bug, and the caller handles it.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from drawbridge.agreement import scope
from drawbridge.agreement.scope import Mode
from drawbridge.brief import BriefRuns
from drawbridge.config.model import Configuration, Placement
from drawbridge.config.policy import apply_policies
from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.names import ORIGINAL_ANNOTATION, TRANSLATE_LABEL
from drawbridge.process import review
from drawbridge.process.review import AdmissionRequest, Malformed, RequestEnvelope
from drawbridge.translate.changes.patch import MAX_ANNOTATION_BYTES, to_operations
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.essence import reduce_to_essence
from drawbridge.translate.interest import Interest, covers, derive_interest
from webhook.admission import (
    answer_cache,
    created_pod,
    guard,
    pods,
    updates,
    workloads,
)
from webhook.admission.answer_cache import AnswerCache, AnswerKey
from webhook.admission.claim_summary import ClaimSummaries
from webhook.admission.created_pod import RawPod
from webhook.admission.device_quotas import ConfiguredQuotas, check_device_quotas
from webhook.admission.guard import GuardedPod
from webhook.admission.namespace_scopes import (
    NamespaceDecision,
    NamespaceScopes,
    allow_out_of_scope,
)
from webhook.admission.pod_responses import (
    AuditedPod,
    PodResponse,
    compose_audit,
    compose_response,
    make_options,
)
from webhook.admission.pods import PodDecision
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
    PartialResponse,
    respond,
)
from webhook.admission.templates import report_template

T = TypeVar("T")
# How long to wait for a template if the request has no timeout.
TEMPLATE_TIMEOUT: Final = 4.0
_OPT_OUT: Final = TRANSLATE_LABEL.encode()
_ORIGINAL: Final = ORIGINAL_ANNOTATION.encode()
# Comparing values recurses. The API server sends such values only for kinds without a schema.
_NOT_LOADED: Final = "configuration and facts are not loaded yet; try again"
_TOO_DEEP: Final = "the object is nested too deeply"
EXISTING: Final = frozenset({TemplateStatus.CREATED, TemplateStatus.PRESENT})


class _Call(msgspec.Struct, frozen=True, gc=False):
    """A call of the webhook. `is_guarded` is whether all mutating webhooks have run."""

    body: bytes
    seconds: float | None
    is_guarded: bool


class _PodRequest(msgspec.Struct, frozen=True, gc=False):
    """A request for a pod that is being created, and the inputs of the response."""

    call: _Call
    request: RequestEnvelope
    namespace: NamespaceDecision
    context: TranslationContext
    metadata: bytes  # the joined raw fields that determine the translation

    @property
    def mode(self) -> Mode:
        """The mode of the namespace."""
        return self.namespace.mode


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
        self._cache = cache
        self._briefs = briefs
        self._summaries = {
            each: ClaimSummaries(lambda: cluster.recent_inputs().facts) for each in Placement
        }
        self._interest: tuple[Configuration, Interest] | None = None
        self._quotas = ConfiguredQuotas()
        # Scopes without a decision yet are empty.
        self.scopes = NamespaceScopes(cluster) if scopes is None else scopes

    def review_pod(self, body: bytes, seconds: float | None = None) -> Reply | PendingReply:
        """Handle the review of a pod. `seconds` is the time until the API server gives up."""
        return self._review_pod(_Call(body, seconds, is_guarded=False))

    def review_guarded_pod(self, body: bytes, seconds: float | None = None) -> Reply | PendingReply:
        """Handle the review of a created pod after all mutating webhooks."""
        return self._review_pod(_Call(body, seconds, is_guarded=True))

    def _review_pod(self, call: _Call) -> Reply | PendingReply:
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
        self, request: RequestEnvelope, pod: RawPod | Malformed, call: _Call
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
        call: _Call,
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
        call: _Call,
        context: TranslationContext,
        namespace: NamespaceDecision,
    ) -> Reply | PendingReply:
        if namespace.mode is Mode.OFF:
            return compose_reply(request, allow_out_of_scope(namespace))
        if isinstance(pod, Malformed):
            return reply_error(request, 400, pod.why)
        metadata = created_pod.join_metadata(pod)
        pod_request = _PodRequest(call, request, namespace, context, metadata)
        excluded = _is_excluded(pod, pod_request)
        if isinstance(excluded, Malformed):
            return reply_error(request, 400, excluded.why)
        if excluded:
            return compose_reply(request, ALLOWED)
        return self._translate(pod, pod_request)

    async def review_workload(self, body: bytes, seconds: float | None = None) -> Reply:
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
            response = self._run_briefly(
                request, lambda: workloads.review_workload(request, workload_context)
            )
        except RecursionError:
            response = Malformed(_TOO_DEEP)
        if isinstance(response, Malformed):
            return reply_error(request, 400, response.why)
        return compose_reply(request, response)

    def _run_briefly(self, request: RequestEnvelope, compute: Callable[[], T]) -> T:
        """Return what a pure function returns; raises CutShort."""
        return self._briefs.run(request.namespace, compute) if self._briefs else compute()

    def _translate(self, pod: RawPod, pod_request: _PodRequest) -> Reply | PendingReply:
        request = pod_request.request
        composed = self._compose(pod, pod_request)
        if isinstance(composed, Malformed):
            return reply_error(request, 400, composed.why)
        reply, decision, _ = composed
        if pod_request.call.is_guarded or reply.outcome != "translated":
            return reply
        seconds = pod_request.call.seconds
        timeout = TEMPLATE_TIMEOUT if seconds is None else seconds
        states = [
            self._templates.ensure(
                request.namespace, template, timeout, dry_run=bool(request.dry_run)
            )
            for template in decision.templates
        ]
        if EXISTING.issuperset(states):
            return reply
        return self._await_templates(composed, states, pod_request)

    def _compose(self, pod: RawPod, pod_request: _PodRequest) -> "_Composed | Malformed":
        """Compose the reply for a pod whose templates exist."""
        request = pod_request.request
        cached = self._get_or_compose(pod, pod_request)
        if isinstance(cached, Malformed):
            return cached
        response = self._apply_namespace_limits(pod, cached, pod_request)
        if pod_request.call.is_guarded:
            response = self._run_briefly(
                request, lambda: self._guard(pod, cached, response, pod_request)
            )
        subject = AuditedPod(
            pod.metadata.name or pod.metadata.generate_name,
            "" if response.verdict is None else created_pod.find_owner(pod, request.namespace),
        )
        reply = _compose_audited(pod_request, response, cached.decision, subject)
        return _Composed(reply, cached.decision, subject)

    def _get_or_compose(self, pod: RawPod, pod_request: _PodRequest) -> PodResponse | Malformed:
        """Return the response from the cache, or compose it and add it to the cache."""
        context, others = pod_request.context, self._cluster.other_webhooks()
        self._cache.invalidate_on_change(context, others)
        namespace = pod_request.request.namespace
        queue = self._cluster.default_queue(namespace)
        key = answer_cache.build_key(
            pod, pod_request.metadata, namespace, pod_request.namespace, queue
        )
        name = "" if pod.metadata.owner_references else pod.metadata.name
        cached = self._cache.get(key, name)
        if cached is not None:
            return cached
        value = review.decode_review_object(pod_request.call.body)
        if isinstance(value, Malformed):
            return value
        cached = self._run_briefly(
            pod_request.request, lambda: self._compose_new(value, key.with_name(name), pod_request)
        )
        self._add_to_cache(key, name, cached)
        return cached

    def _compose_new(
        self, pod: dict[str, Value], own: AnswerKey, pod_request: _PodRequest
    ) -> PodResponse:
        context = pod_request.context
        if not covers(pod, self._get_interest(context)):
            return PodResponse(PodDecision(), ALLOWED)
        placed = context.placed(pod_request.namespace.placement)
        others = self._cluster.other_webhooks()
        return self._compose_for_essence(reduce_to_essence(pod), own, placed, others)

    def _add_to_cache(self, key: AnswerKey, name: str, cached: PodResponse) -> None:
        """Cache a response. If it contains the name of the pod, cache it for that name only."""
        own = key.with_name(name) if cached.response.has_command else key
        self._cache.put(own, cached, 2 * len(cached.response.tail))

    def _compose_for_essence(
        self, essence: Value, own: AnswerKey, context: TranslationContext, others: Sequence[Finding]
    ) -> PodResponse:
        """Return the response for all pods with the same essence."""
        key = answer_cache.build_essence_key(own, essence)
        cached = self._cache.find(key, own.name)
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
            about = (*decision.findings, *apply_policies(others, context.configuration.findings))
            decision = msgspec.structs.replace(decision, findings=about)
        options = make_options(own.name, own.namespace, Mode(own.mode))
        depends_on_namespace = bool(decision.edits) and not decision.is_denied
        response = compose_response(decision, options, context.facts_digest)
        cached = PodResponse(decision, response, depends_on_namespace)
        self._add_to_cache(key, own.name, cached)
        return cached

    def _get_interest(self, context: TranslationContext) -> Interest:
        """Return which pods may have device requests, as the match conditions define it."""
        if self._interest is None or self._interest[0] is not context.configuration:
            self._interest = (context.configuration, derive_interest(context.configuration))
        return self._interest[1]

    def _apply_namespace_limits(
        self, pod: RawPod, cached: PodResponse, pod_request: _PodRequest
    ) -> PartialResponse:
        """Return the response, with findings about current limits, quotas and the pod's label."""
        if not cached.depends_on_namespace:
            return cached.response
        decision = cached.decision
        namespace, context = pod_request.request.namespace, pod_request.context
        ranges = self._cluster.limit_ranges(namespace)
        quotas = self._cluster.resource_quotas(namespace)
        own = _check_metadata(pod, decision, pod_request)
        exceeded = self._check_device_quotas(decision, pod_request)
        if not ranges and not quotas and not own and not exceeded:
            return cached.response
        findings, edits = self._run_briefly(
            pod_request.request,
            lambda: pods.check_namespace_limits(decision, ranges, quotas, exceeded, context),
        )
        if not findings and not edits and not own:
            return cached.response
        options = make_options("", namespace, pod_request.mode)
        return compose_response(decision, options, context.facts_digest, (*findings, *own), edits)

    def _check_device_quotas(
        self, decision: PodDecision, pod_request: _PodRequest
    ) -> tuple[Finding, ...]:
        name, labels = pod_request.request.namespace, pod_request.namespace.labels
        quotas = self._quotas.selecting(pod_request.context.configuration, name, labels)
        return tuple(check_device_quotas(decision.device_charge, name, quotas))

    def _guard(
        self, pod: RawPod, cached: PodResponse, response: PartialResponse, pod_request: _PodRequest
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
        options = make_options(pod.metadata.name, name, Mode.ENFORCE)
        return respond(Decided(findings=findings), options)

    async def _await_templates(
        self,
        composed: "_Composed",
        states: Sequence[TemplateState | PendingState],
        pod_request: _PodRequest,
    ) -> Reply:
        """Wait for the templates. Deny the pod if one has a conflict or cannot be created."""
        reply, decision, subject = composed
        request, context = pod_request.request, pod_request.context
        namespace = request.namespace
        problems = [
            state if isinstance(state, Finding) else report_template(namespace, template, state)
            for template, state in zip(decision.templates, await await_states(states), strict=True)
            if state not in EXISTING and not (request.dry_run and state is TemplateStatus.PENDING)
        ]
        findings = tuple(apply_policies(problems, context.configuration.findings))
        if not findings:
            return reply
        ranges = self._cluster.limit_ranges(namespace)
        quotas = self._cluster.resource_quotas(namespace)
        exceeded = self._check_device_quotas(decision, pod_request)
        more, edits = pods.check_namespace_limits(decision, ranges, quotas, exceeded, context)
        options = make_options("", namespace, Mode.ENFORCE)
        response = compose_response(
            decision, options, context.facts_digest, (*findings, *more), edits
        )
        return _compose_audited(pod_request, response, decision, subject)

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
            edits, reported = self._run_briefly(
                request, lambda: updates.preserve_translation(old, new, context.configuration)
            )
        except RecursionError:
            return reply_error(request, 400, _TOO_DEEP)
        findings = tuple(apply_policies(reported, context.configuration.findings))
        decided = Decided(findings=findings, patch=to_operations(edits))
        options = make_options(request.name, request.namespace, Mode.ENFORCE)
        response = respond(decided, options)
        if edits and not decided.is_denied:  # counted as what it is: nothing new is translated
            response = msgspec.structs.replace(response, outcome="allowed")
        return compose_reply(request, response)


class _Composed(NamedTuple):
    """The reply for a pod whose templates exist."""

    reply: Reply
    decision: PodDecision
    subject: AuditedPod


def _compose_audited(
    pod_request: _PodRequest, response: PartialResponse, decision: PodDecision, subject: AuditedPod
) -> Reply:
    audit = compose_audit(decision, response.verdict, pod_request.mode, subject.owner)
    return compose_reply(pod_request.request, response, subject.name, audit)


def _is_excluded(pod: RawPod, pod_request: _PodRequest) -> bool | Malformed:
    """Return whether the pod opted out, or the rollout does not include it yet."""
    configured = pod_request.context.configuration.scope
    if configured.rollout.percent >= 100 and _OPT_OUT not in pod_request.metadata:
        return False
    metadata = created_pod.decode_metadata(pod)
    if isinstance(metadata, Malformed):
        return metadata
    return not scope.is_included(pod_request.request.namespace, metadata, configured)


def _check_metadata(
    pod: RawPod, decision: PodDecision, pod_request: _PodRequest
) -> tuple[Finding, ...]:
    """Check the label and the annotations of one pod. Cached decisions do not depend on them."""
    raw, context = pod_request.metadata, pod_request.context
    # JSON is longer than what it contains.
    is_short = len(raw) + decision.annotation_bytes <= MAX_ANNOTATION_BYTES
    if is_short and _OPT_OUT not in raw:
        return ()
    findings = pods.check_annotations(decision, pod.metadata.annotations)
    metadata = created_pod.decode_metadata(pod)
    if not isinstance(metadata, Malformed):
        findings = (*findings, *scope.find_label_without_effect(metadata, pod_request.mode))
    return tuple(apply_policies(findings, context.configuration.findings))
