"""SIGTERM and SIGINT: the first asks for a graceful end, the second ends at once.

Knows nothing of what has to be ended.
"""

import asyncio
import logging
import os
import signal
from typing import Final

from runtime.logs import say

_LOG: Final = logging.getLogger("runtime")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether this process was asked to end."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()

    def install(self) -> None:
        """Listen to the signals of this process; only the main thread's loop can."""
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self.ask, each)

    def remove(self) -> None:
        """Give the signals back."""
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.remove_signal_handler(each)

    def ask(self, number: int = signal.SIGTERM) -> None:
        """Ask for the end; the second time there is nothing to wait for any more."""
        if self._asked.is_set():
            say(_LOG, logging.WARNING, "stopped at once", signal=signal.Signals(number).name)
            # Not sys.exit: it would wait for what does not end, and that is why it was asked twice.
            os._exit(128 + number)
        say(_LOG, logging.INFO, "stopping", signal=signal.Signals(number).name)
        self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether the end was asked for."""
        return self._asked.is_set()

    async def wanted(self) -> None:
        """Wait until the end is asked for."""
        await self._asked.wait()
