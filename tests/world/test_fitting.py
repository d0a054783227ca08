"""What fits on the nodes of the world, as the invariants see it."""

import math

import pytest

from tests.world.asks import Ask, Choice, Constraint
from tests.world.fitting import fit_together
from tests.world.nodes import Device
from tests.world.objects import NODES
from tests.world.team_quota import Amounts

MATCH, DISTINCT = Constraint(is_distinct=False, requests=()), Constraint(True, ())  # noqa: FBT003
TWO = [Ask("claim", "gpu", (Choice("gpu"),))] * 2


def _ask_for_all(memory: int = 0, root: str = "") -> list[Ask]:
    return [Ask("claim", "gpu", (Choice("gpu", memory, is_all=True, root=root),))]


def _constrain(asks: list[Ask], constraint: Constraint) -> list[Ask]:
    return [ask._replace(constraints=(constraint,)) for ask in asks]


def _list_fitting(
    asks: list[Ask], held: dict[Device, int] | None = None, room: float = math.inf
) -> list[str]:
    amounts = Amounts(room, math.inf)
    return [name for name in NODES if fit_together([name], held or {}, [(asks, "")], amounts)]


def test_two_devices_fit_with_a_constraint_where_their_roots_allow_it() -> None:
    assert _list_fitting(TWO) == ["n1", "n2", "n3"]
    assert _list_fitting(_constrain(TWO, MATCH)) == ["n3"]
    assert _list_fitting(_constrain(TWO, DISTINCT)) == ["n1", "n2"]


def test_two_requests_share_a_device_of_one_root() -> None:
    asks = [Ask("claim", name, (Choice(name, 1),), (MATCH,)) for name in ("gpu", "gpu-1")]
    assert _list_fitting(asks) == ["n2", "n3"]
    assert _list_fitting([ask._replace(constraints=(DISTINCT,)) for ask in asks]) == ["n1"]


@pytest.mark.parametrize(
    ("memory", "root", "nodes"),
    [
        (0, "", ["n2"]),  # the counters of the others cannot carry all devices
        (0, "a", ["n2", "n3"]),
        (0, "b", ["n1", "n2", "n3"]),
        (1, "", ["n2"]),
        (3, "b", ["n2", "n3"]),
    ],
)
def test_all_devices_that_are_selected_fit(memory: int, root: str, nodes: list[str]) -> None:
    assert _list_fitting(_ask_for_all(memory, root)) == nodes


def test_all_devices_fit_only_while_none_of_them_is_held() -> None:
    assert _list_fitting(_ask_for_all(), {("n2", "gpu-0"): 1}) == []
    assert _list_fitting(_ask_for_all(), {("n2", "gpu-1"): 1}) == []
    assert _list_fitting(_ask_for_all(memory=1), {("n2", "gpu-1"): 3, ("n3", "half-1"): 4}) == [
        "n2"
    ]


def test_all_devices_keep_the_constraint() -> None:
    assert _list_fitting(_constrain(_ask_for_all(), MATCH)) == []
    assert _list_fitting(_constrain(_ask_for_all(), DISTINCT)) == ["n2"]


def test_all_devices_count_in_a_quota() -> None:
    assert _list_fitting(_ask_for_all(), room=1) == []
    assert _list_fitting(_ask_for_all(root="b"), room=1) == ["n1", "n2"]


def test_a_quota_keeps_a_pod_from_what_it_would_take_instead_of_all_devices() -> None:
    choices = (Choice("gpu/first", is_all=True), Choice("gpu/second"))
    asks = [Ask("claim", "gpu", choices)]
    assert _list_fitting(asks) == ["n1", "n2", "n3"]
    assert _list_fitting(asks, room=1) == ["n1", "n3"]


def test_with_admin_access_devices_fit_that_others_have() -> None:
    choice = Choice("gpu", is_all=True, is_admin=True)
    held, asks = {("n1", "whole"): 1, ("n2", "gpu-1"): 4}, [Ask("claim", "gpu", (choice,))]
    assert _list_fitting(asks, held, room=0) == ["n1", "n3"]
    assert _list_fitting([Ask("claim", "gpu", (choice._replace(is_all=False),))], held) == [*NODES]


def test_devices_of_another_driver_count_in_no_quota() -> None:
    nic = Ask("claim", "nic", (Choice("nic", of_nics=True),))
    assert _list_fitting([nic], room=0) == ["n2", "n3"]
    assert _list_fitting([nic, *TWO], room=1) == []
    assert _list_fitting(_constrain([nic, *TWO], MATCH), room=2) == ["n3"]


@pytest.mark.parametrize(("memory", "nodes"), [(3, []), (4, ["n1", "n2"])])
def test_a_node_counts_if_all_of_its_devices_have_room(memory: int, nodes: list[str]) -> None:
    asks, room = [Ask("claim", "gpu", (Choice("gpu"),))], Amounts(2, memory)
    held = {("n3", "half-0"): 1, ("n3", "half-1"): 1}
    fitting = [name for name in NODES if fit_together([name], held, [(asks, "")], room)]
    assert fitting == nodes
