"""What is collected: templates of ours, unused for a day, that no live pod refers to."""

import asyncio
import datetime as dt
from typing import Any

import pytest

from controller.protocols import Object
from controller.template_gc import JanitorDuty
from controller.watched_objects import Named, Pod
from dra.names import USED_ANNOTATION
from tests.controller.harness import START, Ears, Kind, Watch, WorldError
from translate.changes.template import template

MADE = template({"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpus"}}]}})
TEAM = "team"


class Scene:
    """A namespace with one template of ours, made two days ago."""

    def __init__(self, **metadata: Any) -> None:  # noqa: ANN401  # plain JSON
        self.templates, self.pods = Kind(Named), Kind(Pod)
        self.ears, self.watch = Ears(), Watch(START)
        self.stored: Object = {**MADE.object}
        self.stored["metadata"] = {"name": MADE.name, "namespace": TEAM, **metadata}
        self.templates.put(self.stored, created=START - dt.timedelta(days=2))
        self.duty = JanitorDuty(self.templates, self.pods, self.templates, self.ears, self.watch)

    def pod(self, phase: str, namespace: str = TEAM) -> None:
        """A pod that refers to it."""
        claims = [{"name": "drawbridge", "resourceClaimTemplateName": MADE.name}]
        self.pods.put(
            {
                "metadata": {"name": "train", "namespace": namespace},
                "spec": {"resourceClaims": claims},
                "status": {"phase": phase},
            }
        )

    def collects(self) -> bool:
        """Step, and say whether it is gone."""
        asyncio.run(self.duty.step())
        return (TEAM, MADE.name) not in self.templates.objects


def ago(**since: int) -> dict[str, str]:
    return {USED_ANNOTATION: (START - dt.timedelta(**since)).isoformat().replace("+00:00", "Z")}


def test_what_was_not_used_for_a_day_is_collected() -> None:
    scene = Scene()
    assert scene.collects()
    assert scene.ears.counts == {("janitor", "collected"): 1}


def test_a_young_one_is_kept_until_its_day_is_over() -> None:
    scene = Scene(annotations=ago(hours=23))
    assert not scene.collects()
    scene.watch.now += dt.timedelta(hours=2)
    assert scene.collects()


def test_an_annotation_that_is_no_time_counts_as_none() -> None:
    assert Scene(annotations={USED_ANNOTATION: "yesterday"}).collects()


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", ""])
def test_what_a_live_pod_refers_to_is_kept(phase: str) -> None:
    scene = Scene()
    scene.pod(phase)
    assert not scene.collects()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_holds_nothing(phase: str) -> None:
    scene = Scene()
    scene.pod(phase)
    assert scene.collects()


def test_a_pod_of_another_namespace_refers_to_another_template() -> None:
    scene = Scene()
    scene.pod("Running", namespace="others")
    assert scene.collects()


@pytest.mark.parametrize(
    "name", ["gpu-small", "drawbridge-mine", f"drawbridge-{'0' * 32}", f"{MADE.name}-b"]
)
def test_what_is_not_ours_by_its_content_is_never_touched(name: str) -> None:
    scene = Scene()
    scene.templates.remove(MADE.name, TEAM)
    scene.stored["metadata"] = {"name": name, "namespace": TEAM}
    scene.templates.put(scene.stored, created=START - dt.timedelta(days=9))
    asyncio.run(scene.duty.step())
    assert (TEAM, name) in scene.templates.objects
    assert scene.templates.asked == []


def test_labels_that_somebody_put_on_ours_do_not_make_it_theirs() -> None:
    assert Scene(labels={"team": "a"}).collects()


def test_pods_are_only_listed_where_there_is_something_to_collect() -> None:
    scene = Scene(annotations=ago(hours=1))
    scene.collects()
    assert scene.pods.asked == []


def test_a_renewal_wins() -> None:
    scene = Scene()

    def renewed(_verb: str, _value: Object) -> None:
        scene.stored["metadata"]["annotations"] = ago(seconds=1)
        scene.templates.put(scene.stored)

    scene.templates.trouble = renewed
    assert not scene.collects()
    assert scene.templates.asked == [("delete", MADE.name)]
    assert scene.ears.counts == {}


def test_a_namespace_that_refuses_keeps_the_others_no_longer() -> None:
    scene = Scene()
    old = START - dt.timedelta(days=2)
    for namespace in ("a", "z"):
        metadata = {"name": MADE.name, "namespace": namespace}
        scene.templates.put({**scene.stored, "metadata": metadata}, created=old)

    def refuses(_verb: str, _value: Object) -> None:
        if len([each for each in scene.templates.asked if each[0] == "delete"]) == 1:
            raise WorldError(403, "a policy")

    scene.templates.trouble = refuses
    with pytest.raises(WorldError):
        scene.collects()
    assert list(scene.templates.objects) == [("a", MADE.name)]


def test_a_server_that_fails_is_asked_again() -> None:
    scene = Scene()

    def fails(_verb: str, _value: Object) -> None:
        raise WorldError(500)

    scene.templates.trouble = fails
    with pytest.raises(WorldError):
        scene.collects()
