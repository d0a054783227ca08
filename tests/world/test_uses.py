"""Which uses count: those of which an allocator can know, as long as it is to wait for them."""

import asyncio
import random
from typing import Any

import pytest

from tests.cluster.fake.store import Store
from tests.virtual_time import run_virtually
from tests.world.network import Network
from tests.world.nodes import GRACE_SECONDS, LEAST_HOLD
from tests.world.uses import Uses


def pod(name: str) -> Any:  # noqa: ANN401  # JSON
    """Return a pod of ours."""
    return {"metadata": {"name": name, "uid": f"of-{name}"}, "spec": {"schedulerName": "ours"}}


def claim(name: str, consumer: str) -> Any:  # noqa: ANN401  # JSON
    """Return a claim with the one device, for a pod."""
    return {
        "metadata": {"name": name, "uid": f"of-{name}"},
        "status": {
            "allocation": {"devices": {"results": [{"pool": "n1", "device": "whole"}]}},
            "reservedFor": [{"resource": "pods", "name": consumer, "uid": f"of-{consumer}"}],
        },
    }


@pytest.mark.parametrize(
    ("after", "counted"), [(0.0, 2), (GRACE_SECONDS + LEAST_HOLD, 2), (36.0, 1)]
)
def test_what_is_decided_after_the_limit_of_a_hold_does_not_count(
    after: float, counted: int
) -> None:
    async def main() -> None:
        network = Network(random.Random(0), Store())
        uses, seen = Uses(network, frees_too_early=False), set[Any]()
        first, second = claim("first", "one"), claim("second", "two")
        uses.note_decision(first, seen)
        uses.start(pod("one"), first, "n1")
        uses.note_gone(pod("one"))
        await asyncio.sleep(after)
        uses.note_decision(second, seen)
        # When the devices are prepared does not matter.
        await asyncio.sleep(100)
        uses.start(pod("two"), second, "n1")
        assert len([*uses.all()]) == counted
        assert network.counted.get("use beyond the limit of a hold", 0) == 2 - counted

    run_virtually(main)
