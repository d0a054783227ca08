"""Tests of what else becomes a line of the log."""

import io
import json
import logging
import warnings

import pytest

from drawbridge.finding import Finding, Severity
from drawbridge.process import logs, metrics


@pytest.mark.usefixtures("kept_logging")
def test_a_warning_is_a_line_of_the_log() -> None:
    stream = io.StringIO()
    logs.configure("info", stream)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("odd", stacklevel=1)

    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert (line["level"], line["logger"]) == ("warning", "py.warnings")
    assert "UserWarning: odd" in line["msg"]


def raise_bug(text: str) -> None:
    raise KeyError(text)


def raise_other() -> None:
    raise KeyError("other")


def raise_within(text: str, depth: int | None = None) -> None:
    """Call `raise_bug` as deep as a document is."""
    if depth != 0:
        raise_within(text, (int(text) if depth is None else depth) - 1)
    raise_bug(text)


def test_a_stack_that_repeats_is_in_one_line_an_hour() -> None:
    kept_time = [1000.0]
    formatter = logs.JSONLineFormatter(lambda: kept_time[0])
    log, lines = logging.getLogger("tests.bugs"), list[dict[str, str]]()
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(json.loads(formatter.format(record)))  # type: ignore[method-assign]
    log.addHandler(handler)
    bugs = (raise_bug, raise_bug, lambda _: raise_other(), raise_within, raise_within)
    for passed in (0, 1, 2, 3600):
        kept_time[0] += passed
        for number, raises in enumerate(bugs):
            try:
                raises(f"{number}")
            except KeyError:
                log.exception("a request failed", extra={"fields": {"uid": f"{number}"}})
    log.removeHandler(handler)
    assert [each["uid"] for each in lines] == ["0", "1", "2", "3", "4"] * 4
    assert [each["stack"].startswith("Traceback") for each in lines] == [
        *(True, False, True, True, False),
        *[False] * 10,
        *(True, False, True, True, False),
    ]
    assert lines[1]["error"] == "KeyError: '1'"


@pytest.mark.usefixtures("kept_logging")
def test_each_line_about_an_unhandled_exception_is_counted() -> None:
    logs.configure("error", io.StringIO())
    log, bug = logging.getLogger("tests.bugs"), KeyError("a")

    def count() -> float | None:
        return metrics.REGISTRY.get_sample_value("drawbridge_unhandled_exceptions_total")

    before = count()
    assert before is not None
    log.error("an error that is expected")
    log.warning("a warning with a stack", exc_info=bug)
    assert count() == before
    log.error("a request failed", exc_info=bug)
    log.error("a request failed", exc_info=bug)
    assert count() == before + 2, "also if the stack is in a line of the last hour"


@pytest.mark.usefixtures("kept_logging")
@pytest.mark.parametrize(
    "fields",
    [
        {"reason": "x" * 1_000_000},
        {"reasons": ["x" * 1000] * 10_000},
        {"finding": {"message": "x" * 100_000, "path": "spec"}},
    ],
)
def test_long_texts_of_others_are_cut(fields: dict[str, object]) -> None:
    stream = io.StringIO()
    logs.configure("info", stream)
    logs.log_event(logging.getLogger("tests.long"), logging.INFO, "refused", **fields)
    finding = Finding(
        code="Odd",
        severity=Severity.WARNING,
        path="spec",
        object="",
        message="x" * 100_000,
        remedy="",
    )
    logs.log_finding(logging.getLogger("tests.long"), finding)
    told, about = map(json.loads, stream.getvalue().splitlines())
    assert (told["msg"], told.keys() >= fields.keys()) == ("refused", True)
    assert (about["finding"]["code"], about["finding"]["path"]) == ("Odd", "spec")
    assert max(map(len, stream.getvalue().splitlines())) < 100_000
