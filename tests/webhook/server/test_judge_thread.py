"""The thread of the judge: one judgement at a time, bounded, and never waited for too long."""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from drawbridge.finding import Finding
from drawbridge.judge.context import JudgeContext
from drawbridge.process.review import AdmissionRequest, Malformed, decode_review
from tests.tables import YamlValue
from tests.webhook.judging.harness import change, review
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
    thread = JudgeThread(cluster, EmptyView(), now=lambda: 0.0)
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


DRIVER, DEVICES, NODES = "gpu.example.com", 8, 20
ATTRIBUTES = f'device.attributes["{DRIVER}"]'
EXPENSIVE = {
    "an evaluation on each device": f'{ATTRIBUTES}.uuid + {ATTRIBUTES}.row == "none"',
    "an error on each device": f"{ATTRIBUTES}.uuid + {ATTRIBUTES}.row == {ATTRIBUTES}.missing",
    "a near-unique value": f'{ATTRIBUTES}.uuid.matches("none.*")',
    "many terms": " && ".join(f'{ATTRIBUTES}.uuid + {ATTRIBUTES}.row != "{i}"' for i in range(40))
    + " && false",
    "a loop": f"[1, 2, 3, 4].all(a, [1, 2, 3, 4].all(b, {ATTRIBUTES}.uuid == string(a + b)))",
}


class CountingClock:
    """A clock that advances by a millisecond whenever somebody asks.

    The thread of the judge works only while `may_work` is set, so that a test decides who waits.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.may_work = threading.Event()
        self.may_work.set()

    def __call__(self) -> float:
        """Return the time."""
        if threading.current_thread() is not threading.main_thread():
            assert self.may_work.wait(10)
        self.asked += 1
        return self.asked / 1000


def publish(node: int) -> YamlValue:
    """Return the slice of a node; each device has values of its own."""
    devices = [
        {
            "name": f"d{i}",
            "attributes": {
                "uuid": {"string": f"{node}-{i}"},
                "row": {"string": f"{node % 7}-{i}"},
            },
        }
        for i in range(DEVICES)
    ]
    pool = {"name": f"n{node}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": f"n{node}", "pool": pool, "devices": devices}
    return {"kind": "ResourceSlice", "metadata": {"name": f"s{node}"}, "spec": spec}


def make_cluster() -> JudgedCluster:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    published: list[YamlValue] = [
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}},
        *(publish(node) for node in range(NODES)),
    ]
    cluster = JudgedCluster()
    cluster.apply([change(None, each) for each in published])
    return cluster


def request_claim(namespace: str, expression: str) -> AdmissionRequest:
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    decoded = decode_review(review(claim, namespace=namespace))
    assert not isinstance(decoded, Malformed)
    return decoded


@pytest.mark.parametrize("expression", EXPENSIVE.values(), ids=list(EXPENSIVE))
def test_a_judgement_of_much_work_has_its_turns_between_those_of_others(expression: str) -> None:
    clock = CountingClock()
    thread = JudgeThread(make_cluster(), EmptyView(), now=clock)
    ended: list[str] = []

    async def judge(namespace: str, text: str) -> tuple[Finding, ...]:
        ran = await thread.judge(request_claim(namespace, text), {}, 60)
        ended.append(namespace)
        return ran

    async def play() -> tuple[int, list[tuple[Finding, ...]]]:
        clock.may_work.clear()
        attack = [asyncio.create_task(judge("attacker", expression)) for _ in range(3)]
        innocent = asyncio.create_task(judge("innocent", "false"))
        await asyncio.sleep(0)
        before = clock.asked
        clock.may_work.set()
        ran = await innocent
        waited = clock.asked - before
        assert [each.code for each in ran] == ["DeviceNeverMatches"]
        return waited, list(await asyncio.gather(*attack))

    waited, ran = asyncio.run(play())
    assert ended[0] == "innocent"
    assert waited < 100  # milliseconds of this clock
    alone = asyncio.run(
        JudgeThread(make_cluster(), EmptyView()).judge(
            request_claim("attacker", expression), {}, 60
        )
    )
    assert alone
    assert ran == [alone] * 3


def test_a_namespace_beyond_its_budget_comes_last() -> None:
    clock = CountingClock()
    thread = JudgeThread(make_cluster(), EmptyView(), now=clock)
    ended: list[str] = []

    async def judge(namespace: str, text: str) -> None:
        await thread.judge(request_claim(namespace, text), {}, 60)
        ended.append(namespace)

    async def play() -> None:
        expensive = EXPENSIVE["an evaluation on each device"]
        await judge("attacker", expensive)
        clock.may_work.clear()
        texts = {"holder": f"{expensive} || 1 > 2"}
        namespaces = ("holder", "attacker", "team-0", "team-1")
        tasks = [asyncio.create_task(judge(each, texts.get(each, "false"))) for each in namespaces]
        await asyncio.sleep(0)
        clock.may_work.set()
        await asyncio.gather(*tasks)

    asyncio.run(play())
    ended.remove("holder")
    assert ended == ["attacker", "team-0", "team-1", "attacker"]


class StoppingClock(CountingClock):
    """A clock that stops the judgement until the test continues."""

    def __init__(self, stop: int) -> None:
        super().__init__()
        self.stop = stop
        self.stopped, self.continued = threading.Event(), threading.Event()

    def __call__(self) -> float:
        """Return the time; wait at one of the calls."""
        if self.asked == self.stop:
            self.stopped.set()
            self.continued.wait(10)
        return super().__call__()


def test_a_judgement_that_nobody_waits_for_ends_early() -> None:
    clock = StoppingClock(20)
    thread = JudgeThread(make_cluster(), EmptyView(), now=clock)

    async def play() -> int:
        expensive = request_claim("attacker", EXPENSIVE["an evaluation on each device"])
        running = asyncio.create_task(thread.judge(expensive, {}, 60))
        assert await asyncio.to_thread(clock.stopped.wait, 10)
        running.cancel()
        await asyncio.wait([running])
        clock.continued.set()
        await thread.judge(request_claim("innocent", "false"), {}, 60)
        return clock.asked

    assert asyncio.run(play()) < DEVICES * NODES // 2
