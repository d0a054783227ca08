"""The order of the labels of dual nodes and of the LISTs of pods that decide other labels."""

import pytest

from controller.dual_nodes import LABEL, MAX_LISTS
from drawbridge.api_error import ApiError
from drawbridge.facts.served_names import DualNode
from tests.controller.test_dual_nodes import HELD, NAME, Scene


def held_scene(count: int) -> Scene:
    """Return nodes that keep their label because of a pod, and a node that is dual."""
    scene = Scene(**{f"n{each}": {LABEL: "true"} for each in range(count)}, z={})
    scene.dual_nodes = (DualNode("z", (NAME,), 8),)
    for each in range(count):
        scene.pod(f"p{each}", f"n{each}", NAME, **HELD)
    return scene


def test_the_label_of_a_dual_node_waits_for_no_pods_of_other_nodes() -> None:
    scene = held_scene(2)
    lists: list[int] = []
    scene.nodes.before_write = lambda *_: lists.append(len(scene.pods.requests))
    assert scene.reconcile()["z"] == {LABEL: "true"}
    assert lists == [0]
    assert len(scene.pods.requests) == 2


def test_the_nodes_of_which_pods_are_listed_take_turns() -> None:
    scene = held_scene(MAX_LISTS + 2)
    wakes: list[int] = []
    scene.reconciler.listener = lambda: wakes.append(len(scene.pods.requests))
    counts = []
    for _ in range(3):
        scene.reconcile()
        counts.append(len(scene.pods.requests))
    assert counts == [MAX_LISTS, 2 * MAX_LISTS, 3 * MAX_LISTS]
    assert wakes == counts[:1]  # those that hold their label still are listed some time later
    assert scene.reporter.codes.count("DualNodesHeld") == MAX_LISTS + 2


def test_a_node_whose_pods_cannot_be_listed_gets_its_turn_again() -> None:
    scene = held_scene(2 * MAX_LISTS)
    asked: list[str] = []
    iterate = scene.pods.iterate

    def listed(namespace: str = "", *, fields: str = "") -> object:
        asked.append(fields)
        if fields.endswith("=n0"):
            raise ApiError(403, "Forbidden", "a policy")
        return iterate(namespace, fields=fields)

    scene.pods.iterate = listed  # type: ignore[method-assign,assignment]
    for is_refused in (True, False, True):
        if is_refused:
            with pytest.raises(ApiError):
                scene.reconcile()
        else:
            scene.reconcile()
    assert asked.count("spec.nodeName=n0") == 2
