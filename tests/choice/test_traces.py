"""Traces of nodes and tasks from files of others."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench._mixes import mixes
from bench._trace import PUBLISHED, read_trace
from drawbridge.choice.amounts import WHOLE, Shape, Task

_NODE = {"model": "a", "gpus": 8, "cpu_milli": 9, "memory_mib": 7, "count": 2}
_POD = {"gpus": 1, "gpu_milli": 500, "cpu_milli": 1, "memory_mib": 2, "count": 3}


def _write(path: Path, nodes: list[Any], pods: list[Any]) -> Path:
    file = path / "trace.json"
    file.write_text(json.dumps({"nodes": nodes, "pods": pods}))
    return file


def test_a_trace_has_the_nodes_and_the_tasks_of_its_file(tmp_path: Path) -> None:
    pods = [_POD, {**_POD, "models": ["a", "b"]}, {**_POD, "gpus": 0, "gpu_milli": 0}]
    trace = read_trace(_write(tmp_path, [_NODE, _NODE], pods))
    assert trace.shapes == {Shape("a", 9, 7, 8): 4}
    both = frozenset({"a", "b"})
    assert trace.tasks == {Task(1, 500, 1, 2): 3, Task(1, 500, 1, 2, both): 3, Task(0, 0, 1, 2): 3}


@pytest.mark.parametrize(
    ("nodes", "pods", "problem"),
    [
        ([_NODE], [{**_POD, "count": -1}], "`$.pods[0].count`"),
        ([_NODE], [{**_POD, "gpu_milli": 1001}], "`$.pods[0].gpu_milli`"),
        ([{**_NODE, "gpus": "8"}], [_POD], "`$.nodes[0].gpus`"),
        ([{"model": "a"}], [_POD], "missing required field"),
        ([{**_NODE, "gpus": 0}], [_POD], "no node has GPUs"),
        ([_NODE], [{**_POD, "gpu_milli": 0}], "no pod asks for any"),
        ([_NODE], [{**_POD, "count": 0}], "no pod asks for any"),
        ([], [], "no node has GPUs"),
    ],
)
def test_a_file_that_nothing_can_be_measured_with_is_refused(
    tmp_path: Path, nodes: list[Any], pods: list[Any], problem: str
) -> None:
    with pytest.raises(SystemExit, match=r"trace\.json") as refused:
        read_trace(_write(tmp_path, nodes, pods))
    assert problem in str(refused.value)


def test_a_file_that_is_no_json_or_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("{")
    for name in ("text", "missing"):
        with pytest.raises(SystemExit, match=name):
            read_trace(tmp_path / name)


def test_other_mixes_have_what_their_titles_say() -> None:
    trace = read_trace(PUBLISHED)
    parts, several, named, cpu = (mixed for _, mixed in mixes(trace))

    def share(tasks: Mapping[Task, int], chosen: Callable[[Task], bool]) -> float:
        amounts = [(task.amount * count, chosen(task)) for task, count in tasks.items()]
        return sum(amount for amount, is_chosen in amounts if is_chosen) / sum(
            e for e, _ in amounts
        )

    assert share(parts.tasks, lambda task: task.amount < WHOLE) == pytest.approx(0.6, abs=0.01)
    assert share(several.tasks, lambda task: task.devices > 1) == pytest.approx(0.5, abs=0.01)
    assert share(named.tasks, lambda task: bool(task.labels)) == pytest.approx(1 / 3, abs=0.03)
    assert sum(named.tasks.values()) == sum(trace.tasks.values())
    assert all(task._replace(cpu=task.cpu // 2) in trace.tasks for task in cpu.tasks)
