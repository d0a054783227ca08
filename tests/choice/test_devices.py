"""The strategies by levels about the devices of a node, by case tables."""

from itertools import combinations
from math import comb
from pathlib import Path
from random import Random
from typing import Any

import pytest

from drawbridge.choice.amounts import NodeRoom, Shape, Task
from drawbridge.choice.levels import ByLevels
from drawbridge.choice.nearness import nearest, nearness_of
from tests.choice.nodes import room, strategy_of
from tests.tables import load_cases
from tests.thorough import drawn

_TABLES = Path(__file__).parent / "cases"
_DEVICES = load_cases(_TABLES / "devices.yaml")
_NODES = load_cases(_TABLES / "nodes.yaml")
_PART = Task(1, 1, 0, 0)


@pytest.mark.parametrize("case", [pytest.param(each, id=each["name"]) for each in _DEVICES])
def test_a_task_takes_the_devices_of_the_table(case: dict[str, Any]) -> None:
    node = room(case["devices"], case["asked"], case["rules"])
    judged = strategy_of(case["rules"]).judge(node, _PART._replace(devices=case.get("count", 1)))
    names = [*case["devices"]]
    taken = [names[each] for each in judged.taken] if judged else []
    assert taken == sorted(case["expect"])


@pytest.mark.parametrize("case", [pytest.param(each, id=each["name"]) for each in _NODES])
def test_the_node_of_the_table_is_better(case: dict[str, Any]) -> None:
    scores = {}
    for name, given in case["nodes"].items():
        devices = {f"{i}": {"total": total, "used": used} for i, (total, used) in enumerate(given)}
        judged = strategy_of(case["rules"]).judge(room(devices, (0, 0, 0), case["rules"]), _PART)
        assert judged is not None
        scores[name] = judged.score
    assert max(scores, key=scores.__getitem__) == case["expect"]
    assert len(set(scores.values())) == len(scores)


def test_sixteen_of_thirty_two_linked_devices_take_no_endless_search() -> None:
    groups = (tuple(number % 2 for number in range(32)),)
    taken = nearest(groups, range(32), 16, keeps=True)
    assert len({number % 2 for number in taken}) == 1


@pytest.mark.parametrize("seed", range(drawn(10, 500)))
def test_sets_that_grow_are_nearly_as_near_as_the_best_ones(seed: int) -> None:
    random = Random(seed)
    groups = (tuple(n // 2 for n in range(16)), tuple(n // 8 for n in range(16)))
    able, count = random.sample(range(16), 11), random.randrange(4, 8)
    assert comb(len(able), count) > 128
    taken = nearest(groups, able, count, keeps=False)
    best = max(nearness_of(groups, each) for each in combinations(able, count))
    assert len(set(taken) & set(able)) == count
    assert nearness_of(groups, taken) >= 9 * best // 10


def test_devices_without_a_group_share_none() -> None:
    assert nearest(((-1, -1, 0, 0),), range(4), 2, keeps=False) == (2, 3)


def test_the_work_for_many_devices_is_bounded() -> None:
    groups = (tuple(range(1000)), tuple(number // 10 for number in range(1000)))
    assert len(nearest(groups, range(1000), 32, keeps=True)) == 32


# --- weights ---

_IDLE = Shape("", 10_000, 100, 2)
_CASES: list[tuple[str, dict[str, int], tuple[tuple[str, int], ...]]] = [
    ("packed", {}, (("devices in use", 250),)),
    ("spread", {}, (("devices in use", -250),)),
    ("packed", {"memory": 3, "cores": 1}, (("cores in use", 100), ("memory in use", 750))),
    ("packed", {"devices": 2}, (("devices in use", 500),)),
    ("packed", {"node.cpu": 2}, (("CPU in use", 800),)),
    (
        "spread",
        {"node.cpu": 2, "node.memory": 1},
        (("CPU in use", -800), ("memory of the node in use", -100)),
    ),
    ("numa", {}, (("devices in use", 250), ("devices near each other", 0))),
    ("packed", {"memory": 0}, ()),
]


@pytest.mark.parametrize(("name", "weights", "expected"), _CASES)
def test_each_part_of_a_score_has_its_weight(
    name: str, weights: dict[str, int], expected: tuple[tuple[str, int], ...]
) -> None:
    used = {"cores": (200, 0), "memory": (500, 0)}
    of_capacities = [used[each] for each in sorted(weights) if each in used and weights[each]]
    node = NodeRoom(_IDLE, 6000, 90, (500, 1000), tuple(zip(*of_capacities, strict=True)) or ())
    strategy = ByLevels(name, tuple(sorted(weights.items())))
    assert strategy.parts(node, _PART, (0,)) == expected


@pytest.mark.parametrize(("weight", "expected"), [(10, "near"), (0, "far")])
def test_the_weight_of_near_devices_is_against_that_of_their_use(
    weight: int, expected: str
) -> None:
    near = NodeRoom(Shape("", 0, 0, 2, ((0, 0),)), 0, 0, (1000, 1000))
    far = NodeRoom(Shape("", 0, 0, 2, ((0, 1),)), 0, 0, (500, 500))
    strategy = ByLevels("numa", (("devices", 1), ("near", weight)))
    task = Task(2, 500, 0, 0)
    scores = {
        name: judged.score
        for name, node in (("near", near), ("far", far))
        if (judged := strategy.judge(node, task))
    }
    assert max(scores, key=scores.__getitem__) == expected
