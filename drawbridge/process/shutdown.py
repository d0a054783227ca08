"""Handle SIGTERM and SIGINT: the first signal starts a graceful stop, the second exits at once."""

import asyncio
import logging
import os
import signal
from typing import Final

from drawbridge.process.logs import log_event

_LOG: Final = logging.getLogger("drawbridge.process")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """Records whether a signal requested the stop of this process."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()

    def install(self) -> None:
        """Install the signal handlers. This works in the event loop of the main thread only."""
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self.request, each)

    def remove(self) -> None:
        """Remove the signal handlers."""
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.remove_signal_handler(each)

    def request(self, number: int = signal.SIGTERM) -> None:
        """Request the stop. The second request exits immediately."""
        if self._requested.is_set():
            log_event(_LOG, logging.WARNING, "stopped at once", signal=signal.Signals(number).name)
            # sys.exit would wait for tasks that do not end.
            os._exit(128 + number)
        log_event(_LOG, logging.INFO, "stopping", signal=signal.Signals(number).name)
        self._requested.set()

    @property
    def is_requested(self) -> bool:
        """Whether the stop was requested."""
        return self._requested.is_set()

    async def wait(self) -> None:
        """Wait until the stop is requested."""
        await self._requested.wait()
