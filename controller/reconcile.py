"""How a duty is kept: step after step, not too often, again after a failure, until cancelled.

One duty's failure is told and counted and stops no other. Knows no duty.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeVar

import msgspec

_FACTOR: Final = 2.0
# Not authenticated, too late, too often: these pass, and the same is let in the next time.
_PASSING: Final = (401, 408, 429)

T = TypeVar("T")


class Duty(Protocol):
    """One thing that the leader keeps in order."""

    @property
    def name(self) -> str:
        """What it is called in logs and metrics."""

    async def step(self) -> None:
        """Bring things in order as far as they are known now; raises what the world did."""


class Pace(msgspec.Struct, frozen=True):
    """How often, in seconds."""

    delay: float = 0.0  # from being woken to the step
    least: float = 0.0  # between two steps, however much happens
    rest: float = 0.0  # between two steps, as often as the first took; never above `every`
    every: float = 300.0  # even if nothing happens
    retry: float = 1.0  # after the first failure, and twice as long after each further one
    most: float = 120.0  # between two failures


class Clock(Protocol):
    """Waiting; tests hand in one that does not take time."""

    def now(self) -> float:
        """Seconds since whenever."""

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""

    async def until(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for an event, at most so long."""


class Steady:
    """The clock of the event loop."""

    def now(self) -> float:
        """Seconds since whenever."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        await asyncio.sleep(seconds)

    async def until(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for an event, at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return


async def apart(items: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
    """Do something for each; what is refused for one does not keep the others from it.

    The first exception is raised in the end. Where nobody can be asked all the others would fail as
    well, and wait for the next step.
    """
    first: Exception | None = None
    for each in items:
        try:
            await do(each)
        except Exception as error:
            if _concerns_all(error):
                raise
            first = first or error
    if first is not None:
        raise first


def lasting(error: Exception) -> bool:
    """Whether the API server refused just what was tried, and would again."""
    code = getattr(error, "code", 0)
    return 400 <= code < 500 and code not in _PASSING


def _concerns_all(error: Exception) -> bool:
    """Whether it is about the API server, or the way to it; a bug, too, is about one thing."""
    return isinstance(error, OSError) or (hasattr(error, "code") and not lasting(error))


Report = Callable[[str, Exception | None], None]


async def keep(duty: Duty, woken: asyncio.Event, pace: Pace, report: Report, clock: Clock) -> None:
    """Step at once, whenever something woke the duty, and now and then; never ends by itself.

    `report` is told of every step by the duty's name, with the exception of one that failed.
    """
    failures = 0
    while True:
        woken.clear()
        began = clock.now()
        try:
            await duty.step()
        except Exception as error:  # noqa: BLE001  # bugs, too, must not end the other duties
            report(duty.name, error)
            pause = min(pace.retry * _FACTOR**failures, pace.most)
            if lasting(error):
                # What is refused to one must not keep the others waiting.
                await clock.sleep(min(pause, max(pace.least, pace.retry)))
                await clock.until(woken, pause)
            else:
                # Whatever wakes a duty then does not make the world better.
                await clock.sleep(pause)
            failures = min(failures + 1, 20)
            continue
        failures = 0
        report(duty.name, None)
        took = clock.now() - began
        await clock.sleep(max(pace.least, min(pace.rest * took, pace.every)))
        await clock.until(woken, pace.every)
        if pace.delay:
            await clock.sleep(pace.delay)
