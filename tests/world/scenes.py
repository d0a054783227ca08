"""Short scripts that bring the world to states that scripts drawn from seeds hardly ever reach.

Each is played with several seeds, because the rest of a run is drawn: who leads, what is late, what
claims ask for. The notes of `tests.world.reach` tell which events lead to a state.
"""

from collections.abc import Mapping

from tests.world.script import Event

# A plain pod, and the last event: the faults end some time after the others.
_CREATE = 26
_END = Event(10.0, "create", _CREATE)
# These numbers choose another machine each time, and each of both servers, whose watches lag.
_SLOW_DRIVERS = tuple(Event(0.1, "slow driver", number) for number in range(1024, 1029))
_LAGS = tuple(Event(0.1, "lag", number) for number in (14, 15))


def _create(count: int, after: float) -> tuple[Event, ...]:
    return tuple(Event(after, "create", _CREATE) for _ in range(count))


SCENES: Mapping[str, tuple[Event, ...]] = {
    # Another leader has bound the pod when the release of its claim is sent.
    "late release": (*_create(1, 0.1), Event(0.0, "stop at write", 38), Event(60.0, *_END[1:])),
    # The next leader cannot remove a mark, and the allocation that belongs to it comes later.
    "mark that stays": (
        *_create(3, 0.05),
        Event(0.0, "stop at write", 42),
        Event(40.0, *_END[1:]),
    ),
    # Allocators build anew what they know while containers of a vanished pod end slowly.
    "slow end": (
        *_SLOW_DRIVERS,
        *_create(8, 0.2),
        Event(5.0, "delete with force", 0),
        Event(0.5, "change configuration", 9),
        _END,
    ),
    # A node gets a taint of others before the controller hears that it is ours.
    "taint of others": (
        *_LAGS,
        Event(0.5, "change owner", 0),
        Event(0.5, "lose node", 1046),
        Event(30.0, *_END[1:]),
    ),
    # The clock of one of both servers is wrong by hours.
    "wrong clock": (Event(0.1, "skew", 0), *_create(2, 1.0), _END),
    # Pods that budgets protect and others have all devices, and important pods and gangs come.
    "protected pods": (
        Event(0.1, "create crowd", 0),
        Event(7.0, "create crowd", 5),
        *(Event(1.0, "create important", number * 37) for number in range(6)),
        Event(2.0, "create important gang", 32),
        Event(3.0, "create important gang", 89),
        Event(20.0, *_END[1:]),
    ),
    # Important pods overtake each other at devices that become free.
    "overtaken pods": (
        Event(0.1, "create crowd", 0),
        Event(8.0, "create crowd", 1),
        *(Event(3.0, "make room", number) for number in (5, 9)),
        *(Event(2.0, "make room", number) for number in (77, 130)),
        _END,
    ),
}
