"""Run a process: connect to the API server, run background tasks, and return an exit code.

SIGTERM and SIGINT stop it: the first signal gracefully, the second one at once.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from drawbridge.brief import whole
from drawbridge.cluster.errors import AccessError
from drawbridge.cluster.history import HistoryChangedError
from drawbridge.cluster.session import Session
from drawbridge.process import logs, metrics
from drawbridge.process.addresses import Address
from drawbridge.process.build_info import read_build_info
from drawbridge.process.descriptors import raise_limit
from drawbridge.process.health import ReadinessCheck, serve_operations
from drawbridge.process.logs import log_event
from drawbridge.process.settings import Settings, WatchedConfiguration, watch_in_use

_LOG: Final = logging.getLogger("drawbridge.process")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_PIPE_BYTES: Final = 65536


class StopSignal:
    """Records whether a signal requested the stop of this process.

    The handlers of the event loop learn from a pipe which signals came. It is full if the alarm of
    a long computation rings meanwhile, and a request to stop would be lost. Here it only wakes the
    loop, so that nothing has to fit.
    """

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._pipe: tuple[socket.socket, ...] = ()

    def install(self) -> None:
        """Install the signal handlers. This works in the event loop of the main thread only."""
        loop = asyncio.get_running_loop()

        @whole  # an alarm can ring within it
        def request_soon(number: int, _: object) -> None:
            loop.call_soon_threadsafe(self.request, number)

        self._pipe = reader, writer = socket.socketpair()
        for each in self._pipe:
            each.setblocking(False)  # noqa: FBT003  # its only argument
        loop.add_reader(reader, reader.recv, _PIPE_BYTES)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, request_soon)

    def remove(self) -> None:
        """Remove the signal handlers."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(-1)
        asyncio.get_running_loop().remove_reader(self._pipe[0])
        for each in self._pipe:
            each.close()

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


class ProcessReadiness:
    """Why this process is not ready. The question changes once the process has its parts."""

    def __init__(self, stop: StopSignal, find_missing: ReadinessCheck) -> None:
        self.find_missing = find_missing
        self._stop = stop

    def check(self) -> list[str]:
        """Return the reasons."""
        return [*(["stopping"] if self._stop.is_requested else []), *self.find_missing()]


class StartedProcess(NamedTuple):
    """What every process has once it has a configuration."""

    settings: Settings
    session: Session
    stop: StopSignal
    readiness: ProcessReadiness


_STARTING: Final = "the process starts"
REFUSED: Final = 2
BUG: Final = 3
RESTORED: Final = 4
ServeFunction = Callable[[StopSignal, Session], Awaitable[None]]
ServeConfigured = Callable[[StartedProcess], Awaitable[None]]
WatchConfiguration = Callable[[Session], Sequence[WatchedConfiguration]]
WaitForConfiguration = Callable[[Settings], Coroutine[Any, Any, None]]


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every process. Without a kubeconfig, the service account of the pod is used.

    Without `namespace`, the installation is in the namespace of the credentials. Without
    `config_map`, the process uses the default configuration.
    """

    health: Address
    metrics: Address
    config_map: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    log_level: str = "info"


def _watch_in_use(session: Session) -> Sequence[WatchedConfiguration]:
    return (watch_in_use(session),)


async def run_configured(
    options: ProcessOptions,
    log: logging.Logger,
    serve: ServeConfigured,
    watch: WatchConfiguration = _watch_in_use,
    wait: WaitForConfiguration = Settings.wait,
) -> int:
    """Wait for a configuration, and run a process with it.

    Meanwhile, the process runs and is not ready: a restart would not help.
    """
    logs.configure(options.log_level)

    async def start(stop: StopSignal, session: Session) -> None:
        settings = Settings(watch(session) if options.config_map else ())
        # A process with a configuration has no parts yet, so nothing else tells what is missing.
        readiness = ProcessReadiness(stop, lambda: settings.find_missing() or [_STARTING])
        with metrics.registered(lambda: metrics.collect_readiness(ready=not readiness.check())):
            async with (
                serve_operations(options.health, options.metrics, readiness.check),
                run_background(settings.run()),
            ):
                if await wait_unless_stopped(wait(settings), stop):
                    await serve(StartedProcess(settings, session, stop, readiness))

    return await run_process(options, log, start)


async def wait_unless_stopped(coroutine: Coroutine[Any, Any, None], stop: StopSignal) -> bool:
    """Wait for a coroutine; False if the process stops before. Neither wait outlives the call."""
    tasks = [asyncio.create_task(wait) for wait in (coroutine, stop.wait())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
    return not stop.is_requested


async def run_process(options: ProcessOptions, log: logging.Logger, serve: ServeFunction) -> int:
    """Serve until a stop signal.

    Return 0 after a graceful stop, 2 if the process cannot continue, 3 after an unhandled
    exception, or 4 if the API server was restored from a backup: only a new process has forgotten
    everything that was derived from the objects before.
    """
    raise_limit()
    _announce_build(log)
    stop = StopSignal()
    stop.install()
    try:
        await _serve_with_session(options, serve, stop)
    except AccessError as error:
        log_event(log, logging.ERROR, "cannot access the API server", reason=str(error))
        return REFUSED
    except OSError as error:
        reason = error.strerror or str(error)
        log_event(log, logging.ERROR, "the process cannot continue", reason=reason)
        return REFUSED
    except Exception as error:
        if (restore := _find_restore(error)) is not None:
            what = "the API server was restored from a backup, so this process starts again"
            log_event(log, logging.ERROR, what, reason=f"{restore}")
            return RESTORED
        log.critical("the process ended in an unhandled exception", exc_info=True)
        return BUG
    finally:
        stop.remove()
    log_event(log, logging.INFO, "stopped")
    return 0


async def _serve_with_session(
    options: ProcessOptions, serve: ServeFunction, stop: StopSignal
) -> None:
    """Open a session and serve. A plug-in that returns the credentials can take long."""
    sessions: list[Session] = []
    async with contextlib.AsyncExitStack() as opened:

        async def open_session() -> None:
            named = (options.kubeconfig, options.context, options.namespace)
            # A process is where it serves, whatever somebody mounts in its home.
            session = await Session.open(*named, prefers_pod=True)
            sessions.append(await opened.enter_async_context(session))

        if not await wait_unless_stopped(open_session(), stop):
            return
        (session,) = sessions
        reached = session.reachability
        with metrics.registered(
            lambda: metrics.collect_reachability(reached.failures, reachable=reached.reachable)
        ):
            await serve(stop, session)


def _find_restore(error: Exception) -> HistoryChangedError | None:
    """Return what shows that the API server was restored; None for other errors."""
    if isinstance(error, HistoryChangedError):
        return error
    parts = error.exceptions if isinstance(error, ExceptionGroup) else ()
    return next(filter(None, map(_find_restore, parts)), None)


def _announce_build(log: logging.Logger) -> None:
    info = read_build_info()
    metrics.BUILD_INFO.labels(**info._asdict()).set(1)
    log_event(log, logging.INFO, "starting", **info._asdict())


@contextlib.asynccontextmanager
async def run_background(coroutines: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run coroutines while the context is open. If one fails, the context fails as well.

    An exception of the context alone is raised as it is, without a group.
    """
    own: Exception | None = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in coroutines]
            try:
                yield
            except Exception as error:
                own = error
                raise
            finally:
                for task in tasks:
                    task.cancel()
    except ExceptionGroup as errors:
        if own is None or errors.exceptions != (own,):
            raise
        raise own from None
