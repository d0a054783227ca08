"""Writes that the API server accepts, and of which a policy of others removes a part."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from controller.dual_nodes import LABEL
from controller.kept_writes import NotKeptError, find_lost
from controller.node_plugins import ABSENCE_SECONDS
from controller.owned_nodes import MAX_CHANGES
from controller.protocols import Unstructured
from controller.reconcile import FailedLast
from drawbridge.api_error import ApiError
from drawbridge.names import MIRRORED_QUOTA, QUOTA_CLASSES_ANNOTATION
from tests.controller.test_dual_nodes import NAME
from tests.controller.test_dual_nodes import Scene as DualScene
from tests.controller.test_dual_nodes import _node as without_plugin
from tests.controller.test_owned_nodes import ENTRY, FENCE, OWNED, Scene, Taints
from tests.controller.test_quota_mirror import GPUS, LIMIT, PODS, TEAM
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


@every_row(
    ("write", "sent_at"),
    [
        (lambda _: "note", [0, 2, 6, 14, 30, 62, 126]),
        (lambda second: "note" if second < 70 else "removal", [0, 2, 6, 14, 30, 62, 70, 72, 76]),
        # Kept, and so the pause of the same write begins anew.
        (lambda second: "kept" if second == 70 else "note", [0, 2, 6, 14, 30, 62, 70, 71, 73, 77]),
    ],
    ids=["the same", "another one", "another one that is kept"],
)
def test_a_pause_holds_back_the_same_write_of_an_item(
    write: Callable[[int], str], sent_at: list[int]
) -> None:
    sent = list[int]()

    async def process(_: str, kind: str) -> None:
        sent.append(second)
        if kind != "kept":
            raise NotKeptError("node", "metadata")

    failed_last = FailedLast(lambda: float(second))
    for second in range(150):
        with contextlib.suppress(NotKeptError):
            asyncio.run(failed_last.process_each({"node": write(second)}, process))
    assert sent[: len(sent_at)] == sent_at


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


@pytest.mark.parametrize("case", ["a policy removes the label", "its pods cannot be listed"])
def test_what_holds_a_node_is_reported_once(case: str) -> None:
    """A node that is not processed in a run, or of which nothing is found out, is still held."""
    scene = DualScene()
    scene.dual_nodes = ()
    scene.nodes.put(without_plugin("old", "0"))
    scene.pod("p", "old", NAME, phase="Running")
    merge, iterate = scene.nodes.merge, scene.pods.iterate

    async def strip(name: str, _: Unstructured, namespace: str = "") -> Unstructured:
        return await merge(name, {"metadata": {}}, namespace)

    def iterate_sometimes(**selected: str) -> AsyncIterator[Unstructured]:
        if 1 < scene.time < 9:
            raise ApiError(0, "", "no response")
        return iterate(**selected)

    if "policy" in case:
        scene.nodes.merge = strip  # type: ignore[method-assign]
    else:
        scene.pods.iterate = iterate_sometimes  # type: ignore[method-assign]
    for _ in range(100):
        scene.time += 1
        with contextlib.suppress(ApiError):
            scene.reconcile()
    assert scene.reporter.codes == ["DualNodesHeld"]


def test_what_holds_a_node_again_is_reported_again() -> None:
    scene = DualScene()
    scene.dual_nodes = ()
    node = without_plugin("old", "0")
    scene.nodes.put({**node, "metadata": {"name": "old", "labels": {LABEL: "true"}}})

    def fail(*_: object) -> None:
        raise ApiError(403, "Forbidden", "a policy")

    scene.nodes.before_write = fail
    for held in (True, False, True):
        scene.time += ABSENCE_SECONDS
        scene.pod("p", "old", NAME, phase="Running" if held else "Succeeded")
        with contextlib.suppress(ApiError):
            scene.reconcile()
    assert scene.reporter.codes == ["DualNodesHeld"] * 2


def _lossy_quota(part: str) -> QuotaScene:
    scene = QuotaScene({"quotas": {TEAM: LIMIT}})
    stored = scene.quotas.apply

    async def strip(value: Unstructured, namespace: str = "") -> Unstructured:
        return await stored({**value, "metadata": {**value["metadata"], part: {}}}, namespace)

    scene.quotas.apply = strip  # type: ignore[method-assign]
    return scene


def _pass_time(scene: QuotaScene, seconds: int) -> None:
    for _ in range(seconds):
        scene.seconds += 1.0
        try:
            scene.reconcile()
        except ApiError as error:
            assert error.reason == "NotKept"  # noqa: PT017  # most runs do not fail


@pytest.mark.parametrize("part", ["annotations", "labels"])
def test_a_mirrored_quota_that_a_policy_changes_is_written_seldom(part: str) -> None:
    scene = _lossy_quota(part)
    _pass_time(scene, 300)
    assert 5 < len(scene.writes) <= 10


def test_a_mirrored_quota_that_a_policy_changes_follows_the_usage_at_once() -> None:
    scene = _lossy_quota("annotations")
    _pass_time(scene, 1)
    assert scene.reporter.codes == ["QuotaMirrored"]
    _pass_time(scene, 149)
    ours = scene.quotas.objects[TEAM, MIRRORED_QUOTA]
    scene.quotas.put({**ours, "status": {"used": {GPUS: "8"}}})
    _pass_time(scene, 1)
    hard = {GPUS: "10", PODS: "2"}
    assert scene.quotas.objects[TEAM, MIRRORED_QUOTA]["spec"]["hard"] == hard
    _pass_time(scene, 3)
    assert scene.reporter.counts["quota", "recounted"] == 2


def test_entries_are_taken_back_seldom_from_a_quota_whose_note_a_policy_keeps() -> None:
    """Somebody else added an entry, so the quota is not deleted."""

    def admit(quota: Unstructured) -> Unstructured:
        noted = {**quota["metadata"], "annotations": {QUOTA_CLASSES_ANNOTATION: "kept"}}
        return {"metadata": noted, "spec": {"hard": {**quota["spec"]["hard"], "pods": "5"}}}

    scene = QuotaScene({"quotas": {TEAM: LIMIT}})
    scene.quotas.admit = admit
    _pass_time(scene, 10)
    scene.quotas.remove(TEAM, TEAM)
    before = len(scene.writes)
    _pass_time(scene, 300)
    assert 5 < len(scene.writes) - before <= 8
