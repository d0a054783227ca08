"""Other mixes of the tasks of a trace, made from its counts: for bench `strategies.mixes`.

The published trace has one mix. Whether a strategy is better there says little of a cluster with
more shares, more gangs, products that tasks name, or less CPU beside its devices.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from bench._trace import Trace
from drawbridge.choice.amounts import WHOLE, Task

PARTS, SEVERAL, NAMED, CPU = 0.6, 0.5, 1 / 3, 2
_NEAR: Final = 0.01


def mixes(trace: Trace) -> Iterator[tuple[str, Trace]]:
    """Yield the mixes with what they differ by."""
    yield f"parts are {PARTS:.0%}", _weigh(trace, _is_part, PARTS)
    yield f"several GPUs are {SEVERAL:.0%}", _weigh(trace, _is_for_several, SEVERAL)
    yield f"{NAMED:.0%} name a product", _name_products(trace)
    doubled = Counter[Task]()
    for task, count in trace.tasks.items():
        doubled[task._replace(cpu=CPU * task.cpu)] += count
    yield f"{CPU} times the CPU", trace._replace(tasks=dict(doubled))


def _is_part(task: Task) -> bool:
    return 0 < task.amount < WHOLE


def _is_for_several(task: Task) -> bool:
    return task.devices > 1


def _weigh(trace: Trace, chosen: Callable[[Task], bool], part: float) -> Trace:
    """Return a trace in which the chosen tasks ask for a part of what all ask for."""
    own, all_tasks = _asked(trace, chosen), _asked(trace, lambda _: True)
    factor = part / (1 - part) * (all_tasks - own) / own
    tasks = {
        task: round(count * factor) if chosen(task) else count
        for task, count in trace.tasks.items()
    }
    made = trace._replace(tasks={task: count for task, count in tasks.items() if count})
    is_part = _asked(made, chosen) / _asked(made, lambda _: True)
    if abs(is_part - part) > _NEAR:
        raise SystemExit(f"a mix has {is_part:.2f} instead of {part:.2f}")
    return made


def _asked(trace: Trace, chosen: Callable[[Task], bool]) -> int:
    return sum(task.amount * count for task, count in trace.tasks.items() if chosen(task))


def _name_products(trace: Trace) -> Trace:
    """Let a part of the tasks for devices name one product, as often as nodes have it."""
    drawn = random.Random(0)  # not a secret
    devices = Counter[str]()
    for shape, count in trace.shapes.items():
        devices[shape.label] += shape.devices * count
    tasks = Counter[Task]()
    for task, count in trace.tasks.items():
        most = {shape.label: shape.devices for shape in trace.shapes}
        fitting = [each for each in devices if 0 < task.devices <= most[each]]
        for _ in range(count):
            named = fitting and drawn.random() < NAMED
            label = drawn.choices(fitting, [devices[each] for each in fitting])[0] if named else ""
            tasks[task._replace(labels=frozenset({label})) if named else task] += 1
    return trace._replace(tasks=dict(tasks))
