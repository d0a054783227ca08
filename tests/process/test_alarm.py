"""An alarm cuts what takes too long, and nothing else."""

import asyncio
import contextlib
import gc
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from drawbridge.bounded_cache import BoundedCache
from drawbridge.brief import LEAST_SECONDS, CutShort
from drawbridge.cel.dra import Selectors
from drawbridge.cel.fresh_stack import on_fresh_stack
from drawbridge.dra.gates import Gates
from drawbridge.process.alarm import CutAlarm, cut_after
from drawbridge.process.forked import run_forked


@pytest.fixture
def alarm() -> Iterator[CutAlarm]:
    """An alarm after 5 ms; the handlers of the process stay as they were."""
    with cut_after(0.005) as made:
        assert isinstance(made, CutAlarm)
        # An exception in a callback of the collector is lost: the test frameworks have such ones.
        gc.disable()
        yield made
        gc.enable()


def endless(seconds: float = 2) -> None:
    """Compute for a long time, and handle each Exception."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        with contextlib.suppress(Exception):  # as pure code may do
            sum(range(100))


def test_an_alarm_cuts_what_has_no_end(alarm: CutAlarm) -> None:
    before = time.thread_time()
    with pytest.raises(CutShort):
        alarm.run(endless)
    assert time.thread_time() - before >= alarm.seconds


def test_the_timer_ends_with_its_first_ring_between_two_computations(alarm: CutAlarm) -> None:
    alarm.run(lambda: None)
    alarm.stop()
    while signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0):
        time.sleep(0.001)
    with pytest.raises(CutShort):
        alarm.run(endless)


def test_a_computation_without_a_limit_is_not_cut(alarm: CutAlarm) -> None:
    alarm.seconds = math.inf
    assert alarm.run(lambda: 1) == 1
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_copy_of_the_process_is_not_cut(alarm: CutAlarm) -> None:
    def compute() -> bytes:
        alarm.run(lambda: endless(0.1))
        return b"done"

    assert asyncio.run(run_forked(compute)) == b"done"


def test_computations_one_after_the_other_have_their_time_each(alarm: CutAlarm) -> None:
    def compute() -> None:
        # The host can take some of the processor's time, which counts as that of the thread.
        end = time.thread_time() + alarm.seconds / 8
        while time.thread_time() < end:
            pass

    for _ in range(40):
        alarm.run(compute)
    with pytest.raises(CutShort):
        alarm.run(endless)


def test_an_alarm_that_is_lost_in_a_callback_rings_again_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    lost: list[BaseException] = []

    class Collected:
        def __init__(self, compute: Callable[[], None]) -> None:
            self.compute = compute

        def __del__(self) -> None:
            try:
                self.compute()
            except CutShort as cut:
                lost.append(cut)
                raise

    def compute() -> None:
        Collected(endless)
        endless()

    with cut_after(0.005) as brief:
        with pytest.raises(CutShort):
            brief.run(compute)
        assert lost
        assert not capfd.readouterr().err
        Collected({}.popitem)
    assert "KeyError" in capfd.readouterr().err


def test_an_alarm_that_rings_late_interrupts_nobody(alarm: CutAlarm) -> None:
    late = []
    with pytest.raises(CutShort):
        alarm.run(endless)
    for _ in range(100):
        # As at the end of a computation, when the timer is not stopped yet.
        signal.raise_signal(signal.SIGALRM)
        late.append(time.thread_time())
    assert len(late) == 100


def test_time_without_the_processor_does_not_count(alarm: CutAlarm) -> None:
    alarm.run(lambda: time.sleep(0.02))


def test_the_time_of_a_thread_that_a_computation_waits_for_counts(alarm: CutAlarm) -> None:
    before = threading.active_count()
    with pytest.raises(CutShort):
        alarm.run(lambda: on_fresh_stack(lambda: on_fresh_stack(endless, 60)))
    # Both threads are interrupted as well.
    while threading.active_count() > before:
        time.sleep(0.001)


def test_a_thread_that_is_just_starting_is_interrupted(alarm: CutAlarm) -> None:
    computing: list[int] = []

    def nest(levels: int, short: int) -> None:
        for _ in range(short):
            on_fresh_stack(sum, ())
        if levels:
            on_fresh_stack(nest, levels - 1, 0)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            computing.append(1)

    for number in range(200):
        alarm.seconds = LEAST_SECONDS * (1 + number % 3)
        with pytest.raises(CutShort):
            alarm.run(lambda: on_fresh_stack(nest, number % 12, number % 37))  # noqa: B023
        alarm.stop()
        computing.clear()
        time.sleep(LEAST_SECONDS)
        assert not computing


def test_the_compilation_of_an_expression_is_cut(alarm: CutAlarm) -> None:
    patterns = [f'"a".matches("a{{1,{number}}}")' for number in range(500, 800)]
    programs = Selectors.of_gates(Gates()).stored
    with pytest.raises(CutShort):
        alarm.run(lambda: programs.compile(" || ".join(patterns)))
    assert programs.compile("true")


def test_a_cache_is_never_interrupted(alarm: CutAlarm) -> None:
    alarm.seconds = 0.0001
    cache: BoundedCache[int, int] = BoundedCache(50, 1000)

    def fill() -> None:
        for number in range(1 << 30):
            cache.put(number % 97, number, cost=number % 60)

    for _ in range(200):
        with pytest.raises(CutShort):
            alarm.run(fill)
        assert cache.cost == sum(cost for _, cost, _ in cache._entries.values())  # noqa: SLF001  # its books


def test_a_result_is_returned_and_an_exception_is_raised(alarm: CutAlarm) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    alarm.seconds = 5.0
    assert alarm.run(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        alarm.run(fail)
