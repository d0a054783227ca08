"""Reviews of pods and workloads: on the event loop, and in copies of it where they are cut.

Each way gives the same reply and the same templates.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from drawbridge.agreement.match_conditions import derive_conditions
from drawbridge.brief import Brief, BriefRuns, CutShort
from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.values import Value
from drawbridge.process import review as review_bodies
from drawbridge.process.fair_turns import TurnKey
from drawbridge.process.forked import ForkFailedError, ForkLimits, Written, run_partly
from drawbridge.translate.context import make_context
from drawbridge.translate.pods import translate
from tests.cuts import CutAlways, CutAt
from tests.tables import YamlValue
from tests.thorough import drawn
from tests.webhook.admission.harness import (
    ENFORCE,
    SECONDS,
    AdmissionHarness,
    FakeClusterView,
    configuration,
    facts,
    pod,
    read_response,
    review,
)
from tests.webhook.server.test_configuration_reviews import children
from webhook.admission.handler import AdmissionHandler
from webhook.admission.protocols import RecentInputs
from webhook.admission.replies import Reply, await_reply
from webhook.server import admissions
from webhook.server.admissions import MAX_INLINE_BYTES, Admissions

pytestmark = [
    pytest.mark.asyncio,
    # A cut within the end of a generator is lost, and the next one counts.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
FACTS = facts(
    {"classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}]}
)
PADDING = {"padding": "x" * (MAX_INLINE_BYTES + 1)}
REPORT = {"drawbridge.dev/translate": "report"}
OFF = {"drawbridge.dev/translate": "off"}


class ReadNamespaces(FakeClusterView):
    """A view that remembers the namespaces that it has read."""

    async def read_namespace_labels(self, name: str, seconds: float) -> Mapping[str, str] | None:
        """Return the labels of a namespace, after a request, for which a copy has no event loop."""
        await asyncio.sleep(0)
        labels = await super().read_namespace_labels(name, seconds)
        if labels is not None:
            self.namespaces[name] = {**labels}
        return labels


class Harness(AdmissionHarness):
    """Admissions with the fakes of the handler."""

    def __post_init__(self) -> None:
        self.cluster = ReadNamespaces()
        super().__post_init__()
        self.cluster.context = make_context(Configuration(), FACTS, caches_pods=False)
        self.cluster.recent = recent()

    def handler(self, brief: Brief) -> AdmissionHandler:
        """Return a handler that a brief cuts."""
        briefs = BriefRuns(brief, lambda: 0.0)
        return AdmissionHandler(self.cluster, self.templates, self.answers, briefs)

    def admit(self, brief: Brief | None = None, **options: Any) -> Admissions:  # noqa: ANN401
        """Return the admissions of a process."""
        briefs = BriefRuns(brief or Brief(), lambda: 0.0)
        return Admissions(self.cluster, self.templates, self.answers, briefs, **options)


@pytest.fixture(name="copies")
def _copies(monkeypatch: pytest.MonkeyPatch) -> list[Written]:
    """Record what copies write."""
    written: list[Written] = []

    async def record(function: Callable[..., None], limits: ForkLimits) -> Written:
        written.append(await run_partly(function, limits))
        return written[-1]

    monkeypatch.setattr(admissions, "run_partly", record)
    return written


def large(limits: YamlValue, **spec: YamlValue) -> YamlValue:
    made = pod(limits, **spec)
    made["metadata"]["annotations"] = dict(PADDING)
    return made


def deployment(template: YamlValue) -> YamlValue:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": template["spec"]}},
    }


def recent() -> RecentInputs:
    ((name, conditions),) = [
        (name, condition)
        for name, condition in derive_conditions(Configuration()).items()
        if name.startswith("pods.")
    ]
    listed = [{"name": key, "expression": text} for key, text in conditions.items()]
    webhook: dict[str, Value] = {"webhooks": [{"name": name, "matchConditions": listed}]}  # type: ignore[list-item]  # a list of objects
    return RecentInputs((Configuration(),), (FACTS,), (webhook,), is_complete=True)


def translated(object_: YamlValue) -> YamlValue:
    """Return a pod as the webhook changes it."""
    return apply_edits(object_, translate(object_, make_context(Configuration(), FACTS)).edits)


GPU_POD, LARGE_POD = pod({"nvidia.com/gpu": "1"}), large({"nvidia.com/gpu": "1"})
REVIEWS: dict[str, tuple[str, YamlValue, YamlValue]] = {
    "a pod": ("review_pod", GPU_POD, {}),
    "a large pod": ("review_pod", LARGE_POD, {}),
    "a pod that is denied": ("review_pod", pod({"nvidia.com/gpu": "x"}), {}),
    "a pod without devices": ("review_pod", pod({"cpu": "1"}), {}),
    "a dry run": ("review_pod", GPU_POD, {"dryRun": True}),
    "an unknown namespace": ("review_pod", GPU_POD, {"namespace": "x"}),
    "a namespace that is read": (
        "review_pod",
        LARGE_POD,
        {"namespace": "later"},
    ),
    "a guarded pod": ("review_guarded_pod", GPU_POD, {}),
    "a large guarded pod": ("review_guarded_pod", LARGE_POD, {}),
    "a workload": ("review_workload", deployment(GPU_POD), {}),
    "another kind": ("review_pod", deployment(GPU_POD), {}),
    "an update": (
        "review_pod",
        LARGE_POD,
        {"operation": "UPDATE", "old": translated(LARGE_POD)},
    ),
}


@pytest.mark.parametrize("case", REVIEWS.values(), ids=list(REVIEWS))
async def test_a_copy_gives_the_reply_of_the_event_loop(
    case: tuple[str, YamlValue, YamlValue], monkeypatch: pytest.MonkeyPatch
) -> None:
    method, object_, request = case
    body = review(object_, **request)
    there, here = Harness(), Harness()
    for harness in (there, here):
        harness.cluster.unwatched = {"later": ENFORCE}
    expected = await await_reply(getattr(here.admission, method)(body, SECONDS))
    monkeypatch.setattr(admissions, "MAX_INLINE_BYTES", -1)
    assert await await_reply(getattr(there.admit(), method)(body, SECONDS)) == expected
    assert there.store.calls == here.store.calls
    assert there.store.stored == here.store.stored


async def test_a_namespace_is_read_that_the_head_of_a_large_body_does_not_show() -> None:
    harness = Harness()
    harness.cluster.unwatched = {"later": ENFORCE}
    formatted = json.dumps(json.loads(review(LARGE_POD, namespace="later")), indent=2).encode()
    reply = await await_reply(harness.admit().review_pod(formatted, SECONDS))
    assert read_response(reply, LARGE_POD).allowed
    assert harness.cluster.reads == ["later"]


@pytest.mark.parametrize("case", REVIEWS.values(), ids=list(REVIEWS))
async def test_a_review_that_is_cut_at_any_call_has_no_effect_and_the_same_reply_later(
    case: tuple[str, YamlValue, YamlValue],
) -> None:
    method, object_, request = case
    body = review(object_, **request)
    cut_often, alone = Harness(), Harness()
    for harness in (cut_often, alone):
        harness.cluster.unwatched = {"later": ENFORCE}
    expected = await await_reply(getattr(alone.admission, method)(body, SECONDS))
    cut, calls = CutAt(0, lines=True), 0
    handler = cut_often.handler(cut)
    while True:
        cut.calls = calls
        try:
            reply = await await_reply(getattr(handler, method)(body, SECONDS))
        except CutShort:
            assert not cut_often.store.calls
            calls += 1 + calls // 20
            continue
        assert reply == expected
        if not cut.lost:
            break
        cut.lost, calls = 0, calls + 1
    assert {*cut_often.store.calls} == {*alone.store.calls}


async def test_a_cut_while_inputs_change_mixes_nothing_of_both() -> None:
    quota = {"name": "none", "namespaces": ["team"], "single": {"gpu.nvidia.com": {"devices": 0}}}
    later = make_context(configuration({"quotas": [quota]}), FACTS, caches_pods=False)
    body, alone = review(GPU_POD), Harness()
    alone.cluster.context = later
    expected = await await_reply(alone.admission.review_pod(body, SECONDS))
    assert "DeviceQuotaTooSmall" in expected.codes
    # What a review leaves for others is in this package; all else computes new values.
    calls, cut = 0, CutAt(sys.maxsize, lines=True, package="webhook.")
    while not calls or cut.cuts or cut.lost:
        harness = Harness()
        handler = harness.handler(cut)
        await await_reply(handler.review_pod(body, SECONDS))
        harness.cluster.context = later
        cut.calls, cut.cuts, cut.lost = calls, 0, 0
        with contextlib.suppress(CutShort):
            await await_reply(handler.review_pod(body, SECONDS))
        cut.calls = sys.maxsize
        assert await await_reply(handler.review_pod(body, SECONDS)) == expected
        calls += drawn(3, thorough=1)


@pytest.mark.parametrize("case", REVIEWS.values(), ids=list(REVIEWS))
async def test_what_is_cut_is_reviewed_in_a_copy(
    case: tuple[str, YamlValue, YamlValue], copies: list[Written]
) -> None:
    method, object_, request = case
    body = review(object_, **request)
    harness, alone = Harness(), Harness()
    for each in (harness, alone):
        each.cluster.unwatched = {"later": ENFORCE}
    expected = await await_reply(getattr(alone.admission, method)(body, SECONDS))
    computes = request.get("namespace") is None and object_["kind"] == "Pod"
    reply = await await_reply(getattr(harness.admit(CutAlways()), method)(body, SECONDS))
    assert reply == expected
    assert bool(copies) or not computes


async def test_an_ordinary_pod_needs_no_copy(copies: list[Written]) -> None:
    admitted = Harness().admit()
    for method in ("review_pod", "review_guarded_pod", "review_workload"):
        await await_reply(getattr(admitted, method)(review(GPU_POD), SECONDS))
    assert not copies


async def test_a_small_pod_does_not_wait_for_a_copy() -> None:
    admitted = Harness().admit()
    waiting = asyncio.create_task(await_reply(admitted.review_pod(review(LARGE_POD), SECONDS)))
    await asyncio.sleep(0)
    reply = await await_reply(admitted.review_pod(review(GPU_POD), SECONDS))
    assert (reply.outcome, waiting.done()) == ("translated", False)
    assert (await waiting).outcome == "translated"


async def test_a_template_with_other_content_denies_a_large_pod() -> None:
    harness = Harness()
    object_ = LARGE_POD
    await await_reply(harness.admit().review_pod(review(object_), SECONDS))
    (key,) = harness.store.stored
    metadata = {"namespace": key[0], "name": key[1]}
    harness.store.watch.put({"metadata": metadata, "spec": {"spec": {}}})
    response = read_response(
        await await_reply(harness.admit().review_pod(review(object_), SECONDS)), object_
    )
    assert (response.allowed, response.status["code"]) == (False, 403)
    assert "exists with different content" in response.status["message"]


LIMITS = {
    "CPU time": ForkLimits(cpu_seconds=1),
    "memory": ForkLimits(more_bytes=16 << 20),
    "time": ForkLimits(seconds=0.2),
}


REFUSALS = [
    *(("review_pod", {}, ENFORCE, limit, "denied") for limit in LIMITS),
    ("review_pod", {}, REPORT, "time", "reported"),
    ("review_pod", {}, OFF, "time", "allowed"),
    ("review_pod", {"operation": "UPDATE"}, ENFORCE, "time", "error"),
    ("review_guarded_pod", {}, ENFORCE, "time", "denied"),
    ("review_workload", {}, ENFORCE, "time", "error"),
]


@pytest.mark.parametrize(("method", "options", "labels", "limit", "outcome"), REFUSALS)
async def test_a_review_that_reaches_a_limit_is_refused_where_a_pod_would_be_created(  # noqa: PLR0917  # columns
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    options: YamlValue,
    labels: dict[str, str],
    limit: str,
    outcome: str,
) -> None:
    def never(*_: object) -> None:
        kept = []
        while True:
            kept.append(bytes(1 << 16) if limit == "memory" else b"")
            if len(kept) > 1 << 16:
                kept.clear()

    monkeypatch.setattr(AdmissionHandler, method, never)
    harness = Harness()
    harness.cluster.namespaces["team"] = labels
    request = {"old": large({"cpu": "1"}), **options} if options else {}
    object_ = LARGE_POD
    admitted = harness.admit(limits=LIMITS[limit])
    reply = await await_reply(getattr(admitted, method)(review(object_, **request), SECONDS))
    response = read_response(reply, object_)
    assert (reply.outcome, response.allowed) == (outcome, outcome != "denied")
    text = response.status["message"] if outcome == "denied" else "".join(response.warnings)
    assert ("no result" in text) is (outcome != "allowed")
    assert not harness.store.calls


KILLED = [
    ("review_pod", {}, ENFORCE, True, 429),
    ("review_pod", {}, REPORT, True, 0),
    ("review_pod", {}, OFF, True, 0),
    ("review_pod", {"operation": "UPDATE"}, ENFORCE, True, 0),
    ("review_pod", {}, ENFORCE, False, 429),
    ("review_guarded_pod", {}, ENFORCE, True, 429),
    ("review_workload", {}, ENFORCE, True, 0),
    ("review_workload", {}, ENFORCE, False, 0),
]


@pytest.mark.parametrize(("method", "options", "labels", "is_decoded", "code"), KILLED)
async def test_a_review_that_the_system_kills_is_not_the_fault_of_its_object(  # noqa: PLR0917  # columns
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    options: YamlValue,
    labels: dict[str, str],
    is_decoded: bool,  # noqa: FBT001  # a column
    code: int,
) -> None:
    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if is_decoded:
        monkeypatch.setattr(AdmissionHandler, method, die)
    else:
        monkeypatch.setattr(review_bodies, "decode_review", die)
    harness = Harness()
    harness.cluster.namespaces["team"] = labels
    request = {"old": large({"cpu": "1"}), **options} if options else {}
    reply = await await_reply(
        getattr(harness.admit(), method)(review(LARGE_POD, **request), SECONDS)
    )
    response = read_response(reply, LARGE_POD)
    assert response.allowed is not bool(code)
    if code:
        assert response.status["code"] == code
        assert response.status["message"].endswith("signal 9 killed it; try again")
    else:
        assert ("not reviewed" in "".join(response.warnings)) is (labels is not OFF)


@pytest.mark.parametrize(("method", "allowed"), [("review_pod", False), ("review_workload", True)])
async def test_a_workload_that_cannot_be_decoded_within_the_limits_is_allowed(
    monkeypatch: pytest.MonkeyPatch, method: str, *, allowed: bool
) -> None:
    def grow(_body: bytes) -> None:
        raise MemoryError

    monkeypatch.setattr(review_bodies, "decode_review", grow)
    reply = await await_reply(getattr(Harness().admit(), method)(review(LARGE_POD), SECONDS))
    response = read_response(reply, LARGE_POD)
    assert response.allowed is allowed
    assert allowed or response.status["code"] == 400


async def test_a_bug_in_a_copy_fails_one_review(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Reply:
        raise ZeroDivisionError

    admitted = Harness().admit()
    body = review(LARGE_POD)
    with monkeypatch.context() as patched:
        patched.setattr(AdmissionHandler, "review_pod", fail)
        with pytest.raises(ForkFailedError, match="ZeroDivisionError"):
            await await_reply(admitted.review_pod(body, SECONDS))
    assert (await await_reply(admitted.review_pod(body, SECONDS))).outcome == "translated"


async def test_beyond_those_that_wait_pods_are_refused_and_workloads_allowed() -> None:
    harness = Harness()
    object_ = LARGE_POD
    admitted = harness.admit(max_waiting=0)
    first = asyncio.create_task(await_reply(admitted.review_pod(review(object_), SECONDS)))
    await asyncio.sleep(0)
    response = read_response(
        await await_reply(admitted.review_pod(review(object_), SECONDS)), object_
    )
    assert (response.allowed, response.status["code"]) == (False, 429)
    assert "try again" in response.status["message"]
    reply = await await_reply(admitted.review_workload(review(object_), SECONDS))
    response = read_response(reply, object_)
    assert response.allowed
    assert response.warnings == [
        "too many large objects are in review; the pods of this one were not checked"
    ]
    assert (await first).outcome == "translated"


async def test_a_large_malformed_body_gets_status_400() -> None:
    reply = await await_reply(Harness().admit().review_pod(b"[" * (MAX_INLINE_BYTES + 1), SECONDS))
    assert (reply.status, reply.outcome) == (400, "error")


@pytest.mark.parametrize("namespace", ["team", "x" * 63])
async def test_the_reviews_of_a_namespace_wait_for_each_other(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.loads(review(LARGE_POD))
    body["request"] = {"name": '"namespace":"forged"', "namespace": namespace} | {
        name: field for name, field in body["request"].items() if name != "namespace"
    }
    admitted, keys = Harness().admit(), []

    @contextlib.asynccontextmanager
    async def take(key: TurnKey) -> AsyncIterator[None]:
        keys.append(key)
        yield

    monkeypatch.setattr(admitted._turns, "take", take)  # noqa: SLF001
    text = json.dumps(body, separators=(",", ":")).encode()
    await await_reply(admitted.review_pod(text, 5, "peer"))
    assert set(keys) == {TurnKey(namespace, "peer")}


async def test_a_review_whose_caller_is_gone_leaves_no_copy() -> None:
    before, admitted = children(), Harness().admit()
    waiting = asyncio.create_task(await_reply(admitted.review_pod(review(LARGE_POD), SECONDS)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert children() > before
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert children() == before
