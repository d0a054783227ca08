"""The strategies on small clusters, by a case table, and what holds for all of them."""

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest

from drawbridge.choice.amounts import (
    AskedOthers,
    NodeRoom,
    OtherDevices,
    Shape,
    Task,
    give_back,
    idle,
    take,
)
from drawbridge.choice.catalog import OTHER_NAMES, strategies
from drawbridge.choice.cluster import NodeChooser, in_turn
from drawbridge.choice.options import options
from drawbridge.choice.steps import Steps
from drawbridge.choice.strategy import ChoiceStrategy
from drawbridge.choice.typical import typical_tasks
from tests.tables import every_row, load_cases
from tests.thorough import drawn

_CASES = load_cases(Path(__file__).parent / "cases" / "strategies.yaml")
_NAMES = sorted(strategies({Shape("a", 1, 1, 1): 1}, typical_tasks([])))
_SEEDS = range(drawn(3, 500))
# What tasks take of NICs: none, a part near their devices, or one anywhere.
_OTHERS = (
    (),
    (AskedOthers("nic", 2, 250, near=True),),
    (AskedOthers("nic", 1, 500, near=True),),
    (AskedOthers("nic", 1, 1000),),
)


def _read(case: dict[str, Any]) -> tuple[dict[str, NodeRoom], Mapping[str, ChoiceStrategy]]:
    nodes = {}
    for name, (cpu, memory, free, *nics) in case["nodes"].items():
        others = _nics(len(free), len(nics[0])) if nics else ()
        shape = Shape("", 32000, 128, len(free), others=others)
        nodes[name] = NodeRoom(shape, cpu, memory, tuple(free), others=(*map(tuple, nics),))
    typical = typical_tasks((_task(*task), weight) for task, weight in case.get("typical", ()))
    return nodes, strategies(Counter(each.shape for each in nodes.values()), typical)


