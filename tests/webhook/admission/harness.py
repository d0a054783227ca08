"""An admission handler with a fake cluster and a fake API server, and reviews to send to it."""
# ruff: noqa: D102  # webhook.admission.protocols documents the methods

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import jsonpatch
import msgspec

from drawbridge.api_error import ApiError
from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.facts.model import Facts
from drawbridge.facts.serialized import read_facts
from drawbridge.finding import Finding
from drawbridge.names import FIELD_MANAGER
from drawbridge.translate.context import TranslationContext, make_context
from tests.cluster.memory_store import MemoryStore
from tests.tables import YamlValue
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.handler import AdmissionHandler
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.protocols import RecentInputs
from webhook.admission.replies import Reply, await_reply
from webhook.admission.templates import TemplateCache
from webhook.server.template_store import (
    WatchedTemplate,
    WatchedTemplateStore,
    read_watched_template,
)

HEAD = {"apiVersion": "drawbridge.dev/v1alpha1"}
ENFORCE = {"drawbridge.dev/translate": "enforce"}
SECONDS = 4.0  # until the API server gives up


def configuration(plain: YamlValue) -> Configuration:
    result = accept_configuration({**HEAD, "kind": "Configuration", **plain}, CODES)
    assert isinstance(result, Configuration), result
    return result


def facts(plain: YamlValue) -> Facts:
    result = read_facts({**HEAD, "kind": "Facts", **plain})
    assert isinstance(result, Facts), result
    return result


CODES = {
    name: name
    for name in (
        "TolerationAdded",
        "QuotaExceeded",
        "QuotaNotOnClaims",
        "TemplateLater",
        "DeviceQuotaTooSmall",
        "TranslationChanged",
        "ClassWithoutDevices",
    )
}


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.moment = self.started = datetime(2026, 11, 20, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, **by: float) -> None:
        self.moment += timedelta(**by)

    def elapsed(self) -> float:
        """Return the time of the steady clock."""
        return (self.moment - self.started).total_seconds()

    def step(self, **by: float) -> None:
        """Set the wall clock, and leave the steady one."""
        self.moment += timedelta(**by)
        self.started += timedelta(**by)


class MemoryTemplates(WatchedTemplateStore):
    """The store of templates over an API server in memory, with configurable failures.

    `watch` is what the watch has delivered: what a test stores there.
    """

    def __init__(self) -> None:
        self.server: MemoryStore[WatchedTemplate] = MemoryStore(
            None,
            before_write=self._fail,
            admit=self._drop_fields,
            decode=read_watched_template,
        )
        self.watch: MemoryStore[WatchedTemplate] = MemoryStore(None, decode=read_watched_template)
        self.dropped_fields: tuple[str, ...] = ()  # fields of `exactly`
        self.is_failing = False
        self.refusal = ""
        super().__init__(self.watch, self.server)

    @property
    def stored(self) -> dict[tuple[str, str], YamlValue]:
        """The templates on the API server."""
        return self.server.objects

    @property
    def calls(self) -> list[str]:
        """The verbs of the requests."""
        return [verb for verb, _ in self.server.requests]

    @property
    def unblocked(self) -> asyncio.Event:
        """Whether requests are answered."""
        return self.server.unblocked

    def deliver(self) -> None:
        """Let the watch show what the API server has."""
        for stored in self.stored.values():
            managers = [{"manager": FIELD_MANAGER, "operation": "Update"}]
            self.watch.put(
                {**stored, "metadata": {**stored["metadata"], "managedFields": managers}}
            )

    def _fail(self, verb: str, value: YamlValue) -> None:
        del verb, value
        if self.is_failing:
            raise ApiError(503, "ServiceUnavailable", "no")
        if self.refusal:
            raise ApiError(403, "Forbidden", self.refusal)

    def _drop_fields(self, template: YamlValue) -> YamlValue:
        for request in template["spec"]["spec"]["devices"]["requests"]:
            for name in self.dropped_fields:
                request.get("exactly", {}).pop(name, None)
        return template


