"""Answers the calls of the scheduler plugin, and wakes the pods that wait for devices."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Final, TypeVar

from allocator.copies import decide_in_copy
from allocator.decisions.deciding_ahead import CopyReport, Decide, DecideInCopy, decide_ahead
from allocator.decisions.pod_devices import PodDecisions
from allocator.decisions.pod_requests import UnseenClaimError
from allocator.decisions.waiting import WaitingPods
from allocator.decisions.wake_turns import is_woken_by_member
from allocator.scheduler.protocol import (
    BindReply,
    ErrorCode,
    PodOnNode,
    PodReference,
    PostFilterReply,
    PreemptReply,
    PreemptRequest,
    PreFilterGroupRequest,
    PreFilterReply,
    PreFilterRequest,
    ProtocolError,
    ReserveReply,
    StatusReply,
    StatusRequest,
    UnreserveReply,
    UnreserveRequest,
)
from allocator.state.live_state import LiveState
from allocator.state.reports import Report
from allocator.term import TermKeeper
from allocator.writes.binding import BindOutcome, PodBinder
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.ledger.planner import Planner
from drawbridge.process import metrics
from drawbridge.process.build_info import read_build_info
from drawbridge.process.forked import ForkRefusedError

_LOG: Final = logging.getLogger("allocator.scheduler.calls")
# Changes that arrive together are one reason to wake pods.
_DEBOUNCE_SECONDS: Final = 0.005
_IDLE_SECONDS: Final = 1.0
# Nothing else runs during one part of a search or one turn of waking. A search that takes longer
# continues in the background.
_SEARCH_SECONDS: Final = 0.05
_TURN_SECONDS: Final = 0.02
# After several turns in a row, others get as much time as the turns.
_TURNS_IN_A_ROW: Final = 8
# With victims on some nodes, other nodes are not searched longer.
_VICTIMS_SECONDS: Final = 0.05
# The plugin waits for 300 ms, and each time-out delays all pods.
_RELEASE_SECONDS: Final = 0.2
_REBUILT: Final = "the configuration has changed since the group was asked about"
T = TypeVar("T")
_DELAY: Final = "(preemption.delaySeconds), so that an autoscaler can add a node"


class SchedulerCalls:
    """The calls of the scheduler, by the current decisions.

    `publish` tells the plugin which pods to wake, and `report` tells persons what they must know.
    `changed` is set after every change of the state. `collect` is called now and then, while
    no copy of the process shares its memory.
    """

    def __init__(  # noqa: PLR0913  # its parts, by name
        self,
        *,
        state: LiveState,
        leadership: TermKeeper,
        binder: PodBinder,
        publish: Callable[[tuple[str, ...]], None],
        report: Callable[[Report], None],
        changed: asyncio.Event,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        copies: DecideInCopy = decide_in_copy,
        collect: Callable[[], None] = lambda: None,
    ) -> None:
        self._state = state
        self._leadership = leadership
        self._binder = binder
        self._publish, self._report = publish, report
        self._changed = changed
        self._releases: set[asyncio.Future[PostFilterReply]] = set()
        self._copy: asyncio.Task[None] | None = None
        self._decide_in_copy, self._collect = copies, collect
        self._now, self._pause = now, pause
        self._copy_log = FailureLog(_LOG, "copies decide about pods again after %.0f s", now)

    # --- calls ---

    def status(self, request: StatusRequest) -> StatusReply:
        """Renew reservations, and return whether the scheduler can use this allocator."""
        problems = self._state.find_problems()
        ready, leading = self._state.ready and not problems, self._leadership.leading
        # Also while nothing can be decided or written: the scheduler still holds these pods.
        if self._state.ready:
            reservations = self._state.decisions.reservations
            reservations.renew(request.held_pods or (), self._now())
        reasons = problems or ([] if leading else [self._leadership.describe()])
        return StatusReply(
            ready=ready,
            leading=leading,
            reasons=tuple(reasons),
            version=read_build_info().version,
        )

    def prefilter(self, request: PreFilterRequest) -> PreFilterReply:
        """Return nodes on which the claims of a pod can be allocated."""
        decisions, now = self._decide(), self._now()
        reply = decisions.prefilter(request, now, self._deadline(_SEARCH_SECONDS))
        if not reply.members_needed:
            self._note_answer(request.pod.uid, reply, now)
        return reply

    async def prefilter_group(self, request: PreFilterGroupRequest) -> PreFilterReply:
        """Decide about all members of a group, and return nodes for one of them."""
        decisions = self._decide()
        try:
            received = await self._in_turns(decisions.receive_group(request, self._now()))
        except UnseenClaimError as error:
            return PreFilterReply(complete=False, members_needed=True, message=error.message)
        if decisions is not self._decide():
            raise ProtocolError(ErrorCode.NOT_READY, _REBUILT)
        now = self._now()
        reply = decisions.prefilter_group(received, now, self._deadline(_SEARCH_SECONDS))
        self._note_answer(request.pod_uid, reply, now)
        holds, key = decisions.groups.holds, request.group.key
        if reply.fit or holds.find(key, now):
            records, unasked = decisions.state.records, holds.find_unasked(key, now)
            has_room = records.has_room
            woken = [
                uid
                for uid in received.members
                if uid in unasked and is_woken_by_member(records.get(uid), now, is_kept=has_room)
            ]
            if woken:
                self._publish(tuple(woken))
        return reply

    async def _in_turns(self, steps: Generator[None, None, T]) -> T:
        """Return the result of steps; other calls are answered between two turns."""
        out_of_time = self._deadline(_TURN_SECONDS)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if out_of_time():
                await self._pause(0)
                out_of_time = self._deadline(_TURN_SECONDS)

    def _note_answer(self, pod_uid: str, reply: PreFilterReply, now: float) -> None:
        """Follow a pod that was answered."""
        fitting = [each.node for each in reply.fit]
        self._state.waiting.note_answer(pod_uid, fitting, now, complete=reply.complete)
        if not fitting and not reply.complete:
            self._changed.set()  # the search continues

    def reserve(self, request: PodOnNode) -> ReserveReply:
        """Reserve devices for a pod on a node."""
        reply = self._decide().reserve(request.pod_uid, request.node, self._now())
        self._state.waiting.note_reservation(request.pod_uid, reserved=reply.reserved)
        return reply

    def unreserve(self, request: UnreserveRequest) -> UnreserveReply:
        """Give a reservation back, and what is written for a pod that another one preempts."""
        decisions = self._decide()
        is_victim = decisions.preemptors.is_victim(request.pod_uid)
        held = request.hold and not is_victim
        if held and decisions.reservations.hold(request.pod_uid, self._now()):
            return UnreserveReply()
        decisions.unreserve(request.pod_uid, self._now(), cycle=request.cycle)
        if is_victim:
            # The scheduler has only stopped its binding: the pod is not deleted.
            self._start_release(request.pod_uid)
        self._changed.set()
        return UnreserveReply()

    async def bind(self, request: PodOnNode) -> BindReply:
        """Allocate the claims of a pod, and bind it.

        A reservation that has ended meanwhile, because a volume was slow for example, is made again
        if its devices are still free.
        """
        decisions = self._decide()
        if decisions.reservations.has_expired(request.pod_uid, request.node):
            decisions.reserve(request.pod_uid, request.node, self._now())
        outcome, message = await self._binder.bind(request.pod_uid, request.node)
        metrics.ALLOCATOR_BINDS.add(outcome)
        self._changed.set()
        return BindReply(bound=outcome is BindOutcome.BOUND, message=message)

    async def release(self, request: PodReference) -> PostFilterReply:
        """Take back the allocations that keep an unbound pod on an unusable node.

        If that takes long, it continues after the reply, and the pod is woken when it is done.
        """
        self._decide()
        release = self._start_release(request.pod_uid)
        await asyncio.wait((release,), timeout=_RELEASE_SECONDS)
        if release.done():
            return release.result()
        return PostFilterReply(message="the allocation of the pod is being removed")

    def preempt(self, request: PreemptRequest) -> PreemptReply:
        """Return the pods that must go for a pod that fits nowhere."""
        decisions, now = self._decide(), self._now()
        if delay := self._state.waiting.delay_preemption(request.pod_uid, now):
            metrics.ALLOCATOR_PREEMPTIONS.add("waits")
            self._changed.set()
            return PreemptReply(message=f"evicts no pod for another {math.ceil(delay)} s {_DELAY}")
        reply = decisions.preempt(request, now, self._deadline(_VICTIMS_SECONDS))
        has_victims = bool(reply.node or reply.evictions)
        refused = not (has_victims or reply.waiting)
        cut = request if decisions.state.planner.was_cut else None
        groups = decisions.groups
        at = groups.holds.evicts_at(groups.key_of(request.pod_uid), now)
        self._state.waiting.note_preemption(
            request.pod_uid, refused=refused, again=reply.unfinished, at=at, cut=cut
        )
        outcome = "victims" if has_victims else "waits" if reply.waiting else "none"
        metrics.ALLOCATOR_PREEMPTIONS.add(outcome)
        if has_victims:
            of_group = sum(len(each.victims) for each in reply.evictions)
            metrics.ALLOCATOR_VICTIMS.inc(of_group or len(reply.victims))
            metrics.ALLOCATOR_VIOLATIONS.inc(reply.violations)
        self._changed.set()
        return reply

    def _start_release(self, pod_uid: str) -> "asyncio.Future[PostFilterReply]":
        release = asyncio.ensure_future(self._binder.release(pod_uid))
        self._releases.add(release)
        release.add_done_callback(self._end_release)
        return release

    def _end_release(self, release: "asyncio.Future[PostFilterReply]") -> None:
        self._releases.discard(release)
        if not release.cancelled() and (error := release.exception()) is not None:
            _LOG.error("unhandled exception in a release", exc_info=error)
        self._changed.set()

    def _deadline(self, seconds: float) -> Callable[[], bool]:
        """Return a function that returns whether a time has passed."""
        end = self._now() + seconds
        return lambda: self._now() >= end

    def _decide(self) -> PodDecisions:
        """Return the decisions; raises ProtocolError unless they can be made and written."""
        if not self._state.ready or (problems := self._state.find_problems()):
            reasons = "; ".join(problems) if self._state.ready else "the caches are not synced"
            raise ProtocolError(ErrorCode.NOT_READY, reasons)
        if not self._leadership.leading:
            raise ProtocolError(ErrorCode.NOT_LEADING, self._leadership.describe())
        return self._state.decisions

    # --- waking ---

    async def wake_pods(self) -> None:
        """Wake waiting pods after changes and at the end of their back-off, until cancelled."""
        while True:
            await self._wait_for_reason()
            self._look_at_garbage()
            if not self._state.ready:
                continue
            # Also while another scheduler leads: otherwise the pods that ended would add up.
            while not self._state.waiting.end_settled(self._now(), self._deadline(_TURN_SECONDS)):
                await self._pause(0)
            # The time of pods that terminate or vanished begins when that is seen.
            self._state.decisions.preemption.observe_time(self._now())
            if not self._leadership.has_term:
                # The next term has all pods tried again; one that goes on does not.
                self._state.decisions.state.records.times.take("retry", self._now())
            unfinished, turns = True, 0
            # The term can end between two turns, and with it all that is promised.
            while unfinished and self._leadership.leading:
                began, out_of_time = self._now(), self._deadline(_TURN_SECONDS)
                waiting = self._state.waiting
                may_copy = self._copy is None
                turn = waiting.wake(self._now(), out_of_time=out_of_time, may_copy=may_copy)
                if turn.woken:
                    self._publish(turn.woken)
                if turn.aside:
                    # The copy decides by these decisions, also if others are built meanwhile.
                    planner = self._state.decisions.state.planner
                    deciding = self._decide_aside(waiting, planner, turn.aside)
                    self._copy = asyncio.create_task(deciding)
                # Pods of one namespace can keep the turns from an end.
                self._tell_state()
                self._look_at_garbage()
                unfinished = turn.unfinished
                turns += 1
                # Calls of the scheduler are answered between two turns. A search on one node can
                # take longer than a turn; others have as much time then.
                pause = 0 if turns < _TURNS_IN_A_ROW else _TURN_SECONDS
                await self._pause(max(pause, self._now() - began - _TURN_SECONDS))
            self._tell_state()

    def _tell_state(self) -> None:
        """Report what is to be told, and how many pods wait."""
        for each in self._state.decisions.state.take_reports():
            self._report(each)
        count = len(self._state.waiting) if self._leadership.leading else 0
        metrics.ALLOCATOR_WAITING.set(count)

    def _look_at_garbage(self) -> None:
        if self._copy is None:
            self._collect()

    async def _decide_aside(self, waiting: WaitingPods, planner: Planner, uid: str) -> None:
        """Let a copy of this process decide about a pod, so that calls are answered meanwhile."""
        now = self._now()
        try:
            if await decide_ahead(waiting, planner, uid, now, self._decide_and_note):
                await self._pause(_IDLE_SECONDS)  # the system may have more memory then
        except ForkRefusedError as error:
            text = "a copy cannot decide about a pod, which waits: %s"
            self._copy_log.note("refused", logging.WARNING, text, error)
            await self._pause(_IDLE_SECONDS)
        except Exception:  # noqa: BLE001  # a bug for one pod must not end the process
            _LOG.exception("unhandled exception in a copy that decides about a pod")
            waiting.stop_waking(uid)
        finally:
            waiting.note_copy(uid, self._now() - now)
            self._copy = None
            self._changed.set()

    async def _decide_and_note(self, decide: Decide) -> CopyReport:
        report = await self._decide_in_copy(decide)
        if report.was_slow:
            text = "a copy of the process got too little of the processor"
            self._copy_log.note("slow", logging.WARNING, text)
        elif not report.was_killed:
            self._copy_log.succeed()
        return report

    async def _wait_for_reason(self) -> None:
        seconds, until = _IDLE_SECONDS, None
        # What is due while another scheduler leads is for the term that begins then.
        if self._state.ready and self._leadership.leading:
            until = self._state.waiting.next_time()
        if until is not None:
            seconds = min(max(until - self._now(), _DEBOUNCE_SECONDS), _IDLE_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
        await self._pause(_DEBOUNCE_SECONDS)
        self._changed.clear()
