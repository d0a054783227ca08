"""The real loops that receive an input, and how long it holds them."""

import asyncio
import contextlib
import gc
import itertools
import resource
import time
from asyncio.events import Handle
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from allocator.copies import COPY_LIMITS, decide_in_copy
from allocator.decisions.deciding_ahead import CopyReport, Decide
from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PreemptRequest,
    PreFilterGroupRequest,
    PreFilterRequest,
    StatusRequest,
)
from drawbridge.brief import Brief, BriefRuns
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.device import Taint
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.serialized import encode_facts
from drawbridge.process.forked import ForkLimits
from tests.allocator.clusters import Cluster
from tests.allocator.contests import HIGH, Contest
from tests.allocator.fake_process import FakeProcess
from tests.climbing import inputs
from tests.climbing.climb import Cost, Input
from tests.webhook.admission.harness import review
from tests.webhook.judging.harness import ENFORCE, MemoryView, change
from tests.webhook.judging.harness import review as judged_review
from tests.webhook.server.test_admissions import Harness
from tests.webhook.server.test_judgements import EmptyView
from webhook.admission.replies import await_reply
from webhook.judging.handler import JudgeHandler
from webhook.judging.judged_cluster import JudgedCluster, ObjectChange
from webhook.server.admissions import COPY_LIMITS as REVIEW_LIMITS
from webhook.server.admissions import Admissions
from webhook.server.judgements import COPY_LIMITS as JUDGE_LIMITS
from webhook.server.judgements import Judgements

# A climb has many inputs: of each, so many copies have so much time.
COPIES, COPY_SECONDS = 3, 1
# The objects of a tenant that an allocator is sent at once.
_LARGEST: Final = 4 << 20
_PATIENCE: Final = 6.0
# Without a copy for so many turns, nothing is decided any more.
_IDLE_ROUNDS: Final = 6
_TOO_LARGE: Final = Cost(1, 0.0, 0.0)
_TAINT: Final = Taint(key=inputs.TAINT, effect="NoSchedule")


def _shorter(limits: ForkLimits) -> ForkLimits:
    # The search waits for them.
    return limits._replace(cpu_seconds=COPY_SECONDS, seconds=_PATIENCE, nice=0)


class HeldLoop:
    """Notes how much of the processor each callback of an event loop takes."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Note the callbacks until the context exits."""
        original, seconds = Handle._run, self.seconds  # noqa: SLF001  # what a loop calls

        def run(handle: Handle) -> None:
            began = time.thread_time()
            original(handle)
            seconds.append(time.thread_time() - began)

        Handle._run = run  # type: ignore[method-assign,assignment]  # noqa: SLF001
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            yield
        finally:
            Handle._run = original  # type: ignore[method-assign]  # noqa: SLF001
            gc.enable()
            gc.unfreeze()


def measure(size: int, play: Callable[[], Awaitable[None]]) -> Cost:
    """Return what a coroutine costs the loop, and copies of the process."""
    held = HeldLoop()
    before = _seconds_of_copies()
    with held():
        asyncio.run(_as_coroutine(play))
    return Cost(size, max(held.seconds), sum(held.seconds), _seconds_of_copies() - before)


async def _as_coroutine(play: Callable[[], Awaitable[None]]) -> None:
    await play()


def _seconds_of_copies() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _read(read: Any, kind: type) -> Any:  # noqa: ANN401  # what a reader returns
    assert isinstance(read, kind), read
    return read


