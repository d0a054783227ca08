"""Garbage collection of templates that no pod used for a day."""

import asyncio
import copy
import datetime as dt
import threading
from typing import Any

import msgspec
import pytest

from controller import template_gc
from controller.protocols import Unstructured
from controller.template_gc import TemplateGarbageCollector
from controller.watched_objects import PartialObject, WatchedPod
from drawbridge.agreement.owned_templates import is_exclusively_owned
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import UnreachableError
from drawbridge.cluster.store import CachedObject
from drawbridge.documents.values import Value
from drawbridge.names import USED_ANNOTATION
from drawbridge.translate.changes.template import make_template
from tests.cluster.memory_store import START, MemoryStore
from tests.controller.harness import FakeClock, FakeReporter
from tests.tables import every_row

MADE = make_template(
    {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpus"}}]}}
)
TEAM = "team"


OURS = {"manager": "drawbridge", "operation": "Update"}


def ago(**since: int) -> dict[str, str]:
    return {USED_ANNOTATION: (START - dt.timedelta(**since)).isoformat().replace("+00:00", "Z")}


class Scene:
    """A reconciler over a namespace with one template from two days ago, used at that time."""

    def __init__(self, **metadata: Any) -> None:  # noqa: ANN401  # plain JSON
        metadata = {"managedFields": [OURS], "annotations": ago(days=2), **metadata}
        self.templates, self.pods = MemoryStore(PartialObject), MemoryStore(WatchedPod)
        self.reporter, self.clock = FakeReporter(), FakeClock(START)
        self.stored: Unstructured = {**MADE.object}
        self.stored["metadata"] = {"name": MADE.name, "namespace": TEAM, **metadata}
        self.templates.put(self.stored, created=START - dt.timedelta(days=2))
        self.enforced = {TEAM, "a", "z"}
        self.reconciler = TemplateGarbageCollector(
            self.templates,
            self.pods,
            self.templates,
            is_enforced=lambda namespace: namespace in self.enforced,
            reporter=self.reporter,
            now=self.clock,
        )

    def pod(self, phase: str, namespace: str = TEAM) -> None:
        """Add a pod that refers to the template."""
        claims = [{"name": "drawbridge", "resourceClaimTemplateName": MADE.name}]
        self.pods.put(
            {
                "metadata": {"name": "train", "namespace": namespace},
                "spec": {"resourceClaims": claims},
                "status": {"phase": phase},
            }
        )

    def collects(self) -> bool:
        """Run the reconciler once and return whether the template is gone."""
        asyncio.run(self.reconciler.reconcile())
        return (TEAM, MADE.name) not in self.templates.objects


def test_a_template_that_was_unused_for_a_day_is_deleted() -> None:
    scene = Scene()
    assert scene.collects()
    assert scene.reporter.counts == {("janitor", "collected"): 1}


def test_a_recently_used_template_is_kept_for_a_day() -> None:
    scene = Scene(annotations=ago(hours=23))
    assert not scene.collects()
    scene.clock.now += dt.timedelta(hours=2)
    assert scene.collects()


def test_an_annotation_that_is_not_a_timestamp_is_ignored() -> None:
    assert Scene(annotations={USED_ANNOTATION: "yesterday"}).collects()


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", ""])
def test_a_template_of_an_unfinished_pod_is_kept(phase: str) -> None:
    scene = Scene()
    scene.pod(phase)
    assert not scene.collects()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_does_not_keep_its_template(phase: str) -> None:
    scene = Scene()
    scene.pod(phase)
    assert scene.collects()


def test_a_pod_of_another_namespace_does_not_keep_the_template() -> None:
    scene = Scene()
    scene.pod("Running", namespace="others")
    assert scene.collects()


@pytest.mark.parametrize(
    "name", ["gpu-small", "drawbridge-mine", f"drawbridge-{'0' * 32}", f"{MADE.name}-b"]
)
def test_a_template_whose_name_is_not_its_hash_is_never_deleted(name: str) -> None:
    scene = Scene()
    scene.templates.remove(MADE.name, TEAM)
    scene.stored["metadata"] |= {"name": name}
    scene.templates.put(scene.stored, created=START - dt.timedelta(days=9))
    asyncio.run(scene.reconciler.reconcile())
    assert (TEAM, name) in scene.templates.objects
    assert scene.templates.requests == []


MANAGED = {"app.kubernetes.io/managed-by": "drawbridge"}
# The metadata of a template that nobody used for two days, and whether it is deleted.
MANAGERS: dict[str, tuple[dict[str, Any], bool]] = {
    "created by Drawbridge": ({}, True),
    "created and renewed by Drawbridge": ({"managedFields": [OURS, OURS]}, True),
    "with Drawbridge's label": ({"labels": MANAGED}, True),
    "applied by kubectl": ({"managedFields": [{"manager": "kubectl-client-side-apply"}]}, False),
    "applied by GitOps": (
        {"managedFields": [{"manager": "argocd-controller", "operation": "Apply"}]},
        False,
    ),
    "applied by another client over Drawbridge's": (
        {"managedFields": [OURS, {"manager": "helm"}]},
        False,
    ),
    "with an unnamed manager": ({"managedFields": [OURS, {}]}, False),
    "without managed fields": ({"managedFields": []}, False),
    "with managed fields that are not a list": ({"managedFields": "drawbridge"}, False),
    "with an owner": ({"ownerReferences": [{"kind": "Deployment", "name": "web"}]}, False),
    "with a finalizer": ({"finalizers": ["example.com/keep"]}, False),
    "with a foreign label": ({"labels": {**MANAGED, "team": "a"}}, False),
    "managed by another tool": ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, False),
    "kept by Helm": (
        {"annotations": {**ago(days=2), "helm.sh/resource-policy": "keep"}},
        False,
    ),
}


