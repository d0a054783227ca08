"""Missing templates that the API server or a policy would not store as they are sent."""

import asyncio
import copy
import datetime as dt
from collections.abc import Callable

import jsonpatch
import pytest

from controller.protocols import Gauge, Unstructured
from drawbridge.agreement.owned_templates import name_matches_content
from drawbridge.config.model import Configuration
from drawbridge.facts.model import ClassFacts, Cluster, Facts
from drawbridge.translate.changes.patch import to_operations
from drawbridge.translate.context import make_context
from drawbridge.translate.pods import translate
from tests.controller.waiting_pods import ASKED, TEAM, Scene

SHARES = Facts(
    cluster=Cluster(keeps=("exactly.capacity",)),
    classes=(ClassFacts("hami-core-gpu.project-hami.io"),),
)


def shared_gpu_scene() -> tuple[Scene, Unstructured, str]:
    """Return a scene with shared GPUs, a pod that requests a share, and its template name."""
    by = make_context(Configuration(), SHARES)
    asked = copy.deepcopy(ASKED)
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}
    asked["spec"]["containers"][0]["resources"]["limits"] = limits
    done = translate(asked, by, TEAM)
    (made,) = done.templates
    return Scene(now=by), jsonpatch.apply_patch(asked, to_operations(done.edits)), made.name


def without_capacity(value: Unstructured) -> Unstructured:
    for request in value["spec"]["spec"]["devices"]["requests"]:
        request["exactly"].pop("capacity", None)
    return value


def with_label(value: Unstructured) -> Unstructured:
    return {**value, "spec": {**value["spec"], "metadata": {"labels": {"team": "x"}}}}


@pytest.mark.parametrize(
    ("admit", "told", "field"),
    [
        (without_capacity, "ClaimFieldDropped", "exactly.capacity"),
        (with_label, "TemplateChanged", "spec.metadata"),
    ],
)
def test_a_template_is_not_created_if_it_would_be_stored_with_other_content(
    admit: Callable[[Unstructured], Unstructured], told: str, field: str
) -> None:
    scene, pod, name = shared_gpu_scene()
    scene.templates.admit = admit
    stored = scene.put(pod)
    assert scene.reconcile() == []
    assert scene.templates.requests == [("dry-run", name)]
    ((code, about),) = scene.reporter.reported
    assert (code, about.uid) == (told, stored.uid)
    assert field in scene.reporter.findings[0].message
    scene.put(pod)
    asyncio.run(scene.reconciler.reconcile())
    assert scene.templates.requests == [("dry-run", name)]
    for _ in range(3):
        scene.clock.now += dt.timedelta(seconds=5)
        assert scene.reconcile() == []
    assert scene.reporter.codes == [told]
    scene.templates.admit = copy.deepcopy
    assert scene.reconcile() == [name]
    assert scene.reporter.gauges == {Gauge.PODS_WITHOUT_TEMPLATE: 0}


def test_a_share_is_created_when_the_server_stores_its_capacity_again() -> None:
    scene, pod, name = shared_gpu_scene()
    scene.templates.admit = without_capacity
    scene.put(pod)
    scene.reconcile()
    scene.templates.admit = copy.deepcopy
    scene.reconciler.queue_unresolved()
    assert scene.reconcile() == [name]
    assert name_matches_content(scene.templates.objects[TEAM, name])
