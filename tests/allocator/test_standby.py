"""A process whose scheduler does not lead does only what must not wait for its term."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.allocator.clusters import Cluster, allocation_on, claim, pod
from tests.allocator.fake_process import FakeProcess
from tests.virtual_time import run_virtually


def play(
    story: Callable[[FakeProcess], Coroutine[Any, Any, None]],
    collect: Callable[[], None] = lambda: None,
) -> None:
    """Play what happens to a process that does not lead and wakes pods."""

    async def main() -> None:
        now = asyncio.get_running_loop().time
        process = FakeProcess(Cluster(n1=1), collect=collect, now=now)
        process.leading = False
        waking = asyncio.create_task(process.calls.wake_pods())
        await story(process)
        waking.cancel()

    run_virtually(main)


def test_a_standby_does_not_look_at_what_is_due_in_the_next_term() -> None:
    turns: list[float] = []

    async def story(process: FakeProcess) -> None:
        process.cluster.state.records.times.set("retry", "p", 3.7)
        await asyncio.sleep(3.5)
        assert turns == [1, 2, 3]
        process.leading = True
        await asyncio.sleep(1)
        assert process.published == ["p"]

    play(story, lambda: turns.append(asyncio.get_running_loop().time()))


def test_a_pod_that_is_due_while_a_lease_is_uncertain_is_tried_again_when_it_is_not() -> None:
    async def story(process: FakeProcess) -> None:
        process.is_uncertain = True
        process.cluster.state.records.times.set("retry", "p", 0.5)
        await asyncio.sleep(2)
        process.leading = True
        await asyncio.sleep(2)
        assert process.published == ["p"]

    play(story)


def test_a_standby_remembers_nothing_of_pods_that_changed_while_they_waited() -> None:
    async def story(process: FakeProcess) -> None:
        state = process.cluster.state
        for number in range(9):
            created = pod(f"p{number}", "c")
            released = pod(f"p{number}", "c", spec={"nodeSelector": {"pool": "a"}})
            state.apply(None, created)
            state.apply(created, released)
            state.apply(released, None)
        await asyncio.sleep(2)
        assert state.records.times.next("retry") is None
        process.leading = True
        await asyncio.sleep(2)
        assert process.published == []

    play(story)


def test_a_pod_that_hangs_in_termination_lingers_for_a_standby_too() -> None:
    async def story(process: FakeProcess) -> None:
        cluster = process.cluster
        deleted = {"deletionTimestamp": "2026-11-22T00:00:00Z", "deletionGracePeriodSeconds": 30}
        cluster.add_claim(claim("c", allocation=allocation_on("n1", 0), pods=["p"]))
        cluster.add(pod("p", "c", node="n1", phase="Running", **deleted))
        await asyncio.sleep(3600)
        assert cluster.state.pods.is_lingering("p")
        assert not cluster.state.pods.releasing

    play(story)
