"""Measures how long each reconciler blocks the event loop that renews the Lease.

A cluster of 5,000 nodes with 8 GPUs each, 1,000 namespaces with quotas, 20,000 templates, 5,000
pending pods whose templates are missing, and one such pod with a hostile size. A task on the same
loop measures how late it wakes; the worst delay has to stay below 50 ms. On a busy machine, the
delay includes the time of other processes. The CPU time that all threads of this process used
during the delay does not. Part `usage` does the same with the meter of usage and its scrapes.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from bench import _usage
from bench._loop import measure_loop
from bench._scale import scaled
from bench._slices import slice_
from controller.admission_scope import AdmissionScope
from controller.dual_nodes import DualNodeReconciler, DualNodeStores
from controller.facts import FactsReconciler, FactsSources
from controller.field_probe import ServerSupport
from controller.missing_templates import LEAST_SECONDS, MissingTemplateReconciler
from controller.protocols import ObjectReference, Unstructured
from controller.quota_mirror import QuotaMirrorReconciler
from controller.reconcile import Reconciler
from controller.template_gc import TemplateGarbageCollector
from controller.watched_objects import PartialObject, WatchedNode, WatchedPod, WatchedQuota
from drawbridge.agreement.template_objects import build_object
from drawbridge.brief import BriefRuns
from drawbridge.cluster.store import pause_garbage_collection
from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.dra.classes import class_reader
from drawbridge.dra.gates import Gates
from drawbridge.dra.slices import slice_reader
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.process.alarm import CutAlarm
from drawbridge.process.collection import CollectionPause
from drawbridge.translate.changes.template import make_template
from drawbridge.translate.context import make_context
from drawbridge.translate.pods import translate
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeReporter

NODES: Final = scaled(5_000, 20)
NAMESPACES: Final = scaled(1_000, 10)
TEMPLATES: Final = scaled(20_000, 40)
PODS: Final = scaled(5_000, 40)
SIZES: Final = 8  # how many GPUs pods ask for
# Equal pods of a namespace have one template.
MISSING: Final = len({(i % NAMESPACES, i % SIZES) for i in range(PODS)})
AFTER_GRACE: Final = 4.0
DRIVER_NODES: Final = 20
NO_WRITES: Final = ("read", "list", "dry-run")
NOW: Final = datetime(2026, 11, 20, tzinfo=UTC)
_ENFORCE: Final = {"drawbridge.dev/translate": "enforce"}
_WEBHOOK: Final[Unstructured] = {"webhooks": [{"name": "pods.drawbridge.dev"}]}

T = TypeVar("T")


def fill(store: MemoryStore[T], objects: Iterable[Unstructured]) -> MemoryStore[T]:
    """Store objects, and return the store."""
    for stored in objects:
        store.put(stored)
    return store


def _node(number: int, *, plugin: bool = True) -> Unstructured:
    labels = {f"example.com/label-{i}": f"{number}" for i in range(30)}
    allocatable = {"cpu": "64"} | ({"nvidia.com/gpu": "8"} if plugin else {})
    return {
        "metadata": {"name": f"node-{number:05}", "labels": labels},
        "status": {"allocatable": allocatable, "capacity": {}},
    }


def _templates() -> Iterator[Unstructured]:
    for i in range(TEMPLATES):
        request: Any = {"deviceClassName": f"class-{i}", "count": 1}
        made = make_template({"devices": {"requests": [{"name": "a", "exactly": request}]}})
        value: Any = build_object(made, f"team-{i % NAMESPACES}", NOW - timedelta(days=2))
        value["metadata"]["managedFields"] = [{"manager": "drawbridge"}]
        yield value


def _pod(number: int, args: int = 0) -> Unstructured:
    limits = {"nvidia.com/gpu": f"{number % SIZES + 1}"}
    main = {"name": "main", "resources": {"limits": limits}, "args": ["x"] * args}
    metadata = {"name": f"pod-{number}", "namespace": f"team-{number % NAMESPACES}"}
    return {"metadata": metadata, "spec": {"containers": [main]}}


def _translated(pod: Unstructured) -> Unstructured:
    translation = translate(pod, make_context(Configuration()), pod["metadata"]["namespace"])
    translated: Any = apply_edits(pod, translation.edits)
    translated["metadata"]["uid"] = "uid"
    return {**translated}


def _hostile() -> Unstructured:
    """Return a pod with 4,000 insertions at the head of a list of 200,000 arguments."""
    pod = _translated(_pod(0, args=200_000))
    annotations = pod["metadata"]["annotations"]
    steps = json.loads(annotations[ORIGINAL_ANNOTATION])
    insertion = {"op": "add", "path": "/spec/containers/0/args/0", "value": ""}
    # A longer annotation is not parsed.
    text = json.dumps([insertion] * 4000 + steps, separators=(",", ":"))
    annotations[ORIGINAL_ANNOTATION] = text
    return pod


class _Clock:
    """The seconds that have passed, which rows add to."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def _row(title: str, reconciler: Reconciler, store: MemoryStore[T], writes: int) -> None:
    """Measure a run that has to send so many writes to the store."""
    store.requests.clear()
    await measure_loop(
        title,
        reconciler.reconcile,
        lambda: sum(verb not in NO_WRITES for verb, _ in store.requests),
        writes,
    )


