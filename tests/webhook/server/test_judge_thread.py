"""The thread of the judge: one judgement at a time, bounded, and never waited for too long."""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from drawbridge.judge.context import JudgeContext
from drawbridge.process.review import AdmissionRequest, Malformed, decode_review
from tests.webhook.judging.harness import review
from webhook.judging.handler import JudgeBusyError
from webhook.judging.judged_cluster import JudgedCluster, JudgeSettings, PendingChanges
from webhook.server.judge_thread import JudgeThread


class SlowCluster(JudgedCluster):
    """A cluster whose settings take until `unblocked` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.started = threading.Event()
        self.unblocked = threading.Event()
        self.count = 0

    def configure(self, settings: JudgeSettings) -> None:
        """Wait, and count the judgements that run."""
        self.count += 1
        self.started.set()
        self.unblocked.wait(10)
        super().configure(settings)


class EmptyView:
    """No changes and no doubts. Implements `JudgedView`."""

    def __init__(self) -> None:
        self.changes = PendingChanges()

    def settings(self) -> JudgeSettings:
        """Return the defaults."""
        return JudgeSettings()

    def find_doubts(self) -> Iterator[str]:
        """Return no doubts."""
        return iter(())


class OrderedCluster(SlowCluster):
    """A slow cluster that records the namespaces that it judges."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def context(
        self,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
        doubts: Sequence[str] = (),
    ) -> JudgeContext:
        """Record the namespace."""
        self.order.append(namespace)
        return super().context(namespace, labels, doubts)


def make_request(namespace: str = "team") -> AdmissionRequest:
    claim = {"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {}}
    decoded = decode_review(review(claim, namespace=namespace))
    assert not isinstance(decoded, Malformed)
    return decoded


async def wait_until_started(cluster: SlowCluster) -> None:
    assert await asyncio.to_thread(cluster.started.wait, 10)


def test_a_review_stops_waiting_at_its_timeout_and_one_that_waits_never_runs() -> None:
    async def play() -> int:
        cluster = SlowCluster()
        thread = JudgeThread(cluster, EmptyView())
        running = asyncio.create_task(thread.judge(make_request(), {}, 10))
        await wait_until_started(cluster)
        with pytest.raises(TimeoutError):
            await thread.judge(make_request(), {}, 0.01)
        cluster.unblocked.set()
        assert await running == ()
        assert await thread.judge(make_request(), {}, 10) == ()
        return cluster.count

    assert asyncio.run(play()) == 2


def test_too_many_waiting_reviews_are_not_queued() -> None:
    async def play() -> None:
        cluster = SlowCluster()
        thread = JudgeThread(cluster, EmptyView(), max_waiting=2)
        running = [asyncio.create_task(thread.judge(make_request(), {}, 10)) for _ in range(3)]
        await wait_until_started(cluster)
        with pytest.raises(JudgeBusyError):
            await thread.judge(make_request(), {}, 10)
        cluster.unblocked.set()
        await asyncio.gather(*running)
        assert await thread.judge(make_request(), {}, 10) == ()

    asyncio.run(play())


async def judge_in_order(
    thread: JudgeThread, cluster: SlowCluster, namespaces: Sequence[str]
) -> list[object]:
    """Judge one object of each namespace while the first one is running; return the results."""
    running = [asyncio.create_task(thread.judge(make_request(each), {}, 10)) for each in namespaces]
    await wait_until_started(cluster)
    cluster.unblocked.set()
    return [*await asyncio.gather(*running, return_exceptions=True)]


def test_namespaces_take_turns() -> None:
    cluster = OrderedCluster()
    thread = JudgeThread(cluster, EmptyView())
    asyncio.run(judge_in_order(thread, cluster, (*["many"] * 5, "one")))
    assert cluster.order == ["many", "many", "one", "many", "many", "many"]


def test_a_namespace_with_many_reviews_makes_room_for_another() -> None:
    cluster = OrderedCluster()
    thread = JudgeThread(cluster, EmptyView(), max_waiting=3)
    results = asyncio.run(judge_in_order(thread, cluster, (*["many"] * 4, "one")))
    assert [each == () for each in results] == [True, True, True, False, True]
    assert isinstance(results[3], JudgeBusyError)


def test_a_judgement_that_never_ends_makes_the_process_unready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        cluster = SlowCluster()
        thread = JudgeThread(cluster, EmptyView())
        assert thread.find_problem() == ""
        running = asyncio.create_task(thread.judge(make_request(), {}, 10))
        await wait_until_started(cluster)
        assert thread.find_problem() == ""
        monkeypatch.setattr("webhook.server.judge_thread.STUCK_SECONDS", 0)
        assert "more than 0 seconds" in thread.find_problem()
        cluster.unblocked.set()
        await running
        assert thread.find_problem() == ""

    asyncio.run(play())
