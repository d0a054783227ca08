"""Runs of a reconciler: schedule, back-off, and failures of single items."""

import asyncio
from collections.abc import Callable

import pytest

from controller.reconcile import FailedLast, Reconciler, Schedule, process_each, run_reconciler
from drawbridge.api_error import ApiError
from tests.tables import every_row

SCHEDULE = Schedule(min_interval=2, resync=60, first_retry=1, max_retry=5)


class ScriptedReconciler:
    """A reconciler whose runs are given as functions."""

    name = "scripted"

    def __init__(self, *steps: Callable[[], None]) -> None:
        self._steps = list(steps)
        self.done = 0
        self.finished = asyncio.Event()

    async def reconcile(self) -> None:
        """Run the next function; wait forever after the last."""
        if not self._steps:
            self.finished.set()
            await asyncio.Event().wait()
        self.done += 1
        self._steps.pop(0)()


class FakeMonotonicClock:
    """A clock that does not wait and records the requested waits."""

    def __init__(self) -> None:
        self.waits: list[tuple[str, float]] = []
        self.seconds = 0.0

    def now(self) -> float:
        """Advance by ten seconds with each call."""
        self.seconds += 10
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Record the wait and return."""
        self.waits.append(("sleep", seconds))
        await asyncio.sleep(0)

    async def wait_for(self, event: asyncio.Event, seconds: float) -> None:
        """Record the wait and return."""
        self.waits.append(("woken" if event.is_set() else "until", seconds))
        await asyncio.sleep(0)


def fails() -> None:
    raise OSError("no route")


def works() -> None:
    pass


def run_script(
    make_reconciler: Callable[[], ScriptedReconciler],
    *,
    woken: bool = False,
    schedule: Schedule = SCHEDULE,
) -> tuple[list[tuple[str, float]], list[str]]:
    """Run all functions and return the recorded waits and reports."""
    clock, reports = FakeMonotonicClock(), list[str]()

    async def play() -> None:
        reconciler: Reconciler = make_reconciler()
        event = asyncio.Event()

        def report(name: str, error: Exception | None) -> None:
            reports.append(f"{name}: {error or 'done'}")
            if woken:
                event.set()

        task = asyncio.create_task(run_reconciler(reconciler, event, schedule, report, clock))
        assert isinstance(reconciler, ScriptedReconciler)
        await reconciler.finished.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())
    return clock.waits, reports


def test_a_reconciler_runs_at_once_and_after_the_resync_period() -> None:
    waits, reports = run_script(lambda: ScriptedReconciler(works, works))
    assert waits == [("sleep", 2), ("until", 60)] * 2
    assert reports == ["scripted: done"] * 2


def test_a_wake_up_during_a_run_waits_for_the_minimum_interval() -> None:
    waits, _ = run_script(lambda: ScriptedReconciler(works), woken=True)
    assert waits == [("sleep", 2), ("woken", 60)]


def test_a_debounced_reconciler_waits_after_a_wake_up() -> None:
    waits, _ = run_script(
        lambda: ScriptedReconciler(works, works),
        woken=True,
        schedule=Schedule(debounce=3, min_interval=2),
    )
    assert waits[:3] == [("sleep", 2), ("woken", 300), ("sleep", 3)]


def test_a_long_run_is_followed_by_a_long_pause_up_to_the_resync_period() -> None:
    waits, _ = run_script(
        lambda: ScriptedReconciler(works),
        schedule=Schedule(min_interval=2, idle_ratio=4, resync=60),
    )
    assert waits == [("sleep", 40), ("until", 60)]
    waits, _ = run_script(
        lambda: ScriptedReconciler(works),
        schedule=Schedule(min_interval=2, idle_ratio=40, resync=60),
    )
    assert waits == [("sleep", 60), ("until", 60)]


def test_failures_are_reported_and_retried_with_exponential_back_off() -> None:
    waits, reports = run_script(
        lambda: ScriptedReconciler(fails, fails, fails, fails, works, fails)
    )
    sleeps = [seconds for how, seconds in waits if how == "sleep"]
    assert sleeps == [1, 2, 4, 5, 2, 1]
    assert reports[:2] == ["scripted: no route"] * 2
    assert reports[4:] == ["scripted: done", "scripted: no route"]


def _failed_item(error: Exception) -> Exception:
    """Return what a run raises in which one item failed."""

    async def fail(_item: str) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        asyncio.run(process_each("a", fail))
    return raised.value


@every_row(
    ("error",),
    [
        ApiError(403, "Forbidden", "exceeded quota"),
        ApiError(401, "Unauthorized", "a policy of others"),
        ApiError(429, "TooManyRequests", "a webhook of others"),
        KeyError("a bug"),
    ],
)
def test_a_wake_up_ends_the_back_off_after_an_error_of_one_item(error: Exception) -> None:
    failed = _failed_item(error)

    def refused() -> None:
        raise failed

    waits, _ = run_script(lambda: ScriptedReconciler(refused, refused, refused), woken=True)
    # A wake-up is ignored only for the minimum interval.
    assert waits[:6] == [
        ("sleep", 1),
        ("woken", 1),
        *[("sleep", 2), ("woken", 2)],
        ("sleep", 2),
        ("woken", 4),
    ]


def test_a_wake_up_repeats_no_run_that_always_fails_before_its_growing_pause() -> None:
    """A run of facts takes seconds, and something wakes it each second."""

    def bug() -> None:
        raise KeyError("a bug")

    waits, _ = run_script(lambda: ScriptedReconciler(bug, bug, bug, bug), woken=True)
    assert waits == [("sleep", 1), ("sleep", 2), ("sleep", 4), ("sleep", 5)]


@every_row(
    ("code", "asked_for", "waits"),
    [
        (429, None, [("sleep", 1), ("woken", 1)]),
        (429, 0.0, [("sleep", 1), ("woken", 1)]),
        (429, 3.0, [("sleep", 3), ("woken", 1)]),
        (500, 3.0, [("sleep", 3), ("woken", 1)]),
        (503, 3.0, [("sleep", 3)]),
        # A webhook can ask for any time, and others wait.
        (429, 30.0, [("sleep", 5), ("woken", 1)]),
    ],
)
def test_a_pause_is_as_long_as_the_server_asks_for_up_to_the_longest_one(
    code: int, asked_for: float | None, waits: list[tuple[str, float]]
) -> None:
    def refused() -> None:
        raise ApiError(code, "TooManyRequests", "later", retry_after=asked_for)

    recorded, _ = run_script(lambda: ScriptedReconciler(refused), woken=True)
    assert recorded == waits


@every_row(
    ("error", "done"),
    [
        (ApiError(403, "Forbidden", "a quota"), ["a", "b", "c"]),
        (KeyError("a bug"), ["a", "b", "c"]),
        (ApiError(500, "InternalError", "failed calling webhook"), ["a", "b", "c"]),
        (ApiError(0, "", "no answer"), ["a", "b"]),
        (ApiError(429, "TooManyRequests", "too many"), ["a", "b"]),
        (ApiError(503, "ServiceUnavailable", "starting"), ["a", "b"]),
        (OSError("no route"), ["a", "b"]),
    ],
    ids=str,
)
def test_a_failed_item_does_not_stop_the_others_unless_the_server_fails(
    error: Exception, done: list[str]
) -> None:
    tried: list[str] = []

    async def does(duty: str) -> None:
        tried.append(duty)
        if duty != "a":
            raise error

    with pytest.raises(type(error)) as raised:
        asyncio.run(process_each("abc", does))
    assert raised.value is error
    assert tried == done


@every_row(
    ("code", "runs"),
    [
        (403, ["abcde", "bdace", "bdace"]),
        *[(code, ["a", "bc", "bde", "bda", "bdc"]) for code in (0, 401, 429, 503)],
    ],
)
def test_items_that_failed_come_behind_the_others_in_the_next_run(
    code: int, runs: list[str]
) -> None:
    failed_last, tried = FailedLast(), list[str]()

    async def process(name: str, _: None) -> None:
        tried.append(name)
        if name in "ace":
            raise ApiError(code, "Denied")

    for expected in runs:
        tried.clear()
        with pytest.raises(ApiError):
            asyncio.run(failed_last.process_each(dict.fromkeys("abcde"), process))
        assert "".join(tried) == expected


def test_an_item_that_always_ends_the_run_stops_no_other_one_that_failed() -> None:
    failed_last, tried = FailedLast(), list[str]()
    errors = [ApiError(429, "TooManyRequests")] * 4

    async def process(name: str, _: None) -> None:
        tried.append(name)
        if name == "a" or errors:
            raise errors.pop() if errors else ApiError(429, "TooManyRequests")

    for _ in range(6):
        with pytest.raises(ApiError):
            asyncio.run(failed_last.process_each(dict.fromkeys("abc"), process))
    assert "".join(tried) == "abcabcabca"


def test_an_unexpected_error_is_reported_and_retried() -> None:
    def bug() -> None:
        raise KeyError("oops")

    _, reports = run_script(lambda: ScriptedReconciler(bug, works))
    assert reports == ["scripted: 'oops'", "scripted: done"]
