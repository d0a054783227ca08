"""Missing templates of pending pods, recreated from the original requests of the pods."""

import asyncio
import contextlib
import copy
import datetime as dt
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from controller import missing_templates
from controller.protocols import Gauge, Unstructured
from controller.watched_objects import WatchedPod
from drawbridge.agreement.owned_templates import name_matches_content
from drawbridge.api_error import ApiError
from drawbridge.brief import Brief
from drawbridge.cluster.store import CachedObject
from drawbridge.names import ORIGINAL_ANNOTATION, USED_ANNOTATION
from drawbridge.process.forked import (
    ForkKilledError,
    ForkLimits,
    ForkRefusedError,
    ForkSlowError,
    run_forked,
)
from tests.controller.waiting_pods import NEW, OLD, OTHER, TEAM, Scene, translated
from tests.cuts import CutAlways


def test_a_missing_template_is_created_as_admission_creates_it() -> None:
    scene = Scene()
    pod, name = translated()
    scene.put(pod)
    assert scene.reconcile() == [name]
    stored = scene.templates.objects[TEAM, name]
    assert name_matches_content(stored)
    assert stored["metadata"]["annotations"] == {USED_ANNOTATION: "2026-03-01T12:00:05Z"}
    assert stored["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "drawbridge"}
    assert scene.reporter.counts == {("templates", "made"): 1}


def test_a_pod_from_before_the_term_gets_its_template() -> None:
    scene = Scene()
    pod, name = translated()
    scene.pods.put(pod)
    scene.start()
    assert scene.reconcile() == [name]


def test_the_facts_that_the_pod_notes_are_tried() -> None:
    pod, name = translated(OTHER)
    scene = Scene(OTHER)
    scene.put(pod)
    assert scene.reconcile() == [name]


def test_current_facts_replace_deleted_facts_if_they_produce_the_same_template() -> None:
    pod, name = translated(OLD)
    scene = Scene()
    scene.put(pod)
    assert scene.reconcile() == [name]


def test_a_template_that_cannot_be_rebuilt_is_reported_once_with_the_remedy() -> None:
    pod, name = translated(OTHER)
    scene = Scene()
    stored = scene.put(pod)
    assert scene.reconcile() == []
    ((code, about),) = scene.reporter.reported
    assert (code, about.kind, about.uid) == ("TemplateNotReproduced", "Pod", stored.uid)
    assert name in scene.reporter.findings[0].message
    assert OTHER.facts_digest in scene.reporter.findings[0].message
    assert "Delete the pod" in scene.reporter.findings[0].remedy
    scene.put(pod)
    scene.reconcile()
    assert len(scene.reporter.reported) == 1


def test_new_facts_can_resolve_an_unresolved_pod() -> None:
    pod, name = translated(OTHER)
    scene = Scene()
    scene.put(pod)
    scene.reconcile()
    scene.context = OTHER
    scene.reconciler.queue_unresolved()
    assert scene.reconcile() == [name]


def test_before_the_first_facts_nothing_is_created_or_reported() -> None:
    pod, name = translated()
    scene = Scene(now=None)
    scene.put(pod)
    assert scene.reconcile() == []
    assert scene.reporter.reported == []
    scene.context = NEW
    scene.reconciler.queue_unresolved()
    asyncio.run(scene.reconciler.reconcile())
    assert [*scene.templates.objects] == [(TEAM, name)]


def test_a_deleted_template_of_a_pending_pod_is_created_again_at_once() -> None:
    scene = Scene()
    pod, name = translated()
    scene.put(pod)
    scene.reconcile()
    gone = scene.templates.remove(name, TEAM)
    scene.reconciler.template_changed(gone, None)
    asyncio.run(scene.reconciler.reconcile())
    assert (TEAM, name) in scene.templates.objects


def test_a_template_that_a_restore_takes_back_before_a_watch_shows_it_is_created_again() -> None:
    scene = Scene()
    pod, name = translated()
    scene.put(pod)
    assert scene.reconcile() == [name]
    scene.templates.remove(name, TEAM)
    asyncio.run(scene.reconciler.reconcile())
    assert scene.templates.objects == {}
    assert scene.reconcile() == [name]


def test_a_template_that_a_watch_has_shown_is_looked_at_no_more() -> None:
    scene = Scene()
    pod, name = translated()
    scene.put(pod)
    scene.reconcile()
    scene.reconciler.template_changed(None, scene.templates.get(name, TEAM))
    scene.reconcile()
    scene.templates.remove(name, TEAM)
    assert scene.reconcile() == []


def forged(pod: Unstructured, text: str) -> Unstructured:
    pod["metadata"]["annotations"][ORIGINAL_ANNOTATION] = text
    return pod


FORGERIES = {
    "removed": "",
    "nothing": "[]",
    "more": '[{"op":"replace","path":"/spec","value":{"containers":[{"name":"a","resources":'
    '{"limits":{"nvidia.com/gpu":"8"}}}]}},{"op":"remove","path":"/metadata/annotations"}]',
    "not-json": "{",
    "elsewhere": '[{"op":"add","path":"/spec/containers/7/name","value":"x"}]',
    # What fits as a whole, and leaves no annotation for the part of a first translation.
    "in-parts": '[{"op":"remove","path":"/metadata/annotations"},{"op":"add","path":'
    '"/metadata/annotations","value":{}},{"op":"add","path":'
    '"/metadata/annotations/drawbridge.dev~1original","value":"x"}]',
}


@pytest.mark.parametrize("text", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_original_annotation_creates_nothing(text: str) -> None:
    scene = Scene()
    pod, _ = translated()
    scene.put(forged(pod, text))
    assert scene.reconcile() == []
    assert scene.reporter.codes == ["TemplateNotReproduced"]


def test_an_original_annotation_copied_from_an_equal_pod_creates_the_same_template() -> None:
    scene = Scene()
    pod, name = translated()
    copied = copy.deepcopy(pod)
    copied["metadata"]["name"] = "copy"
    scene.put(copied)
    assert scene.reconcile() == [name]


def test_a_template_name_of_another_project_is_ignored() -> None:
    scene = Scene()
    pod, _ = translated()
    pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "their-own"
    scene.put(pod)
    assert scene.reconcile() == []
    assert scene.reporter.reported == []


@pytest.mark.parametrize("change", ["deleted", "finished"])
def test_a_deleted_or_finished_pod_gets_no_template(change: str) -> None:
    scene = Scene()
    pod, _ = translated()
    if change == "deleted":
        pod["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    else:
        pod["status"]["phase"] = "Failed"
    scene.put(pod)
    assert scene.reconcile() == []


def test_a_template_with_different_content_is_reported_on_every_pod_and_counted() -> None:
    scene = Scene()
    pod, name = translated()
    spec = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "cheap"}}]}}
    scene.templates.put({"metadata": {"name": name, "namespace": TEAM}, "spec": {"spec": spec}})
    for pod_name in ("one", "two", "two"):
        scene.put({**pod, "metadata": {**pod["metadata"], "name": pod_name}})
        scene.reconcile()
    assert scene.reporter.codes == ["TemplateTaken", "TemplateTaken"]
    assert scene.reporter.counts == {("templates", "taken"): 2}


