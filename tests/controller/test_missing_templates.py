"""The fallback: templates that waiting pods lack, made from what the pods asked."""

import asyncio
import copy
import datetime as dt
from typing import Any

import jsonpatch
import pytest

from config.model import Configuration
from controller.missing_templates import TemplatesDuty
from controller.protocols import Object
from controller.watched_objects import Named, Pod
from dra.names import ORIGINAL_ANNOTATION, USED_ANNOTATION
from facts.model import Class, Cluster, Facts
from registration.owned_templates import stands_for_content
from tests.controller.harness import Ears, Kept, Kind, Watch, WorldError
from translate.changes.patch import operations
from translate.pods import Given, given, translate

TEAM = "team"
ASKED: dict[str, Any] = {
    "metadata": {"name": "train", "namespace": TEAM},
    "spec": {
        "containers": [
            {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}},
        ]
    },
    "status": {"phase": "Pending"},
}
OLD = given(Configuration(), Facts(classes=(Class("gpu.nvidia.com"), Class("dra.net"))))
NEW = given(Configuration(), Facts(classes=(Class("gpu.nvidia.com"),)))
# With these facts the same pod becomes something else.
KEEPS = Cluster(keeps=("constraints.distinctAttribute",))
OTHER = given(
    Configuration(), Facts(cluster=KEEPS, classes=(Class("hami-core-gpu.project-hami.io"),))
)


def translated(by: Given = NEW, **metadata: Any) -> tuple[Object, str]:  # noqa: ANN401
    """A pod as admission leaves it, and the name of its template."""
    asked = copy.deepcopy(ASKED)
    asked["metadata"] |= metadata
    done = translate(asked, by, TEAM)
    (made,) = done.templates
    return jsonpatch.apply_patch(asked, operations(done.edits)), made.name


class Scene:
    """A namespace, and who makes templates there."""

    def __init__(self, *facts: Given, now: Given | None = NEW) -> None:
        self.pods, self.templates = Kind(Pod), Kind(Named)
        self.ears, self.known = Ears(), {each.digest: each.facts for each in facts}
        self.given, self.watch = now, Watch()
        self.duty = TemplatesDuty(
            self.pods,
            self.templates,
            self.templates,
            given=lambda: self.given,
            version=self.known.get,
            told=self.ears,
            now=self.watch,
        )

    def put(self, pod: Object) -> Kept[Pod]:
        """Put a pod there, and let the duty hear of it."""
        kept = self.pods.put(pod)
        self.duty.pod_changed(None, kept)
        return kept

    def step(self) -> list[str]:
        """Step, and give the names of all templates."""
        asyncio.run(self.duty.step())
        return [name for _, name in self.templates.objects]


