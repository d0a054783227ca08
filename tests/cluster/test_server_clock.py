"""The clock of the API server is followed, whatever the own clock says."""

import email.utils
import logging
from types import SimpleNamespace

import pytest

from drawbridge.cluster import server_clock
from drawbridge.cluster.server_clock import ServerClock, boot_time

DATE = "Sat, 21 Nov 2026 02:48:28 GMT"
TOLD = 1_795_229_308.0


class Times:
    """A wall clock and a monotonic clock that a test sets."""

    def __init__(self, wall: float) -> None:
        self.wall_time, self.elapsed_time = wall, 100.0

    def wall(self) -> float:
        """Return the wall clock."""
        return self.wall_time

    def elapsed(self) -> float:
        """Return the monotonic clock."""
        return self.elapsed_time


@pytest.mark.parametrize("error", [-90 * 86_400.0, -3600.0, 3600.0, 400 * 86_400.0])
def test_a_wrong_clock_is_corrected_and_a_later_step_changes_nothing(
    error: float, caplog: pytest.LogCaptureFixture
) -> None:
    times = Times(TOLD + error)
    clock = ServerClock(times.wall, times.elapsed)
    assert clock.now() == TOLD + error
    with caplog.at_level(logging.WARNING):
        clock.observe(DATE)
    assert clock.now() == TOLD
    assert f"{error:.0f} s" in caplog.text
    times.wall_time += 1e9
    times.elapsed_time += 5
    assert clock.now() == TOLD + 5


@pytest.mark.parametrize(
    ("ahead", "most"),
    [
        pytest.param((100.0,), 2, id="one server"),
        pytest.param((100.0, 105.0), 2, id="two servers"),
        pytest.param((0.0, 100.0), 2, id="two servers, one with the time of the machine"),
        pytest.param((100.0, 500.0, -2000.0), 6, id="three servers of which none is right"),
    ],
)
def test_a_wrong_clock_is_told_once_an_hour_whoever_answers(
    ahead: tuple[float, ...], most: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    times = Times(TOLD)
    clock = ServerClock(times.wall, times.elapsed)
    for second in range(3610):
        told = times.wall_time + ahead[second % len(ahead)]
        clock.observe(email.utils.formatdate(told, usegmt=True))
        times.wall_time += 1
        times.elapsed_time += 1
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == most
    assert len(caplog.records) <= most + 2


def test_the_end_of_a_difference_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    times = Times(TOLD + 300.0)
    clock = ServerClock(times.wall, times.elapsed)
    clock.observe(DATE)
    times.wall_time = TOLD
    times.elapsed_time += 7
    clock.observe(DATE)
    end = "the clocks of this machine and of the API server agree again after 7 s"
    assert [each.getMessage() for each in caplog.records][1:] == [end]


class ObservedClock:
    """A server clock whose machine is right by default, and what it hears."""

    def __init__(self, error: float = 0.0) -> None:
        self.times = Times(TOLD + error)
        self.clock = ServerClock(self.times.wall, self.times.elapsed)

    def hear(self, ahead: float = 0.0, after: float = 0.0) -> tuple[float, bool]:
        """Observe a header that is `ahead`; return the error of the time, and if it is certain."""
        self.times.wall_time += after
        self.times.elapsed_time += after
        right = TOLD + self.times.elapsed_time - 100.0
        self.clock.observe(email.utils.formatdate(right + ahead, usegmt=True))
        return self.clock.now() - right, self.clock.is_certain()


YEARS = 5 * 365 * 86_400.0


@pytest.mark.parametrize("ahead", [YEARS, -YEARS])
def test_a_large_step_of_one_response_is_ignored(ahead: float) -> None:
    observed = ObservedClock()
    assert observed.hear() == (0.0, True)
    assert observed.hear(ahead, after=1.0) == (0.0, False)
    assert observed.hear(after=1.0) == (0.0, True)


def test_a_large_step_is_followed_after_a_minute_without_contradiction() -> None:
    observed = ObservedClock()
    observed.hear()
    heard = [observed.hear(YEARS, after=20.0) for _ in range(4)]
    assert heard == [*[(0.0, False)] * 3, (YEARS, True)]
    assert observed.hear(after=1.0) == (0.0, True)


def test_two_servers_that_disagree_never_move_the_clock() -> None:
    observed = ObservedClock(error=-YEARS)
    observed.hear()
    for _ in range(10):
        assert observed.hear(YEARS, after=20.0) == (0.0, False)
        assert observed.hear(after=20.0) == (0.0, False)


def test_a_machine_that_contradicts_the_first_response_makes_the_time_uncertain() -> None:
    observed = ObservedClock(error=YEARS)
    assert observed.hear() == (0.0, False)
    assert observed.hear(after=59.0) == (0.0, False)
    assert observed.hear(after=1.0) == (0.0, True)
    assert observed.hear(YEARS / 2, after=1.0) == (0.0, False)


@pytest.mark.parametrize("difference", [-1.9, 0.0, 0.9, 1.9])
def test_a_difference_below_the_precision_of_the_header_is_ignored(difference: float) -> None:
    times = Times(TOLD + difference)
    clock = ServerClock(times.wall, times.elapsed)
    clock.observe(DATE)
    assert clock.now() == TOLD + difference


@pytest.mark.parametrize("header", [None, "", "yesterday", "Sat, 99 Nov 2026 99:99:99 GMT", "\x00"])
def test_a_header_that_is_no_date_is_ignored(header: str | None) -> None:
    times = Times(TOLD)
    clock = ServerClock(times.wall, times.elapsed)
    clock.observe(header)
    assert clock.now() == TOLD


def test_the_boot_time_includes_suspends_where_the_system_has_such_a_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks = SimpleNamespace(CLOCK_BOOTTIME=7, clock_gettime={7: 90.0}.get, monotonic=lambda: 5.0)
    monkeypatch.setattr(server_clock, "time", clocks)
    assert boot_time() == 90.0
    del clocks.CLOCK_BOOTTIME
    assert boot_time() == 5.0
