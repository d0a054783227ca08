"""Timeouts in the format of Go durations."""

import pytest

from drawbridge.process.timeouts import (
    DEFAULT,
    MAX_TIMEOUT,
    compute_deadline,
    parse_duration,
    read_timeout,
)
from tests.tables import every_row


@every_row(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("1h", 3600),
        ("2us", 2e-6),
        ("2µs", 2e-6),
        ("7ns", 7e-9),
        ("1h1m1s1ms", 3661.001),
        ("", None),
        ("5", None),
        ("s", None),
        (".s", None),
        ("-5s", None),
        ("5 s", None),
        ("5sec", None),
        ("5s!", None),
        ("\u0665s", None),
        ("9" * 60 + "s", None),
        ("1s" * 40, None),
    ],
)
def test_go_durations_are_parsed(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


@every_row(
    ("query", "seconds"),
    [
        ("timeout=3s", 3),
        ("a=b&timeout=3s", 3),
        ("timeout=2m", MAX_TIMEOUT),
        ("timeout=0s", DEFAULT),
        ("timeout=%31s", 1),
        ("timeout", DEFAULT),
        ("", DEFAULT),
    ],
)
def test_the_timeout_is_read_from_the_query(query: str, seconds: float) -> None:
    assert read_timeout(query) == seconds


@every_row("seconds", [0.001, 0.06, 0.5, 1, 5, 30])
def test_the_deadline_leaves_time_for_the_response(seconds: float) -> None:
    assert compute_deadline(seconds) < max(seconds, 0.06)
    assert compute_deadline(seconds) >= min(0.05, seconds * 0.5)
