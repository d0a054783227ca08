"""A process whose scheduler does not lead does only what must not wait for its term."""

import asyncio

from tests.allocator.clusters import Cluster
from tests.allocator.fake_process import FakeProcess
from tests.virtual_time import run_virtually


def test_a_standby_does_not_look_at_what_is_due_in_the_next_term() -> None:
    async def main() -> None:
        turns: list[float] = []
        loop = asyncio.get_running_loop()
        process = FakeProcess(Cluster(n1=1), collect=lambda: turns.append(loop.time()))
        process.leading = False
        process.decisions.state.records.times.set("retry", "p", process.cluster.now)
        waking = asyncio.create_task(process.calls.wake_pods())
        await asyncio.sleep(3.5)
        assert turns == [1, 2, 3]
        process.leading = True
        await asyncio.sleep(1)
        assert process.published == ["p"]
        waking.cancel()

    run_virtually(main)
