"""Our solver answers generated scenarios as Kubernetes' allocator does.

A small share of `python -m e2e.differential 0:20000`, which runs each week and before a release.
"""

import pytest

from e2e.differential.judge import judge
from tests.thorough import drawn

BLOCKS = [range(first, first + 50) for first in range(0, drawn(100, thorough=2_000), 50)]


@pytest.mark.usefixtures("oracle")
@pytest.mark.parametrize("seeds", BLOCKS, ids=lambda seeds: str(seeds[0]))
def test_our_answers_are_upstreams_but_for_the_known_exceptions(seeds: range) -> None:
    findings = judge(seeds)
    assert findings.counts["scenarios"] == len(seeds)
    assert not findings.examples
