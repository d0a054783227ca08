"""Plays a trace through the engine of `drawbridge simulate`: `python -m bench simulated`.

The tasks of the first 100 % of demand of one seed, placed by the whole engine and by the strategy
alone. Each task must get the same node and the same devices from both, or from neither.
"""

import time
from typing import Final

from bench._engine import play
from bench._scale import scaled
from bench._trace import read_trace
from bench.fragmentation import PUBLISHED
from drawbridge.choice.catalog import ChosenStrategy, make_strategy
from drawbridge.choice.typical import typical_tasks

PART: Final = scaled(1, 80)
NAME: Final = "usable"
SEED: Final = 1
_REPORT_EVERY: Final = 1000


def run() -> None:
    """Print how much both allocate, and how long the engine and the strategy took."""
    trace = read_trace(PUBLISHED).part(PART)
    typical = typical_tasks(trace.tasks.items())
    strategy = make_strategy(ChosenStrategy(NAME), trace.shapes, typical)
    nodes, began, cpu = len(trace.nodes), time.monotonic(), time.process_time()
    print(f"{NAME}, seed {SEED}: {nodes:,} nodes, {trace.capacity // 1000:,} GPUs", flush=True)
    allocated = tasks = dropped = 0
    for step in play(trace, strategy, typical, trace.arrivals(SEED, 1000)):
        tasks += 1
        if step.engine != step.alone:
            raise SystemExit(f"{step.task}: {step.engine} of the engine, alone {step.alone}")
        dropped += step.engine is None
        allocated += step.task.amount if step.engine is not None else 0
        if tasks % _REPORT_EVERY == 0:
            minutes = (time.process_time() - cpu) / 60
            print(f"{tasks:6,} tasks are equal, {minutes:.1f} minutes of CPU", flush=True)
    minutes, of_cpu = (time.monotonic() - began) / 60, (time.process_time() - cpu) / 60
    print(f"{tasks:6,} tasks are equal, {dropped:,} fit nowhere; {minutes:.1f} minutes", end="")
    print(f" ({of_cpu:.1f} of CPU); {100 * allocated / trace.capacity:.2f} % are allocated")