async def _measure_all() -> None:
    configuration, reporter = Configuration(), FakeReporter()
    namespaces = fill(
        MemoryStore(PartialObject),
        ({"metadata": {"name": f"team-{i}", "labels": _ENFORCE}} for i in range(NAMESPACES)),
    )
    scope = AdmissionScope(namespaces, lambda: _WEBHOOK, lambda: configuration)
    published = MemoryStore(PartialObject)
    facts = _facts(configuration, reporter, published, NODES)
    await _row(f"facts of {NODES:,} nodes, first run", facts, published, 1)
    await _row(f"facts of {NODES:,} nodes, again", facts, published, 0)
    await _measure_templates(scope, reporter)
    await _measure_quota(scope, namespaces, configuration, reporter)
    nodes = fill(MemoryStore(WatchedNode), map(_node, range(NODES)))
    await _row(f"dual label of {NODES:,} nodes", _dual(facts, nodes, reporter), nodes, NODES)
    await _measure_drivers(configuration, reporter)


async def _measure_drivers(configuration: Configuration, reporter: FakeReporter) -> None:
    """Measure the label of nodes without a plugin, also after each has written its status."""
    published = MemoryStore(PartialObject)
    facts = _facts(configuration, reporter, published, NODES, plugin=False)
    await facts.reconcile()
    nodes = MemoryStore(WatchedNode)
    dual = _dual(facts, nodes, reporter)
    for run in ("first run", "after a heartbeat of each"):
        fill(nodes, (_beat(_node(i, plugin=False), run) for i in range(NODES)))
        _ = [*nodes.all()]  # a cache has decoded them
        await _row(f"dual label of {NODES:,} nodes without a plugin, {run}", dual, nodes, 0)


def _beat(node: Unstructured, heartbeat: str) -> Unstructured:
    return {**node, "status": {**node["status"], "conditions": [{"lastHeartbeatTime": heartbeat}]}}


async def _measure_templates(scope: AdmissionScope, reporter: FakeReporter) -> None:
    clock = _Clock()
    several = f"{PODS:,} pods"
    for title, pods, writes in (
        (several, [_translated(_pod(i)) for i in range(PODS)], MISSING),
        ("a hostile pod", [_hostile()], 1),
    ):
        made = MemoryStore(PartialObject)
        reconciler = _missing(pods, made, clock, scope, reporter)
        # Who applies the pods may still create their templates.
        await _row(f"first look at {title} without template", reconciler, made, 0)
        clock.seconds += AFTER_GRACE
        await _row(f"missing templates of {title}", reconciler, made, writes)
    templates = fill(MemoryStore(PartialObject), _templates())
    collector = _collector(templates, scope, reporter)
    await _row(f"garbage collection of {TEMPLATES:,} templates", collector, templates, TEMPLATES)


