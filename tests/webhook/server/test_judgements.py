"""Judgements: on the event loop, and in copies of the process where they are cut."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from drawbridge.brief import Brief, CutShort
from drawbridge.finding import Finding
from drawbridge.judge.context import JudgeContext
from drawbridge.process.forked import ForkFailedError, ForkLimits, Written, run_partly
from drawbridge.process.review import AdmissionRequest, Malformed, decode_review
from tests.cuts import CutAt
from tests.tables import YamlValue, every_row, load_cases
from tests.webhook.judging.harness import change, review
from tests.webhook.judging.test_reviews import CLASS, OPTIONS
from webhook.judging.handler import JudgeBusyError, JudgeLimitError
from webhook.judging.judged_cluster import JudgedCluster, JudgeSettings, PendingChanges
from webhook.judging.reviews import judge_review
from webhook.server import judgements
from webhook.server.judgements import Judgements

REVIEWS = load_cases(Path(__file__).parents[1] / "judging" / "cases" / "reviews.yaml")


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


def decode(body: bytes) -> AdmissionRequest:
    decoded = decode_review(body)
    assert not isinstance(decoded, Malformed)
    return decoded


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
    return decode(review(claim, namespace=namespace))


def judge_alone(request: AdmissionRequest) -> tuple[Finding, ...]:
    """Return the findings of a judgement that nothing cuts."""
    return judge_review(request, make_cluster().context(request.namespace, {}))


def cut_at_calls(cluster: JudgedCluster, request: AdmissionRequest, most: int) -> int:
    """Cut the judgement of an object later and later; return how often it was cut."""
    cut, calls = CutAt(0, lines=True), 0
    while calls < most:
        cut.calls = calls
        context = cluster.context(request.namespace, {})
        try:
            cut.run(lambda context=context: judge_review(request, context))  # type: ignore[misc]
        except CutShort:
            calls += 1 + calls // 50
        else:
            if not cut.lost:
                break
            cut.lost, calls = 0, calls + 1
    return cut.cuts


# A cut within the end of a generator is lost, and the next one counts.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@every_row("case", REVIEWS, ids=lambda case: case["name"])
def test_what_is_judged_after_cuts_at_any_call_is_the_same(case: YamlValue) -> None:
    options = {name: case[name] for name in OPTIONS if name in case}
    request = decode(review(case["object"], **options))
    expected = None
    for most in (0, 100_000):
        cluster = JudgedCluster(settle_seconds=0)
        cluster.apply([change(None, each) for each in (CLASS, *case.get("cluster", ()))])
        assert cut_at_calls(cluster, request, most) or not most
        findings = judge_review(request, cluster.context(request.namespace, {}))
        expected = findings if expected is None else expected
        assert findings == expected


@pytest.mark.parametrize("expression", EXPENSIVE.values(), ids=list(EXPENSIVE))
def test_a_judgement_of_much_work_is_the_same_after_cuts(expression: str) -> None:
    request, cluster = request_claim("team", expression), make_cluster()
    assert cut_at_calls(cluster, request, 20_000) > 20
    assert judge_review(request, cluster.context("team", {})) == judge_alone(request)


def make_judgements(
    brief: Brief | None = None, *, max_waiting: int = 8, limits: ForkLimits | None = None
) -> Judgements:
    return Judgements(
        make_cluster(),
        EmptyView(),
        brief or CutAt(500),
        max_waiting=max_waiting,
        limits=limits or judgements.COPY_LIMITS,
    )


@pytest.mark.parametrize("expression", EXPENSIVE.values(), ids=list(EXPENSIVE))
def test_a_copy_judges_what_is_cut_and_what_it_evaluated_is_kept(expression: str) -> None:
    brief = CutAt(500)
    judging, request = make_judgements(brief), request_claim("team", expression)
    alone = judge_alone(request)
    assert alone
    assert asyncio.run(judging.judge(request, {}, 60)) == alone
    assert brief.cuts == 1
    # A judgement that nothing cuts evaluates nothing now.
    context = judging._cluster.context("team", {})  # noqa: SLF001  # its caches
    evaluated: list[object] = []
    context.caches.become_copy(evaluated.append, lambda: 0.0)
    assert judge_review(request, context) == alone
    assert evaluated == []


def test_what_changes_while_a_copy_judges_is_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    judging = make_judgements()
    request = request_claim("team", EXPENSIVE["a near-unique value"])
    run, changed = run_partly, publish(0)
    changed["spec"]["devices"][0]["attributes"]["uuid"]["string"] = "none"

    async def run_and_change(*arguments: object) -> object:
        written = await run(*arguments)  # type: ignore[arg-type]
        judging._cluster.apply([change(publish(0), changed, 2)])  # noqa: SLF001  # meanwhile
        return written

    monkeypatch.setattr(judgements, "run_partly", run_and_change)
    assert asyncio.run(judging.judge(request, {}, 60))
    cluster = judging._cluster  # noqa: SLF001
    assert judge_review(request, cluster.context("team", {})) == ()


class Recorded:
    """Copies that wait until the test continues, and the namespaces in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        self.started, self.unblocked = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(Judgements, "_judge_in_copy", self._judge)

    async def _judge(
        self, request: AdmissionRequest, _labels: Mapping[str, str], _seconds: float
    ) -> tuple[Finding, ...]:
        self.order.append(request.namespace)
        self.started.set()
        await self.unblocked.wait()
        return ()


