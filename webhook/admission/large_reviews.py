"""Handle reviews that take long in another process, so that they do not delay other reviews.

These are the reviews of large bodies, and those whose translation takes more units of work than
the event loop may spend. A thread would still hold the interpreter while it decodes. The event loop
reads everything that the review needs of the cluster, the other process runs the same handler on
that snapshot, and the event loop ensures the templates that it names.
"""

import asyncio
import functools
import pickle
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.finding import Finding
from drawbridge.process import review
from drawbridge.process.fair_turns import TurnKey
from drawbridge.process.review import Malformed, RequestEnvelope
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.pods import TranslationContext
from drawbridge.translate.work_budget import WorkPostponedError
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.handler import EXISTING, TEMPLATE_TIMEOUT, AdmissionHandler
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.protocols import (
    ClusterView,
    RecentInputs,
    TemplateEnsurer,
    TemplateState,
    TemplateStatus,
    Worker,
    WorkerError,
    await_states,
)
from webhook.admission.replies import (
    PendingReply,
    Reply,
    await_reply,
    reply_error,
    reply_malformed,
    reply_unreviewed,
)

# A body of this size takes at most about two milliseconds before its translation.
MAX_INLINE_BYTES: Final = 32 * 1024
# The guard decides once more for each recent configuration and version of the facts.
_MAX_INLINE_GUARD_BYTES: Final = 2 * MAX_INLINE_BYTES
# The API server writes the namespace before the user and the objects. A quote within a value is
# escaped, so no other value can contain this.
_NAMESPACE: Final = re.compile(rb'"namespace":"([^"\\]{1,63})"')
_MAX_HEAD_BYTES: Final = 4096
_BUSY: Final = "too many large objects are in review"
_WORKLOAD: Final = "review_workload"
TemplateStates = Mapping[str, TemplateState]


class SharedInputs(msgspec.Struct, frozen=True):
    """What the reviews of all objects need of the cluster."""

    context: TranslationContext | None
    recent: RecentInputs


class _UnpackedInputs(NamedTuple):
    """The inputs in the other process, and the answers that they give."""

    shared: SharedInputs
    answers: AnswerCache


@functools.lru_cache(maxsize=1)
def _unpack(inputs: bytes) -> _UnpackedInputs:
    """Return the same objects for the same inputs, so that they are decoded once."""
    return _UnpackedInputs(pickle.loads(inputs), AnswerCache())  # noqa: S301  # our own


class _InputsPacker:
    """Pickles the inputs once until they change: facts are large."""

    def __init__(self) -> None:
        self._inputs = SharedInputs(None, RecentInputs())
        self._pickled = pickle.dumps(self._inputs)

    def pack(self, context: TranslationContext | None, recent: RecentInputs) -> bytes:
        """Return the pickled inputs. Unchanged parts are the same objects."""
        if self._inputs.context is not context or self._inputs.recent != recent:
            self._inputs = SharedInputs(context, recent)
            # The caches and the limit of the event loop stay in this process.
            bare = context and msgspec.structs.replace(
                context, outcomes=None, translations=None, inline_units=None, native=None
            )
            self._pickled = pickle.dumps(SharedInputs(bare, recent))
        return self._pickled


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """What the review of one object needs of the cluster. Implements `ClusterView`."""

    inputs: bytes  # pickled SharedInputs
    labels: Mapping[str, str] | None
    ranges: Sequence[LimitRange]
    quotas: Sequence[ResourceQuota]
    queue: str
    webhook_findings: Sequence[Finding]
    condition_findings: Sequence[Finding]

    def translation_context(self) -> TranslationContext | None:
        """Return configuration and facts."""
        return _unpack(self.inputs).shared.context

    def namespace_labels(self, _name: str) -> Mapping[str, str] | None:
        """Return the labels of the namespace."""
        return self.labels

    async def read_namespace_labels(self, _name: str, _seconds: float) -> Mapping[str, str] | None:
        """Return None: the event loop has tried to read an unknown namespace."""
        return None

    def limit_ranges(self, _namespace: str) -> Sequence[LimitRange]:
        """Return the LimitRanges of the namespace."""
        return self.ranges

    def resource_quotas(self, _namespace: str) -> Sequence[ResourceQuota]:
        """Return the ResourceQuotas of the namespace."""
        return self.quotas

    def default_queue(self, _namespace: str) -> str:
        """Return the default queue of the namespace."""
        return self.queue

    def other_webhooks(self) -> Sequence[Finding]:
        """Return findings about other webhooks that handle the same pods."""
        return self.webhook_findings

    def inactive_conditions(self) -> Sequence[Finding]:
        """Return findings about pods that the API server may not send."""
        return self.condition_findings

    def recent_inputs(self) -> RecentInputs:
        """Return what any replica may have used for a pod a short time ago."""
        return _unpack(self.inputs).shared.recent


class LargeReply(NamedTuple):
    """A reply, and the templates that must exist for it."""

    reply: Reply
    templates: tuple[ClaimTemplate, ...] = ()


class _KnownTemplates:
    """Records which templates a review needs. States that are not known count as present."""

    def __init__(self, states: TemplateStates) -> None:
        self._states = states
        self.needed: dict[str, ClaimTemplate] = {}

    def ensure(
        self, namespace: str, template: ClaimTemplate, seconds: float, *, dry_run: bool
    ) -> TemplateState:
        """Record the template, and return its state."""
        del namespace, seconds, dry_run
        self.needed[template.name] = template
        return self._states.get(template.name, TemplateStatus.PRESENT)


def _find_namespace(body: bytes) -> str:
    """Find the namespace without decoding a large body. Only the order of reviews depends on it."""
    match = _NAMESPACE.search(body, 0, _MAX_HEAD_BYTES)
    return match[1].decode("utf-8", "replace") if match else ""