def test_a_matching_template_is_not_reported() -> None:
    scene = Scene()
    pod, _ = translated()
    scene.put(pod)
    scene.reconcile()
    scene.put(pod)
    scene.reconcile()
    assert scene.reporter.reported == []


def test_a_template_that_another_client_created_first_is_not_an_error() -> None:
    scene = Scene()
    pod, _ = translated()

    def create_first(_verb: str, value: Unstructured) -> None:
        metadata = {**value["metadata"], "namespace": TEAM}
        scene.templates.put({**value, "metadata": metadata})

    scene.templates.before_write = create_first
    scene.put(pod)
    scene.reconcile()
    assert scene.reporter.counts == {}


@pytest.mark.parametrize("code", [400, 403, 404, 422])
def test_a_rejection_in_one_namespace_does_not_delay_the_others(code: int) -> None:
    scene = Scene()
    pod, name = translated()
    full = {**pod, "metadata": {**pod["metadata"], "namespace": "full"}}
    scene.put(full)
    scene.put(pod)

    def reject(_verb: str, value: Unstructured) -> None:
        if value["metadata"]["namespace"] == "full":
            raise ApiError(code, "", "exceeded quota")

    scene.templates.before_write = reject
    # The run succeeds, because a failed run would delay the pods that come later.
    scene.reconcile()
    assert list(scene.templates.objects) == [(TEAM, name)]
    (finding,) = scene.reporter.findings
    assert (finding.code, scene.reporter.reported[0][1].namespace) == ("TemplateRefused", "full")
    assert name in finding.message
    assert "exceeded quota" in finding.message
    assert scene.reporter.gauges == {Gauge.PODS_WITHOUT_TEMPLATE: 1}
    scene.put(full)
    scene.reconcile()
    assert len(scene.reporter.reported) == 1


