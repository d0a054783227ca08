"""What bench `commands` says of the commands that it runs."""

import os
from pathlib import Path

from bench._process import run_python

BALLAST = 200 << 20


def test_the_memory_of_a_command_is_its_own(tmp_path: Path) -> None:
    ballast = bytearray(os.urandom(1)) * BALLAST
    spent = run_python(["-c", "print(1)"], tmp_path, {})
    assert len(ballast) == BALLAST
    assert (spent.exit_code, spent.printed) == (0, b"1\n")
    assert 0 < spent.mebibytes < BALLAST >> 21
