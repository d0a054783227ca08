"""What benches say of the processes that they start."""

import asyncio
import os
from pathlib import Path

import pytest

from bench._allocator import allocator
from bench._process import run_python
from tests.cluster.fake.api import FakeApi

BALLAST = 200 << 20


def test_the_memory_of_a_command_is_its_own(tmp_path: Path) -> None:
    ballast = bytearray(os.urandom(1)) * BALLAST
    spent = run_python(["-c", "print(1)"], tmp_path, {})
    assert len(ballast) == BALLAST
    assert (spent.exit_code, spent.printed) == (0, b"1\n")
    assert 0 < spent.mebibytes < BALLAST >> 21


def test_an_allocator_of_a_tree_that_ends_says_why(tmp_path: Path) -> None:
    package = tmp_path / "cli"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "main.py").write_text("raise SystemExit('error: no option --config-map')")

    async def wait() -> None:
        async with allocator(FakeApi(), tree=tmp_path) as process:
            await process.wait_until_leading()

    with pytest.raises(SystemExit, match="ended with 1: error: no option --config-map"):
        asyncio.run(wait())