@dataclass
class FakeClusterView:
    """A cluster view with fixed values."""

    context: TranslationContext | None = field(default_factory=TranslationContext)
    namespaces: dict[str, dict[str, str]] = field(default_factory=lambda: {"team": ENFORCE})
    ranges: Sequence[LimitRange] = ()
    quotas: Sequence[ResourceQuota] = ()
    queues: dict[str, str] = field(default_factory=dict)
    webhook_findings: Sequence[Finding] = ()
    condition_findings: Sequence[Finding] = ()
    unwatched: dict[str, dict[str, str]] = field(default_factory=dict)  # namespaces to read
    reads: list[str] = field(default_factory=list)
    recent: RecentInputs = field(default_factory=RecentInputs)

    def translation_context(self) -> TranslationContext | None:
        return self.context

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        return self.namespaces.get(name)

    async def read_namespace_labels(self, name: str, seconds: float) -> Mapping[str, str] | None:
        del seconds
        self.reads.append(name)
        return self.unwatched.get(name)

    def recent_inputs(self) -> RecentInputs:
        return self.recent

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        return self.ranges if namespace in self.namespaces else ()

    def resource_quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        return self.quotas if namespace in self.namespaces else ()

    def default_queue(self, namespace: str) -> str:
        return self.queues.get(namespace, "")

    def other_webhooks(self) -> Sequence[Finding]:
        return self.webhook_findings

    def inactive_conditions(self) -> Sequence[Finding]:
        return self.condition_findings


@dataclass
class AdmissionHarness:
    """An admission handler with fakes for everything that it needs."""

    cluster: FakeClusterView = field(default_factory=FakeClusterView)
    store: MemoryTemplates = field(default_factory=MemoryTemplates)
    clock: Clock = field(default_factory=Clock)
    answers: AnswerCache = field(default_factory=AnswerCache)

    def __post_init__(self) -> None:
        self.templates = TemplateCache(self.store, self.clock, self.clock.elapsed)
        self.admission = AdmissionHandler(self.cluster, self.templates, self.answers)

    def configure(self, settings: YamlValue, fact_values: YamlValue = None) -> None:
        """Set the configuration and the facts."""
        known_facts = facts(fact_values) if fact_values is not None else None
        self.cluster.context = make_context(configuration(settings), known_facts)

    async def pod(self, object_: YamlValue, **request: YamlValue) -> "Response":
        """Review a pod."""
        return read_response(
            await await_reply(self.admission.review_pod(review(object_, **request), SECONDS)),
            object_,
        )

    async def guarded_pod(self, object_: YamlValue, **request: YamlValue) -> "Response":
        """Review a pod after all mutating webhooks."""
        body = review(object_, **request)
        return read_response(
            await await_reply(self.admission.review_guarded_pod(body, SECONDS)), object_
        )

    async def workload(self, object_: YamlValue, **request: YamlValue) -> "Response":
        """Review an object that creates pods."""
        reply = await self.admission.review_workload(review(object_, **request), SECONDS)
        return read_response(reply, object_)


@dataclass(frozen=True)
class Response:
    """A response, decoded and applied to the object."""

    reply: Reply
    allowed: bool
    after: YamlValue
    patch: YamlValue
    warnings: list[str]
    status: YamlValue
    audit: YamlValue


def review(
    object_: YamlValue, operation: str = "CREATE", old: YamlValue = None, **rest: YamlValue
) -> bytes:
    """Build a review like the API server."""
    kind = object_.get("kind", "Pod")
    group = object_.get("apiVersion", "v1").rpartition("/")[0]
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": "pods"},
        "namespace": "team",
        "name": "" if "name" in rest else object_.get("metadata", {}).get("name", ""),
        "operation": operation,
        "userInfo": {"username": "somebody", "groups": ["system:authenticated"]},
        "object": object_,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **rest,
    }
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(body, separators=(",", ":")).encode()


def read_response(reply: Reply, object_: YamlValue) -> Response:
    """Decode a response like the API server, and fail for a response that it would reject."""
    assert reply.status == 200, reply
    answer = msgspec.json.decode(reply.body)
    assert answer.keys() == {"apiVersion", "kind", "response"}
    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["kind"] == "AdmissionReview"
    response = answer["response"]
    assert response["uid"] == reply.uid
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    assert ("patchType" in response) == bool(patch)
    after = jsonpatch.apply_patch(object_, patch)
    warnings = response.get("warnings", [])
    assert all(len(each) <= 256 and each.isprintable() for each in warnings)
    assert sum(map(len, warnings)) < 4096
    audit = response.get("auditAnnotations", {})
    status = response.get("status", {})
    return Response(reply, response["allowed"], after, patch, warnings, status, audit)


def pod(limits: YamlValue = None, *, name: str = "p", **spec: YamlValue) -> YamlValue:
    """Return a pod like the API server sends it, with these limits and equal requests."""
    resources = {"limits": limits, "requests": dict(limits)} if limits else {}
    container = {"name": "main", "image": "x", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": [container], "schedulerName": "default-scheduler", **spec},
    }