class Scheduled:
    """An allocator that a scheduler asks about the pods of a tenant."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief

    def __call__(self, given: Input) -> Cost:
        """Return the cost of an input."""
        shape = inputs.shape_of(given)
        slices = inputs.slices_of(shape, given["nodes"])
        members = given["members"]
        pods = [f"p{number}" for number in range(max(members, given["pods"]))]
        claims = {pod: inputs.claims_of(shape, pod) for pod in pods[:1]}
        size = len(inputs.encode(claims[pods[0]])) * (max(1, members))
        if size > _LARGEST:
            return _TOO_LARGE
        claims |= {pod: inputs.claims_of(shape, pod) for pod in pods[1:]}
        bodies = _requests(claims, members, inputs.nodes_selected_by(given))
        if max(map(len, bodies)) > _LARGEST:
            return _TOO_LARGE
        size = sum(len(inputs.encode(each)) for each in slices[-1:]) + sum(map(len, bodies))
        return measure(size, lambda: self._play(given, slices, claims, bodies))

    async def _play(
        self,
        given: Input,
        slices: Sequence[inputs.Plain],
        claims: dict[str, list[inputs.Plain]],
        bodies: Sequence[bytes],
    ) -> None:
        copies = 0

        async def copy(decide: Decide) -> CopyReport:
            nonlocal copies
            copies += 1
            return await decide_in_copy(decide, _shorter(COPY_LIMITS))

        contest = Contest(brief=self._brief)
        cluster = contest.cluster
        process = FakeProcess(cluster, now=time.thread_time, copies=copy)
        for number, plain in enumerate(slices):
            name = f"n{number}"
            cluster.add(Node(name, {"name": name}, taints=(_TAINT,)))
            await _turn(partial(_publish, cluster, inputs.encode(plain)))
            contest.running[name] = {}
        for number in range(min(given["victims"], given["devices"] * given["nodes"])):
            node = f"n{number % given['nodes']}"
            contest.run(f"v{number}", node, number // given["nodes"])
        for texts in claims.values():
            for plain in texts:
                await _turn(partial(_add_claim, cluster, inputs.encode(plain)))
        waking = asyncio.create_task(process.calls.wake_pods())
        for body in bodies:
            await _ask(process, contest, body, given)
        idle = 0
        while idle < _IDLE_ROUNDS and copies < COPIES:
            process.changed.set()
            await asyncio.sleep(0.005)
            process.calls.status(StatusRequest())
            is_idle = process.calls._copy is None  # noqa: SLF001  # whether one runs
            idle = idle + 1 if is_idle else 0
            if is_idle and idle < _IDLE_ROUNDS // 2:
                await _ask(process, contest, bodies[0], given)
        waking.cancel()
        running = process.calls._copy  # noqa: SLF001
        if running is not None:
            running.cancel()
        await asyncio.gather(waking, *filter(None, [running]), return_exceptions=True)


def _requests(
    claims: dict[str, list[inputs.Plain]], members: int, selected: inputs.Plain
) -> list[bytes]:
    """Return the bodies that a plugin sends."""
    raws = {pod: [msgspec.Raw(inputs.encode(each)) for each in of] for pod, of in claims.items()}
    if members == 1:
        return [
            msgspec.json.encode(PreFilterRequest(pod=_pod(pod, selected), claims=tuple(raw)))
            for pod, raw in raws.items()
        ]
    group = GroupReference(key="tenant/g", min_count=members)
    asking = tuple(
        GroupMember(pod=_pod(pod, selected), claims=tuple(raw)) for pod, raw in raws.items()
    )
    first = next(iter(claims))
    return [msgspec.json.encode(PreFilterGroupRequest(pod_uid=first, group=group, members=asking))]


def _pod(name: str, selected: inputs.Plain) -> Any:  # noqa: ANN401  # a field of the protocol
    return {"namespace": "tenant", "name": name, "uid": name, "priority": HIGH, **selected}


async def _ask(process: FakeProcess, contest: Contest, body: bytes, given: Input) -> None:
    """Ask as a plugin does: for nodes, and then in another call for victims."""
    calls, uid = process.calls, "p0"
    await asyncio.sleep(0)
    if given["members"] > 1:
        reply = await calls.prefilter_group(msgspec.json.decode(body, type=PreFilterGroupRequest))
    else:
        request = msgspec.json.decode(body, type=PreFilterRequest)
        reply, uid = calls.prefilter(request), request.pod.uid
    await asyncio.sleep(0)
    if reply.complete and given["victims"] and not reply.fit:
        body = msgspec.json.encode(contest.preemption(uid))
        await asyncio.sleep(0)
        calls.preempt(msgspec.json.decode(body, type=PreemptRequest))
        await asyncio.sleep(0)


def _publish(cluster: Cluster, text: bytes) -> None:
    cluster.add(_decode_slice(text))


def _decode_slice(text: bytes) -> Slice:
    slice_: Slice = _read(read_slice(msgspec.json.decode(text)), Slice)
    return slice_


def _add_claim(cluster: Cluster, text: bytes) -> None:
    cluster.add(_read(read_claim(msgspec.json.decode(text)), Claim))


async def _turn(compute: Callable[[], object]) -> None:
    """Compute in a callback of its own, as for an event of a watch."""
    await asyncio.sleep(0)
    compute()
    await asyncio.sleep(0)


class Judged:
    """A judge that is sent a claim."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief

    def __call__(self, given: Input) -> Cost:
        """Return the cost of an input."""
        shape = inputs.shape_of(given)
        slices = inputs.slices_of(shape, given["nodes"])
        (claim,) = inputs.claims_of(shape, "p")
        selector = inputs.selector_of(given)
        for request in claim["spec"]["devices"]["requests"] if selector else ():
            for each in request.get("firstAvailable", [request.get("exactly")]):
                each["selectors"] = [*each.get("selectors", ()), {"cel": {"expression": selector}}]
        claim |= {"kind": "ResourceClaim"}
        claim["metadata"]["namespace"] = "team"
        body = judged_review(claim)
        if len(body) > inputs.LARGEST_BODY:
            return _TOO_LARGE
        size = len(body) + len(inputs.encode(slices[-1]))
        cluster = JudgedCluster()
        selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
        gpu = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}
        cluster.apply([change(None, gpu), *map(_published, slices[:-1])])
        cluster.context()
        return measure(size, lambda: self._play(cluster, slices[-1], body))

    async def _play(self, cluster: JudgedCluster, slice_: inputs.Plain, body: bytes) -> None:
        await _turn(lambda: cluster.apply([_published(slice_)]))
        view = MemoryView({"team": ENFORCE})
        judge = Judgements(cluster, EmptyView(), self._brief, limits=_shorter(JUDGE_LIMITS))
        handler = JudgeHandler(view, view.configuration, judge)
        for _ in range(2):
            await handler.review_object(body, _PATIENCE)


