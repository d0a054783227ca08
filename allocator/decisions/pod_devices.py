"""Decides which devices a pod gets: the answers to the calls of the scheduler, in memory.

A decision is made on the current state and reserved before anybody else can ask. The caller passes
the time. All memories are bounded.
"""

from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from allocator.decisions.basis import Basis, Surroundings
from allocator.decisions.group_questions import GroupQuestion
from allocator.decisions.group_victims import ContinuedVictims
from allocator.decisions.groups import GroupDecisions
from allocator.decisions.planned_holds import PlannedHolds
from allocator.decisions.pod_promises import PodPromises
from allocator.decisions.preemption import DevicePreemption
from allocator.decisions.reserving import find_refusal, reserve_on
from allocator.decisions.scores import score_nodes
from allocator.decisions.shortlist import FittingNode, NodeSearch, Shortlist, never
from allocator.scheduler.protocol import (
    ErrorCode,
    PreemptReply,
    PreemptRequest,
    PreFilterGroupRequest,
    PreFilterReply,
    PreFilterRequest,
    ProtocolError,
    ReserveReply,
    SchedulingPod,
    shorten_message,
)
from allocator.scheduler.replies import (
    fit_on,
    fit_some,
    node_reason,
    refuse_group,
    refuse_nodes,
    refuse_pod,
)
from allocator.state.cluster_state import AllocatorState
from allocator.state.group_records import GroupHold
from allocator.state.record_states import RecordEvent
from allocator.state.records import PodRequest
from allocator.state.reserved_pods import ANSWERED_SECONDS
from allocator.state.seen_pods import UNSEEN, UNSEEN_SECONDS
from drawbridge.solver.reasons import Reason, say_with_subject

_RESTARTED: Final = "the allocator has restarted since the pod was filtered"


class ReceivedGroup(NamedTuple):
    """What is asked about a group, and its members that can use their claims, with one priority.

    A `refusal` says why the pod that is asked about cannot.
    """

    request: PreFilterGroupRequest
    members: tuple[str, ...]
    priority: int
    refusal: Reason | None = None