def _nics(gpus: int, nics: int) -> tuple[OtherDevices, ...]:
    """Return NICs, each on the PCIe root of as many GPUs."""
    roots = tuple(number * nics // gpus for number in range(gpus))
    return (OtherDevices("nic", tuple(range(nics)), roots),)


def _task(devices: int, share: int, cpu: int, memory: int, *nics: int) -> Task:
    others = (AskedOthers("nic", nics[0], nics[1], near=True),) if nics else ()
    return Task(devices, share, cpu, memory, others=others)


@every_row("case", [pytest.param(each, id=each["name"]) for each in _CASES])
def test_a_task_gets_the_node_and_the_devices_of_the_table(case: dict[str, Any]) -> None:
    nodes, catalog = _read(case)
    strategy, task = catalog[case["strategy"]], _task(*case["task"])
    if "alike" in case:
        choices = [strategy.judge(nodes[name], task) for name in case["alike"]]
        assert len({each and each.score for each in choices}) == 1
        return
    chosen = NodeChooser(nodes, strategy).choose(task, "")
    choice = {} if chosen is None else {chosen.node: list(chosen.judged.taken)}
    assert choice == case["expect"]


def test_names_of_other_projects_are_names_of_strategies() -> None:
    assert set(OTHER_NAMES.values()) <= set(_NAMES)


def test_a_kind_of_task_that_was_not_asked_for_long_gets_the_best_of_all_states() -> None:
    shape = Shape("a", 100_000, 64, 1)
    strategy = strategies({shape: 2}, typical_tasks([]))["packed"]
    cluster, part, small = (
        NodeChooser({"n1": idle(shape), "n2": idle(shape)}, strategy),
        Task(1, 300, 0, 0),
        Task(0, 0, 1, 0),
    )
    assert cluster.choose(part, "") is not None
    # More states come and go than are remembered beside those that exist.
    for _ in range(3000):
        cluster.place(small, "n1", ())
    cluster.place(part, "n2", (0,))
    assert cluster.choose(part, "") == NodeChooser(cluster.nodes, strategy).choose(part, "")


def test_a_node_that_changed_early_is_judged_by_a_kind_of_task_that_comes_back() -> None:
    shape, part = Shape("a", 100_000, 64, 1), Task(1, 300, 0, 0)
    strategy = strategies({shape: 3}, typical_tasks([]))["packed"]
    cluster = NodeChooser({name: idle(shape) for name in ("n1", "n2", "n3")}, strategy)
    assert cluster.choose(part, "") is not None
    cluster.place(part, "n3", (0,))
    for _ in range(3000):
        cluster.place(Task(0, 0, 1, 0), "n1", ())
    chosen = cluster.choose(part, "")
    assert chosen == NodeChooser(cluster.nodes, strategy).choose(part, "")
    assert chosen is not None
    assert chosen.node == "n3"


def test_a_call_judges_no_more_new_states_than_its_limit() -> None:
    shape, task = Shape("a", 4000, 8, 1), Task(1, 500, 1000, 1)
    nodes = {f"n{number}": NodeRoom(shape, 4000 - 400 * number, 8, (1000,)) for number in range(5)}
    strategy = strategies({shape: 5}, typical_tasks([(task, 1)]))["best-fit"]
    cluster = NodeChooser(nodes, strategy)
    calls = [Steps(2) for _ in range(4)]
    for steps in calls:
        cluster.judge_new(task, steps)
    assert [steps.left for steps in calls] == [0, 0, 1, 2]
    assert [level.by_state for level in cluster.levels(task)] == [
        [[f"n{number}"]] for number in (4, 3, 2, 1, 0)
    ]


def test_without_time_there_is_one_step() -> None:
    steps = Steps(4, out_of_time=lambda: True)
    assert [steps.take() for _ in range(3)] == [True, False, False]
    assert steps.left == 0


def test_time_that_ends_leaves_no_step() -> None:
    times = iter([False, True])
    steps = Steps(4, out_of_time=lambda: next(times))
    assert [steps.take() for _ in range(2)] == [True, True]
    assert [steps.take(), steps.left] == [False, 0]


def test_states_that_no_node_has_any_more_are_dropped() -> None:
    shape, task = Shape("a", 400_000, 800, 1), Task(1, 1, 1000, 1)
    strategy = strategies({shape: 1}, typical_tasks([(task, 1)]))["best-fit"]
    cluster = NodeChooser({"n": idle(shape)}, strategy)
    for number in range(300):
        chosen = cluster.choose(task, "")
        assert chosen is not None
        cluster.place(task, chosen.node, chosen.judged.taken)
        steps = Steps(2)
        cluster.judge_new(task, steps)
        assert steps.left == 1, number
    assert [level.by_state for level in cluster.levels(task)] == [[["n"]]]


def test_states_of_nodes_that_change_nothing_stay() -> None:
    shape, task = Shape("a", 400_000, 800, 1), Task(1, 1, 1000, 1)
    strategy = strategies({shape: 2}, typical_tasks([(task, 1)]))["best-fit"]
    cluster = NodeChooser({"n": idle(shape), "idle": idle(shape)}, strategy)
    for _ in range(80):
        cluster.judge_new(task, Steps())
        cluster.place(task, "n", (0,))
    cluster.judge_new(task, Steps())
    assert [level.by_state for level in cluster.levels(task)] == [[["n"]], [["idle"]]]


@pytest.mark.parametrize("states", [1, 3, 100])
def test_equally_good_nodes_come_by_name(states: int) -> None:
    shape, task = Shape("a", 4000, 8, 1), Task(1, 500, 0, 0)
    names = [f"n{number:03}" for number in range(200)]
    nodes = {name: NodeRoom(shape, 4000 - at % states, 8, (1000,)) for at, name in enumerate(names)}
    strategy = strategies({shape: 200}, typical_tasks([(task, 1)]))["packed"]
    cluster = NodeChooser(nodes, strategy)
    cluster.judge_new(task, Steps())
    (level,) = cluster.levels(task)
    assert len(level.by_state) == states
    assert [*in_turn(strategy, level.by_state, "key")] == names


# --- what holds for all strategies ---


def _draw(random: Random) -> tuple[dict[str, NodeRoom], list[Task], Mapping[str, ChoiceStrategy]]:
    """Return a small cluster, tasks and the strategies for it."""
    shapes = [
        Shape(label, 16000, 64, number, others=_nics(number, nics) if nics else ())
        for label, number, nics in (("a", 4, 0), ("b", 2, 1), ("a", 8, 2), ("a", 8, 4))
    ]
    nodes = {f"{number}": idle(random.choice(shapes)) for number in range(8)}
    kinds = [
        Task(
            devices,
            random.choice((1000, 500, 300, 0)) if devices == 1 else 1000 * (devices == 4),
            random.randrange(0, 6000, 500),
            random.randrange(0, 24, 4),
            random.choice((None, None, frozenset({"a"}))),
            random.choice(_OTHERS) if devices else (),
        )
        for devices in (0, 1, 1, 1, 1, 2, 4)
    ]
    tasks = random.choices(kinds, k=30)
    catalog = strategies(
        Counter(each.shape for each in nodes.values()), typical_tasks((t, 1) for t in tasks)
    )
    return nodes, tasks, catalog


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("seed", _SEEDS)
def test_the_nodes_chosen_by_changes_are_those_of_a_new_look_at_all(name: str, seed: int) -> None:
    random = Random(seed)
    nodes, tasks, catalog = _draw(random)
    cluster, same = NodeChooser(nodes, catalog[name]), _draw(Random(seed))[2][name]
    running: list[tuple[Task, str, tuple[int, ...]]] = []
    for number, task in enumerate(tasks):
        again = NodeChooser(cluster.nodes, same)
        chosen = cluster.choose(task, f"{number}")
        assert chosen == again.choose(task, f"{number}")
        if chosen is not None:
            after = take(cluster.nodes[chosen.node], task, chosen.judged.taken)
            assert min(chain(after.free, *after.others)) >= 0
            cluster.place(task, chosen.node, chosen.judged.taken)
            running.append((task, chosen.node, chosen.judged.taken))
        if running and random.random() < 0.3:
            ended, node, taken = running.pop(random.randrange(len(running)))
            cluster.change(node, give_back(cluster.nodes[node], ended, taken))


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("seed", _SEEDS)
def test_the_parts_of_a_score_add_up_and_no_other_devices_are_better(name: str, seed: int) -> None:
    nodes, tasks, catalog = _draw(Random(seed))
    strategy, cluster = catalog[name], NodeChooser(nodes, catalog[name])
    for number, task in enumerate(tasks):
        chosen = cluster.choose(task, f"{number}")
        if chosen is None:
            assert not any(strategy.judge(each, task) for each in cluster.nodes.values())
            continue
        node = cluster.nodes[chosen.node]
        parts = strategy.parts(node, task, chosen.judged.taken)
        assert sum(each.value for each in parts) == chosen.judged.score
        if name in ("fgd", "usable"):
            for taken in options(node, task):
                assert sum(each.value for each in strategy.parts(node, task, taken)) <= sum(
                    each.value for each in parts
                )
        cluster.place(task, chosen.node, chosen.judged.taken)


@every_row("name", _NAMES)
def test_no_strategy_chooses_a_node_that_is_too_small(name: str) -> None:
    state = NodeRoom(Shape("a", 4000, 8, 2), 4000, 8, (1000, 1000))
    catalog = strategies({state.shape: 1}, typical_tasks([]))
    assert catalog[name].judge(state, Task(1, 1000, 4001, 8)) is None
    assert catalog[name].judge(state, Task(1, 1000, 4000, 9)) is None
    assert catalog[name].judge(state, Task(3, 1000, 4000, 8)) is None
    assert catalog[name].judge(state, Task(1, 1000, 4000, 8, frozenset({"b"}))) is None
    assert catalog[name].judge(state, Task(2, 1000, 4000, 8)) is not None


@every_row("name", _NAMES)
def test_tasks_that_take_nothing_of_their_devices_fit_on_a_full_node(name: str) -> None:
    full = NodeRoom(Shape("a", 4000, 8, 2), 4000, 8, (0, 0))
    nothing = [Task(devices, 0, 100, 1) for devices in (1, 2)]
    strategy = strategies({full.shape: 1}, typical_tasks((each, 1) for each in nothing))[name]
    judged = [strategy.judge(full, each) for each in nothing]
    assert [each and each.taken for each in judged] == [(0,), (0, 1)]


@every_row("name", _NAMES)
def test_nodes_with_a_label_that_came_later_are_judged_as_others(name: str) -> None:
    shapes = [Shape(label, 4000, 8, 2) for label in ("a", "b")]
    typical = typical_tasks([(Task(2, 1000, 4000, 8), 1), (Task(1, 500, 4000, 1), 3)])
    strategy = strategies({shapes[0]: 1}, typical)[name]
    first, second = (strategy.judge(idle(each), Task(1, 500, 1000, 1)) for each in shapes)
    assert first == second


@every_row("name", _NAMES)
def test_of_many_devices_that_all_differ_few_are_compared(name: str) -> None:
    task = Task(1, 1, 1000, 1)
    for devices, compared in ((256, 32), (257, 1)):
        shape = Shape("a", 4000, 8, devices)
        node = NodeRoom(shape, 4000, 8, tuple(range(1, 1 + devices)))
        assert len([*options(node, task)]) == compared
        chosen = strategies({shape: 1}, typical_tasks([(task, 1)]))[name]
        assert chosen.judge(node, task) is not None
