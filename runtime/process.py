"""What both processes are: a session, background work, an end by signal, and an exit code.

Knows nothing of what is served.
"""

import argparse
import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final

from cluster.session import AccessError, Session
from runtime.logs import say
from runtime.shutdown import Stop

REFUSED: Final = 2
BUG: Final = 3
Serve = Callable[[Stop, Session], Awaitable[None]]


async def live(options: argparse.Namespace, log: logging.Logger, serve: Serve) -> int:
    """Serve until told to stop; 0 for a graceful end, 2 for what cannot go on, 3 for a bug."""
    stop = Stop()
    stop.install()
    try:
        async with await Session.open(options.kubeconfig, options.context) as session:
            await serve(stop, session)
    except AccessError as error:
        say(log, logging.ERROR, "no way to the API server", reason=str(error))
        return REFUSED
    except OSError as error:
        say(log, logging.ERROR, "the process cannot go on", reason=error.strerror or str(error))
        return REFUSED
    except ExceptionGroup as bugs:
        log.critical("a bug ended the process", exc_info=bugs)
        return BUG
    finally:
        stop.remove()
    return 0


@contextlib.asynccontextmanager
async def running(background: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run these beside what is inside; one that fails ends the process, not quietly itself."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in background]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
