"""Captures the log of the process."""

import io

import pytest

from drawbridge.process import logs


@pytest.fixture
def lines(kept_logging: None) -> io.StringIO:  # noqa: ARG001  # restores what this changes
    stream = io.StringIO()
    logs.configure("debug", stream)
    return stream
