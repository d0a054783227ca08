"""Writes that the API server accepts, and of which a policy of others removes a part."""

import pytest

from controller.kept_writes import find_lost
from controller.owned_nodes import MAX_CHANGES
from controller.protocols import Unstructured
from drawbridge.api_error import ApiError
from tests.controller.test_owned_nodes import ENTRY, FENCE, OWNED, Scene, Taints
from tests.controller.test_quota_mirror import LIMIT, TEAM
from tests.controller.test_quota_mirror import Scene as QuotaScene
from tests.tables import YamlValue, every_row

NOTED = {"metadata": {"resourceVersion": "7", "annotations": {"a/b": "x"}}}


@every_row(
    ("sent", "stored", "lost"),
    [
        (NOTED, {"metadata": {"resourceVersion": "8", "annotations": {"a/b": "x", "c": "d"}}}, ""),
        (NOTED, {"metadata": {"resourceVersion": "8"}}, "metadata.annotations.a/b"),
        (NOTED, {"metadata": {"annotations": {"a/b": "y"}}}, "metadata.annotations.a/b"),
        ({"labels": {"a": None}}, {"labels": {}}, ""),
        ({"labels": {"a": None}}, {}, ""),
        ({"labels": {"a": None}}, {"labels": {"a": "true"}}, "labels.a"),
        ({"hard": {"pods": "2000", "x": "0"}}, {"hard": {"pods": "2k", "x": "0"}}, ""),
        ({"hard": {"pods": "2000"}}, {"hard": {"pods": "2"}}, "hard.pods"),
        ({"taints": [{"key": "a"}]}, {"taints": [{"key": "a", "timeAdded": "t"}]}, ""),
        ({"taints": [{"key": "a"}, {"key": "b"}]}, {"taints": [{"key": "a"}]}, "taints"),
        ({"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]}, "taints.key"),
        ({"taints": None}, {"taints": [{"key": "a"}]}, "taints"),
    ],
)
def test_what_is_not_stored_is_found(sent: YamlValue, stored: YamlValue, lost: str) -> None:
    assert find_lost(sent, stored) == lost


def _strip_notes(scene: Scene) -> None:
    merge = scene.nodes.merge

    async def strip(name: str, value: Unstructured, namespace: str = "") -> Unstructured:
        return await merge(name, {**value, "metadata": {}}, namespace)

    scene.nodes.merge = strip  # type: ignore[method-assign]


def _run(scene: Scene) -> Taints | None:
    """Run the reconciler a second later, and return the taints of the node that leaves."""
    scene.time += 1.0
    try:
        return scene.reconcile()["left"]
    except ApiError:
        return scene.nodes.objects["", "left"]["spec"].get("taints")


def _leaving_one(owned: int) -> Scene:
    scene = Scene(ENTRY)
    for number in range(owned):
        scene.node(f"a{number:03}", OWNED, [FENCE])
    scene.node("left", OWNED, [FENCE])
    scene.reconcile()
    scene.node("left", {}, [FENCE])
    return scene


def test_notes_that_a_policy_removes_are_written_seldom_and_keep_no_node_closed() -> None:
    scene = _leaving_one(2 * MAX_CHANGES)
    merge = scene.nodes.merge
    _strip_notes(scene)
    assert [_run(scene) for _ in range(300)][-1] is None
    # At first, and after 2, 4, 8, 16, 32, 64 and 120 seconds.
    assert len(scene.nodes.requests) <= 8 * 2 * MAX_CHANGES + 10
    scene.nodes.merge = merge  # type: ignore[method-assign]
    for _ in range(130):
        _run(scene)
    assert scene.said("a000")
    assert scene.said("a099")


def test_taints_that_somebody_removes_again_and_again_keep_no_node_closed() -> None:
    scene = _leaving_one(2 * MAX_CHANGES)
    for _ in range(60):
        for number in range(2 * MAX_CHANGES):
            scene.node(f"a{number:03}", OWNED)
        before = len(scene.nodes.requests)
        left = _run(scene)
        assert len(scene.nodes.requests) - before <= MAX_CHANGES
    assert left is None


@pytest.mark.parametrize("part", ["annotations", "labels"])
def test_a_mirrored_quota_that_a_policy_changes_is_written_seldom(part: str) -> None:
    scene = QuotaScene({"quotas": {TEAM: LIMIT}})
    stored = scene.quotas.apply

    async def strip(value: Unstructured, namespace: str = "") -> Unstructured:
        return await stored({**value, "metadata": {**value["metadata"], part: {}}}, namespace)

    scene.quotas.apply = strip  # type: ignore[method-assign]
    for _ in range(300):
        scene.seconds += 1.0
        try:
            scene.reconcile()
        except ApiError as error:
            assert error.reason == "NotKept"  # noqa: PT017  # most runs do not fail
    assert 5 < len(scene.writes) <= 10
