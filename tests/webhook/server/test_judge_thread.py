"""The thread of the judge: one judgement at a time, bounded, and never waited for too long."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from runtime.review import AdmissionRequest, Malformed, decode_review
from tests.webhook.judging.harness import review
from webhook.judging.judged_cluster import JudgedCluster, JudgeSettings
from webhook.judging.object_changes import PendingChanges
from webhook.judging.protocols import JudgeBusyError
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


def make_request() -> AdmissionRequest:
    claim = {"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {}}
    decoded = decode_review(review(claim))
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
        running = [asyncio.create_task(thread.judge(make_request(), {}, 10)) for _ in range(2)]
        await wait_until_started(cluster)
        with pytest.raises(JudgeBusyError):
            await thread.judge(make_request(), {}, 10)
        cluster.unblocked.set()
        await asyncio.gather(*running)
        assert await thread.judge(make_request(), {}, 10) == ()

    asyncio.run(play())


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
