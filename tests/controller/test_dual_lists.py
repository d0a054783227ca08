"""The order of the labels of dual nodes and of the LISTs of pods that decide other labels."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import pytest

from controller import node_plugins
from controller.dual_nodes import LABEL, MAX_LISTS
from controller.node_plugins import DriversByName, PluginState, read_plugins
from controller.protocols import Unstructured
from drawbridge.api_error import ApiError
from drawbridge.facts.served_names import DualNode
from tests.controller.test_dual_nodes import HELD, NAME, Scene
from tests.tables import every_row


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


def test_the_label_of_a_dual_node_waits_for_no_pods_although_another_one_is_refused() -> None:
    scene = held_scene(2)
    lists: dict[str, int] = {}

    def refuse(_verb: str, _value: Unstructured) -> None:
        name = scene.nodes.requests[-1][1]
        lists.setdefault(name, len(scene.pods.requests))
        if name == "z":
            raise ApiError(403, "Forbidden", "a policy of others")

    scene.nodes.before_write = refuse
    for name in ("z", "y"):
        if name == "y":
            scene.nodes.put({"metadata": {"name": name}})
            scene.dual_nodes = (*scene.dual_nodes, DualNode(name, (NAME,), 8))
        with pytest.raises(ApiError):
            scene.reconcile()
    assert lists == {"z": 0, "y": 2}


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

    def listed(namespace: str = "", *, fields: str = "") -> AsyncIterator[Unstructured]:
        asked.append(fields)
        return (refuse_list if fields.endswith("=n0") else iterate)(namespace, fields=fields)

    scene.pods.iterate = listed  # type: ignore[method-assign]
    for is_refused in (True, False, True):
        if is_refused:
            with pytest.raises(ApiError):
                scene.reconcile()
        else:
            scene.reconcile()
    assert asked.count("spec.nodeName=n0") == 2


def change_with_first_write(scene: Scene, change: Callable[[], object]) -> None:
    """Let something happen while the first label is written."""

    def happen(*_: object) -> None:
        scene.nodes.before_write = lambda *_: None
        change()

    scene.nodes.before_write = happen


NEW = {"new": "x"}
BOTH = (DualNode("a", (NAME,), 8), DualNode("b", (NAME,), 8))
# The label of each node, which nodes are dual, and what becomes of the label of b.
WRITES = {"added": ({}, BOTH, {LABEL: "true"}), "removed": ({LABEL: "true"}, (), {})}


@every_row("case", WRITES)
def test_a_node_that_changes_while_others_are_labelled_is_labelled_in_the_same_run(
    case: str,
) -> None:
    """A kubelet writes its node all the time."""
    before, dual_nodes, after = WRITES[case]
    scene = Scene(a=before, b=before)
    scene.dual_nodes = dual_nodes
    changed = {"metadata": {"name": "b", "labels": {**before, **NEW}}}
    change_with_first_write(scene, lambda: scene.nodes.put(changed))
    assert scene.reconcile() == {"a": after, "b": {**after, **NEW}}


@every_row("case", WRITES)
def test_a_node_whose_label_is_right_or_not_needed_by_its_turn_is_not_written(case: str) -> None:
    before, dual_nodes, after = WRITES[case]
    done = {"metadata": {"name": "b", "labels": after}}
    scene = Scene(a=before, b=before)
    scene.dual_nodes = dual_nodes
    change_with_first_write(scene, lambda: scene.nodes.put(done))
    assert scene.reconcile() == {"a": after, "b": after}
    assert scene.nodes.requests == [("merge", "a")]


def test_a_node_that_is_dual_no_more_by_its_turn_is_not_labelled() -> None:
    scene = Scene(a={}, b={})
    scene.dual_nodes = BOTH
    change_with_first_write(scene, lambda: setattr(scene, "dual_nodes", BOTH[:1]))
    assert scene.reconcile() == {"a": {LABEL: "true"}, "b": {}}


def test_what_holds_a_label_is_not_reported_again_after_a_list_that_failed() -> None:
    scene = held_scene(1)
    scene.reconcile()
    iterate = scene.pods.iterate
    scene.pods.iterate = refuse_list  # type: ignore[method-assign]
    with pytest.raises(ApiError):
        scene.reconcile()
    scene.pods.iterate = iterate  # type: ignore[method-assign]
    scene.reconcile()
    assert scene.reporter.codes.count("DualNodesHeld") == 1


Amounts = Mapping[str, object]


class Counted(tuple[DualNode, ...]):
    """Dual nodes that count how often somebody reads them all."""

    __slots__ = ()
    readers = 0

    def __iter__(self) -> Iterator[DualNode]:
        Counted.readers += 1
        return super().__iter__()


def test_each_label_costs_the_same_however_many_nodes_are_dual() -> None:
    readers = []
    for count in (2, 20):
        names = [f"n{each}" for each in range(count)]
        scene = Scene(**{name: {} for name in names})
        scene.dual_nodes = Counted(DualNode(name, (NAME,), 8) for name in names)
        before = Counted.readers
        assert scene.reconcile() == {name: {LABEL: "true"} for name in names}
        readers.append(Counted.readers - before)
    assert readers[0] == readers[1]


def test_what_a_node_says_of_plugins_is_read_again_only_after_it_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kubelet writes its node all the time."""
    read: list[object] = []

    def count(
        capacity: Amounts, allocatable: Amounts, drivers: DriversByName
    ) -> dict[str, PluginState]:
        read.append(allocatable)
        return read_plugins(capacity, allocatable, drivers)

    monkeypatch.setattr(node_plugins, "read_plugins", count)
    scene = Scene()
    scene.dual_nodes = ()
    for number, amount in enumerate(("0", "0", "8")):
        status = {"allocatable": {NAME: amount}, "conditions": [{"lastHeartbeatTime": f"{number}"}]}
        scene.nodes.put({"metadata": {"name": "a", "labels": {}}, "status": status})
        scene.reconcile()
        assert len(read) == (2 if amount == "8" else 1)


def refuse_list(_namespace: str = "", *, fields: str = "") -> AsyncIterator[Unstructured]:
    """Answer as an API server does without the right."""
    raise ApiError(403, "Forbidden", fields)