@every_row("case", MANAGERS.values(), ids=MANAGERS)
def test_only_a_template_that_nobody_else_manages_is_deleted(
    case: tuple[dict[str, Any], bool],
) -> None:
    metadata, deleted = case
    scene = Scene(**metadata)
    assert scene.collects() is deleted
    assert bool(scene.templates.requests) is deleted


def test_a_template_in_a_namespace_out_of_scope_is_kept() -> None:
    scene = Scene()
    scene.enforced.clear()
    assert not scene.collects()
    assert scene.templates.requests == []


def test_a_template_that_no_pod_ever_used_is_deleted_after_15_minutes() -> None:
    scene = Scene(annotations={})
    scene.clock.now = START - dt.timedelta(days=2) + dt.timedelta(minutes=14)
    assert not scene.collects()
    scene.clock.now += dt.timedelta(minutes=2)
    assert scene.collects()


def test_a_template_of_a_pod_is_renewed_so_that_pods_are_listed_once_a_day() -> None:
    scene = Scene()
    scene.pod("Running")
    assert not scene.collects()
    assert scene.reporter.counts == {("janitor", "renewed"): 1}
    scene.clock.now += dt.timedelta(hours=23)
    assert not scene.collects()
    assert scene.pods.requests == [("list", TEAM)]


def test_templates_are_examined_in_a_worker_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def record(stored: Value) -> bool:
        threads.append(threading.current_thread().name)
        return is_exclusively_owned(stored)

    monkeypatch.setattr(template_gc, "is_exclusively_owned", record)
    assert Scene().collects()
    assert threads
    assert threading.main_thread().name not in threads


def test_templates_of_others_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, decoded = Scene(), list[str]()

    def record(stored: Any) -> bool:  # noqa: ANN401  # plain JSON
        decoded.append(stored["metadata"]["name"])
        return False

    monkeypatch.setattr(template_gc, "is_exclusively_owned", record)
    for name in ("mine", "drawbridge-mine"):
        scene.stored["metadata"] |= {"name": name}
        scene.templates.put(scene.stored, created=START - dt.timedelta(days=2))
    scene.collects()
    assert decoded == [MADE.name]


