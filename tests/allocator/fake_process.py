"""A process of the allocator, as far as the calls of the scheduler need it."""

import asyncio
from collections.abc import Callable

from allocator.copies import decide_in_copy
from allocator.decisions.deciding_ahead import DecideInCopy
from allocator.decisions.pod_devices import PodDecisions
from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.calls import SchedulerCalls
from allocator.scheduler.protocol import PostFilterReply
from allocator.state.reports import Report
from allocator.writes.binding import Attempt, BindOutcome
from tests.allocator.clusters import Cluster


class FakeProcess:
    """The state, the leadership and the write path around the calls."""

    ready = True

    def __init__(
        self,
        cluster: Cluster,
        now: Callable[[], float] | None = None,
        copies: DecideInCopy = decide_in_copy,
        collect: Callable[[], None] = lambda: None,
    ) -> None:
        self.cluster = cluster
        self.leading, self.is_uncertain = True, False
        self.problems: list[str] = []
        self.waiting = WaitingPods(cluster.decisions)
        self.changed = asyncio.Event()
        self.published: list[str] = []
        self.reported: list[Report] = []
        self.may_release = asyncio.Event()
        self.calls = SchedulerCalls(
            state=self,
            leadership=self,
            binder=self,
            publish=self.published.extend,
            report=self.reported.append,
            changed=self.changed,
            now=now or (lambda: cluster.now),
            pause=self.pause,
            copies=copies,
            collect=collect,
        )
        self.pauses: list[float] = []
        self.released: list[str] = []

    @property
    def has_term(self) -> bool:
        """Whether a term goes on."""
        return self.leading or self.is_uncertain

    @property
    def decisions(self) -> PodDecisions:
        """The decisions of the cluster."""
        return self.cluster.decisions

    def find_problems(self) -> list[str]:
        """Return why no decision can be made."""
        return self.problems

    def describe(self) -> str:
        """Nothing is wrong."""
        return ""

    async def bind(self, pod_uid: str, node: str) -> Attempt:
        """Bind a pod with a reservation on the node."""
        reservation = self.decisions.reservations.find(pod_uid)
        reserved = reservation is not None and reservation.node == node
        return Attempt(BindOutcome.BOUND if reserved else BindOutcome.FAILED, "")

    async def release(self, pod_uid: str) -> PostFilterReply:
        """Release when the test allows it."""
        await self.may_release.wait()
        self.released.append(pod_uid)
        return PostFilterReply(released=(pod_uid,))

    async def pause(self, seconds: float) -> None:
        """Let others run."""
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def run_until(self, condition: Callable[[], object]) -> None:
        """Wake pods until a condition holds."""
        waking = asyncio.create_task(self.calls.wake_pods())
        async with asyncio.timeout(60):
            while not condition():
                self.changed.set()
                await asyncio.sleep(0)
        waking.cancel()
        await asyncio.gather(waking, return_exceptions=True)
