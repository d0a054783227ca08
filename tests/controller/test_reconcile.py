"""How a duty is kept: paces, failures, and that one does not stop another."""

import asyncio
from collections.abc import Callable

import pytest

from controller.reconcile import Duty, Pace, apart, keep
from tests.controller.harness import WorldError

PACE = Pace(least=2, every=60, retry=1, most=5)


class Doing:
    """A duty that does as it is told, step by step."""

    name = "doing"

    def __init__(self, *steps: Callable[[], None]) -> None:
        self._steps = list(steps)
        self.done = 0
        self.over = asyncio.Event()

    async def step(self) -> None:
        """Do the next thing; after the last there is nothing to do for ever."""
        if not self._steps:
            self.over.set()
            await asyncio.Event().wait()
        self.done += 1
        self._steps.pop(0)()


class Standing:
    """A clock on which time does not pass; notes what it was asked to wait for."""

    def __init__(self) -> None:
        self.waits: list[tuple[str, float]] = []
        self.seconds = 0.0

    def now(self) -> float:
        """Ten seconds later, whenever it is asked."""
        self.seconds += 10
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Wait no time."""
        self.waits.append(("sleep", seconds))
        await asyncio.sleep(0)

    async def until(self, event: asyncio.Event, seconds: float) -> None:
        """Wait no time for an event."""
        self.waits.append(("woken" if event.is_set() else "until", seconds))
        await asyncio.sleep(0)


def fails() -> None:
    raise OSError("no route")


def works() -> None:
    pass


def played(
    duty: Callable[[], Doing], *, woken: bool = False, pace: Pace = PACE
) -> tuple[list[tuple[str, float]], list[str]]:
    """Let a duty do all its steps; what was waited for, and what was reported."""
    clock, reports = Standing(), list[str]()

    async def play() -> None:
        one: Duty = duty()
        event = asyncio.Event()

        def report(name: str, error: Exception | None) -> None:
            reports.append(f"{name}: {error or 'done'}")
            if woken:
                event.set()

        task = asyncio.create_task(keep(one, event, pace, report, clock))
        assert isinstance(one, Doing)
        await one.over.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())
    return clock.waits, reports


def test_a_duty_steps_at_once_and_again_after_its_time() -> None:
    waits, reports = played(lambda: Doing(works, works))
    assert waits == [("sleep", 2), ("until", 60)] * 2
    assert reports == ["doing: done"] * 2


def test_what_happens_meanwhile_waits_for_the_least_time_and_no_longer() -> None:
    waits, _ = played(lambda: Doing(works), woken=True)
    assert waits == [("sleep", 2), ("woken", 60)]


def test_a_duty_that_is_not_to_be_hasty_waits_when_it_is_woken() -> None:
    waits, _ = played(lambda: Doing(works, works), woken=True, pace=Pace(delay=3, least=2))
    assert waits[:3] == [("sleep", 2), ("woken", 300), ("sleep", 3)]


def test_whoever_takes_long_rests_long_but_not_for_ever() -> None:
    waits, _ = played(lambda: Doing(works), pace=Pace(least=2, rest=4, every=60))
    assert waits == [("sleep", 40), ("until", 60)]
    waits, _ = played(lambda: Doing(works), pace=Pace(least=2, rest=40, every=60))
    assert waits == [("sleep", 60), ("until", 60)]


def test_failures_are_reported_and_tried_again_ever_more_slowly() -> None:
    waits, reports = played(lambda: Doing(fails, fails, fails, fails, works, fails))
    sleeps = [seconds for how, seconds in waits if how == "sleep"]
    assert sleeps == [1, 2, 4, 5, 2, 1]
    assert reports[:2] == ["doing: no route"] * 2
    assert reports[4:] == ["doing: done", "doing: no route"]


def test_what_is_refused_to_one_does_not_let_others_wait() -> None:
    def refused() -> None:
        raise WorldError(403, "exceeded quota")

    waits, _ = played(lambda: Doing(refused, refused, refused), woken=True)
    # At most the least pause until something wakes the duty.
    assert waits[:6] == [
        ("sleep", 1),
        ("woken", 1),
        *[("sleep", 2), ("woken", 2)],
        ("sleep", 2),
        ("woken", 4),
    ]


@pytest.mark.parametrize(
    ("error", "done"),
    [
        (WorldError(403, "a quota"), ["a", "b", "c"]),
        (KeyError("a bug"), ["a", "b", "c"]),
        (WorldError(0, "no answer"), ["a", "b"]),
        (WorldError(429, "too many"), ["a", "b"]),
        (WorldError(503, "starting"), ["a", "b"]),
        (OSError("no route"), ["a", "b"]),
    ],
    ids=str,
)
def test_one_s_trouble_is_not_the_others_but_the_server_s_is(
    error: Exception, done: list[str]
) -> None:
    tried: list[str] = []

    async def does(one: str) -> None:
        tried.append(one)
        if one != "a":
            raise error

    with pytest.raises(type(error)) as raised:
        asyncio.run(apart("abc", does))
    assert raised.value is error
    assert tried == done


def test_a_bug_is_reported_and_the_duty_goes_on() -> None:
    def bug() -> None:
        raise KeyError("oops")

    _, reports = played(lambda: Doing(bug, works))
    assert reports == ["doing: 'oops'", "doing: done"]
