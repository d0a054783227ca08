"""Pods as admission leaves them, and the reconciler that creates their missing templates."""

import asyncio
import copy
import datetime as dt
from typing import Any

import jsonpatch

from controller.admission_scope import AdmissionScope
from controller.missing_templates import MissingTemplateReconciler
from controller.protocols import Unstructured
from controller.watched_objects import PartialObject, WatchedPod
from drawbridge.brief import Brief, BriefRuns
from drawbridge.cluster.store import CachedObject
from drawbridge.config.model import Configuration
from drawbridge.facts.model import ClassFacts, Cluster, Facts
from drawbridge.names import TRANSLATE_LABEL
from drawbridge.translate.changes.patch import to_operations
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.pods import translate
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeClock, FakeReporter

TEAM = "team"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
WEBHOOK: Unstructured = {
    "webhooks": [
        {
            "name": "pods.drawbridge.dev",
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": NAMESPACE_NAME, "operator": "NotIn", "values": ["kube-system"]}
                ]
            },
        }
    ]
}
ASKED: dict[str, Any] = {
    "metadata": {"name": "train", "namespace": TEAM},
    "spec": {
        "containers": [
            {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}},
        ]
    },
    "status": {"phase": "Pending"},
}
OLD = make_context(
    Configuration(), Facts(classes=(ClassFacts("gpu.nvidia.com"), ClassFacts("dra.net")))
)
NEW = make_context(Configuration(), Facts(classes=(ClassFacts("gpu.nvidia.com"),)))
# These facts translate the same pod to a different template.
KEEPS = Cluster(keeps=("constraints.distinctAttribute",))
OTHER = make_context(
    Configuration(), Facts(cluster=KEEPS, classes=(ClassFacts("hami-core-gpu.project-hami.io"),))
)


def translated(by: TranslationContext = NEW, **metadata: Any) -> tuple[Unstructured, str]:  # noqa: ANN401
    """Return a pod as admission leaves it, and the name of its template."""
    asked = copy.deepcopy(ASKED)
    asked["metadata"] |= metadata
    done = translate(asked, by, TEAM)
    (made,) = done.templates
    return jsonpatch.apply_patch(asked, to_operations(done.edits)), made.name


class Scene:
    """A reconciler over the pods and templates of a namespace."""

    def __init__(
        self,
        *facts: TranslationContext,
        now: TranslationContext | None = NEW,
        brief: Brief = Brief(),  # noqa: B008  # it has no state of its own
    ) -> None:
        self.pods, self.templates = MemoryStore(WatchedPod), MemoryStore(PartialObject)
        self.reporter, self.known = (
            FakeReporter(),
            {each.facts_digest: each.facts for each in facts},
        )
        self.context, self.clock = now, FakeClock()
        self.namespaces = MemoryStore(PartialObject)
        for name in (TEAM, "full", "one", "two"):
            self.label(name, "enforce")
        self.configuration = Configuration()
        self.webhook: Unstructured | None = WEBHOOK
        self._brief = brief
        self.start()

    def start(self) -> None:
        """Begin a term."""
        self.reconciler = MissingTemplateReconciler(
            self.pods,
            self.templates,
            self.templates,
            scope=AdmissionScope(self.namespaces, lambda: self.webhook, lambda: self.configuration),
            context=lambda: self.context,
            find_facts=self.known.get,
            reporter=self.reporter,
            now=self.clock,
            elapsed=self.clock.elapsed,
            briefs=BriefRuns(self._brief, lambda: 0.0),
        )

    def label(self, namespace: str, mode: str) -> None:
        """Store a namespace with a translation mode; empty for no label."""
        labels = {NAMESPACE_NAME: namespace, **({TRANSLATE_LABEL: mode} if mode else {})}
        self.namespaces.put({"metadata": {"name": namespace, "labels": labels}})

    def put(self, pod: Unstructured) -> CachedObject[WatchedPod]:
        """Store a pod and send its event to the reconciler."""
        stored = self.pods.put(pod)
        self.reconciler.pod_changed(None, stored)
        return stored

    def reconcile(self) -> list[str]:
        """Run the reconciler, also when clients have had their time; return all templates."""
        asyncio.run(self.reconciler.reconcile())
        self.clock.now += dt.timedelta(seconds=5)
        asyncio.run(self.reconciler.reconcile())
        return [name for _, name in self.templates.objects]
