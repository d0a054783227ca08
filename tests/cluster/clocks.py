"""A clock that moves when somebody waits by it, so that nothing here takes time."""

import asyncio


class Clock:
    """`pause` ends at once and moves the time by what was asked for; `pauses` remembers."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.pauses: list[float] = []

    def now(self) -> float:
        """Tell the time."""
        return self.time

    async def pause(self, seconds: float) -> None:
        """Let everybody else have a turn, then be later."""
        self.pauses.append(seconds)
        await asyncio.sleep(0)
        self.time += seconds