async def judge_in_order(
    judging: Judgements, copies: Recorded, namespaces: Sequence[str]
) -> list[object]:
    """Judge one object of each namespace while the first one is in a copy; return the results."""
    requests = [request_claim(each, "true") for each in namespaces]
    running = [asyncio.create_task(judging.judge(each, {}, 10)) for each in requests]
    await copies.started.wait()
    copies.unblocked.set()
    return [*await asyncio.gather(*running, return_exceptions=True)]


@pytest.mark.asyncio
async def test_namespaces_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = Recorded(monkeypatch)
    await judge_in_order(make_judgements(CutAt(0)), copies, (*["many"] * 5, "one"))
    assert copies.order == ["many", "one", "many", "many", "many", "many"]


@pytest.mark.asyncio
async def test_a_namespace_with_many_reviews_makes_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies = Recorded(monkeypatch)
    judging = make_judgements(CutAt(0), max_waiting=3)
    results = await judge_in_order(judging, copies, (*["many"] * 4, "one"))
    assert [each == () for each in results] == [True, True, True, False, True]
    assert isinstance(results[3], JudgeBusyError)


@pytest.mark.asyncio
async def test_a_review_that_waits_too_long_is_never_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies, judging = Recorded(monkeypatch), make_judgements(CutAt(0))
    running = asyncio.create_task(judging.judge(request_claim("a", "true"), {}, 10))
    await copies.started.wait()
    with pytest.raises(TimeoutError):
        await judging.judge(request_claim("b", "true"), {}, 0.01)
    copies.unblocked.set()
    assert await running == ()
    assert copies.order == ["a"]


@contextlib.asynccontextmanager
async def ticking() -> AsyncIterator[list[int]]:
    """Count the turns of the event loop meanwhile."""
    ticks = [0]

    async def tick() -> None:
        while True:
            ticks[0] += 1
            await asyncio.sleep(0.005)

    task = asyncio.create_task(tick())
    yield ticks
    task.cancel()


def nothing() -> None:
    """Give a cut a place."""


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("limits", "seconds", "message"),
    [
        (ForkLimits(cpu_seconds=1), 60.0, "no result with 1 s of CPU time"),
        (ForkLimits(cpu_seconds=60), 5.0, r"no result within [0-4]\.\d+ s"),
    ],
    ids=["CPU", "the time of the review"],
)
async def test_a_judgement_without_an_end_is_an_answer_to_one_object(
    monkeypatch: pytest.MonkeyPatch, limits: ForkLimits, seconds: float, message: str
) -> None:
    endless = request_claim("attacker", "false")

    def never_end(request: AdmissionRequest, context: JudgeContext) -> tuple[Finding, ...]:
        while request is endless:
            nothing()
        return judge_review(request, context)

    monkeypatch.setattr(judgements, "judge_review", never_end)
    judging = make_judgements(CutAt(100_000), limits=limits)
    async with ticking() as ticks:
        running = asyncio.create_task(judging.judge(endless, {}, seconds))
        others = request_claim("innocent", "false")
        judged = await judging.judge(others, {}, 60)
        with pytest.raises(JudgeLimitError, match=message):
            await running
    assert [each.code for each in judged] == ["DeviceNeverMatches"]
    assert ticks[0] > 10


def test_findings_count_if_a_limit_ends_the_copy_behind_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run_late(
        function: Callable[[Callable[[bytes], None]], None], limits: ForkLimits
    ) -> Written:
        written = await run_partly(function, limits)
        return written._replace(limit="no result within 1 s")

    monkeypatch.setattr(judgements, "run_partly", run_late)
    request = request_claim("team", EXPENSIVE["a loop"])
    assert asyncio.run(make_judgements().judge(request, {}, 60)) == judge_alone(request)


@pytest.mark.asyncio
async def test_an_exception_in_a_copy_is_one_of_its_review(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_request: AdmissionRequest, _context: JudgeContext) -> tuple[Finding, ...]:
        raise ZeroDivisionError

    monkeypatch.setattr(judgements, "judge_review", fail)
    judging = make_judgements(CutAt(0))
    with pytest.raises(ForkFailedError, match="ZeroDivisionError"):
        await judging.judge(request_claim("a", "true"), {}, 10)
