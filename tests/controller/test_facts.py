"""Facts as they are published: one ConfigMap, the last few versions, no write without news."""

import asyncio
import json
from typing import Any

import pytest

from config.model import Configuration
from controller.facts import (
    CURRENT,
    ROOM,
    VERSIONS,
    FactsDuty,
    Sources,
    key_of,
    publication,
    version,
)
from controller.field_probe import Probed
from controller.protocols import Object
from controller.watched_objects import Named
from dra.gates import Gates
from dra.names import FACTS_CONFIG_MAP
from facts import serialized
from facts.model import Cluster, Facts
from tests.controller.harness import Ears, Kind, WorldError

OWN = "drawbridge-system"
PROBED = Probed("1.36", ("exactly.capacity",), Gates(version="1.36"))


def published(number: int, live: Object | None = None, size: int = 0) -> Object | None:
    facts = Facts(cluster=Cluster(version=f"1.{number}", gates=("x" * size,) if size else ()))
    return publication(serialized.canonical(facts), serialized.digest(facts), live)


def following(*numbers: int, size: int = 0) -> Object:
    live: Object | None = None
    for number in numbers:
        live = published(number, live, size) or live
    assert live is not None
    return live


def versions(live: Object) -> list[str]:
    return sorted(
        json.loads(content)["cluster"]["version"]
        for key, content in live["data"].items()
        if key != CURRENT
    )


def test_the_current_facts_are_named_by_their_hash() -> None:
    live = following(1)
    digest = live["data"][CURRENT]
    facts = version(live["data"], digest)
    assert facts is not None
    assert serialized.digest(facts) == digest
    assert len(key_of(digest)) == len("facts-0123456789abcdef.json")


def test_the_same_facts_write_nothing() -> None:
    assert published(1, following(1)) is None


def test_the_last_three_versions_are_kept() -> None:
    assert versions(following(1, 2, 3, 4)) == ["1.2", "1.3", "1.4"]
    assert VERSIONS == 3


def test_what_comes_back_is_the_newest_again() -> None:
    assert versions(following(1, 2, 1, 3, 4)) == ["1.1", "1.3", "1.4"]


def test_the_oldest_go_first_where_there_is_no_room() -> None:
    live = following(1, 2, 3, size=ROOM // 2 - 1000)
    assert versions(live) == ["1.2", "1.3"]
    assert versions(following(1, 2, size=ROOM - 1000)) == ["1.2"]


def test_what_others_wrote_on_it_stays() -> None:
    live = following(1)
    live["metadata"]["labels"] = {"team": "a"}
    live["metadata"]["annotations"]["note"] = "b"
    after = published(2, live)
    assert after is not None
    assert after["metadata"]["labels"] == {"team": "a"}
    assert after["metadata"]["annotations"]["note"] == "b"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"kind": "Facts"}', "null", "[" * 100_000, '"\ud800"'], ids=len
)
def test_a_version_that_somebody_changed_is_none(content: str) -> None:
    live = following(1)
    digest = live["data"][CURRENT]
    assert version({key_of(digest): content}, digest) is None
    assert version({}, digest) is None


class Scene:
    """A cluster with one class, and who gathers its facts."""

    def __init__(self) -> None:
        self.slices, self.classes, self.nodes = Kind(Named), Kind(Named), Kind(Named)
        self.maps, self.ears = Kind(Named), Ears()
        self.configuration = Configuration()
        self.duty = FactsDuty(
            Sources(self.slices, self.classes, self.nodes),
            self.maps,
            OWN,
            configuration=lambda: self.configuration,
            probed=self._probed,
            told=self.ears,
        )
        self.heard = 0
        self.duty.listeners.append(self._hear)
        self.offer("gpu.example.com")

    async def _probed(self) -> Probed:
        return PROBED

    def _hear(self) -> None:
        self.heard += 1

    def offer(self, name: str, **more: Any) -> None:  # noqa: ANN401  # plain JSON
        """Offer a class."""
        self.classes.put(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": name},
                "spec": {"selectors": [], **more},
            }
        )

    def step(self) -> None:
        """Step."""
        asyncio.run(self.duty.step())

    @property
    def writes(self) -> list[str]:
        """The verbs of all writes."""
        return [verb for verb, _ in self.maps.asked]


def test_facts_are_published_at_once_and_then_only_when_they_change() -> None:
    scene = Scene()
    scene.step()
    assert (scene.writes, scene.heard) == (["create"], 1)
    scene.step()
    assert (scene.writes, scene.heard) == (["create"], 1)
    scene.offer("nic.example.com")
    scene.step()
    assert (scene.writes, scene.heard) == (["create", "replace"], 2)
    assert scene.duty.given is not None
    assert scene.duty.given.digest == scene.maps.objects[OWN, FACTS_CONFIG_MAP]["data"][CURRENT]
    assert scene.duty.given.facts is not None
    assert scene.duty.given.facts.cluster.keeps == ("exactly.capacity",)


def test_facts_that_somebody_deleted_are_published_again() -> None:
    scene = Scene()
    scene.step()
    scene.maps.remove(FACTS_CONFIG_MAP, OWN)
    scene.step()
    assert scene.writes == ["create", "create"]


def test_another_configuration_with_the_same_facts_is_news_without_a_write() -> None:
    scene = Scene()
    scene.step()
    scene.configuration = Configuration()
    scene.step()
    assert (scene.writes, scene.heard) == (["create"], 2)


def test_earlier_facts_are_found_by_their_hash() -> None:
    scene = Scene()
    scene.step()
    assert scene.duty.given is not None
    before = scene.duty.given
    scene.offer("nic.example.com")
    scene.step()
    assert scene.duty.version(before.digest) == before.facts
    assert scene.duty.version("sha256:0") is None


def test_an_object_that_cannot_be_read_is_told_once_and_does_not_count() -> None:
    scene = Scene()
    scene.offer("broken", selectors="none")
    scene.step()
    scene.step()
    assert len(scene.ears.codes) == 1
    assert scene.duty.given is not None
    assert scene.duty.given.facts is not None
    assert [each.name for each in scene.duty.given.facts.classes] == ["gpu.example.com"]


def test_a_conflict_is_the_world_s_and_the_next_step_mends_it() -> None:
    scene = Scene()
    scene.step()
    scene.offer("nic.example.com")

    def conflict(_verb: str, _value: Object) -> None:
        scene.maps.trouble = lambda _verb, _value: None
        raise WorldError(409, "Conflict")

    scene.maps.trouble = conflict
    with pytest.raises(WorldError):
        scene.step()
    scene.step()
    assert scene.heard == 2