def test_a_rejected_template_is_retried_after_five_seconds_and_not_on_every_event() -> None:
    scene = Scene()
    pod, name = translated()
    scene.put(pod)

    def reject(_verb: str, _value: Unstructured) -> None:
        raise ApiError(403, "Forbidden", "exceeded quota")

    scene.templates.before_write = reject
    scene.reconcile()
    scene.put(pod)
    asyncio.run(scene.reconciler.reconcile())
    assert scene.templates.requests == [("dry-run", name)]
    scene.templates.before_write = lambda _verb, _value: None
    scene.clock.now += dt.timedelta(seconds=5)
    assert scene.reconcile() == [name]
    assert scene.reporter.gauges == {Gauge.PODS_WITHOUT_TEMPLATE: 0}


def test_a_client_has_time_to_create_the_template_after_the_pod() -> None:
    scene, of_client = Scene(), Scene()
    pod, name = translated()
    of_client.put(pod)
    of_client.reconcile()
    scene.put(pod)
    asyncio.run(scene.reconciler.reconcile())
    assert scene.templates.requests == []
    assert scene.reporter.gauges == {Gauge.PODS_WITHOUT_TEMPLATE: 1}
    made = scene.templates.put(of_client.templates.objects[TEAM, name])
    scene.reconciler.template_changed(None, made)
    assert scene.reconcile() == [name]
    assert {verb for verb, _ in scene.templates.requests} <= {"read", "merge"}
    assert scene.reporter.gauges == {Gauge.PODS_WITHOUT_TEMPLATE: 0}


def test_all_pods_stay_queued_if_the_server_is_unreachable() -> None:
    scene = Scene()
    pod, _ = translated()
    for namespace in ("one", "two"):
        scene.put({**pod, "metadata": {**pod["metadata"], "namespace": namespace}})

    def fail(_verb: str, _value: Unstructured) -> None:
        raise ApiError(0, "", "no route")

    scene.templates.before_write = fail
    with pytest.raises(ApiError):
        scene.reconcile()
    assert len(scene.templates.requests) == 1
    scene.templates.before_write = lambda _verb, _value: None
    assert len(scene.reconcile()) == 2
    assert scene.reporter.reported == []


def test_a_deleted_pod_is_forgotten() -> None:
    scene = Scene()
    pod, _ = translated(OTHER)
    stored = scene.put(pod)
    scene.reconcile()
    scene.pods.remove("train", TEAM)
    scene.reconciler.pod_changed(stored, None)
    scene.reconciler.queue_unresolved()
    scene.reconcile()
    again = scene.put(pod)
    scene.reconcile()
    assert [about.uid for _, about in scene.reporter.reported] == [stored.uid, again.uid]


def test_what_takes_long_is_rebuilt_in_a_copy_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies = []

    async def record(function: Callable[[], bytes], limits: ForkLimits) -> bytes:
        copies.append(limits)
        return await run_forked(function, limits)

    monkeypatch.setattr(missing_templates, "run_forked", record)
    scene = Scene(brief=CutAlways())
    pod, name = translated()
    scene.put(pod)
    assert scene.reconcile() == [name]
    assert len(copies) == 1
    assert name_matches_content(scene.templates.objects[TEAM, name])


def test_a_pod_that_reaches_a_limit_is_reported_and_the_next_one_has_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hostile, other = translated()[0], translated(name="other")[0]
    rebuild = missing_templates.rebuild_templates

    def never_end(pod: CachedObject[WatchedPod], *args: Any, **options: Any) -> Any:  # noqa: ANN401
        while pod.name != "other":
            pass
        return rebuild(pod, *args, **options)

    monkeypatch.setattr(missing_templates, "rebuild_templates", never_end)
    monkeypatch.setattr(missing_templates, "_COPY_LIMITS", ForkLimits(60, cpu_seconds=1))
    scene = Scene(brief=CutAlways())
    scene.put(hostile)
    scene.put(other)
    assert len(scene.reconcile()) == 1
    (finding,) = scene.reporter.findings
    assert finding.code == "TemplateNotReproduced"
    assert "gives no result" in finding.message


@pytest.mark.parametrize("brief", [None, CutAlways()])
def test_a_pod_that_cannot_be_restored_is_reported_and_the_run_succeeds(
    monkeypatch: pytest.MonkeyPatch, brief: Brief | None
) -> None:
    hostile, other = translated()[0], translated(name="other")[0]
    rebuild = missing_templates.rebuild_templates

    def fail(pod: CachedObject[WatchedPod], *args: Any, **options: Any) -> Any:  # noqa: ANN401
        if pod.name != "other":
            raise KeyError("a bug" * 1000)
        return rebuild(pod, *args, **options)

    monkeypatch.setattr(missing_templates, "rebuild_templates", fail)
    scene = Scene(brief=brief) if brief else Scene()
    scene.put(hostile)
    scene.put(other)
    assert len(scene.reconcile()) == 1
    (finding,) = scene.reporter.findings
    assert finding.code == "TemplateNotReproduced"
    assert "again gives KeyError: 'a bug" in finding.message
    assert len(finding.message) < 500
    (bug,) = scene.reporter.bugs
    assert "KeyError: 'a bug" in "".join(traceback.format_exception(bug))


