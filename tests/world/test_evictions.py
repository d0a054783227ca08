"""Which evictions count for a pod: those of further pods."""

import datetime as dt

import pytest

from tests.virtual_time import run_virtually
from tests.world import clock
from tests.world.evictions import Evictions


@pytest.mark.parametrize(
    ("victims", "counted"),
    [
        (["a"], 1),
        (["a", "a", "a"], 1),
        (["a", "b"], 2),
        (["ab", "a", "b", "ab"], 1),
        (["a", "ab"], 2),
    ],
)
def test_the_same_victims_count_once_for_a_pod(victims: list[str], counted: int) -> None:
    async def main() -> None:
        evictions = Evictions(delay=0)
        created = (clock.now() - dt.timedelta(seconds=5)).isoformat()
        for uid in ("p", "q"):
            for chosen in victims:
                evictions.note(
                    {"metadata": {"uid": uid, "name": uid, "creationTimestamp": created}}, chosen
                )
        assert evictions.counts == {"p": counted, "q": counted}
        assert evictions.early == []

    run_virtually(main)
