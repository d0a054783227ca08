"""Reviews pods and workloads: on the event loop for a short time, then in a copy of this process.

What takes long is interrupted wherever it is, and a copy handles the review again without being
interrupted. Large bodies are decoded in a copy only, because nothing interrupts a decoder. The
kernel limits the time and the memory of a copy, there is one at a time, and the next one
is for the namespace whose copies took least time.
Time decides where an object is reviewed, and whether it is reviewed at all, never what is said
about it. A copy creates no templates: it names them, and this process ensures them.
"""

import pickle
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from drawbridge.agreement.scope import Mode
from drawbridge.brief import BriefRuns, CutShort
from drawbridge.config.policy import apply_policies
from drawbridge.process import review
from drawbridge.process.fair_turns import FairTurns, NoTurnError, TurnKey
from drawbridge.process.forked import (
    ForkFailedError,
    ForkLimits,
    ForkRefusedError,
    Written,
    run_partly,
)
from drawbridge.process.review import Malformed, RequestEnvelope
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.codes import POD_TOO_COMPLEX
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.handler import EXISTING, AdmissionHandler
from webhook.admission.namespace_scopes import KnownScopes
from webhook.admission.protocols import (
    ClusterView,
    TemplateEnsurer,
    TemplateState,
    TemplateStatus,
    await_states,
)
from webhook.admission.replies import (
    PendingReply,
    Reply,
    compose_reply,
    reply_error,
    reply_unreviewed,
)
from webhook.admission.responses import (
    ALLOWED,
    Decided,
    ResponseOptions,
    compose_file_command,
    respond,
)

# A body of this size takes at most about two milliseconds before its translation.
MAX_INLINE_BYTES: Final = 32 * 1024
# The time of a review in a namespace whose reviews take long. An ordinary one takes less.
LEAST_SECONDS: Final = 0.005
# The reviews that wait keep their bodies in memory.
MAX_WAITING: Final = 64
# Longer than any API server waits: then the caller ends the copy.
_MAX_SECONDS: Final = 60.0
COPY_LIMITS: Final = ForkLimits(
    seconds=_MAX_SECONDS, cpu_seconds=2, more_bytes=256 << 20, result_bytes=32 << 20
)
# The API server writes the namespace before the user and the objects. A quote within a value is
# escaped, so no other value can contain this.
_NAMESPACE: Final = re.compile(rb'"namespace":"([^"\\]{1,63})"')
_MAX_HEAD_BYTES: Final = 4096
_BUSY: Final = "too many large objects are in review"

# A method of the handler, which a copy calls with a handler of its own.
Method = Callable[[AdmissionHandler, bytes, float], Reply | PendingReply]
TemplateStates = Mapping[str, TemplateState]


class CopiedReply(NamedTuple):
    """A reply that a copy gives, and the templates that must exist for it."""

    reply: Reply
    templates: tuple[ClaimTemplate, ...] = ()