class PodDecisions:
    """The decisions for the pods of one scheduler."""

    def __init__(self, state: AllocatorState, around: Surroundings) -> None:
        self._basis = basis = Basis(state, around)
        self.state, self.strategy, self.requests = state, basis.strategy, basis.requests
        self.reservations = basis.reserved
        self.preemptors, self.planned_holds = basis.preemptors, PlannedHolds(basis)
        self.preemption = DevicePreemption(basis, self.planned_holds)
        self.groups = GroupDecisions(basis, self.preemption)
        self.promises = PodPromises(basis, self.groups, self.preemption)
        self.server_time = around.server_time

    # --- the calls of the scheduler ---

    def prefilter(
        self, request: PreFilterRequest, now: float, out_of_time: Callable[[], bool] = never
    ) -> PreFilterReply:
        """Return nodes on which the claims of a pod can be allocated; raises ProtocolError.

        A search that is `out_of_time`, or is cut on a node, continues with the next call for an
        equal request.
        """
        try:
            with self._basis.deciding(request.pod.namespace, now, out_of_time):
                return self._prefilter(request, now)
        finally:
            members = self._basis.groups.members_of(self.groups.key_of(request.pod.uid))
            self.state.records.trim((request.pod.uid, *members))

    def _prefilter(self, request: PreFilterRequest, now: float) -> PreFilterReply:
        uid = request.pod.uid
        self.groups.note_member(request.pod, request.group, now)
        pod = self.groups.with_priority(request.pod)
        pod_request = self._receive(pod, request.claims, now)
        if isinstance(pod_request, Reason):
            return refuse_pod((pod_request,))
        self.groups.holds.note_turn(self.groups.key_of(uid), now)
        if (others := self.groups.wait_for_others(self.groups.key_of(uid), now)) is not None:
            return refuse_group(others)
        hold = self.groups.find_hold(uid, now, alone=request.group is None)
        if hold is not None or self.groups.take_alone(uid, now):
            return self._decide_member(pod_request, request.max_nodes, hold, now)
        if request.group is None or self.reservations.is_writing(uid):
            limit, reserve = request.max_nodes, request.reserve and not self.groups.key_of(uid)
            return self._decide(pod_request, limit, now, reserve=reserve)
        if (refusal := self.groups.find_refusal(uid, request.group, now)) is not None:
            return refuse_group(refusal)
        return PreFilterReply(complete=False, members_needed=True, partial_claims=True)

    def receive_group(
        self, request: PreFilterGroupRequest, now: float
    ) -> Generator[None, None, ReceivedGroup]:
        """Remember what is asked for the members of a group, in steps; raises ProtocolError.

        Other calls can be answered between two steps.
        """
        try:
            return (yield from self._receive_members(request, now))
        finally:
            self.state.records.trim(each.pod.uid for each in request.members or ())

    def _receive_members(
        self, request: PreFilterGroupRequest, now: float
    ) -> Generator[None, None, ReceivedGroup]:
        received: dict[str, PodRequest] = {}
        for member in request.members or ():
            answer = self._receive(member.pod, member.claims, now)
            if isinstance(answer, PodRequest):
                received[member.pod.uid] = answer
                self.groups.note_member(member.pod, request.group, now)
            elif member.pod.uid == request.pod_uid:
                return ReceivedGroup(request, (), 0, answer)
            yield
        if request.pod_uid not in received:
            text = "the members do not include the pod that is asked about"
            raise ProtocolError(ErrorCode.BAD_REQUEST, text)
        priority = yield from self.requests.level_priority(received.values())
        return ReceivedGroup(request, tuple(received), priority)

    def prefilter_group(
        self, received: ReceivedGroup, now: float, out_of_time: Callable[[], bool] = never
    ) -> PreFilterReply:
        """Decide about all members of a group, and return nodes for one of them."""
        request, members, priority, refusal = received
        if refusal is not None:
            return refuse_pod((refusal,))
        own = self.requests.find(request.pod_uid)
        if own is None:
            raise ProtocolError(ErrorCode.NOT_READY, _RESTARTED)
        self.preemption.settle(now)
        question = GroupQuestion(request.group, members, priority, request.pod_uid)
        with self._basis.deciding(own.pod.namespace, now, out_of_time):
            answer = self.groups.answer(question, now)
            if answer.reason is not None:
                return refuse_group(answer)
            hold = self.groups.find_hold(request.pod_uid, now)
            return self._decide_member(own, request.max_nodes, hold, now)

    def _receive(
        self, pod: SchedulingPod, claims: tuple[Raw, ...] | None, now: float
    ) -> PodRequest | Reason:
        """Remember what the scheduler asks for a pod; return why the pod cannot use its claims."""
        received, records = self.requests.receive(pod, claims), self.state.records
        if isinstance(received, Reason):
            self.reservations.release(pod.uid)
            nothing = {"request": None, "group": "", "kept": None, "paired": None}
            records.change(pod.uid, RecordEvent.UNUSABLE, **nothing)
        elif self.state.pods.get(pod.uid) is UNSEEN:
            records.times.set("unseen", pod.uid, now + UNSEEN_SECONDS)
        return received

    def _decide_member(
        self, request: PodRequest, limit: int, hold: GroupHold | None, now: float
    ) -> PreFilterReply:
        """Return the node of a member's part first, and then those that it can use alone."""
        uid, part = request.pod.uid, self.reservations.find(request.pod.uid)
        reply = self._decide(request, limit, now)
        lost = part if hold is not None and self.reservations.find(uid) is None else None
        if lost and not reserve_on(self._basis, request, lost.node, now, promised=True):
            # The search was cut before it came to the node of the part.
            reply = replace(fit_on(lost.node), complete=False)
        if hold is not None:
            self.groups.holds.note_asked(hold, uid)
        else:
            self.groups.note_alone(uid, reply)
        return reply

    def _decide(
        self, request: PodRequest, limit: int, now: float, *, reserve: bool = False
    ) -> PreFilterReply:
        uid = request.pod.uid
        reservation = self.reservations.find(uid)
        if reservation is not None and self.reservations.is_writing(uid):
            # The write decides; every other node would need other devices.
            return fit_on(reservation.node)
        self.reservations.release(uid)
        first = reservation.node if reservation else ""
        search = replace(self._basis.search(request, limit), first=first)
        self.preemption.settle(now)
        if (refusal := find_refusal(self._basis, search)) is not None:
            return refuse_pod((refusal,))
        if (own := self.preemption.find_kept(search)) is not None:
            return fit_on(own.name, preemptible=True)
        shortlist, places = self.strategy.find_ordered(search, self._basis.searches.run, now)
        if shortlist.fitting:
            # Others can wait for the devices that are being released.
            self.state.records.change(uid, RecordEvent.UNPAIRED, paired=None)
            scored = score_nodes(shortlist.fitting, search.unallocated, places, self.state)
            names = [each.node for each in scored]
            node = first if first in names else names[0]
            reserve &= self.state.records.get(uid).kept is None
            reply = fit_some(scored, limit, complete=shortlist.complete)
            if reserve or node == first:
                fit = next(each for each in shortlist.fitting if each.name == node)
                kept = self._keep_until_reserve(request, fit, search, now, promised=not reserve)
                reply = replace(reply, reserved_on=node if reserve and kept else "")
            return reply
        taken, _ = self.preemption.take_over(search)
        if taken and not self.reservations.reserve(request, taken, search, now):
            return fit_on(taken.name, preemptible=True)
        return self._wait(refuse_nodes(shortlist), shortlist, search, now)

    def _keep_until_reserve(
        self,
        request: PodRequest,
        fit: FittingNode,
        search: NodeSearch,
        now: float,
        *,
        promised: bool,
    ) -> bool:
        """Let nobody else have the devices of a pod between two calls of the scheduler.

        They are reserved, so that the second call is not needed, or only promised.
        """
        chosen = self.strategy.with_devices(search, fit, now)
        seconds = None if promised else ANSWERED_SECONDS
        return not self.reservations.reserve(
            request, chosen, search, now, promised=promised, seconds=seconds
        )

    def reserve(self, pod_uid: str, node: str, now: float) -> ReserveReply:
        """Reserve devices for a pod on a node until the pod is bound or a time has passed."""
        request = self.requests.find(pod_uid)
        if request is None:
            return ReserveReply(reserved=False, message=_RESTARTED)
        with self._basis.deciding(request.pod.namespace, now):
            return self._reserve(request, node, now)

    def _reserve(self, request: PodRequest, node: str, now: float) -> ReserveReply:
        pod_uid = request.pod.uid
        self.preemption.settle(now)
        # No other call is handled before the devices that were kept for the pod are reserved.
        self.state.records.change(pod_uid, RecordEvent.NOT_KEPT, kept=None, paired=None)
        hold = self.groups.find_hold(pod_uid, now, alone=True)
        part = self.reservations.find(pod_uid) if hold else None
        problem = reserve_on(self._basis, request, node, now)
        if not problem:
            self.groups.holds.note_reserved(self.groups.key_of(pod_uid), pod_uid, now)
        elif hold is not None and part is not None:
            # The scheduler selected another node. The pod keeps its part, and is tried again.
            reserve_on(self._basis, request, part.node, now, promised=True)
            self.groups.holds.note_asked(hold, pod_uid)
        return ReserveReply(reserved=not problem, message=shorten_message(problem))

    def unreserve(self, pod_uid: str, now: float = 0.0, *, cycle: bool = False) -> None:
        """Give the reservation of a pod back, unless it is being written.

        At the end of a `cycle` for its group, what is held for the group stays held.
        """
        key = self.groups.key_of(pod_uid)
        if cycle and self.groups.holds.take_back(key, pod_uid, now):
            return
        self.reservations.release(pod_uid)
        self.groups.holds.note_given_back(key, pod_uid, now)

    def preempt(
        self, request: PreemptRequest, now: float, out_of_time: Callable[[], bool] = never
    ) -> PreemptReply:
        """Return the victims for a pod that fits nowhere, and keep their devices."""
        pod_request = self.requests.find(request.pod_uid)
        if pod_request is None:
            return PreemptReply(message=_RESTARTED)
        if problem := self.requests.find_problem(pod_request):
            return PreemptReply(message=problem)
        planner = self.state.planner

        def is_over() -> bool:
            # A node whose search was cut would look like one that does not fit.
            return planner.was_cut or out_of_time()

        with self._basis.deciding(pod_request.pod.namespace, now, is_over):
            return self._preempt(request, pod_request, now)

    def _preempt(
        self, request: PreemptRequest, pod_request: PodRequest, now: float
    ) -> PreemptReply:
        self.preemption.settle(now)
        if self.groups.key_of(request.pod_uid):
            return self.groups.preempt(request, now)
        search = self._basis.search(pod_request, 1)
        if (refusal := find_refusal(self._basis, search)) is not None:
            return PreemptReply(message=shorten_message(refusal.message))
        return self.preemption.choose(request, search, now)

    def continue_preemption(
        self, pod_uid: str, now: float, out_of_time: Callable[[], bool]
    ) -> ContinuedVictims:
        """Continue a search for victims of a group that was cut."""
        with self._basis.deciding(self.state.records.get(pod_uid).namespace, now, out_of_time):
            return self.groups.continue_preemption(pod_uid)

    # --- the ends of pods and terms ---

    def end(self, pod_uid: str) -> bool:
        """Remember nothing more of a pod that is bound, ended or deleted.

        Return whether its group can have another answer.
        """
        has_changed = self.groups.note_end(pod_uid)
        self.state.records.end(pod_uid)
        return has_changed

    def end_term(self) -> None:
        """Forget all reservations."""
        self.state.records.end_term()
        self.planned_holds.clear()
        self.groups.holds.clear()

    def begin_term(self) -> None:
        """Forget all reservations. Groups of which a part is bound come before all others."""
        self.end_term()
        self.groups.begin_term()

    def expire(self, now: float) -> tuple[str, ...]:
        """Remove reservations whose time is over; return the UIDs of their pods."""
        self.preemption.expire(now)
        self.groups.expire(now)
        return self.reservations.expire(now)

    def _wait(
        self, reply: PreFilterReply, shortlist: Shortlist, search: NodeSearch, now: float
    ) -> PreFilterReply:
        """Tell a pod that it waits for devices that are being released, and keep them for it."""
        reason = self.preemption.wait(search, now)
        if reason is None:
            preemptible = shortlist.complete and not shortlist.exceeds_everywhere
            return replace(reply, preemptible=preemptible)
        message = shorten_message(f"{say_with_subject(reason)}; {reply.message}")
        return replace(reply, message=message, reasons=(node_reason(reason), *reply.reasons))
