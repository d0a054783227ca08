"""A cluster as admission knows it, out of plain data, and reviews of pods to ask it about."""
# ruff: noqa: D102  # the methods are those of the protocols in webhook.admission.protocols, described there

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import jsonpatch
import msgspec

from config.available_fields import BUILT
from config.load import load
from config.model import Configuration
from documents.values import Value
from dra.finding import Finding
from facts.model import Facts
from facts.serialized import read as read_facts
from tests.tables import Plain
from translate.pods import Given, given
from webhook.admission.answer_cache import Memory
from webhook.admission.handler import Admission, Reply
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.protocols import StoreError
from webhook.admission.resource_quotas import ResourceQuota
from webhook.admission.templates import Made

HEAD = {"apiVersion": "drawbridge.dev/v1alpha1"}
ENFORCE = {"drawbridge.dev/translate": "enforce"}


def configuration(plain: Plain) -> Configuration:
    found = load({**HEAD, "kind": "Configuration", **plain}, CODES, {**BUILT, "scope": ()})
    assert isinstance(found, Configuration), found
    return found


def facts(plain: Plain) -> Facts:
    found = read_facts({**HEAD, "kind": "Facts", **plain})
    assert isinstance(found, Facts), found
    return found


CODES = ("TolerationAdded", "QuotaExceeded", "TemplateLater")


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 20, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def goes(self, **by: float) -> None:
        self.moment += timedelta(**by)


class Store:
    """Templates as an API server keeps them, with what it may do to a caller."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], dict[str, Value]] = {}
        self.watched: dict[tuple[str, str], dict[str, Value]] = {}
        self.calls: list[str] = []
        self.drops: tuple[str, ...] = ()  # fields of `exactly`
        self.fails = False
        self.refuses = ""
        self.open = asyncio.Event()
        self.open.set()

    def seen(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        return self.watched.get((namespace, name))

    async def create(
        self, namespace: str, value: Mapping[str, Value], *, dry_run: bool = False
    ) -> Mapping[str, Value] | None:
        await self._called("dry" if dry_run else "create")
        stored: Plain = deepcopy(dict(value))
        key = (namespace, stored["metadata"]["name"])
        if key in self.held:
            return None
        stored["metadata"] |= {"uid": "u1", "resourceVersion": "7"}
        for request in stored["spec"]["spec"]["devices"]["requests"]:
            for dropped in self.drops:
                request.get("exactly", {}).pop(dropped, None)
        if not dry_run:
            self.held[key] = stored
        whole: dict[str, Value] = stored
        return whole

    async def read(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        await self._called("read")
        return self.held.get((namespace, name))

    async def touch(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        await self._called("touch")
        held: Plain = self.held.get((namespace, name))
        if held:
            held["metadata"].setdefault("annotations", {}).update(annotations)

    async def _called(self, what: str) -> None:
        self.calls.append(what)
        await self.open.wait()
        if self.fails:
            raise StoreError("no")
        if self.refuses:
            raise StoreError("no", self.refuses)


@dataclass
class Known:
    """What is known of the cluster."""

    by: Given | None = field(default_factory=Given)
    namespaces: dict[str, dict[str, str]] = field(default_factory=lambda: {"team": ENFORCE})
    ranges: Sequence[LimitRange] = ()
    held: Sequence[ResourceQuota] = ()
    told: Sequence[Finding] = ()
    lacks: Sequence[Finding] = ()

    def given(self) -> Given | None:
        return self.by

    def namespace(self, name: str) -> Mapping[str, str] | None:
        return self.namespaces.get(name)

    def limits(self, namespace: str) -> Sequence[LimitRange]:
        return self.ranges if namespace in self.namespaces else ()

    def quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        return self.held if namespace in self.namespaces else ()

    def others(self) -> Sequence[Finding]:
        return self.told

    def unsent(self) -> Sequence[Finding]:
        return self.lacks


@dataclass
class Town:
    """An admission and all around it."""

    known: Known = field(default_factory=Known)
    store: Store = field(default_factory=Store)
    clock: Clock = field(default_factory=Clock)
    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self.templates = Made(self.store, self.clock)
        self.admission = Admission(self.known, self.templates, self.memory)

    def decides(self, settings: Plain, counted: Plain = None) -> None:
        """Let configuration and facts be these."""
        known = facts(counted) if counted is not None else None
        self.known.by = given(configuration(settings), known)

    async def pod(self, object_: Plain, **request: Plain) -> "Heard":
        return heard(await self.admission.pods(review(object_, **request)), object_)

    async def workload(self, object_: Plain, **request: Plain) -> "Heard":
        return heard(await self.admission.workloads(review(object_, **request)), object_)


@dataclass(frozen=True)
class Heard:
    """An answer, as the API server understands it."""

    reply: Reply
    allowed: bool
    after: Plain
    patch: Plain
    warnings: list[str]
    status: Plain
    audit: Plain


def review(object_: Plain, operation: str = "CREATE", old: Plain = None, **rest: Plain) -> bytes:
    """Write a review as the API server does."""
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
    whole = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(whole, separators=(",", ":")).encode()


def heard(reply: Reply, object_: Plain) -> Heard:
    """Read an answer as the API server does; what it would not take fails here."""
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
    return Heard(reply, response["allowed"], after, patch, warnings, status, audit)


def pod(limits: Plain = None, *, name: str = "p", **spec: Plain) -> Plain:
    """Give a pod as the API server hands it over, with these limits, and requests like them."""
    resources = {"limits": limits, "requests": dict(limits)} if limits else {}
    container = {"name": "main", "image": "x", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": [container], "schedulerName": "default-scheduler", **spec},
    }