class Admissions:
    """Handles reviews. `briefs` interrupts those that take long."""

    def __init__(  # noqa: PLR0913  # all but four by name
        self,
        cluster: ClusterView,
        templates: TemplateEnsurer,
        answers: AnswerCache,
        briefs: BriefRuns,
        *,
        max_waiting: int = MAX_WAITING,
        limits: ForkLimits = COPY_LIMITS,
    ) -> None:
        self._cluster = cluster
        self._templates = templates
        self._answers = answers
        self._handler = AdmissionHandler(cluster, templates, answers, briefs)
        self._turns = FairTurns(max_waiting)
        self._limits = limits

    def review_pod(self, body: bytes, seconds: float, peer: str = "") -> Reply | PendingReply:
        """Handle the review of a pod."""
        return self._review(AdmissionHandler.review_pod, body, seconds, peer)

    def review_guarded_pod(
        self, body: bytes, seconds: float, peer: str = ""
    ) -> Reply | PendingReply:
        """Handle the review of a pod after all mutating webhooks."""
        return self._review(AdmissionHandler.review_guarded_pod, body, seconds, peer)

    def review_workload(self, body: bytes, seconds: float, peer: str = "") -> Reply | PendingReply:
        """Handle the review of an object that creates pods."""
        return self._review(AdmissionHandler.review_workload, body, seconds, peer)

    def _review(
        self, method: Method, body: bytes, seconds: float, peer: str
    ) -> Reply | PendingReply:
        if len(body) > MAX_INLINE_BYTES:
            return self._review_elsewhere(method, body, seconds, peer)
        try:
            reply = method(self._handler, body, seconds)
        except CutShort:
            return self._review_elsewhere(method, body, seconds, peer)
        if isinstance(reply, Reply):
            return reply
        return self._await_here(reply, method, body, seconds, peer)

    async def _await_here(
        self, pending: PendingReply, method: Method, body: bytes, seconds: float, peer: str
    ) -> Reply:
        try:
            return await pending
        except CutShort:
            return await self._review_elsewhere(method, body, seconds, peer)

    async def _review_elsewhere(
        self, method: Method, body: bytes, seconds: float, peer: str
    ) -> Reply:
        """Handle a review in a copy. A workload does not need one: its pods are reviewed again."""
        namespace = _find_namespace(body)
        await self._read_namespace(namespace, seconds)
        run = partial(self._run_copy, method, body, TurnKey(namespace, peer))
        try:
            request, copied = await run({})
            if request is not None and request.namespace != namespace:
                # The head of the body did not show it.
                await self._read_namespace(request.namespace, seconds)
                request, copied = await run({})
            if request is None or not copied.templates:
                return copied.reply
            states = await self._ensure(request, copied.templates, seconds)
            if not EXISTING.issuperset(states.values()):
                _, copied = await run(states)
        except (NoTurnError, ForkRefusedError):
            uid = review.read_uid(body)
            if method is AdmissionHandler.review_workload:
                return reply_unreviewed(uid, f"{_BUSY}; the pods of this one were not checked")
            return reply_error(uid, 429, f"{_BUSY}; try again")
        return copied.reply

    async def _read_namespace(self, name: str, seconds: float) -> None:
        """Have the labels of a namespace in memory, as a copy cannot read them."""
        context = self._cluster.translation_context()
        if context is not None and name:
            await self._handler.scopes.read(name, context.configuration, seconds)

    async def _run_copy(
        self, method: Method, body: bytes, key: TurnKey, states: TemplateStates
    ) -> tuple[RequestEnvelope | None, CopiedReply]:
        """Return the request as a copy reads it, if it is one, and the reply."""
        async with self._turns.take(key):
            written = await run_partly(
                partial(self._review_as_copy, method, body, states), self._limits
            )
        if written.traceback:
            raise ForkFailedError(written.traceback)
        told = [pickle.loads(each) for each in written.messages]  # noqa: S301  # our own
        request: RequestEnvelope | None = told[0] if told else None
        if written.limit:
            return request, CopiedReply(self._reply_unfinished(method, request, body, written))
        return request, told[1]

    def _review_as_copy(
        self, method: Method, body: bytes, states: TemplateStates, write: Callable[[bytes], None]
    ) -> None:
        """Tell the request, and then the reply and the templates that it needs."""
        request = review.decode_review(body)
        if isinstance(request, Malformed):
            write(pickle.dumps(None))
        else:
            fields = {name: getattr(request, name) for name in RequestEnvelope.__struct_fields__}
            write(pickle.dumps(RequestEnvelope(**fields)))
        templates = _NamedTemplates(states)
        scopes = KnownScopes(self._cluster)
        handler = AdmissionHandler(self._cluster, templates, self._answers, scopes=scopes)
        reply = method(handler, body, 0.0)  # it waits for nothing
        if not isinstance(reply, Reply):
            reply = _finish(reply)
        write(pickle.dumps(CopiedReply(reply, tuple(templates.needed.values()))))

    def _reply_unfinished(
        self, method: Method, request: RequestEnvelope | None, body: bytes, written: Written
    ) -> Reply:
        """Refuse a pod whose review reached a limit. Other objects are allowed without a review.

        An update of a pod is needed to remove its finalizers. If the copy was killed, a pod is
        refused only until its client tries again, because another copy may come to its end.
        """
        why = f"its review gives {written.limit}"
        unreviewed = f"drawbridge: this object was not reviewed: {why}"
        asked = request or review.read_uid(body)
        is_update = request is not None and request.operation != "CREATE"
        if method is AdmissionHandler.review_workload or is_update:
            return reply_unreviewed(asked, unreviewed)
        code, why = (429, f"{why}; try again") if written.was_killed else (400, why)
        context = self._cluster.translation_context()
        if request is None or context is None:
            return reply_error(asked, code, why)
        configured = context.configuration
        scope = KnownScopes(self._cluster).find(request.namespace, configured)
        if scope is None or scope.mode is Mode.OFF:
            return compose_reply(request, ALLOWED)
        if written.was_killed:
            if scope.mode is Mode.REPORT:
                return reply_unreviewed(asked, unreviewed)
            return reply_error(asked, code, why)
        findings = apply_policies((POD_TOO_COMPLEX.at("spec", why),), configured.findings)
        decided = Decided(findings=tuple(findings))
        options = ResponseOptions(compose_file_command(request.namespace), scope.mode)
        return compose_reply(request, respond(decided, options))

    async def _ensure(
        self, request: RequestEnvelope, templates: Sequence[ClaimTemplate], seconds: float
    ) -> TemplateStates:
        dry_run = bool(request.dry_run)
        states = [
            self._templates.ensure(request.namespace, template, seconds, dry_run=dry_run)
            for template in templates
        ]
        names = (each.name for each in templates)
        return dict(zip(names, await await_states(states), strict=True))


class _NamedTemplates:
    """Notes which templates a review needs. States that are not known count as present."""

    def __init__(self, states: TemplateStates) -> None:
        self._states = states
        self.needed: dict[str, ClaimTemplate] = {}

    def ensure(
        self, namespace: str, template: ClaimTemplate, seconds: float, *, dry_run: bool
    ) -> TemplateState:
        """Note the template, and return its state."""
        del namespace, seconds, dry_run
        self.needed[template.name] = template
        return self._states.get(template.name, TemplateStatus.PRESENT)


def _finish(reply: Coroutine[Any, Any, Reply]) -> Reply:
    """Return a reply for which nothing has to be awaited, as all is known in a copy."""
    try:
        reply.send(None)
    except StopIteration as end:
        finished: Reply = end.value
        return finished
    raise RuntimeError("a review in a copy waits")


def _find_namespace(body: bytes) -> str:
    """Find the namespace without decoding a large body, for the order of reviews."""
    match = _NAMESPACE.search(body, 0, _MAX_HEAD_BYTES)
    return match[1].decode("utf-8", "replace") if match else ""
