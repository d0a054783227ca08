"""Which fields the API server keeps: asked by creates that are dry runs."""

import asyncio
import copy
from collections.abc import Callable

import pytest

from controller.field_probe import TRIALS, Probed, ProbeDuty, gates_of
from controller.protocols import Object
from controller.watched_objects import Named
from facts.gather import KEPT_BY
from tests.controller.harness import Ears, Kind, WorldError

ALL = tuple(sorted(TRIALS))


class Scene:
    """A server that drops what it is told to, and refuses what is left invalid."""

    def __init__(self, *dropped: str, version: str = "1.36") -> None:
        self.templates, self.ears = Kind(Named), Ears()
        self.version = version
        self.templates.keeps = lambda value: without(value, dropped)
        self.duty = ProbeDuty(self.templates, self._version, self.ears)

    async def _version(self) -> str:
        return self.version

    def step(self) -> tuple[str, ...]:
        """Step, and give what is known then."""
        asyncio.run(self.duty.step())
        assert self.duty.probed is not None
        return self.duty.probed.keeps


def without(value: Object, dropped: tuple[str, ...]) -> Object:
    """Drop fields and validate, as the API server does."""
    devices = value["spec"]["spec"]["devices"]
    for request in devices["requests"]:
        for field in dropped:
            part, _, name = field.rpartition(".")
            (request.get(part, {}) if part else request).pop(name, None)
        if "exactly" not in request and "firstAvailable" not in request:
            raise WorldError(422, "requests[0]: exactly one of `exactly` or `firstAvailable`")
        if request.get("exactly", {}).get("adminAccess"):
            raise WorldError(422, "adminAccess: admin access to devices requires the label")
    for each in devices.get("constraints", ()):
        if "constraints.distinctAttribute" in dropped:
            each.pop("distinctAttribute", None)
        if not each.keys() & {"matchAttribute", "distinctAttribute"}:
            raise WorldError(422, "constraints[0].matchAttribute: Required value")
    return value


def test_a_server_with_everything_keeps_everything() -> None:
    assert Scene().step() == ALL


@pytest.mark.parametrize("field", ALL)
def test_a_field_that_is_dropped_is_known_to_be(field: str) -> None:
    assert Scene(field).step() == tuple(name for name in ALL if name != field)


def test_nothing_is_stored() -> None:
    scene = Scene()
    scene.step()
    assert scene.templates.objects == {}
    assert {verb for verb, _ in scene.templates.asked} == {"dry-run"}


def test_admin_access_in_a_namespace_that_may_ask_it_comes_back() -> None:
    scene = Scene()
    scene.templates.keeps = copy.deepcopy
    assert "exactly.adminAccess" in scene.step()


def test_a_server_that_comes_back_without_a_feature_is_known_at_the_next_step() -> None:
    scene, heard = Scene(), []
    scene.duty.listener = lambda: heard.append(scene.duty.probed)
    assert scene.step() == ALL
    scene.step()
    assert len(heard) == 1
    scene.templates.keeps = lambda value: without(value, ("exactly.capacity",))
    assert "exactly.capacity" not in scene.step()
    scene.version = "1.37"
    scene.step()
    assert [each and each.version for each in heard] == ["1.36", "1.36", "1.37"]


def test_what_there_is_to_say_is_said_once_and_again_when_it_comes_back() -> None:
    scene = Scene(version="1.39")
    for version in ("1.39", "1.39", "1.36", "1.39"):
        scene.version = version
        scene.step()
    assert scene.ears.codes == ["ServerVersionUnknown"] * 2


def refusing(code: int, message: str = "no") -> Callable[[str, Object], None]:
    def trouble(_verb: str, _value: Object) -> None:
        raise WorldError(code, message)

    return trouble


@pytest.mark.parametrize("code", [0, 403, 429, 500])
def test_a_world_that_gives_no_answer_is_asked_again(code: int) -> None:
    scene = Scene()
    scene.templates.trouble = refusing(code)
    with pytest.raises(WorldError):
        scene.step()
    assert scene.duty.probed is None
    scene.templates.trouble = lambda _verb, _value: None
    assert scene.step() == ALL


def test_a_refusal_that_says_nothing_of_the_field_counts_as_dropped_and_is_told() -> None:
    scene = Scene()
    scene.templates.trouble = refusing(422, "somebody's policy")
    assert scene.step() == ()
    assert set(scene.ears.codes) == {"ProbeRefused"}


def test_what_was_found_wins_over_the_usual_gates() -> None:
    scene = Scene("exactly.capacity", "constraints.distinctAttribute", version="1.36")
    scene.step()
    assert scene.duty.probed is not None
    assert not scene.duty.probed.gates.consumable_capacity
    assert scene.duty.probed.gates.prioritized_list


@pytest.mark.parametrize(
    ("version", "assumed", "known"),
    [
        ("1.36", "1.36", True),
        ("1.39", "1.37", False),
        ("1.30", "1.34", False),
        ("?", "1.34", False),
    ],
)
def test_of_an_unknown_version_the_nearest_is_assumed(
    version: str,
    assumed: str,
    known: bool,  # noqa: FBT001  # a table
) -> None:
    gates, found = gates_of(version)
    assert (gates.version, found) == (assumed, known)


def test_an_unknown_version_is_told() -> None:
    scene = Scene(version="1.39")
    scene.step()
    assert scene.ears.codes == ["ServerVersionUnknown"]


def test_every_field_that_a_translation_may_need_is_tried() -> None:
    assert set(TRIALS) == set(KEPT_BY)


def test_whoever_waits_hears_of_the_first_answer() -> None:
    async def play() -> Probed:
        scene = Scene()
        waiting = asyncio.create_task(scene.duty.known())
        await scene.duty.step()
        return await waiting

    assert asyncio.run(play()).keeps == ALL
