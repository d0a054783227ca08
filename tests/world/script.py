"""What happens in a run, and when: drawn from the seed."""

import random
from typing import NamedTuple

from tests.world.conditions import draw_conditions
from tests.world.events import EVENTS

# The mean time between two events of a script.
PACE_SECONDS = 0.5
# How often an event comes with its partner.
TOGETHER = 0.5
# How many events a script has; with what follows from each, a run has some hundreds.
LENGTH = 110


class Event(NamedTuple):
    """One event some time after the one before; `drawn` chooses what it happens to."""

    after: float
    name: str
    drawn: int


def write_script(seed: int, length: int) -> tuple[Event, ...]:
    """Draw a script."""
    drawn, conditions = random.Random(f"script {seed}"), draw_conditions(seed, EVENTS)
    # The order in which the modules of events were imported decides about nothing.
    often, names, script = conditions.weights, sorted(EVENTS), list[Event]()
    weights = [EVENTS[name][0] * often[name] for name in names]
    while len(script) < length:
        name, mean = drawn.choices(names, weights)[0], PACE_SECONDS
        script.append(Event(_draw_pause(drawn, mean), name, drawn.getrandbits(16)))
        if (partner := conditions.partners.get(name)) and drawn.random() < TOGETHER:
            mean *= drawn.choice((0.05, 0.5, 2.0))
            script.append(Event(_draw_pause(drawn, mean), partner, drawn.getrandbits(16)))
    return tuple(script[:length])


def _draw_pause(drawn: random.Random, mean: float) -> float:
    return round(drawn.expovariate(1 / mean), 3)
