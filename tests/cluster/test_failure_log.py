"""What is retried is logged when it begins to fail, while it lasts, and at its end."""

import logging
from collections.abc import Callable

import pytest

from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError, UnreachableError
from drawbridge.cluster.failure_log import LASTING_SECONDS, MAX_KINDS, FailureLog
from drawbridge.finding import REPEAT_SECONDS
from tests.cluster.clocks import Clock

_LOG = logging.getLogger("tests.failures")
FORBIDDEN = ApiError(403, "Forbidden", "leases is forbidden")
BUSY = ApiError(503, "ServiceUnavailable", "busy")
REFUSED = ApiError(422, "Invalid", "spec is invalid")
CONFLICT = ApiError(409, "Conflict", "the object has been modified")
SILENT = UnreachableError("PATCH /x: no response in 30 s")
OUTAGE = UnreachableError("PATCH /x: connection refused", is_outage=True)
_MORE_THAN_AN_HOUR = int(REPEAT_SECONDS) + 10


class Failing:
    """Something that is retried each second."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._clock = Clock()
        self.log = FailureLog(_LOG, "it works again after %.0f s", self._clock.now)
        self._caplog = caplog
        caplog.set_level(logging.INFO)

    def pass_time(self, seconds: float) -> None:
        """Let time pass without a result."""
        self._clock.time += seconds

    def play(self, seconds: int, result: Callable[[int], Exception | None]) -> list[str]:
        """Return the lines about so many results."""
        self._caplog.clear()
        for second in range(seconds):
            error = result(second)
            if error is None:
                self.log.succeed()
            else:
                self.log.fail(error, "it fails: %s", error)
            self._clock.time += 1
        return [f"{each.levelname} {each.getMessage()}" for each in self._caplog.records]


@pytest.mark.parametrize(
    ("result", "levels"),
    [
        pytest.param(lambda _: FORBIDDEN, ["WARNING"] * 2, id="for want of a right"),
        pytest.param(lambda _: REFUSED, ["INFO", "WARNING"], id="refused"),
        pytest.param(lambda _: BUSY, ["WARNING"], id="busy"),
        pytest.param(lambda _: CONFLICT, ["WARNING"], id="a conflict that lasts"),
        pytest.param(lambda _: SILENT, ["WARNING"], id="no response, while others have one"),
        pytest.param(lambda _: OUTAGE, [], id="an outage, which the session logs"),
        pytest.param(lambda at: (REFUSED, FORBIDDEN)[at % 2], None, id="two failures in turn"),
        pytest.param(lambda at: (None, REFUSED)[at % 2], None, id="each second one succeeds"),
        pytest.param(lambda at: (None, CONFLICT)[at % 2], [], id="each second one conflicts"),
        pytest.param(lambda at: (None, BUSY)[at % 2], [], id="each second time busy"),
        pytest.param(lambda at: ApiError(400, f"Reason{at}", "odd"), None, id="reasons of others"),
        pytest.param(lambda _: NotLeadingError("not the leader"), ["WARNING"], id="not the leader"),
    ],
)
def test_retries_of_an_hour_have_few_lines(
    result: Callable[[int], Exception | None],
    levels: list[str] | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = Failing(caplog).play(_MORE_THAN_AN_HOUR, result)
    assert len(lines) <= 2 * (MAX_KINDS + 1)
    assert levels is None or [each.partition(" ")[0] for each in lines] == levels


def test_a_failure_that_lasts_is_said_each_hour_with_the_number_of_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = Failing(caplog).play(3 * int(REPEAT_SECONDS) + 1, lambda _: REFUSED)
    assert len(lines) == 4
    told = [vars(each)["fields"]["failures"] for each in caplog.records]
    assert told == [1, 60, *[int(REPEAT_SECONDS)] * 2]


def test_the_end_of_a_failure_is_said_and_a_new_one_when_it_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing = Failing(caplog)
    assert failing.play(10, lambda _: REFUSED) == [f"INFO it fails: {REFUSED}"]
    assert failing.play(2, lambda _: None) == ["INFO it works again after 10 s"]
    assert failing.play(int(LASTING_SECONDS), lambda _: REFUSED) == []
    assert failing.play(5, lambda _: REFUSED) == [f"WARNING it fails: {REFUSED}"]
    assert failing.play(1, lambda _: FORBIDDEN) == [f"WARNING it fails: {FORBIDDEN}"]
    assert failing.play(1, lambda _: None) == ["INFO it works again after 66 s"]


def test_a_failure_without_a_line_has_no_end(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing(caplog)
    assert failing.play(10, lambda at: CONFLICT if at < 5 else None) == []


def test_a_failure_after_an_hour_without_one_has_just_begun(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody tells the end where requests of others succeed all the same, or where a term ends."""
    failing = Failing(caplog)
    failing.play(1, lambda _: BUSY)
    failing.pass_time(REPEAT_SECONDS)
    assert failing.play(int(LASTING_SECONDS), lambda _: BUSY) == []
    assert failing.play(1, lambda _: BUSY) == [f"WARNING it fails: {BUSY}"]
    assert failing.play(1, lambda _: None) == ["INFO it works again after 61 s"]


def test_names_of_objects_are_no_kinds_and_what_a_failure_is_about_is_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Failing(caplog).log
    for number in range(10):
        log.fail(ApiError(403, "Forbidden", f"pod {number} exceeds the quota"), "refused")
    for namespace in ("a", "b", "a"):
        log.fail(REFUSED, "refused", about=namespace)
    assert len(caplog.records) == 3
