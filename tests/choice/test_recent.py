"""What has been asked for lately becomes the typical tasks."""

from collections import Counter
from random import Random

import pytest

from drawbridge.choice.amounts import Task
from drawbridge.choice.recent import AskedTask, RecentTasks, recent_tasks
from tests.thorough import drawn

_WHOLE, _HALF, _EIGHT = Task(1, 1000, 8, 8), Task(1, 500, 4, 4), Task(8, 1000, 64, 64)


def _asked(**counts: dict[Task, int]) -> list[AskedTask]:
    return [
        AskedTask(namespace, task)
        for namespace, tasks in counts.items()
        for task, count in tasks.items()
        for _ in range(count)
    ]


def test_the_weights_of_one_namespace_are_its_counts() -> None:
    typical = recent_tasks(_asked(a={_WHOLE: 3, _HALF: 1}))
    assert typical.weights[_WHOLE] == 3 * typical.weights[_HALF]
    assert typical.total == sum(typical.weights.values())


def test_a_namespace_has_at_most_a_third_of_the_weight() -> None:
    typical = recent_tasks(_asked(a={_HALF: 10_000}, b={_WHOLE: 10}, c={_EIGHT: 12}))
    devices = {task: task.devices * weight for task, weight in typical.weights.items()}
    assert 3 * max(devices.values()) <= sum(devices.values())


def test_of_two_namespaces_none_has_more_than_the_other() -> None:
    typical = recent_tasks(_asked(a={_HALF: 10_000}, b={_WHOLE: 10}))
    assert typical.weights[_HALF] == typical.weights[_WHOLE]


def test_a_namespace_with_large_tasks_has_no_more_weight_than_others() -> None:
    typical = recent_tasks(_asked(a={_HALF: 80}, b={_WHOLE: 80}, c={_EIGHT: 80}))
    assert 8 * typical.weights[_EIGHT] == typical.weights[_HALF] == typical.weights[_WHOLE]


def test_a_small_namespace_counts_as_it_is() -> None:
    typical = recent_tasks(_asked(a={_HALF: 10}, b={_WHOLE: 10}, c={_HALF: 10}, d={_EIGHT: 1}))
    assert typical.weights[_EIGHT] * 10 == typical.weights[_WHOLE]


def test_a_namespace_keeps_its_mix_when_its_weight_is_limited() -> None:
    mix = {_HALF: 9_000, _WHOLE: 1_000}
    typical = recent_tasks(_asked(a=mix, b={_EIGHT: 30}, c={_EIGHT: 30}))
    assert typical.weights[_HALF] == 9 * typical.weights[_WHOLE]


def test_the_number_of_kinds_is_bounded_and_those_with_most_devices_stay() -> None:
    single = {Task(1, 1000, cpu, 1): 2 for cpu in range(500)}
    typical = recent_tasks(_asked(a={**single, _EIGHT: 1}))
    assert len(typical.weights) == 64
    assert _EIGHT in typical.weights


def test_without_tasks_there_are_no_typical_ones() -> None:
    assert recent_tasks([]).weights == {}


def test_a_namespace_with_many_kinds_of_tasks_leaves_room_for_those_of_others() -> None:
    """Requests of CPU that are never equal make every task a kind of its own."""
    many = {Task(8, 1000, cpu, 1): 100 for cpu in range(200)}
    others = {
        name: {Task(1, 500, cpu, memory): 1 for cpu in range(900)}
        for memory, name in enumerate(("b", "c", "d"))
    }
    typical = recent_tasks(_asked(many=many, **others))
    assert len(typical.weights) == 64
    devices = {task: task.devices * weight for task, weight in typical.weights.items()}
    assert 3 * sum(devices.get(task, 0) for task in many) <= sum(devices.values())


@pytest.mark.parametrize("seed", range(drawn(5, 2000)))
def test_no_namespace_has_more_than_its_part_whatever_it_asks_for(seed: int) -> None:
    random = Random(seed)
    counts = {}
    for number in range(random.randrange(1, 6)):
        kinds = [
            Task(random.choice((1, 2, 8)), random.choice((0, 300, 1000)), 1000 * number + cpu, 0)
            for cpu in range(random.choice((1, 3, 30, 90)))
        ]
        counts[f"ns{number}"] = {each: random.choice((1, 2, 50)) for each in kinds}
    typical, devices = recent_tasks(_asked(**counts)), Counter[str]()
    for task, weight in typical.weights.items():
        devices[f"ns{task.cpu // 1000}"] += weight * task.devices
    assert len(typical.weights) <= 64
    assert len(devices) >= min(3, len(counts))
    # Each weight is rounded down.
    most = devices.total() / min(3, len(counts)) + sum(each.devices for each in typical.weights)
    assert max(devices.values()) <= most


def test_pods_of_one_namespace_displace_no_pods_of_others() -> None:
    recent = RecentTasks()
    for name in ("a", "b", "c"):
        for number in range(100):
            recent.note(f"{name}-{number}", AskedTask(name, _WHOLE))
    for number in range(20_000):
        recent.note(f"many-{number}", AskedTask("many", _HALF))
    weights = recent.learn().weights
    assert 2 * weights[_HALF] == weights[_WHOLE]


def test_the_oldest_of_other_namespaces_make_room_for_new_ones() -> None:
    recent = RecentTasks()
    for number in range(4096):
        recent.note(f"old-{number}", AskedTask(f"old-{number}", _HALF))
    for number in range(4096):
        recent.note(f"new-{number}", AskedTask(f"new-{number // 1000}", _WHOLE))
    assert recent.learn().weights.keys() == {_WHOLE}
