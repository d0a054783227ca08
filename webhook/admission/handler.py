"""The two questions of the API server, from bytes to bytes.

What is known of the cluster and the templates is handed in; a handler waits for nothing but a
template that is not there yet, and for a namespace that was made this moment. Everything malformed
gets an answer; what raises is a bug, and its caller answers for it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from config.model import Configuration, Scope
from config.policy import treated
from documents.patch import Edit
from documents.values import Value
from dra.finding import Finding, Severity
from dra.names import ORIGINAL_ANNOTATION, TRANSLATE_LABEL
from registration import scope
from registration.admission_codes import TEMPLATE_LATER, TEMPLATE_TAKEN
from registration.scope import InScope, Mode
from runtime import review
from runtime.review import Asked, Denial, Malformed, Request
from translate.changes.patch import operations
from translate.changes.template import Template
from translate.essence import essence
from translate.interest import Interest, covers, interest
from translate.pods import Given
from webhook.admission import answer_cache, created_pod, messages, pods, updates, workloads
from webhook.admission.answer_cache import Key, Memory
from webhook.admission.claim_summary import Claims
from webhook.admission.created_pod import Bare
from webhook.admission.pods import Answer, Manner, Outcome, Said
from webhook.admission.protocols import Ensured, Known, Templates

# How long a template is waited for where nobody says how long there is.
_SECONDS: Final = 4.0
# How long a namespace may be unknown: a watch is behind by much less.
_STEP, _STEPS = 0.05, 20
_OPT_OUT: Final = TRANSLATE_LABEL.encode()


class Reply(msgspec.Struct, frozen=True):
    """What goes back to the API server, and what is counted and logged of it.

    `outcome` is one of allowed, translated, reported, denied, error.
    """

    status: int
    body: bytes
    uid: str = ""
    operation: str = ""
    outcome: str = "allowed"
    codes: tuple[str, ...] = ()
    namespace: str = ""
    name: str = ""


class _Question(NamedTuple):
    """What is asked about a pod that is being created, and what it is answered with."""

    request: Asked
    body: bytes
    mode: Mode
    given: Given
    seconds: float | None


class Admission:
    """Answers reviews; keeps only what it can make again."""

    def __init__(self, known: Known, templates: Templates, memory: Memory) -> None:
        self._known = known
        self._templates = templates
        self._memory = memory
        self._claims = Claims()
        self._seen: tuple[Configuration, Interest] | None = None
        self._scopes: dict[str, tuple[Mapping[str, str], Scope, InScope]] = {}

    async def pods(self, body: bytes, seconds: float | None = None) -> Reply:
        """Answer a review of a pod; `seconds` is how long the API server waits."""
        created = created_pod.created(body)
        if created is not None and created.object is not None:
            return await self._pod(created, created.object, body, seconds)
        request = review.decode(body)
        if isinstance(request, Malformed):
            return _malformed(request)
        if request.kind.kind != "Pod" or request.kind.group:
            return _wrong(request, f"/admit/pods is for pods, not for {request.kind.kind}")
        if request.sub_resource or request.operation not in {"CREATE", "UPDATE"}:
            return _reply(request, Said(review.allowed(), "allowed"))
        if request.operation == "UPDATE":
            return self._updated(request)
        return await self._pod(request, created_pod.bare(request.object), body, seconds)

    async def _pod(
        self, request: Asked, pod: Bare | Malformed, body: bytes, seconds: float | None
    ) -> Reply:
        given = self._known.given()
        if given is None:
            return _unready(request, "configuration and facts are not read yet")
        if not request.namespace:
            return _wrong(request, "request.namespace is empty: every pod has a namespace")
        found = await self._scope(request.namespace, given.configuration.scope, seconds)
        if found is None:
            return _unready(request, f"namespace {request.namespace} is not known here yet")
        if found.mode is Mode.OFF:
            return _reply(request, _outside(found))
        if isinstance(pod, Malformed):
            return _wrong(request, pod.why)
        return await self._created(pod, _Question(request, body, found.mode, given, seconds))

    async def workloads(self, body: bytes, seconds: float | None = None) -> Reply:
        """Answer a review of an object that makes pods: warnings, early refusals, no change."""
        request = review.decode(body)
        if isinstance(request, Malformed):
            return _malformed(request)
        given = self._known.given()
        if request.sub_resource or request.operation not in {"CREATE", "UPDATE"} or given is None:
            return _reply(request, Said(review.allowed(), "allowed"))
        found = await self._scope(request.namespace, given.configuration.scope, seconds)
        if found is None or found.mode is Mode.OFF:
            return _reply(request, _outside(found))
        around = workloads.Around(self._known.limits(request.namespace), self._known.unsent())
        said = workloads.answer(request, found.mode, given, self._claims, around)
        if isinstance(said, Malformed):
            return _wrong(request, said.why)
        return _reply(request, said)

    async def _scope(self, name: str, scopes: Scope, seconds: float | None) -> InScope | None:
        """Say what is done in the namespace; wait a little for one that was made this moment."""
        labels = self._known.namespace(name)
        if labels is None:
            labels = await self._appears(name, seconds)
        if labels is None:
            return None
        held = self._scopes.get(name)
        if held is not None and held[0] is labels and held[1] is scopes:
            return held[2]
        found = scope.of_namespace(name, labels, scopes)
        if len(self._scopes) > 10_000:
            self._scopes.clear()
        self._scopes[name] = (labels, scopes, found)
        return found

    async def _appears(self, name: str, seconds: float | None) -> Mapping[str, str] | None:
        """Wait for a namespace, a second or half of the time there is."""
        waits = _STEPS if seconds is None else min(_STEPS, int(seconds / _STEP / 2))
        for _ in range(waits):
            await asyncio.sleep(_STEP)
            labels = self._known.namespace(name)
            if labels is not None:
                return labels
        return None

    async def _created(self, pod: Bare, asked: _Question) -> Reply:
        request = asked.request
        out = _stays(pod, request.namespace, asked.given)
        if isinstance(out, Malformed):
            return _wrong(request, out.why)
        if out:
            return _reply(request, Said(review.allowed(), "allowed"))
        answer = self._answer(pod, asked)
        if isinstance(answer, Malformed):
            return _wrong(request, answer.why)
        said = self._surrounded(pod, answer, asked)
        if said.outcome == "translated":
            said = await self._ensured(answer, said, asked)
        return _reply(request, said, pod.metadata.name or pod.metadata.generate_name)

    def _answer(self, pod: Bare, asked: _Question) -> Answer | Malformed:
        """Give the answer of the pod alone: remembered, else made."""
        given, others = asked.given, self._known.others()
        self._memory.under(given, others)
        key, name = (
            answer_cache.key(pod, asked.request.namespace, asked.mode),
            answer_cache.called(pod),
        )
        answer = self._memory.get(key, name)
        if answer is not None:
            return answer
        value = review.object_of(asked.body)
        if isinstance(value, Malformed):
            return value
        if not covers(value, self._interest(given)):
            answer = Answer(Outcome(), Said(review.allowed(), "allowed"))
        else:
            answer = self._alike(essence(value), key.of(name), given, others)
        self._keep(key, name, answer)
        return answer

    def _keep(self, key: Key, name: str, answer: Answer) -> None:
        """Remember an answer: for its pod alone if that is named in it."""
        own = key.of(name) if answer.said.named else key
        self._memory.put(own, answer, 2 * len(answer.said.rest))

    def _alike(self, pod: Value, own: Key, given: Given, others: Sequence[Finding]) -> Answer:
        """Give the answer for all pods that ask alike."""
        key = answer_cache.essential(own, pod)
        answer = self._memory.alike(key, own.name)
        if answer is not None:
            return answer
        outcome = pods.decide(pod, own.namespace, given, self._claims)
        if outcome.edits or outcome.refused:
            about = (*outcome.findings, *treated(others, given.configuration.findings))
            outcome = msgspec.structs.replace(outcome, findings=about)
        manner = _manner(own.name, own.namespace, Mode(own.mode), given)
        answer = Answer(outcome, pods.say(outcome, manner))
        self._keep(key, own.name, answer)
        return answer

    def _interest(self, given: Given) -> Interest:
        """Say what makes a pod worth looking at, as the conditions of the webhook do."""
        if self._seen is None or self._seen[0] is not given.configuration:
            self._seen = (given.configuration, interest(given.configuration))
        return self._seen[1]

    def _surrounded(self, pod: Bare, answer: Answer, asked: _Question) -> Said:
        """Give the answer with what stands in the namespace today."""
        outcome = answer.outcome
        if not outcome.edits or outcome.refused:
            return answer.said
        namespace, given = asked.request.namespace, asked.given
        ranges = self._known.limits(namespace)
        quotas = self._known.quotas(namespace)
        about = _mislabelled(pod, asked.mode, given)
        if not ranges and not quotas and not about:
            return answer.said
        found, edits = pods.surroundings(outcome, ranges, quotas, given)
        if not found and not edits and not about:
            return answer.said
        found = (*found, *about)
        return pods.say(outcome, _manner("", namespace, asked.mode, given), found, edits)

    async def _ensured(self, answer: Answer, said: Said, asked: _Question) -> Said:
        """See to the templates; one that is taken or cannot be had refuses the pod."""
        request, given = asked.request, asked.given
        ask = self._templates.look if request.dry_run else self._templates.ensure
        waits = _SECONDS if asked.seconds is None else asked.seconds
        templates, name = answer.outcome.templates, request.namespace
        states: Sequence[Ensured | Finding]
        if len(templates) == 1:
            states = (await ask(name, templates[0], waits),)
        else:
            states = await asyncio.gather(*(ask(name, each, waits) for each in templates))
        if _FINE.issuperset(states):
            return said
        found = [
            each if isinstance(each, Finding) else _about(name, template, each)
            for template, each in zip(templates, states, strict=True)
            if each not in _FINE and not (request.dry_run and each is Ensured.LATER)
        ]
        told_of = tuple(treated(found, given.configuration.findings))
        if not told_of:
            return said
        more, edits = self._again(name, answer, given)
        manner = _manner("", name, Mode.ENFORCE, given)
        return pods.say(answer.outcome, manner, (*told_of, *more), edits)

    def _again(
        self, namespace: str, answer: Answer, given: Given
    ) -> tuple[tuple[Finding, ...], tuple[Edit, ...]]:
        known = self._known
        return pods.surroundings(
            answer.outcome, known.limits(namespace), known.quotas(namespace), given
        )

    def _updated(self, request: Request) -> Reply:
        """Keep a translated pod as it is; every other update is let through."""
        if _ORIGINAL not in bytes(request.old_object):
            return _reply(request, Said(review.allowed(), "allowed"))
        old, new = review.value(request.old_object), review.value(request.object)
        if isinstance(old, Malformed) or isinstance(new, Malformed):
            return _wrong(request, "an update needs object and oldObject")
        if not updates.marked(old):
            return _reply(request, Said(review.allowed(), "allowed"))
        given = self._known.given() or Given()
        edits, found = updates.healed(old, new, given.configuration.legacy)
        told_of = tuple(treated(found, given.configuration.findings))
        outcome = Outcome(edits, findings=told_of, operations=operations(edits))
        manner = Manner(Mode.ENFORCE, "", _command(request.name, request.namespace, Mode.ENFORCE))
        said = pods.say(outcome, manner)
        if not edits or any(each.severity is Severity.ERROR for each in told_of):
            return _reply(request, said)
        return _reply(request, Said(said.rest, "allowed", said.codes))


_ORIGINAL: Final = ORIGINAL_ANNOTATION.encode()
_FINE: Final = frozenset({Ensured.MADE, Ensured.THERE})


def _stays(pod: Bare, namespace: str, given: Given) -> bool | Malformed:
    """Tell whether the pod opted out, or is not among those that the rollout has reached."""
    percent = given.configuration.scope.rollout.percent
    if percent >= 100 and _OPT_OUT not in bytes(pod.metadata.labels):
        return False
    read = created_pod.metadata(pod)
    if isinstance(read, Malformed):
        return read
    chosen = scope.rolled_out(scope.owner(namespace, read), percent)
    return scope.opted_out(read) or not chosen


def _mislabelled(pod: Bare, mode: Mode, given: Given) -> tuple[Finding, ...]:
    """Tell of a label by which the pod does not opt out."""
    if _OPT_OUT not in bytes(pod.metadata.labels):
        return ()
    read = created_pod.metadata(pod)
    found = () if isinstance(read, Malformed) else scope.mislabelled(read, mode)
    return tuple(treated(found, given.configuration.findings))


def _about(namespace: str, template: Template, state: Ensured) -> Finding:
    """Say why a template is not what it has to be."""
    name = f"ResourceClaimTemplate {namespace}/{template.name}"
    if state is Ensured.TAKEN:
        remedy = f"kubectl delete resourceclaimtemplate -n {namespace} {template.name}"
        return TEMPLATE_TAKEN.at(
            "spec.resourceClaims",
            f"{name} is there and says something else",
            remedy=f"Delete it, it is made again as it has to be: {remedy}",
        )
    return TEMPLATE_LATER.at("spec.resourceClaims", f"{name} could not be made at once")


def _command(name: str, namespace: str, mode: Mode) -> str:
    """Name the command that tells what no warning has room for."""
    who = f"{name or 'POD'} -n {namespace}"
    if mode is Mode.REPORT:
        # A pod that has its node would be left as it is.
        read = f"kubectl get pod {who} -o yaml | grep -v nodeName:"
        return f"all of it: {read} | drawbridge translate -f - --context"
    return f"all of it: kubectl drawbridge explain {who}"


def _manner(name: str, namespace: str, mode: Mode, given: Given) -> Manner:
    return Manner(mode, given.digest, _command(name, namespace, mode))


def _outside(found: InScope | None) -> Said:
    """Answer for a namespace where nothing is translated."""
    if found is None or not found.findings:
        return Said(review.allowed(), "allowed")
    lines = [messages.short(messages.line(each)) for each in found.findings]
    codes = tuple(each.code for each in found.findings)
    return Said(review.allowed((), lines), "allowed", codes)


def _reply(request: Asked, said: Said, name: str = "") -> Reply:
    return Reply(
        200,
        review.answer(request.uid, said.rest),
        request.uid,
        request.operation,
        said.outcome,
        said.codes,
        request.namespace,
        name or request.name,
    )


def _wrong(request: Asked, why: str) -> Reply:
    """Refuse what is no pod, or no object, although the envelope is right."""
    denial = Denial(400, "BadRequest", messages.safe(why, 1024))
    return _reply(request, Said(review.denied(denial), "error"))


def _unready(request: Asked, why: str) -> Reply:
    """Refuse what cannot be answered yet; whoever asks again gets an answer."""
    denial = Denial(503, "ServiceUnavailable", f"{why}; try again")
    return _reply(request, Said(review.denied(denial), "error"))


def _malformed(found: Malformed) -> Reply:
    """Answer bytes that are no review: a denial where at least the uid can be read."""
    why = messages.safe(found.why, 1024)
    if not found.uid:
        return Reply(400, why.encode(), outcome="error")
    body = review.answer(found.uid, review.denied(Denial(400, "BadRequest", why)))
    return Reply(200, body, found.uid, outcome="error")
