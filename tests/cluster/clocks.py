"""A clock that advances with each pause, so that tests do not wait."""

import asyncio


class Clock:
    """`pause` returns at once and advances the time; `pauses` records all pauses."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.pauses: list[float] = []

    def now(self) -> float:
        """Return the current time."""
        return self.time

    async def pause(self, seconds: float) -> None:
        """Yield to other tasks, then advance the time."""
        self.pauses.append(seconds)
        await asyncio.sleep(0)
        self.time += seconds