def decode_envelope(body: bytes) -> RequestEnvelope | Malformed:
    """Decode a review without its objects."""
    request = review.decode_review(body)
    if isinstance(request, Malformed):
        return request
    fields = {name: getattr(request, name) for name in RequestEnvelope.__struct_fields__}
    return RequestEnvelope(**fields)


def review_snapshot(
    method: str, body: bytes, snapshot: ClusterSnapshot, states: TemplateStates
) -> LargeReply:
    """Handle a review with the named method of the handler. Runs in the other process."""
    templates = _KnownTemplates(states)
    handler = AdmissionHandler(snapshot, templates, _unpack(snapshot.inputs).answers)
    reply = asyncio.run(await_reply(getattr(handler, method)(body)))
    return LargeReply(reply, tuple(templates.needed.values()))


class ReviewDispatcher:
    """Handles small reviews in the event loop, and large ones through a worker."""

    def __init__(
        self,
        handler: AdmissionHandler,
        cluster: ClusterView,
        templates: TemplateEnsurer,
        worker: Worker,
    ) -> None:
        self._handler = handler
        self._cluster = cluster
        self._templates = templates
        self._worker = worker
        self._packer = _InputsPacker()

    def review_pod(
        self, body: bytes, seconds: float | None = None, peer: str = ""
    ) -> Reply | PendingReply:
        """Handle the review of a pod."""
        if len(body) > MAX_INLINE_BYTES:
            return self._review_elsewhere("review_pod", body, seconds, peer)
        return self._review_inline("review_pod", body, seconds, peer)

    def review_guarded_pod(
        self, body: bytes, seconds: float | None = None, peer: str = ""
    ) -> Reply | PendingReply:
        """Handle the review of a pod after all mutating webhooks."""
        recent = self._cluster.recent_inputs()
        decisions = 1 + len(recent.configurations) * len(recent.facts)
        if len(body) > MAX_INLINE_BYTES or len(body) * decisions > _MAX_INLINE_GUARD_BYTES:
            return self._review_elsewhere("review_guarded_pod", body, seconds, peer)
        return self._review_inline("review_guarded_pod", body, seconds, peer)

    def review_workload(
        self, body: bytes, seconds: float | None = None, peer: str = ""
    ) -> PendingReply:
        """Handle the review of an object that creates pods."""
        if len(body) > MAX_INLINE_BYTES:
            return self._review_elsewhere(_WORKLOAD, body, seconds, peer)
        return self._await_inline(
            self._handler.review_workload(body, seconds), _WORKLOAD, body, seconds, peer
        )

    def _review_inline(
        self, method: str, body: bytes, seconds: float | None, peer: str
    ) -> Reply | PendingReply:
        """Handle a review in the event loop, unless its translation takes too long there."""
        try:
            reply: Reply | PendingReply = getattr(self._handler, method)(body, seconds)
        except WorkPostponedError:
            return self._review_elsewhere(method, body, seconds, peer)
        return (
            reply
            if isinstance(reply, Reply)
            else self._await_inline(reply, method, body, seconds, peer)
        )

    async def _await_inline(
        self, pending: PendingReply, method: str, body: bytes, seconds: float | None, peer: str
    ) -> Reply:
        try:
            return await pending
        except WorkPostponedError:
            return await self._review_elsewhere(method, body, seconds, peer)

    async def _review_elsewhere(
        self, method: str, body: bytes, seconds: float | None, peer: str
    ) -> Reply:
        """Handle a review in the other process. A workload does not need it to be free.

        The pods of a workload are reviewed again.
        """
        try:
            return await self._review_in_worker(method, body, seconds, peer)
        except WorkerError:
            uid = review.read_uid(body)
            if method == _WORKLOAD:
                return reply_unreviewed(uid, f"{_BUSY}; the pods of this one were not checked")
            return reply_error(uid, 429, f"{_BUSY}; try again")

    async def _review_in_worker(
        self, method: str, body: bytes, seconds: float | None, peer: str
    ) -> Reply:
        key = TurnKey(_find_namespace(body), peer)
        request = await self._worker.run(decode_envelope, body, key=key)
        if isinstance(request, Malformed):
            return reply_malformed(request)
        snapshot = await self._take_snapshot(request.namespace, seconds)
        large = await self._worker.run(review_snapshot, method, body, snapshot, {}, key=key)
        states = await self._ensure(request, large.templates, seconds)
        if EXISTING.issuperset(states.values()):
            return large.reply
        again = await self._worker.run(review_snapshot, method, body, snapshot, states, key=key)
        return again.reply

    async def _take_snapshot(self, namespace: str, seconds: float | None) -> ClusterSnapshot:
        cluster, labels = self._cluster, None
        context = cluster.translation_context()
        if context is not None:
            configured = context.configuration
            decided = await self._handler.scopes.read(namespace, configured, seconds)
            labels = None if decided is None else decided.labels
        return ClusterSnapshot(
            self._packer.pack(context, cluster.recent_inputs()),
            labels,
            cluster.limit_ranges(namespace),
            cluster.resource_quotas(namespace),
            cluster.default_queue(namespace),
            cluster.other_webhooks(),
            cluster.inactive_conditions(),
        )

    async def _ensure(
        self, request: RequestEnvelope, templates: Sequence[ClaimTemplate], seconds: float | None
    ) -> TemplateStates:
        timeout, dry_run = TEMPLATE_TIMEOUT if seconds is None else seconds, bool(request.dry_run)
        states = [
            self._templates.ensure(request.namespace, template, timeout, dry_run=dry_run)
            for template in templates
        ]
        names = (each.name for each in templates)
        return dict(zip(names, await await_states(states), strict=True))
