"""A process whose scheduler does not lead does only what must not wait for its term."""

import asyncio

from tests.allocator.clusters import Cluster, allocation_on, claim, pod
from tests.allocator.fake_process import FakeProcess
from tests.virtual_time import run_virtually


def test_a_standby_does_not_look_at_what_is_due_in_the_next_term() -> None:
    async def main() -> None:
        turns: list[float] = []
        loop = asyncio.get_running_loop()
        cluster = Cluster(n1=1)
        process = FakeProcess(cluster, collect=lambda: turns.append(loop.time()), now=loop.time)
        process.leading = False
        cluster.state.records.times.set("retry", "p", 3.7)
        waking = asyncio.create_task(process.calls.wake_pods())
        await asyncio.sleep(3.5)
        assert turns == [1, 2, 3]
        process.leading = True
        await asyncio.sleep(1)
        assert process.published == ["p"]
        waking.cancel()

    run_virtually(main)


def test_a_pod_that_is_due_while_a_lease_is_uncertain_is_tried_again_when_it_is_not() -> None:
    async def main() -> None:
        cluster = Cluster(n1=1)
        process = FakeProcess(cluster, now=asyncio.get_running_loop().time)
        process.leading, process.is_uncertain = False, True
        cluster.state.records.times.set("retry", "p", 0.5)
        waking = asyncio.create_task(process.calls.wake_pods())
        await asyncio.sleep(2)
        process.leading = True
        await asyncio.sleep(2)
        assert process.published == ["p"]
        waking.cancel()

    run_virtually(main)


def test_a_standby_remembers_nothing_of_pods_that_changed_while_they_waited() -> None:
    async def main() -> None:
        cluster = Cluster(n1=1)
        process = FakeProcess(cluster, now=asyncio.get_running_loop().time)
        process.leading = False
        waking = asyncio.create_task(process.calls.wake_pods())
        for number in range(9):
            created = pod(f"p{number}", "c")
            released = pod(f"p{number}", "c", spec={"nodeSelector": {"pool": "a"}})
            cluster.state.apply(None, created)
            cluster.state.apply(created, released)
            cluster.state.apply(released, None)
        await asyncio.sleep(2)
        times = cluster.state.records.times
        assert times.next("retry") is None
        process.leading = True
        await asyncio.sleep(2)
        assert process.published == []
        waking.cancel()

    run_virtually(main)


def test_a_pod_that_hangs_in_termination_lingers_for_a_standby_too() -> None:
    async def story() -> None:
        cluster = Cluster(n1=1)
        process = FakeProcess(cluster, now=asyncio.get_running_loop().time)
        process.leading = False
        deleted = {"deletionTimestamp": "2026-11-22T00:00:00Z", "deletionGracePeriodSeconds": 30}
        cluster.add_claim(claim("c", allocation=allocation_on("n1", 0), pods=["p"]))
        cluster.add(pod("p", "c", node="n1", phase="Running", **deleted))
        waking = asyncio.create_task(process.calls.wake_pods())
        await asyncio.sleep(3600)
        assert cluster.state.pods.is_lingering("p")
        assert not cluster.state.pods.releasing
        waking.cancel()

    run_virtually(story)
