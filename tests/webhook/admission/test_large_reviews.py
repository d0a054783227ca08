"""Large bodies are handled outside the event loop, with the same replies as small ones."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from drawbridge.agreement.match_conditions import derive_conditions
from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.values import Value
from drawbridge.process.fair_turns import NOBODY, TurnKey
from drawbridge.translate.pods import make_context, translate
from drawbridge.translate.work_budget import INLINE_UNITS
from tests.tables import YamlValue
from tests.webhook.admission.harness import (
    ENFORCE,
    AdmissionHarness,
    facts,
    pod,
    read_response,
    review,
)
from webhook.admission import large_reviews
from webhook.admission.handler import AdmissionHandler
from webhook.admission.large_reviews import MAX_INLINE_BYTES, ReviewDispatcher
from webhook.admission.protocols import RecentInputs, WorkerError
from webhook.admission.replies import PendingReply, Reply, await_reply
from webhook.server.worker_process import WorkerProcess

pytestmark = pytest.mark.asyncio
FACTS = facts(
    {"classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}]}
)
PADDING = {"padding": "x" * (MAX_INLINE_BYTES + 1)}


class InlineWorker:
    """Runs functions at once and records them."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.keys: list[TurnKey] = []
        self.is_busy = False

    async def run(self, function: Callable[..., Any], *args: Any, key: TurnKey = NOBODY) -> Any:  # noqa: ANN401
        """Run a function."""
        if self.is_busy:
            raise WorkerError("busy")
        self.calls.append(function.__name__)
        self.keys.append(key)
        # The handler of the worker runs an event loop of its own.
        return await asyncio.to_thread(function, *args)


