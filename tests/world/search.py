"""Plays scenes and many seeds, for the planted mistakes of `tests/mutations/world.yaml`.

    python -m e2e.mutations world

`FIRST` and `SEEDS` of the environment say which seeds are played with a script of their own. What
was found is in README.md.

No part of the usual tests: pytest collects it only by its name.
"""

import logging
import os
from collections.abc import Iterator

import pytest

from tests.world.scenes import SCENES
from tests.world.script import LENGTH, write_script
from tests.world.world import play

FIRST = int(os.environ.get("FIRST", "0"))
SEEDS = int(os.environ.get("SEEDS", "300"))
# Each scene is played with so many seeds.
_OF_SCENES = 12


@pytest.fixture
def without_log() -> Iterator[None]:
    """What a run logs takes a tenth of it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("without_log")
@pytest.mark.parametrize("scene", SCENES)
def test_no_scene_breaks_an_invariant(scene: str) -> None:
    for seed in range(_OF_SCENES):
        outcome = play(seed, SCENES[scene])
        assert not outcome.violation, f"{scene}, seed {seed}: {outcome.violation}"


@pytest.mark.usefixtures("without_log")
def test_no_seed_breaks_an_invariant() -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        outcome = play(seed, write_script(seed, LENGTH))
        assert not outcome.violation, f"seed {seed}: {outcome.violation}"
