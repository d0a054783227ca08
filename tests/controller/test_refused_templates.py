"""Templates of pods that admission would refuse by a policy or a quota: they are not created.

A tenant can write a pod in the form of a translated one, which admission leaves as it is.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from controller import missing_templates
from controller.pod_templates import rebuild_templates
from controller.protocols import Unstructured
from controller.watched_objects import WatchedPod
from drawbridge.brief import BriefRuns, CutShort
from drawbridge.config.model import Configuration
from drawbridge.finding import Finding
from drawbridge.names import TRANSLATE_LABEL
from drawbridge.process.forked import ForkLimits
from drawbridge.translate.context import make_context
from tests.cluster.memory_store import MemoryStore
from tests.controller.waiting_pods import NEW, TEAM, Scene, translated
from tests.tables import every_row
from tests.webhook.admission.harness import configuration

GPU = "gpu.nvidia.com"


def limit(devices: int, field: str = "single", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return settings with a quota. The pod requests 2 devices."""
    return {"quotas": [{"name": "few", field: {GPU: {"devices": devices}}, **fields}]}


def referring_twice(pod: Unstructured) -> Unstructured:
    """Return a pod with a second claim from its template, which its original does not request."""
    pod = copy.deepcopy(pod)
    (claim,) = pod["spec"]["resourceClaims"]
    pod["spec"]["resourceClaims"].append({**claim, "name": "more"})
    return pod


# The configuration, how often the pod refers to the template, and the code of the refusal.
CASES: dict[str, tuple[dict[str, Any], int, str]] = {
    "no limits": ({}, 1, ""),
    "the largest pod": (limit(1), 1, "DeviceQuotaTooSmall"),
    "as large as allowed": (limit(2), 1, ""),
    "the total": (limit(1, "total"), 1, "DeviceQuotaTooSmall"),
    "two claims from one template": (limit(3), 2, "DeviceQuotaTooSmall"),
    "two claims that are allowed": (limit(4), 2, ""),
    "another namespace": (limit(1, namespaces=["other"]), 1, ""),
    "labels of the namespace": (
        limit(1, namespaceSelector={"matchLabels": {TRANSLATE_LABEL: "enforce"}}),
        1,
        "DeviceQuotaTooSmall",
    ),
    "labels of others": (limit(1, namespaceSelector={"matchLabels": {"team": "a"}}), 1, ""),
    "a quota that warns": ({**limit(1), "findings": {"DeviceQuotaTooSmall": "warn"}}, 1, ""),
    "a policy": ({"findings": {"TolerationAdded": "enforce"}}, 1, "TolerationAdded"),
    "a policy that warns": ({"findings": {"TolerationAdded": "warn"}}, 1, ""),
    # A driver can restart while a pod waits.
    "a policy on what the facts say": ({"findings": {"ClassWithoutDevices": "enforce"}}, 1, ""),
    "a policy of another finding": ({"findings": {"QuotaExceeded": "enforce"}}, 1, ""),
}


@every_row("case", CASES.values(), ids=CASES)
def test_no_template_is_created_for_a_pod_that_admission_refuses(
    case: tuple[dict[str, Any], int, str],
) -> None:
    settings, references, code = case
    pod, name = translated()
    configured = configuration(settings)
    scene = Scene(now=make_context(configured, NEW.facts, NEW.facts_digest))
    scene.configuration = configured
    scene.put(referring_twice(pod) if references == 2 else pod)
    assert scene.reconcile() == ([] if code else [name])
    assert scene.reporter.codes == (["TemplateOutOfScope"] if code else [])
    for finding in scene.reporter.findings:
        assert f"admission refuses this pod now: {code}: " in finding.message


def test_a_pod_gets_its_template_when_the_quota_allows_it() -> None:
    pod, name = translated()
    scene = Scene()
    scene.configuration = configuration(limit(1))
    scene.put(pod)
    assert scene.reconcile() == []
    scene.configuration = Configuration()
    scene.reconciler.queue_unresolved()
    assert scene.reconcile() == [name]


@every_row("is_scope", [False, True])
def test_a_pod_that_a_quota_allows_while_it_is_restored_gets_its_template(
    monkeypatch: pytest.MonkeyPatch, *, is_scope: bool
) -> None:
    pod, name = translated()
    scene = Scene()
    scene.configuration = configuration(limit(1))

    async def restore(work: Callable[[], bytes], _: ForkLimits) -> bytes:
        restored = work()
        scene.configuration = Configuration()
        if is_scope:
            scene.reconciler.namespace_changed(None, scene.namespaces.get(TEAM))
        else:
            scene.reconciler.queue_unresolved()
        return restored

    def cut(*_: object) -> None:
        raise CutShort

    monkeypatch.setattr(missing_templates, "run_forked", restore)
    monkeypatch.setattr(BriefRuns, "run", cut)
    scene.put(pod)
    assert [scene.reconcile() for _ in range(2)][-1] == [name]


def test_no_other_context_hides_why_admission_refuses_a_pod() -> None:
    """A tenant writes which facts a pod was translated with, or notes none."""
    pod, name = translated()
    strict = replace(NEW.configuration, findings=configuration(CASES["a policy"][0]).findings)
    contexts = [make_context(strict, NEW.facts), NEW]
    stored = MemoryStore(WatchedPod).put(pod)
    for order, refused in ((contexts, True), (contexts[1:], False)):
        rebuilt = rebuild_templates(stored, frozenset([name]), order, (), admin_access=False)
        assert isinstance(rebuilt, Finding) == refused
