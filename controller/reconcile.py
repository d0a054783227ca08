"""Runs one reconciler: immediately, after each wake-up, periodically, and with back-off on failure.

The failure of one reconciler is reported and does not stop the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Final, Protocol, TypeVar

import msgspec

from controller.kept_writes import Pauses
from drawbridge.api_error import ApiError

_FACTOR: Final = 2.0
_MAX_FAILURES: Final = 20
_MAX_INTERNAL_ERRORS: Final = 50  # of one run
_OF_ITEM: Final = "other items were processed all the same"

T = TypeVar("T")


class Reconciler(Protocol):
    """Moves one kind of cluster state to the desired state."""

    @property
    def name(self) -> str:
        """Its name in logs and metrics."""

    async def reconcile(self) -> None:
        """Reconcile once with the state known now; propagates API errors."""


class Schedule(msgspec.Struct, frozen=True):
    """When a reconciler runs; all times are in seconds."""

    debounce: float = 0.0  # from the wake-up to the run
    min_interval: float = 0.0  # between two runs, regardless of wake-ups
    idle_ratio: float = 0.0  # pause after a run, relative to its duration; at most `resync`
    resync: float = 300.0  # between two runs without a wake-up
    first_retry: float = 1.0  # after the first failure; doubles with each further failure
    max_retry: float = 120.0  # between two failures


class Clock(Protocol):
    """Monotonic time and waiting; tests pass a clock that does not wait."""

    def now(self) -> float:
        """Return monotonic time in seconds."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""

    async def wait_for(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for an event, at most for a number of seconds."""


class EventLoopClock:
    """The clock of the running event loop."""

    def now(self) -> float:
        """Return monotonic time in seconds."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        await asyncio.sleep(seconds)

    async def wait_for(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for an event, at most for a number of seconds."""
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return


async def process_each(items: Iterable[T], process: Callable[[T], Awaitable[None]]) -> None:
    """Process every item; a permanent failure of one item does not stop the others.

    The first exception is raised after the last item. If the API server cannot process any
    request now, the exception is raised immediately and the next run retries all items. An internal
    error can be either: of a webhook of others, or of the storage.

    Other tasks run after each item: tenants decide how many items there are, and an item that
    needs no request does not wait for anything.
    """
    first: Exception | None = None
    internal_errors = 0
    for item in items:
        try:
            await process(item)
        except Exception as error:
            internal_errors += isinstance(error, ApiError) and error.internal
            if _affects_all_requests(error) or internal_errors > _MAX_INTERNAL_ERRORS:
                raise
            first = first or error
        await asyncio.sleep(0)
    if first is not None:
        first.add_note(_OF_ITEM)
        raise first


class FailedLast:
    """Processes items in their order, those behind that failed the last time.

    An item whose writes get no response ends a run, and is not the first one of the next. A part of
    a run that processed all of its own items has not failed.

    With `now`, a clock that is never set, an item that was not kept is left out of runs until its
    pause is over. The value of the item then says all that decides what is written.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        # By item of the last run: whether it failed, the one that was tried last at the end.
        self.results: dict[str, bool] = {}
        self._pauses = Pauses(now) if now else None

    async def process_each(
        self,
        items: Mapping[str, T],
        process: Callable[[str, T], Awaitable[None]],
        most: int | None = None,
    ) -> None:
        """Process every item, or some up to a number, as `process_each` does.

        If a run does not get to all items, they take turns: failed or not, it can come again.
        """
        pauses = self._pauses

        async def note(item: tuple[str, T]) -> None:
            self.results.pop(item[0], None)
            self.results[item[0]] = True
            try:
                with pauses.follow(*item) if pauses else nullcontext():
                    await process(*item)
            except Exception as error:
                self.results[item[0]] = not _is_of_item(error)
                raise
            self.results[item[0]] = False

        self.results = {name: failed for name, failed in self.results.items() if name in items}
        if pauses:
            pauses.keep_only(items.keys())
        due = [each for each in items.items() if pauses is None or not pauses.holds(*each)]
        takes_turns = most is not None
        last = [name for name, failed in self.results.items() if failed or takes_turns]
        places = {name: place for place, name in enumerate(last, 1)}
        ordered = sorted(due, key=lambda item: places.get(item[0], 0))
        await process_each(ordered[:most], note)


def _affects_all_requests(error: Exception) -> bool:
    """Whether the cause is the API server or the network; a bug concerns one item."""
    return isinstance(error, OSError) or (isinstance(error, ApiError) and not _answered(error))


def _is_of_item(error: Exception) -> bool:
    return _OF_ITEM in getattr(error, "__notes__", ())


def _answered(error: ApiError) -> bool:
    """Whether the API server has processed a request, so that others can succeed."""
    return error.refused or error.internal


ReportResult = Callable[[str, Exception | None], None]


async def run_reconciler(
    reconciler: Reconciler,
    wake_up: asyncio.Event,
    schedule: Schedule,
    report_result: ReportResult,
    clock: Clock,
) -> None:
    """Run a reconciler at once, after each wake-up and periodically, until cancelled.

    `report_result` receives the reconciler's name and the exception of a failed run, else None.
    """
    failures = 0
    while True:
        wake_up.clear()
        started = clock.now()
        try:
            await reconciler.reconcile()
        except Exception as error:  # noqa: BLE001  # a bug must not end the other reconcilers
            report_result(reconciler.name, error)
            await _back_off(error, failures, wake_up, schedule, clock)
            failures = min(failures + 1, _MAX_FAILURES)
            continue
        failures = 0
        report_result(reconciler.name, None)
        pause = min(schedule.idle_ratio * (clock.now() - started), schedule.resync)
        await clock.sleep(max(schedule.min_interval, pause))
        await clock.wait_for(wake_up, schedule.resync)
        if schedule.debounce:
            await clock.sleep(schedule.debounce)


async def _back_off(
    error: Exception, failures: int, wake_up: asyncio.Event, schedule: Schedule, clock: Clock
) -> None:
    pause = min(schedule.first_retry * _FACTOR**failures, schedule.max_retry)
    asked_for, is_answered = 0.0, _is_of_item(error)
    if isinstance(error, ApiError):
        # A webhook of others can ask for any time, because of one object.
        asked_for = min(error.retry_after or 0.0, schedule.max_retry)
        is_answered = _answered(error) or error.transient
    if not is_answered:
        # A wake-up neither makes the API server available again nor ends a bug of each run.
        await clock.sleep(max(pause, asked_for))
    else:
        # One object that fails must not delay the others, so a wake-up ends the pause.
        least = min(pause, max(schedule.min_interval, schedule.first_retry))
        await clock.sleep(max(least, asked_for))
        await clock.wait_for(wake_up, pause)


_: type[Clock] = EventLoopClock
