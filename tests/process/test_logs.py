"""Tests of what else becomes a line of the log."""

import io
import json
import warnings

import pytest

from drawbridge.process import logs


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
