"""The engine of a simulation decides as the strategy alone, and where the strategy cannot."""

from random import Random

import pytest

from bench._gpu_and_nic import PUBLISHED as GPU_AND_NIC
from bench._gpu_and_nic import read_jobs, shape
from bench._trace import PUBLISHED, read_trace
from bench._week import Job
from drawbridge.choice.amounts import idle
from drawbridge.choice.catalog import ChosenStrategy, make_strategy, strategies
from drawbridge.choice.typical import typical_tasks
from tests.ledger.trace_engine import play

_TRACE = read_trace(PUBLISHED).part(80)


@pytest.mark.parametrize("name", ["packed", "fgd", "usable"])
def test_the_engine_takes_the_nodes_and_devices_of_the_strategy(name: str) -> None:
    typical = typical_tasks(_TRACE.tasks.items())
    strategy = strategies(_TRACE.shapes, typical)[name]
    jobs = [Job(task) for task in _TRACE.arrivals(1, 1100)]
    steps = list(play(_TRACE.nodes, strategy, typical, jobs))
    assert any(each.alone is None for each in steps)
    assert [each.engine for each in steps] == [each.alone for each in steps]


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("name", ["best-fit", "fgd", "usable"])
def test_the_engine_takes_the_gpus_and_nics_of_the_strategy(name: str, *, near: bool) -> None:
    shapes = {shape(2, 96, 512): 6, shape(4, 128, 1024): 6}
    counted = read_jobs(GPU_AND_NIC, near=near)
    typical = typical_tasks((job.task, count) for job, count in counted.items())
    strategy = make_strategy(ChosenStrategy(name), shapes, typical)
    drawn = Random(1)
    idle_nodes = [idle(each) for each, count in shapes.items() for _ in range(count)]
    drawn.shuffle(idle_nodes)
    nodes = {f"node-{number:05}": each for number, each in enumerate(idle_nodes)}
    jobs = drawn.choices([*counted], [*counted.values()], k=110)
    steps = list(play(nodes, strategy, typical, jobs))
    assert any(each.alone is None for each in steps)
    assert [each.engine for each in steps] == [each.alone for each in steps]