class DispatcherHarness(AdmissionHarness):
    """A dispatcher with the fakes of the handler."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.worker = InlineWorker()
        self.cluster.context = make_context(
            Configuration(), FACTS, caches_pods=False, inline_units=INLINE_UNITS
        )
        self.dispatcher = ReviewDispatcher(
            self.admission, self.cluster, self.templates, self.worker
        )


def large(limits: YamlValue, **spec: YamlValue) -> YamlValue:
    made = pod(limits, **spec)
    made["metadata"]["annotations"] = dict(PADDING)
    return made


def deployment(template: YamlValue) -> YamlValue:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "annotations": dict(PADDING)},
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


METHODS: dict[str, tuple[str, YamlValue, YamlValue]] = {
    "a pod": ("review_pod", large({"nvidia.com/gpu": "1"}), {}),
    "a pod that is denied": ("review_pod", large({"nvidia.com/gpu": "x"}), {}),
    "a pod without devices": ("review_pod", large({"cpu": "1"}), {}),
    "a dry run": ("review_pod", large({"nvidia.com/gpu": "1"}), {"dryRun": True}),
    "an unknown namespace": ("review_pod", large({"nvidia.com/gpu": "1"}), {"namespace": "x"}),
    "a guarded pod": ("review_guarded_pod", large({"nvidia.com/gpu": "1"}), {}),
    "a workload": ("review_workload", deployment(pod({"nvidia.com/gpu": "1"})), {}),
    "another kind": ("review_pod", deployment(pod({"nvidia.com/gpu": "1"})), {}),
    "an update": (
        "review_pod",
        large({"cpu": "1"}),
        {"operation": "UPDATE", "old": large({"cpu": "1"})},
    ),
}


async def test_a_large_object_gets_the_reply_of_a_small_one() -> None:
    async with contextlib.aclosing(WorkerProcess()) as worker:
        for name, (method, object_, request) in METHODS.items():
            body = review(object_, **request)
            assert len(body) > MAX_INLINE_BYTES
            harness, inline = DispatcherHarness(), DispatcherHarness()
            for admission in (harness, inline):
                admission.cluster.recent = recent()
            expected = await await_reply(getattr(inline.admission, method)(body))
            dispatcher = ReviewDispatcher(
                harness.admission, harness.cluster, harness.templates, worker
            )
            assert await await_reply(getattr(dispatcher, method)(body)) == expected, name
            assert harness.store.calls == inline.store.calls, name
            assert harness.store.stored == inline.store.stored, name


async def test_a_translated_pod_is_updated_alike() -> None:
    harness = DispatcherHarness()
    before = large({"nvidia.com/gpu": "1"})
    after = read_response(
        await await_reply(harness.dispatcher.review_pod(review(before))), before
    ).after
    body = review(before, operation="UPDATE", old=after)
    large_reply = await await_reply(harness.dispatcher.review_pod(body))
    assert large_reply == await await_reply(harness.admission.review_pod(body))
    assert read_response(large_reply, before).patch


async def test_a_large_body_is_not_handled_in_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handled: list[bool] = []
    translate = AdmissionHandler.review_pod

    def record(
        self: AdmissionHandler, body: bytes, seconds: float | None = None
    ) -> Reply | PendingReply:
        handled.append(threading.current_thread() is main)
        return translate(self, body, seconds)

    monkeypatch.setattr(AdmissionHandler, "review_pod", record)
    main = threading.current_thread()
    harness = DispatcherHarness()
    await await_reply(harness.dispatcher.review_pod(review(large({"nvidia.com/gpu": "1"}))))
    assert handled == [False]
    assert harness.worker.calls == ["decode_envelope", "review_snapshot"]
    await await_reply(harness.dispatcher.review_pod(review(pod({"nvidia.com/gpu": "1"}))))
    assert handled == [False, True]
    assert len(harness.worker.calls) == 2


async def test_a_small_pod_does_not_wait_for_a_large_one() -> None:
    harness = DispatcherHarness()
    started, unblocked = asyncio.Event(), asyncio.Event()

    class BlockedWorker(InlineWorker):
        async def run(self, function: Callable[..., Any], *args: Any, key: TurnKey = NOBODY) -> Any:  # noqa: ANN401
            started.set()
            await unblocked.wait()
            return await super().run(function, *args, key=key)

    dispatcher = ReviewDispatcher(
        harness.admission, harness.cluster, harness.templates, BlockedWorker()
    )
    waiting = asyncio.create_task(
        await_reply(dispatcher.review_pod(review(large({"nvidia.com/gpu": "1"}))))
    )
    await started.wait()
    assert (
        await await_reply(dispatcher.review_pod(review(pod({"cpu": "1"}))))
    ).outcome == "allowed"
    assert not waiting.done()
    unblocked.set()
    assert (await waiting).outcome == "translated"


async def test_a_template_with_other_content_denies_a_large_pod() -> None:
    harness = DispatcherHarness()
    object_ = large({"nvidia.com/gpu": "1"})
    await await_reply(harness.dispatcher.review_pod(review(object_)))
    (key,) = harness.store.stored
    metadata = {"namespace": key[0], "name": key[1]}
    harness.store.watch.put({"metadata": metadata, "spec": {"spec": {}}})
    response = read_response(
        await await_reply(harness.dispatcher.review_pod(review(object_))), object_
    )
    assert (response.allowed, response.status["code"]) == (False, 403)
    assert "exists with different content" in response.status["message"]


async def test_a_busy_worker_denies_a_large_pod_with_429() -> None:
    harness = DispatcherHarness()
    harness.worker.is_busy = True
    object_ = large({"nvidia.com/gpu": "1"})
    response = read_response(
        await await_reply(harness.dispatcher.review_pod(review(object_))), object_
    )
    assert (response.allowed, response.status["code"]) == (False, 429)
    assert "try again" in response.status["message"]


async def test_a_busy_worker_allows_a_large_workload() -> None:
    harness = DispatcherHarness()
    harness.worker.is_busy = True
    object_ = deployment(pod({"nvidia.com/gpu": "1"}))
    response = read_response(await harness.dispatcher.review_workload(review(object_)), object_)
    assert response.allowed
    assert response.warnings == [
        "too many large objects are in review; the pods of this one were not checked"
    ]


@pytest.mark.parametrize(("count", "is_large"), [(3, False), (40, True)])
async def test_a_workload_with_many_templates_is_not_handled_in_the_event_loop(
    count: int,
    is_large: bool,  # noqa: FBT001  # a column
) -> None:
    harness = DispatcherHarness()
    template = {"spec": pod({"nvidia.com/gpu": "1"})["spec"]}
    groups = [{"groupName": f"g{i}", "template": template} for i in range(count)]
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": groups}
    object_ = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {}, "spec": spec}
    body = review(object_)
    assert len(body) <= MAX_INLINE_BYTES
    reply = await harness.dispatcher.review_workload(body)
    assert bool(harness.worker.calls) is is_large
    harness.cluster.context = make_context(Configuration(), FACTS, caches_pods=False)
    assert reply == await harness.admission.review_workload(body)


def gpus(containers: int) -> YamlValue:
    """Return a pod of so many containers with a GPU each."""
    made = pod({"nvidia.com/gpu": "1"})
    (main,) = made["spec"]["containers"]
    made["spec"]["containers"] = [main | {"name": f"c{i}"} for i in range(containers)]
    return made


def translated(object_: YamlValue) -> YamlValue:
    """Return a pod as the webhook changes it."""
    return apply_edits(object_, translate(object_, make_context(Configuration(), FACTS)).edits)


EXPENSIVE: dict[str, tuple[str, YamlValue, YamlValue]] = {
    "a pod": ("review_pod", gpus(32), {}),
    "a pod in an unknown namespace": ("review_pod", gpus(32), {"namespace": "later"}),
    "a guarded pod": ("review_guarded_pod", gpus(32), {}),
    "a workload": ("review_workload", deployment(gpus(32)), {}),
    "an update": (
        "review_pod",
        gpus(40),
        {"operation": "UPDATE", "old": translated(gpus(40))},
    ),
}


@pytest.mark.parametrize("case", EXPENSIVE.values(), ids=list(EXPENSIVE))
async def test_a_small_body_with_much_work_is_not_handled_in_the_event_loop(
    case: tuple[str, YamlValue, YamlValue],
) -> None:
    method, object_, request = case
    object_["metadata"].pop("annotations", None)
    harness, alone = DispatcherHarness(), DispatcherHarness()
    alone.cluster.context = make_context(Configuration(), FACTS, caches_pods=False)
    for admission in (harness, alone):
        admission.cluster.unwatched = {"later": ENFORCE}
        admission.cluster.recent = recent()
    body = review(object_, **request)
    assert len(body) <= MAX_INLINE_BYTES
    reply = await await_reply(getattr(harness.dispatcher, method)(body))
    assert "review_snapshot" in harness.worker.calls
    assert reply == await await_reply(getattr(alone.admission, method)(body))


@pytest.mark.parametrize("method", ["review_pod", "review_guarded_pod", "review_workload"])
async def test_an_ordinary_pod_is_handled_in_the_event_loop(method: str) -> None:
    harness = DispatcherHarness()
    harness.cluster.recent = recent()
    await await_reply(getattr(harness.dispatcher, method)(review(gpus(4))))
    assert not harness.worker.calls


async def test_a_large_malformed_body_gets_status_400() -> None:
    harness = DispatcherHarness()
    reply = await await_reply(harness.dispatcher.review_pod(b"[" * (MAX_INLINE_BYTES + 1)))
    assert (reply.status, reply.outcome) == (400, "error")


async def test_the_snapshot_has_no_caches_of_the_event_loop() -> None:
    harness = DispatcherHarness()
    snapshots: list[large_reviews.ClusterSnapshot] = []

    class RecordingWorker(InlineWorker):
        async def run(self, function: Callable[..., Any], *args: Any, key: TurnKey = NOBODY) -> Any:  # noqa: ANN401
            snapshots.extend(
                argument for argument in args if isinstance(argument, large_reviews.ClusterSnapshot)
            )
            return await super().run(function, *args, key=key)

    dispatcher = ReviewDispatcher(
        harness.admission, harness.cluster, harness.templates, RecordingWorker()
    )
    await await_reply(dispatcher.review_pod(review(large({"nvidia.com/gpu": "1"}))))
    (snapshot,) = snapshots
    context = snapshot.translation_context()
    assert context is not None
    assert (context.outcomes, context.translations, context.inline_units) == (None, None, None)


async def test_the_inputs_of_all_reviews_are_pickled_once_until_they_change() -> None:
    harness = DispatcherHarness()
    inputs: list[bytes] = []

    class RecordingWorker(InlineWorker):
        async def run(self, function: Callable[..., Any], *args: Any, key: TurnKey = NOBODY) -> Any:  # noqa: ANN401
            inputs.extend(
                argument.inputs
                for argument in args
                if isinstance(argument, large_reviews.ClusterSnapshot)
            )
            return await super().run(function, *args, key=key)

    dispatcher = ReviewDispatcher(
        harness.admission, harness.cluster, harness.templates, RecordingWorker()
    )

    async def play() -> None:
        await await_reply(dispatcher.review_pod(review(large({"nvidia.com/gpu": "1"}))))

    await play()
    await play()
    harness.cluster.recent = recent()
    await play()
    harness.cluster.context = make_context(Configuration(), FACTS)
    await play()
    assert inputs[0] is inputs[1]
    assert len({id(each) for each in inputs}) == 3


@pytest.mark.parametrize(("versions", "is_large"), [(1, False), (3, False), (30, True)])
async def test_a_guarded_pod_with_many_decisions_is_not_handled_in_the_event_loop(
    versions: int,
    is_large: bool,  # noqa: FBT001  # a column
) -> None:
    harness = DispatcherHarness()
    harness.cluster.recent = msgspec.structs.replace(recent(), facts=(FACTS,) * versions)
    object_ = pod({"nvidia.com/gpu": "1"})
    object_["metadata"]["annotations"] = {"padding": "x" * (MAX_INLINE_BYTES // 4)}
    body = review(object_)
    reply = await await_reply(harness.dispatcher.review_guarded_pod(body))
    assert bool(harness.worker.calls) is is_large
    harness.cluster.context = make_context(Configuration(), FACTS, caches_pods=False)
    assert reply == await await_reply(harness.admission.review_guarded_pod(body))


@pytest.mark.parametrize("namespace", ["team", "x" * 63])
async def test_the_reviews_of_a_namespace_wait_for_each_other(namespace: str) -> None:
    harness = DispatcherHarness()
    body = json.loads(review(large({"nvidia.com/gpu": "1"})))
    body["request"] = {"name": '"namespace":"forged"', "namespace": namespace} | {
        name: field for name, field in body["request"].items() if name != "namespace"
    }
    await await_reply(
        harness.dispatcher.review_pod(json.dumps(body, separators=(",", ":")).encode(), 5, "peer")
    )
    assert set(harness.worker.keys) == {TurnKey(namespace, "peer")}
