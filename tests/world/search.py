"""Plays many seeds, for the planted mistakes of `tests/mutations/world.yaml`.

    python -m e2e.mutations world

`FIRST` and `SEEDS` of the environment say which seeds. What was found is in README.md.

No part of the usual tests: pytest collects it only by its name.
"""

import logging
import os
from collections.abc import Iterator

import pytest

from tests.world.script import LENGTH, write_script
from tests.world.world import play

FIRST = int(os.environ.get("FIRST", "0"))
SEEDS = int(os.environ.get("SEEDS", "300"))


@pytest.fixture
def without_log() -> Iterator[None]:
    """What a run logs takes a tenth of it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("without_log")
def test_no_seed_breaks_an_invariant() -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        outcome = play(seed, write_script(seed, LENGTH))
        assert not outcome.violation, f"seed {seed}: {outcome.violation}"