@pytest.mark.parametrize(
    ("error", "took", "waits"),
    [(ForkRefusedError, 0, 5), (ForkSlowError, 10, 55), (ForkKilledError, 1, 10)],
)
def test_a_pod_that_the_machine_has_no_room_for_is_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], took: int, waits: int
) -> None:
    """It is not reported: the cause is not the pod. The longer a try takes, the later the next."""
    tried, scene = [], Scene(brief=CutAlways())
    pod, name = translated()
    scene.put(pod)

    async def fail(_function: Callable[[], bytes], _limits: ForkLimits) -> bytes:
        scene.clock.now += dt.timedelta(seconds=took)
        tried.append(scene.clock.elapsed())
        raise error

    def run(after: float) -> None:
        scene.clock.now += dt.timedelta(seconds=after)
        asyncio.run(scene.reconciler.reconcile())

    monkeypatch.setattr(missing_templates, "run_forked", fail)
    run(0)
    run(5)  # the time of the client
    run(waits - 1)
    assert len(tried) == 1
    assert scene.reporter.codes == []
    assert scene.reporter.gauges == {Gauge.PODS_WITHOUT_TEMPLATE: 1}
    monkeypatch.undo()
    run(1)
    assert [*scene.templates.objects] == [(TEAM, name)]
    assert scene.reporter.gauges == {Gauge.PODS_WITHOUT_TEMPLATE: 0}


def test_a_pod_whose_copies_are_killed_again_and_again_is_reported_and_tried_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed, scene = [0], Scene(brief=CutAlways())
    pod, name = translated()
    scene.put(pod)

    async def die(_function: Callable[[], bytes], _limits: ForkLimits) -> bytes:
        killed[0] += 1
        raise ForkKilledError("no result: signal 11 killed it")

    with monkeypatch.context() as patched:
        patched.setattr(missing_templates, "run_forked", die)
        for _ in range(30):
            scene.reconcile()
            assert bool(scene.reporter.codes) is (killed[0] == 20)
    assert killed == [20]
    assert scene.reporter.codes == ["TemplateNotReproduced"]
    assert "signal 11 killed it" in scene.reporter.findings[0].message
    scene.reconciler.queue_unresolved()  # new facts
    scene.reconcile()
    assert [*scene.templates.objects] == [(TEAM, name)]


@pytest.mark.parametrize("code", [0, 401, 403, 408, 429, 500, 503])
def test_a_namespace_whose_templates_always_fail_at_once_delays_those_of_others_once(
    code: int,
) -> None:
    """Its turns take the least time."""
    scene, created = Scene(OTHER), 0
    pods = {"bad": translated(OTHER), "two": translated()}

    def deny(_verb: str, value: Unstructured) -> None:
        if value["metadata"]["name"] == pods["bad"][1]:
            raise ApiError(code, "Denied", "the webhook of others")
        scene.clock.now += dt.timedelta(seconds=0.1)

    scene.templates.before_write = deny
    scene.label("bad", "enforce")
    for space, (pod, _) in pods.items():
        scene.put({**pod, "metadata": {**pod["metadata"], "namespace": space}})
    for _ in range(7):
        with contextlib.suppress(ApiError):
            asyncio.run(scene.reconciler.reconcile())
        scene.clock.now += dt.timedelta(seconds=5)
        for space, name in [*scene.templates.objects]:
            scene.reconciler.template_changed(scene.templates.remove(name, space), None)
            created += space == "two"
    assert created >= 5


def test_a_namespace_whose_pods_take_long_delays_those_of_others_once() -> None:
    scene, took, created = Scene(), [0.0], list[tuple[str, float]]()
    elapsed, process_pod = scene.reconciler._elapsed, scene.reconciler._process_pod  # noqa: SLF001

    async def process(key: tuple[str, str]) -> None:
        took[0] += 2.0 if key[0] == "slow" else 0.01
        created.append((key[0], took[0]))
        await process_pod(key)

    scene.reconciler._elapsed = lambda: elapsed() + took[0]  # noqa: SLF001
    scene.reconciler._process_pod = process  # type: ignore[method-assign]  # noqa: SLF001
    for number in range(20):
        for space in ("slow", "team"):
            pod, _ = translated(name=f"p{number}", namespace=space)
            pod["metadata"]["namespace"] = space
            scene.put(pod)
    asyncio.run(scene.reconciler.reconcile())
    assert max(at for space, at in created if space == "team") < 3.0
