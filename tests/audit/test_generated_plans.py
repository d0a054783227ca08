"""Plans of clusters with surprises, typed on a cluster that knows nothing of the models.

With `THOROUGH=1`, a thousand of them.
"""

from pathlib import Path

import pytest

from e2e.clusters import SURPRISES
from tests.audit.count_plans import count_plans
from tests.audit.follow import Followed
from tests.thorough import THOROUGH, drawn

ALONE = sorted(SURPRISES) if THOROUGH else sorted(SURPRISES)[::6]
EACH, BATCH = 8, 40
# Small pods took the nodes of larger ones, in an order that no play of the plan had, or left them.
CROWDED = (119, 290, 324, 417, 457, 478)


@pytest.mark.parametrize("number", ALONE)
def test_a_plan_leaves_what_it_says_after_each_surprise(number: int, tmp_path: Path) -> None:
    followed = Followed(number, 6, tmp_path, [number])
    followed.follow()
    assert not followed.misses, followed


@pytest.mark.parametrize("first", range(0, drawn(EACH, 1_000), BATCH))
def test_a_plan_leaves_what_it_says_after_any_mix_of_surprises(first: int, tmp_path: Path) -> None:
    assert count_plans(range(first, first + drawn(EACH, BATCH)), tmp_path).misses == []


@pytest.mark.parametrize("seed", CROWDED)
def test_a_plan_does_not_promise_what_one_order_of_pods_prevents(seed: int, tmp_path: Path) -> None:
    assert count_plans([seed], tmp_path).misses == []
