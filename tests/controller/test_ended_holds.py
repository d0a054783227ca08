"""Ended holds of nodes are removed, and nothing else."""

import asyncio

import pytest

from controller.ended_holds import KEPT_SECONDS, MAX_CHANGES, EndedHoldReconciler
from controller.protocols import Gauge, Unstructured
from controller.watched_objects import PartialObject
from drawbridge.api_error import ApiError
from drawbridge.names import HOLD_ANNOTATION, MOVING_ANNOTATION
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeReporter
from tests.tables import every_row

END = 1_795_168_800.0
HOLD = '{"pod":"research/train","uid":"u","until":"2026-11-20T10:00:00Z"}'
OTHER = {"example.com/note": "kept"}


class Scene:
    """A reconciler over nodes, at a time after the end of their holds."""

    def __init__(self, after: float) -> None:
        self.nodes, self.reporter = MemoryStore(PartialObject), FakeReporter()
        self.reconciler = EndedHoldReconciler(
            self.nodes, self.nodes, reporter=self.reporter, now=lambda: END + after
        )

    def node(self, name: str, text: str | None) -> None:
        """Add a node with this text as its hold."""
        held = {} if text is None else {HOLD_ANNOTATION: text}
        self.nodes.put({"metadata": {"name": name, "annotations": {**OTHER, **held}}})

    def reconcile(self) -> dict[str, str | None]:
        """Run once, and return the holds of the nodes."""
        asyncio.run(self.reconciler.reconcile())
        annotations = {
            name: each["metadata"]["annotations"] for (_, name), each in self.nodes.objects.items()
        }
        assert all(each.items() >= OTHER.items() for each in annotations.values())
        return {name: each.get(HOLD_ANNOTATION) for name, each in annotations.items()}


@every_row(
    ("text", "after", "left"),
    [
        (HOLD, KEPT_SECONDS, None),
        (HOLD, KEPT_SECONDS - 1, HOLD),
        (HOLD, -100_000.0, HOLD),  # not obeyed yet
        ("for training", KEPT_SECONDS, "for training"),
        (HOLD.replace('u"', 'u","more":1', 1), KEPT_SECONDS, HOLD.replace('u"', 'u","more":1', 1)),
        (None, KEPT_SECONDS, None),
    ],
)
def test_a_hold_goes_some_time_after_its_end(text: str | None, after: float, left: str) -> None:
    scene = Scene(after)
    scene.node("a", text)
    assert scene.reconcile() == {"a": left}
    writes = len(scene.nodes.requests)
    assert writes == (text != left)
    assert scene.reconcile() == {"a": left}
    assert len(scene.nodes.requests) == writes


def test_a_run_changes_a_bounded_number_of_nodes() -> None:
    scene = Scene(KEPT_SECONDS)
    for number in range(MAX_CHANGES + 1):
        scene.node(f"node-{number}", HOLD)
    assert list(scene.reconcile().values()).count(HOLD) == 1
    assert list(scene.reconcile().values()).count(HOLD) == 0


def test_nodes_whose_holds_cannot_be_removed_leave_the_others_their_turn() -> None:
    scene = Scene(KEPT_SECONDS)
    for number in range(MAX_CHANGES):
        scene.node(f"a{number}", HOLD)
    scene.node("b", HOLD)

    def refuse(_verb: str, _value: Unstructured) -> None:
        if scene.nodes.requests[-1][1].startswith("a"):
            raise ApiError(403, "Forbidden", "a policy")

    scene.nodes.before_write = refuse
    for _ in range(2):
        with pytest.raises(ApiError):
            scene.reconcile()
    assert HOLD_ANNOTATION not in scene.nodes.objects["", "b"]["metadata"]["annotations"]


@pytest.mark.parametrize("code", [404, 409])
def test_a_node_that_changed_meanwhile_is_left_alone(code: int) -> None:
    scene = Scene(KEPT_SECONDS)
    scene.node("a", HOLD)

    def fail(_verb: str, _value: Unstructured) -> None:
        raise ApiError(code, "Conflict", "")

    scene.nodes.before_write = fail
    assert scene.reconcile() == {"a": HOLD}


def test_nodes_that_a_plan_moves_are_counted() -> None:
    scene = Scene(0.0)
    scene.node("a", None)
    moving = {MOVING_ANNOTATION: "gpu.nvidia.com,open"}
    scene.nodes.put({"metadata": {"name": "b", "annotations": moving}})
    asyncio.run(scene.reconciler.reconcile())
    assert scene.reporter.gauges[Gauge.MOVING_NODES] == 1


def test_a_hold_that_begins_while_others_are_removed_stays() -> None:
    scene = Scene(KEPT_SECONDS)
    scene.node("a", HOLD)
    scene.node("b", HOLD)
    later = HOLD.replace("T10:00", "T11:00")
    assert later != HOLD
    scene.nodes.before_write = lambda *_: scene.node("b", later)
    assert scene.reconcile() == {"a": None, "b": later}