def test_a_missing_template_is_made_as_admission_would_have() -> None:
    scene = Scene()
    pod, name = translated()
    scene.put(pod)
    assert scene.step() == [name]
    stored = scene.templates.objects[TEAM, name]
    assert stands_for_content(stored)
    assert stored["metadata"]["annotations"] == {USED_ANNOTATION: "2026-03-01T12:00:00Z"}
    assert stored["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "drawbridge"}
    assert scene.ears.counts == {("templates", "made"): 1}


def test_a_pod_that_was_there_before_the_start_is_helped_too() -> None:
    scene = Scene()
    pod, name = translated()
    scene.pods.put(pod)
    assert scene.step() == [name]


def test_the_facts_that_the_pod_notes_come_first() -> None:
    pod, name = translated(OTHER)
    scene = Scene(OTHER)
    scene.put(pod)
    assert scene.step() == [name]


def test_forgotten_facts_do_no_harm_where_those_of_now_say_the_same() -> None:
    pod, name = translated(OLD)
    scene = Scene()
    scene.put(pod)
    assert scene.step() == [name]


def test_what_cannot_be_made_any_more_is_told_once_with_the_remedy() -> None:
    pod, name = translated(OTHER)
    scene = Scene()
    kept = scene.put(pod)
    assert scene.step() == []
    ((code, about),) = scene.ears.said
    assert (code, about.kind, about.uid) == ("TemplateNotReproduced", "Pod", kept.uid)
    assert name in scene.ears.findings[0].message
    assert OTHER.digest in scene.ears.findings[0].message
    assert "Delete the pod" in scene.ears.findings[0].remedy
    scene.put(pod)
    scene.step()
    assert len(scene.ears.said) == 1


def test_new_facts_may_help_whoever_could_not_be_helped() -> None:
    pod, name = translated(OTHER)
    scene = Scene()
    scene.put(pod)
    scene.step()
    scene.given = OTHER
    scene.duty.facts_changed()
    assert scene.step() == [name]


def test_before_any_facts_nothing_is_made_and_nobody_is_frightened() -> None:
    pod, name = translated()
    scene = Scene(now=None)
    scene.put(pod)
    assert scene.step() == []
    assert scene.ears.said == []
    scene.given = NEW
    scene.duty.facts_changed()
    assert scene.step() == [name]


def test_a_template_that_is_deleted_under_a_waiting_pod_is_made_again() -> None:
    scene = Scene()
    pod, name = translated()
    scene.put(pod)
    scene.step()
    gone = scene.templates.remove(name, TEAM)
    scene.duty.template_changed(gone, None)
    assert scene.step() == [name]


def forged(pod: Object, text: str) -> Object:
    pod["metadata"]["annotations"][ORIGINAL_ANNOTATION] = text
    return pod


FORGERIES = {
    "removed": "",
    "nothing": "[]",
    "more": '[{"op":"replace","path":"/spec","value":{"containers":[{"name":"a","resources":'
    '{"limits":{"nvidia.com/gpu":"8"}}}]}},{"op":"remove","path":"/metadata/annotations"}]',
    "not-json": "{",
    "elsewhere": '[{"op":"add","path":"/spec/containers/7/name","value":"x"}]',
}


@pytest.mark.parametrize("text", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_way_back_makes_nothing(text: str) -> None:
    scene = Scene()
    pod, _ = translated()
    scene.put(forged(pod, text))
    assert scene.step() == []
    assert scene.ears.codes == ["TemplateNotReproduced"]


def test_a_way_back_copied_from_another_pod_with_the_same_asking_makes_the_same() -> None:
    scene = Scene()
    pod, name = translated()
    copied = copy.deepcopy(pod)
    copied["metadata"]["name"] = "copy"
    scene.put(copied)
    assert scene.step() == [name]


def test_a_name_that_is_not_ours_is_nobody_s_business() -> None:
    scene = Scene()
    pod, _ = translated()
    pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "their-own"
    scene.put(pod)
    assert scene.step() == []
    assert scene.ears.said == []


@pytest.mark.parametrize("change", ["deleted", "over"])
def test_a_pod_that_waits_no_more_needs_nothing(change: str) -> None:
    scene = Scene()
    pod, _ = translated()
    if change == "deleted":
        pod["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    else:
        pod["status"]["phase"] = "Failed"
    scene.put(pod)
    assert scene.step() == []


def test_a_template_with_another_content_is_told_to_every_pod_and_counted() -> None:
    scene = Scene()
    pod, name = translated()
    spec = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "cheap"}}]}}
    scene.templates.put({"metadata": {"name": name, "namespace": TEAM}, "spec": {"spec": spec}})
    for each in ("one", "two", "two"):
        scene.put({**pod, "metadata": {**pod["metadata"], "name": each}})
        scene.step()
    assert scene.ears.codes == ["TemplateTaken", "TemplateTaken"]
    assert scene.ears.counts == {("templates", "taken"): 2}


def test_a_good_template_is_not_told_of() -> None:
    scene = Scene()
    pod, _ = translated()
    scene.put(pod)
    scene.step()
    scene.put(pod)
    scene.step()
    assert scene.ears.said == []


SHARES = Facts(
    cluster=Cluster(keeps=("exactly.capacity",)),
    classes=(Class("hami-core-gpu.project-hami.io"),),
)


def sharing() -> tuple[Scene, Object, str]:
    """A scene with shares, and a pod that asks for one, with the name of its template."""
    by = given(Configuration(), SHARES)
    asked = copy.deepcopy(ASKED)
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}
    asked["spec"]["containers"][0]["resources"]["limits"] = limits
    done = translate(asked, by, TEAM)
    (made,) = done.templates
    return Scene(now=by), jsonpatch.apply_patch(asked, operations(done.edits)), made.name


