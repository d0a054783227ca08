"""The engine of a simulation decides as the strategy alone, and where the strategy cannot."""

import pytest

from bench._trace import PUBLISHED, read_trace
from drawbridge.choice.catalog import strategies
from drawbridge.choice.typical import typical_tasks
from tests.ledger.trace_engine import play

_TRACE = read_trace(PUBLISHED).part(80)


@pytest.mark.parametrize("name", ["packed", "fgd", "usable"])
def test_the_engine_takes_the_nodes_and_devices_of_the_strategy(name: str) -> None:
    typical = typical_tasks(_TRACE.tasks.items())
    strategy = strategies(_TRACE.shapes, typical)[name]
    steps = list(play(_TRACE, strategy, typical, _TRACE.arrivals(1, 1100)))
    assert any(each.alone is None for each in steps)
    assert [each.engine for each in steps] == [each.alone for each in steps]
