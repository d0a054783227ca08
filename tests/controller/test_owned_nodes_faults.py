"""Taints of owned nodes that cannot be written stop no others."""

from contextlib import suppress

import pytest

from controller.giving_back import LEASE_SECONDS
from controller.owned_nodes import MAX_CHANGES
from controller.protocols import Unstructured
from drawbridge.api_error import ApiError
from tests.controller.test_owned_nodes import ENTRY, FENCE, OWNED, Scene
from tests.tables import every_row


@pytest.mark.parametrize("code", [422, 500])
def test_a_node_that_cannot_be_written_stops_no_other(code: int) -> None:
    scene = Scene(ENTRY)
    for number in range(MAX_CHANGES + 1):
        scene.node(f"a{number:02}", OWNED)
    scene.node("b", {}, [FENCE])

    def refuse(_verb: str, _value: Unstructured) -> None:
        if scene.nodes.requests[-1][1].startswith("a"):
            raise ApiError(code, "InternalError", "failed calling webhook")

    scene.nodes.before_write = refuse
    scene.node("z", OWNED)
    for scene.time in (0, 1, 2, LEASE_SECONDS):
        with pytest.raises(ApiError):
            scene.reconcile()
        scene.nodes.requests.clear()
    taints = {name: each["spec"].get("taints") for (_, name), each in scene.nodes.objects.items()}
    assert (bool(taints["z"]), taints["b"]) == (True, None)


def _after_failures(scene: Scene, code: int, runs: int) -> dict[str, bool]:
    """Return which nodes have a taint after some runs, in which nodes `a...` are not written."""

    def refuse(_verb: str, _value: Unstructured) -> None:
        if scene.nodes.requests[-1][1].startswith("a"):
            raise ApiError(code, "", "a webhook of others")

    scene.nodes.before_write = refuse
    for _ in range(runs):
        with suppress(ApiError):  # the first run only begins to wait before it removes a taint
            scene.reconcile()
        scene.time += LEASE_SECONDS
    objects = scene.nodes.objects.items()
    return {name: bool(each["spec"].get("taints")) for (_, name), each in objects}


# One run changes 50 nodes, and what gets no response ends it.
@every_row(
    ("refused", "code", "runs"),
    [(MAX_CHANGES, 403, 3), (2 * MAX_CHANGES, 403, 4), (1, 0, 3), (3, 0, 5)],
)
@pytest.mark.parametrize("labels", [{}, OWNED])
def test_nodes_that_are_not_written_leave_the_others_their_turn(
    refused: int, code: int, runs: int, labels: dict[str, str]
) -> None:
    scene = Scene(ENTRY)
    before = [] if labels else [FENCE]
    for number in range(refused):
        scene.node(f"a{number:03}", labels, before)
    scene.node("b", labels, before)
    assert _after_failures(scene, code, runs)["b"] is bool(labels)


def test_a_taint_that_gets_no_response_keeps_no_other_node_closed() -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED)
    scene.node("b", {}, [FENCE])
    assert _after_failures(scene, 0, 4) == {"a": False, "b": False}


def test_a_rejected_write_is_reported_and_the_other_nodes_get_the_taint() -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED)
    scene.node("b", OWNED)
    scene.node("c", {})

    def reject(_verb: str, _value: Unstructured) -> None:
        if scene.nodes.requests[-1] == ("merge", "a"):
            raise ApiError(403, "Forbidden", "a policy")

    scene.nodes.before_write = reject
    for _ in range(2):
        with pytest.raises(ApiError):
            scene.reconcile()
    assert scene.nodes.objects["", "b"]["spec"]["taints"] == [FENCE]
    (finding,) = scene.reporter.findings
    assert finding.code == "FenceMissing"
    assert finding.message == "node a lacks the taint drawbridge.dev/owned:NoSchedule"


def test_a_deleted_node_is_ignored() -> None:
    scene = Scene(ENTRY)
    scene.node("a", OWNED)

    def fail(_verb: str, _value: Unstructured) -> None:
        raise ApiError(404, "NotFound")

    scene.nodes.before_write = fail
    scene.reconcile()
    assert scene.reporter.counts == {}


@every_row(("pause", "reported"), [(1.0, True), (60.0, True), (200.0, False)])
def test_a_taint_that_somebody_removes_again_and_again_is_reported_once(
    pause: float, *, reported: bool
) -> None:
    scene = Scene(ENTRY)
    scene.node("b", {})
    for _ in range(5):
        scene.node("a", OWNED, [])
        scene.reconcile()
        scene.time += pause
    messages = [each.message for each in scene.reporter.findings if each.code == "FenceMissing"]
    assert len(messages) == reported
    assert all("node a lost the taint" in each for each in messages)


def test_a_node_that_leaves_and_comes_back_has_lost_no_taint() -> None:
    scene = Scene(ENTRY)
    for _ in range(5):
        scene.node("a", OWNED)
        scene.reconcile()
        scene.node("a", {}, [FENCE])
        scene.settle()
    assert "FenceMissing" not in scene.reporter.codes