def without_capacity(value: Object) -> Object:
    for each in value["spec"]["spec"]["devices"]["requests"]:
        each["exactly"].pop("capacity", None)
    return value


def test_a_share_is_not_made_where_its_amount_would_be_dropped() -> None:
    scene, pod, name = sharing()
    scene.templates.keeps = without_capacity
    kept = scene.put(pod)
    assert scene.step() == []
    assert scene.templates.asked == [("dry-run", name)]
    ((code, about),) = scene.ears.said
    assert (code, about.uid) == ("ClaimFieldDropped", kept.uid)
    assert "exactly.capacity" in scene.ears.findings[0].message
    scene.put(pod)
    scene.step()
    assert scene.ears.codes == ["ClaimFieldDropped"]


def test_a_share_is_made_as_soon_as_its_amount_is_kept_again() -> None:
    scene, pod, name = sharing()
    scene.templates.keeps = without_capacity
    scene.put(pod)
    scene.step()
    scene.templates.keeps = copy.deepcopy
    scene.duty.facts_changed()
    assert scene.step() == [name]
    assert stands_for_content(scene.templates.objects[TEAM, name])


def test_somebody_who_was_faster_is_no_error() -> None:
    scene = Scene()
    pod, _ = translated()

    def faster(_verb: str, value: Object) -> None:
        metadata = {**value["metadata"], "namespace": TEAM}
        scene.templates.put({**value, "metadata": metadata})

    scene.templates.trouble = faster
    scene.put(pod)
    scene.step()
    assert scene.ears.counts == {}


def test_one_namespace_that_refuses_does_not_keep_the_others_waiting() -> None:
    scene = Scene()
    pod, name = translated()
    full = {**pod, "metadata": {**pod["metadata"], "namespace": "full"}}
    scene.put(full)
    scene.put(pod)

    def refuses(_verb: str, value: Object) -> None:
        if value["metadata"]["namespace"] == "full":
            raise WorldError(403, "exceeded quota")

    scene.templates.trouble = refuses
    # No failed step: a failure would let everybody wait who comes after.
    scene.step()
    assert list(scene.templates.objects) == [(TEAM, name)]
    (told,) = scene.ears.findings
    assert (told.code, scene.ears.said[0][1].namespace) == ("TemplateRefused", "full")
    assert name in told.message
    assert "exceeded quota" in told.message
    assert scene.ears.levels == {("templates", "pods that cannot be helped"): 1}
    scene.put(full)
    scene.step()
    assert len(scene.ears.said) == 1


def test_what_is_refused_is_tried_again_after_a_while_and_not_whenever_anything_happens() -> None:
    scene = Scene()
    pod, name = translated()
    scene.put(pod)

    def refuses(_verb: str, _value: Object) -> None:
        raise WorldError(403, "exceeded quota")

    scene.templates.trouble = refuses
    scene.step()
    scene.put(pod)
    scene.step()
    assert scene.templates.asked == [("create", name)]
    scene.templates.trouble = lambda _verb, _value: None
    scene.watch.now += dt.timedelta(seconds=5)
    assert scene.step() == [name]
    assert scene.ears.levels == {("templates", "pods that cannot be helped"): 0}


def test_where_nobody_can_be_asked_everybody_stays_due() -> None:
    scene = Scene()
    pod, _ = translated()
    for namespace in ("one", "two"):
        scene.put({**pod, "metadata": {**pod["metadata"], "namespace": namespace}})

    def fails(_verb: str, _value: Object) -> None:
        raise WorldError(0, "no route")

    scene.templates.trouble = fails
    with pytest.raises(WorldError):
        scene.step()
    assert len(scene.templates.asked) == 1
    scene.templates.trouble = lambda _verb, _value: None
    assert len(scene.step()) == 2
    assert scene.ears.said == []


def test_a_pod_that_is_gone_is_forgotten() -> None:
    scene = Scene()
    pod, _ = translated(OTHER)
    kept = scene.put(pod)
    scene.step()
    scene.pods.remove("train", TEAM)
    scene.duty.pod_changed(kept, None)
    scene.duty.facts_changed()
    scene.step()
    again = scene.put(pod)
    scene.step()
    assert [about.uid for _, about in scene.ears.said] == [kept.uid, again.uid]
