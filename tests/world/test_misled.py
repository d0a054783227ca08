"""A process is misled if it follows a server alone whose clock is wrong by hours."""

import asyncio
import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drawbridge.cluster.server_clock import CONFIRMATION_SECONDS
from tests.cluster.fake.store import Store
from tests.virtual_time import run_virtually
from tests.world import clock
from tests.world.network import Network, WorldSession

HOURS = 7200.0


@pytest.mark.parametrize(
    ("seconds", "skew", "ahead", "is_judged"),
    [
        (1.0, HOURS, HOURS, True),
        (1.0, -HOURS, -HOURS, True),
        (1.0, HOURS, 0.0, False),  # it does not believe that
        (1.0, 0.0, HOURS, False),  # this server has the right time
        (CONFIRMATION_SECONDS, HOURS, HOURS, False),  # no other one was heard for long
    ],
)
def test_a_process_that_heard_the_right_time_follows_no_wrong_clock(
    seconds: float, skew: float, ahead: float, *, is_judged: bool
) -> None:
    async def main() -> None:
        network = Network(random.Random(0), Store())
        network.open()
        session = WorldSession(network, "controller")
        told = SimpleNamespace(now=lambda: clock.wall() + ahead)
        session.clock = cast("Any", told)
        session._note_time(0.0)  # noqa: SLF001  # what each response does
        await asyncio.sleep(seconds)
        session._note_time(skew)  # noqa: SLF001  # what each response does
        assert bool(network.misled) == is_judged

    run_virtually(main)
