"""Reconcilers return to the event loop after each object, so that the Lease is renewed in time."""

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Final

import pytest

from controller import steps
from controller.missing_templates import MissingTemplateReconciler
from controller.protocols import WatchedObject
from controller.quota_mirror import QuotaMirrorReconciler
from controller.reconcile import Reconciler
from controller.template_gc import TemplateGarbageCollector
from controller.watched_objects import PartialObject, WatchedPod, WatchedQuota
from drawbridge.brief import Brief, BriefRuns
from drawbridge.config.model import Configuration
from drawbridge.translate.context import make_context
from tests.cluster.memory_store import START, MemoryStore
from tests.controller import test_template_gc
from tests.controller.harness import FakeClock, FakeReporter
from tests.controller.waiting_pods import TEAM, Scene, translated

OBJECTS: Final = 40
OLD: Final = START - dt.timedelta(days=2)


class Turns:
    """Counts how many objects a reconciler decides on in one turn of the event loop."""

    def __init__(self) -> None:
        self.decided = 0
        self.most = 0
        self._last = 0

    def decide(self, _: object) -> bool:
        """Decide that an object is out of scope, so that no request interrupts the turn."""
        self.decided += 1
        return False

    async def count(self) -> None:
        """Run in each turn of the event loop."""
        while True:
            self.most = max(self.most, self.decided - self._last)
            self._last = self.decided
            await asyncio.sleep(0)


class TurnScope:
    """A scope that no pod is in."""

    def __init__(self, turns: Turns) -> None:
        self.includes = turns.decide
        self.allows_admin_access = turns.decide


def make_missing_templates(turns: Turns) -> Reconciler:
    pods, templates = MemoryStore(WatchedPod), MemoryStore(PartialObject)
    for number in range(OBJECTS):
        pods.put(translated(name=f"pod-{number}")[0])
    return MissingTemplateReconciler(
        pods,
        templates,
        templates,
        scope=TurnScope(turns),  # type: ignore[arg-type]  # the part that is called
        context=lambda: None,
        find_facts=lambda _: None,
        reporter=FakeReporter(),
        now=FakeClock(),
        briefs=BriefRuns(Brief(), lambda: 0.0),
    )


def make_garbage_collector(turns: Turns) -> Reconciler:
    scene = test_template_gc.Scene()
    for number in range(OBJECTS):
        metadata = {**scene.stored["metadata"], "namespace": f"team-{number}"}
        scene.templates.put({**scene.stored, "metadata": metadata}, created=OLD)
    return TemplateGarbageCollector(
        scene.templates,
        scene.pods,
        scene.templates,
        is_enforced=turns.decide,
        reporter=scene.reporter,
        now=scene.clock,
    )


def make_quota_mirror(turns: Turns) -> Reconciler:
    quotas, namespaces = MemoryStore(WatchedQuota), MemoryStore(PartialObject)
    for number in range(OBJECTS):
        quotas.put({"metadata": {"name": "quota", "namespace": f"team-{number}"}})
        namespaces.put({"metadata": {"name": f"team-{number}"}})
    return QuotaMirrorReconciler(
        quotas,
        namespaces,
        quotas,
        is_enforced=turns.decide,
        context=lambda: make_context(Configuration()),
        reporter=FakeReporter(),
    )


@pytest.mark.parametrize(
    "make", [make_missing_templates, make_garbage_collector, make_quota_mirror]
)
def test_a_reconciler_decides_on_one_object_in_each_turn_of_the_event_loop(
    make: Callable[[Turns], Reconciler],
) -> None:
    turns = Turns()

    async def run() -> None:
        counting = asyncio.create_task(turns.count())
        await make(turns).reconcile()
        counting.cancel()

    asyncio.run(run())
    assert turns.decided >= OBJECTS
    assert turns.most == 1


def test_a_term_begins_with_some_of_the_pods_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tens of thousands can wait. One that is deleted meanwhile is not queued."""
    turns = Turns()
    reconciler = make_missing_templates(turns)
    assert isinstance(reconciler, MissingTemplateReconciler)
    pods, queued = reconciler._pods, list[str]()  # noqa: SLF001  # as a watch does

    def queue(_: object, pod: WatchedObject[WatchedPod] | None) -> None:
        turns.decided += 1
        if turns.decided == 1:
            pods.remove("pod-30", TEAM)  # type: ignore[attr-defined]  # a MemoryStore
        queued.extend([] if pod is None else [pod.name])

    monkeypatch.setattr(steps, "STEP", 10)
    monkeypatch.setattr(reconciler, "pod_changed", queue)

    async def run() -> None:
        counting = asyncio.create_task(turns.count())
        await reconciler.reconcile()
        counting.cancel()

    asyncio.run(run())
    assert turns.most == 10
    assert len(queued) == OBJECTS - 1


def test_a_template_event_queues_its_pods_without_a_search() -> None:
    scene = Scene()
    pod, name = translated()
    other = {**pod, "metadata": {**pod["metadata"], "name": "other"}, "spec": {"containers": []}}
    scene.put(pod)
    scene.put(other)
    assert scene.reconcile() == [name]
    searched: list[str | None] = []
    scene.pods.all = lambda namespace=None: searched.append(namespace) or ()  # type: ignore[method-assign,func-returns-value,assignment]
    scene.reconciler.template_changed(scene.templates.remove(name, TEAM), None)
    assert scene.reconcile() == [name]
    assert not searched


def test_a_deleted_pod_leaves_no_trace_in_the_index_of_templates() -> None:
    scene = Scene()
    pod, name = translated()
    stored = scene.put(pod)
    scene.reconciler.pod_changed(scene.pods.remove("train", TEAM), None)
    assert stored.value.template_names == (name,)
    assert not scene.reconciler._users  # noqa: SLF001  # the bound of a memory