async def _measure_quota(
    scope: AdmissionScope,
    namespaces: MemoryStore[PartialObject],
    configuration: Configuration,
    reporter: FakeReporter,
) -> None:
    facts = _facts(configuration, reporter, MemoryStore(PartialObject), DRIVER_NODES, plugin=False)
    await facts.reconcile()
    quotas = fill(MemoryStore(WatchedQuota), map(_quota, range(NAMESPACES)))
    mirror = QuotaMirrorReconciler(
        quotas,
        namespaces,
        quotas,
        is_enforced=scope.is_enforced,
        context=lambda: facts.context,
        reporter=reporter,
    )
    # A mirror for the claims beside the quota of each namespace.
    await _row(f"quota of {NAMESPACES:,} namespaces, first run", mirror, quotas, NAMESPACES)
    await _row(f"quota of {NAMESPACES:,} namespaces, again", mirror, quotas, 0)


def _quota(number: int) -> Unstructured:
    hard = {f"requests.nvidia.com/mig-{i}g.10gb": "4" for i in range(4)}
    hard["requests.nvidia.com/gpu"] = "8"
    metadata = {"name": "quota", "namespace": f"team-{number}"}
    return {"metadata": metadata, "spec": {"hard": hard}, "status": {"used": {}}}


def _facts(
    configuration: Configuration,
    reporter: FakeReporter,
    published: MemoryStore[PartialObject],
    number: int,
    *,
    plugin: bool = True,
) -> FactsReconciler:
    async def support() -> ServerSupport:
        return ServerSupport("1.36", ("exactly.capacity",), Gates(version="1.36"))

    async def never(*, was_missing: bool) -> bool:  # noqa: ARG001
        return False

    classes: Iterable[Any] = [{"metadata": {"name": "gpu.nvidia.com"}, "spec": {}}]
    sources = FactsSources(
        fill(MemoryStore(None, decode=slice_reader().read), map(_slice, range(number))),
        fill(MemoryStore(None, decode=class_reader().read), classes),
        fill(MemoryStore(PartialObject), (_node(i, plugin=plugin) for i in range(number))),
    )
    return FactsReconciler(
        sources,
        published,
        "drawbridge-system",
        configuration=lambda: configuration,
        server_support=support,
        reporter=reporter,
        scheduler_missing=never,
        pause_collection=CollectionPause(pause_garbage_collection),
    )


def _slice(number: int) -> Unstructured:
    return {**slice_(number)}


def _missing(
    pods: Iterable[Unstructured],
    templates: MemoryStore[PartialObject],
    clock: _Clock,
    scope: AdmissionScope,
    reporter: FakeReporter,
) -> Reconciler:
    context = make_context(Configuration())
    return MissingTemplateReconciler(
        fill(MemoryStore(WatchedPod), pods),
        templates,
        templates,
        scope=scope,
        context=lambda: context,
        find_facts=lambda _: None,
        reporter=reporter,
        now=lambda: NOW,
        briefs=BriefRuns(CutAlarm(), time.monotonic, LEAST_SECONDS),
        elapsed=clock,
    )


def _collector(
    templates: MemoryStore[PartialObject], scope: AdmissionScope, reporter: FakeReporter
) -> Reconciler:
    pods = fill(MemoryStore(WatchedPod), (_translated(_pod(i)) for i in range(PODS)))
    return TemplateGarbageCollector(
        templates,
        pods,
        templates,
        is_enforced=scope.is_enforced,
        reporter=reporter,
        now=lambda: NOW,
    )


def _dual(
    facts: FactsReconciler, nodes: MemoryStore[WatchedNode], reporter: FakeReporter
) -> Reconciler:
    read: Callable[[], Any] = lambda: facts.dual_nodes  # noqa: E731
    return DualNodeReconciler(
        nodes,
        DualNodeStores(nodes, MemoryStore(WatchedPod)),
        dual_nodes=read,
        publishing=lambda: facts.publishing,
        context=lambda: facts.context,
        reporter=reporter,
        reference=ObjectReference("ConfigMap", "drawbridge-facts"),
        now=time.monotonic,
    )


def run() -> None:
    """Print a row for each reconciler."""
    asyncio.run(_measure_all())


PARTS: Final[Mapping[str, Callable[[], None]]] = {"reconcilers": run, "usage": _usage.run}