@every_row("metadata", [{"deletionTimestamp": "2026-02-28T12:00:00Z"}, {"creationTimestamp": None}])
def test_a_template_that_is_being_deleted_or_was_never_stored_is_not_unused(
    metadata: dict[str, str | None],
) -> None:
    stored = copy.deepcopy(Scene().templates.objects[TEAM, MADE.name])
    stored["metadata"] |= {"annotations": {}, **metadata}
    template = msgspec.json.encode(stored)
    shaped = msgspec.json.decode(template, type=PartialObject)
    cached = CachedObject(TEAM, MADE.name, "uid", "1", template, shaped)
    assert template_gc.find_unused([cached], START) == []


def test_pods_are_only_listed_if_a_template_is_unused() -> None:
    scene = Scene(annotations=ago(hours=1))
    scene.collects()
    assert scene.pods.requests == []


def test_a_renewed_template_is_not_deleted() -> None:
    scene = Scene()

    def renew(_verb: str, _value: Unstructured) -> None:
        scene.stored["metadata"]["annotations"] = ago(seconds=1)
        scene.templates.put(scene.stored)

    scene.templates.before_write = renew
    assert not scene.collects()
    assert scene.templates.requests == [("delete", MADE.name)]
    assert scene.reporter.counts == {}


def test_a_rejection_in_one_namespace_does_not_stop_the_others() -> None:
    scene = Scene()
    old = START - dt.timedelta(days=2)
    for namespace in ("a", "z"):
        metadata = {**scene.stored["metadata"], "namespace": namespace}
        scene.templates.put({**scene.stored, "metadata": metadata}, created=old)

    def reject(_verb: str, _value: Unstructured) -> None:
        if len([each for each in scene.templates.requests if each[0] == "delete"]) == 1:
            raise ApiError(403, "Forbidden", "a policy")

    scene.templates.before_write = reject
    with pytest.raises(ApiError):
        scene.collects()
    assert len(scene.templates.objects) == 1


def test_a_server_error_is_raised() -> None:
    scene = Scene()

    def fail(_verb: str, _value: Unstructured) -> None:
        raise ApiError(500, "InternalError")

    scene.templates.before_write = fail
    with pytest.raises(ApiError):
        scene.collects()


def test_a_namespace_whose_writes_get_no_response_keeps_the_templates_of_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    spaces = {"first", "last"}
    scene.enforced |= spaces
    for space in spaces:
        metadata = {**scene.stored["metadata"], "namespace": space}
        scene.templates.put(
            {**scene.stored, "metadata": metadata}, created=START - dt.timedelta(days=2)
        )
    delete = scene.templates.delete

    async def hang(name: str, namespace: str = "", *, uid: str, version: str) -> None:
        if namespace == "first":
            raise UnreachableError("no response")
        await delete(name, namespace, uid=uid, version=version)

    monkeypatch.setattr(scene.templates, "delete", hang)
    for _ in range(2):
        with pytest.raises(UnreachableError):
            asyncio.run(scene.reconciler.reconcile())
    assert not any(space == "last" for space, _ in scene.templates.objects)


@every_row(("code",), [0, 401, 403, 429, 500, 503])
def test_a_template_that_cannot_be_deleted_keeps_no_other_one_of_its_namespace(code: int) -> None:
    scene = Scene()
    for number in range(3):
        requests: list[Value] = [{"name": "a", "exactly": {"deviceClassName": f"gpus{number}"}}]
        made = make_template({"devices": {"requests": requests}})
        metadata = {**scene.stored["metadata"], "name": made.name}
        scene.templates.put({**made.object, "metadata": metadata}, START - dt.timedelta(days=2))

    def deny(_verb: str, value: Unstructured) -> None:
        if value["metadata"]["name"] == MADE.name:
            raise ApiError(code, "Denied", "a policy")

    scene.templates.before_write = deny
    for _ in range(2):
        with pytest.raises(ApiError):
            scene.collects()
    assert [name for _, name in scene.templates.objects] == [MADE.name]
