"""Runs `drawbridge simulate` in a folder of the test."""

from pathlib import Path

import pytest

from tests.cli.simulating import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)
