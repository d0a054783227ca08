"""Our planner answers as Kubernetes' allocator does, whatever it keeps of earlier decisions.

A small share of `python -m e2e.differential.histories 0:2000`, which runs each week and before a
release.
"""

import pytest

from e2e.differential.histories import play
from tests.thorough import drawn

# Seed 432 has nodes whose requests for all devices fail at different ones.
SEEDS = sorted({432, *range(drawn(12, thorough=600))})


@pytest.mark.usefixtures("oracle")
@pytest.mark.parametrize("seed", SEEDS)
def test_answers_do_not_depend_on_what_was_decided_before(seed: int) -> None:
    findings = play(range(seed, seed + 1))
    assert not findings.examples
