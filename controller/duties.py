"""How a duty is kept: step after step, not too often, again after a failure, until cancelled.

One duty's failure is told and counted and stops no other. Knows no duty.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

_FACTOR: Final = 2.0


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
            # Whatever wakes a duty that fails does not make the world better.
            await clock.sleep(min(pace.retry * _FACTOR**failures, pace.most))
            failures = min(failures + 1, 20)
            continue
        failures = 0
        report(duty.name, None)
        took = clock.now() - began
        await clock.sleep(max(pace.least, min(pace.rest * took, pace.every)))
        await clock.until(woken, pace.every)
        if pace.delay:
            await clock.sleep(pace.delay)