def _published(plain: inputs.Plain) -> ObjectChange:
    return change(None, {"kind": "ResourceSlice", **plain})


class Reviewed:
    """A webhook that is sent a pod."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief

    def __call__(self, given: Input) -> Cost:
        """Return the cost of an input."""
        body = review(inputs.pod_of(given))
        if len(body) > inputs.LARGEST_BODY:
            return _TOO_LARGE
        return measure(len(body), lambda: self._play(body))

    async def _play(self, body: bytes) -> None:
        harness = Harness()
        briefs = BriefRuns(self._brief, time.monotonic)
        admissions = Admissions(
            harness.cluster,
            harness.templates,
            harness.answers,
            briefs,
            limits=_shorter(REVIEW_LIMITS),
        )
        for _ in range(2):
            await await_reply(admissions.review_pod(body, _PATIENCE))


class Published:
    """A controller that computes facts again when a driver publishes."""

    def __init__(self, _brief: Brief) -> None:
        expression = 'device.driver == "gpu.nvidia.com"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        read = read_class({"metadata": {"name": "gpu.nvidia.com"}, "spec": spec})
        self._class: DeviceClass = _read(read, DeviceClass)

    def __call__(self, given: Input) -> Cost:
        """Return the cost of an input."""
        hostile = inputs.published_by(given, "hostile", hostile=True)
        names = {f"aaa.example/n{each}": "1" for each in range(given["names"])}
        nodes = [f"n{number}" for number in range(given["nodes"])]
        honest = itertools.chain.from_iterable(
            inputs.published_by(given, each, hostile=False) for each in nodes
        )
        honest_slices = tuple(_read(read_slice(each), Slice) for each in honest)
        size = sum(len(inputs.encode(each)) for each in hostile) + len(inputs.encode(names))

        async def play() -> None:
            read = [await _read_slice(inputs.encode(each)) for each in hostile]
            made = [Node(each, {"name": each}) for each in nodes]
            made.append(Node("hostile", {"name": "hostile"}))
            given_facts = FactsInput((*honest_slices, *read), (self._class,), tuple(made))
            await _turn(lambda: encode_facts(gather_facts(given_facts).facts))

        return measure(size, play)


async def _read_slice(text: bytes) -> Slice:
    await asyncio.sleep(0)
    return _decode_slice(text)
