"""The engine of a simulation decides as the strategy alone, and where the strategy cannot."""

from random import Random

import pytest

from bench._gpu_and_nic import PUBLISHED as GPU_AND_NIC
from bench._gpu_and_nic import read_jobs, shape
from bench._trace import PUBLISHED, read_trace
from bench._week import Job
from drawbridge.choice.amounts import idle
from drawbridge.choice.catalog import ChosenStrategy, make_strategy, strategies
from drawbridge.choice.recent import RecentTasks
from drawbridge.choice.typical import TypicalTasks, typical_tasks
from drawbridge.ledger.driver_nodes import DriverNodes
from drawbridge.ledger.other_cards import most_typical_kinds
from tests.ledger.trace_engine import as_published, play

_TRACE = read_trace(PUBLISHED).part(80)


def knows(monkeypatch: pytest.MonkeyPatch, typical: TypicalTasks) -> None:
    """Let the engine learn these typical tasks, as the strategy alone knows them."""
    published = as_published(typical)
    learn = RecentTasks.learn

    def replaced(recent: RecentTasks) -> TypicalTasks:
        learn(recent)
        return published

    begin = DriverNodes.__init__

    def begun(self: DriverNodes, driver: str, chosen: ChosenStrategy) -> None:
        begin(self, driver, chosen)
        self.kinds = most_typical_kinds(published)

    monkeypatch.setattr(RecentTasks, "learn", replaced)
    monkeypatch.setattr(DriverNodes, "__init__", begun)


@pytest.mark.parametrize("name", ["packed", "fgd", "usable"])
def test_the_engine_takes_the_nodes_and_devices_of_the_strategy(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    typical = typical_tasks(_TRACE.tasks.items())
    knows(monkeypatch, typical)
    strategy = strategies(_TRACE.shapes, typical)[name]
    jobs = [Job(task) for task in _TRACE.arrivals(1, 1100)]
    steps = list(play(_TRACE.nodes, strategy, jobs))
    assert any(each.alone is None for each in steps)
    assert [each.engine for each in steps] == [each.alone for each in steps]


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("name", ["best-fit", "fgd", "usable"])
def test_the_engine_takes_the_gpus_and_nics_of_the_strategy(
    monkeypatch: pytest.MonkeyPatch, name: str, *, near: bool
) -> None:
    shapes = {shape(2, 96, 512): 6, shape(4, 128, 1024): 6}
    counted = read_jobs(GPU_AND_NIC, near=near)
    typical = typical_tasks((job.task, count) for job, count in counted.items())
    knows(monkeypatch, typical)
    strategy = make_strategy(ChosenStrategy(name), shapes, typical)
    drawn = Random(1)
    idle_nodes = [idle(each) for each, count in shapes.items() for _ in range(count)]
    drawn.shuffle(idle_nodes)
    nodes = {f"node-{number:05}": each for number, each in enumerate(idle_nodes)}
    jobs = drawn.choices([*counted], [*counted.values()], k=110)
    steps = list(play(nodes, strategy, jobs))
    assert any(each.alone is None for each in steps)
    assert [each.engine for each in steps] == [each.alone for each in steps]
