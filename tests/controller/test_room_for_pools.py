"""The room of the policy: pools that come wait for those that leave, by node."""

from typing import Any

import pytest

from controller.fence_rules import KEEP_SECONDS
from controller.giving_back import LEASE_SECONDS
from drawbridge.api_error import ApiError
from tests.controller.test_fence_rules import DRIVER, ENTRY, Scene


def publish_others(scene: Scene, node: str, turn: int) -> None:
    """Replace the pools of a node by others, which take less than 4,000 characters."""
    for name in [name for _, name in scene.slices.objects if name.startswith(f"{node}-")]:
        scene.slices.remove(name)
    for number in range(14):
        scene.node(node, pool=f"{node}-{turn:04}-{number:02}-".ljust(250, "x"))


def refuse_long_lists(_verb: str, value: dict[str, Any]) -> None:
    """Answer as an API server does."""
    if any(len(each["expression"]) > 100_000 for each in value["spec"]["variables"]):
        raise ApiError(422, "Invalid")


@pytest.mark.parametrize(("changing", "others"), [(0, 300), (1, 0), (1, 300), (3, 0), (30, 0)])
def test_what_a_node_publishes_shortens_no_other_nodes_time(changing: int, others: int) -> None:
    """Nodes that are taken over. This process hears of no slice of `b`; an allocator may."""
    scene = Scene(ENTRY)
    scene.policies.before_write = refuse_long_lists
    for number in range(others):
        scene.node(f"n{number:03}-".ljust(240, "l"))
    scene.node("b")
    scene.reconcile()
    scene.slices.remove(f"b-{DRIVER}")
    gone = 0
    for turn in range(30):
        for number in range(changing):
            publish_others(scene, f"many{number}", turn)
        scene.reconcile(2)
        if "b" not in scene.pools:
            gone = 2 * turn
            break
    assert KEEP_SECONDS + LEASE_SECONDS <= gone <= KEEP_SECONDS + LEASE_SECONDS + 6


def test_a_node_with_more_pools_than_the_policy_can_name_closes_no_other() -> None:
    scene = Scene(ENTRY)
    scene.node("a")
    for number in range(360):
        scene.node("many", pool=f"{number:0250}")
    assert scene.reconcile() is True
    assert scene.pools == ["a"]


def test_more_nodes_than_the_policy_can_name_close_only_those_that_come_last() -> None:
    scene = Scene(ENTRY)
    names = [f"{number:0250}" for number in range(400)]
    for name in names[:-100]:
        scene.node(name)
    scene.reconcile()
    assert scene.pools == names[:-100]
    for name in names[-100:]:
        scene.node(name)
    scene.reconcile()
    named = {*scene.pools}
    assert {*names[:-100]} < named < {*names}
    assert {name for name in names if scene.reconciler.holds(name)} == named
    for name in names[:100]:
        scene.slices.remove(f"{name}-{DRIVER}")
    for _ in range(15):
        scene.reconcile(5)
    assert scene.pools == scene.ruled == names[100:]
    assert all(map(scene.reconciler.holds, names[100:]))


def test_what_leaves_counts_for_its_node() -> None:
    scene = Scene(ENTRY)
    scene.node("a")
    publish_others(scene, "many", 0)
    scene.reconcile()
    first = {*scene.pools}
    publish_others(scene, "many", 1)
    assert scene.reconcile(2) is True
    assert scene.reconciler.holds("many") is False
    assert {*scene.pools} == first
    scene.let_go()
    scene.reconcile(1)
    assert scene.reconciler.holds("many") is True
    assert len(scene.pools) == len(first)
    assert {*scene.pools} & first == {"a"}


def test_pools_that_come_wait_for_room_behind_the_taint_of_their_nodes() -> None:
    scene = Scene(ENTRY)
    scene.policies.before_write = refuse_long_lists
    before, after = ([f"{kind}{number:0249}" for number in range(250)] for kind in "xy")
    for name in before:
        scene.node(name)
    assert scene.reconcile() is True
    for name in before:
        scene.slices.remove(f"{name}-{DRIVER}")
    for name in after:
        scene.node(name)
    scene.reconcile(5)
    assert {*before} < {*scene.pools}
    assert {name for name in after if scene.reconciler.holds(name)} == {*scene.pools} - {*before}
    for _ in range(15):
        scene.reconcile(5)
    assert scene.pools == scene.ruled == after
    assert all(map(scene.reconciler.holds, after))


def test_a_node_with_many_pools_waits_where_others_have_room() -> None:
    scene = Scene(ENTRY)
    scene.policies.before_write = refuse_long_lists
    names = [f"{number:0250}" for number in range(330)]
    for name in names:
        scene.node(name)
    scene.reconcile()
    for name in names:
        scene.slices.remove(f"{name}-{DRIVER}")
    for number in range(3):
        publish_others(scene, f"many{number}", 0)
    for number in range(9):
        scene.node(f"one{number}")
    scene.reconcile(1)
    assert all(scene.reconciler.holds(f"one{number}") for number in range(9))
    held = [scene.reconciler.holds(f"many{number}") for number in range(3)]
    assert held == [True, True, False]


def test_a_process_that_leads_anew_lets_pools_go_of_which_it_knows_no_node() -> None:
    scene = Scene(ENTRY)
    publish_others(scene, "many", 0)
    scene.node("b")
    scene.reconcile()
    first = {*scene.pools}
    scene.start()
    publish_others(scene, "many", 1)
    scene.slices.remove(f"b-{DRIVER}")
    assert scene.reconcile(1) is True
    assert first < {*scene.pools}
    scene.let_go()
    assert not {*scene.pools} & first
