"""Decides which pods are evicted for a group, and keeps their devices for its members."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from allocator.decisions.group_members import GroupMembers, find_members
from allocator.decisions.group_questions import GroupQuestion, needed_members
from allocator.decisions.group_victims import GroupVictims, GroupVictimSearch
from allocator.decisions.pod_requests import ReceivedRequests
from allocator.decisions.preemption import DevicePreemption
from allocator.decisions.quota import QuotaChecks
from allocator.decisions.victims import DeviceVictims
from allocator.scheduler.protocol import Eviction, PreemptReply, PreemptRequest, shorten_message
from allocator.state.cluster_state import AllocatorState
from allocator.state.group_holds import GroupHolds
from allocator.state.preemptors import MAX_PREEMPTORS
from allocator.state.releases import waits_for
from allocator.state.reserved_pods import ReservedPods
from drawbridge.ledger.holdings import read_holds
from drawbridge.solver.gangs import MemberKind
from drawbridge.solver.memo import OutOfTimeError
from drawbridge.solver.reasons import Reason

_FORGOTTEN: Final = "the group is not known any more; the pod is tried again"
_BUSY: Final = "too many pods preempt already; the pod is tried again"
_FREE: Final = "devices are released at this moment; the pod is tried again"
_TOO_SLOW: Final = "no victims were found in time; use simpler claims, or fewer pods per node"


class GroupPreemption:
    """Preemption for the devices of groups. `ids` returns a new share ID at each call."""

    def __init__(  # noqa: PLR0913  # all but four by name
        self,
        state: AllocatorState,
        reserved: ReservedPods,
        preemption: DevicePreemption,
        ids: Callable[[], str],
        *,
        requests: ReceivedRequests,
        quotas: QuotaChecks,
        holds: GroupHolds,
    ) -> None:
        self._state = state
        self._reserved = reserved
        self._preemption = preemption
        self._quotas = quotas
        self._ids = ids
        self._requests = requests
        self._holds = holds

    def find_wait(self, question: GroupQuestion) -> Reason | None:
        """Return which devices are being released for the group."""
        preemptors = map(self._preemption.preemptors.find, question.members)
        waiting = [each for each in preemptors if each is not None and each.pending]
        if not waiting:
            return None
        return waits_for(sum(len(each.holds) for each in waiting), waiting[0].node)

    def choose(
        self,
        request: PreemptRequest,
        question: GroupQuestion,
        now: float,
        out_of_time: Callable[[], bool],
    ) -> PreemptReply:
        """Return the pods to evict so that enough members fit, or why nobody is evicted."""
        own = self._requests.find(request.pod_uid)
        if own is None:
            return PreemptReply(message=_FORGOTTEN)
        if (waits := self.find_wait(question)) is not None:
            return PreemptReply(waiting=True, message=waits.message)
        members = find_members(question.members, self._requests, self._reserved, self._quotas)
        if message := self._find_problem(question, members, now):
            return PreemptReply(message=message)
        kinds = members.kinds(self._state)
        needed = needed_members(question.group, len(question.members)) - members.alone
        preemptors = map(self._preemption.preemptors.find, question.members)
        free = self._preemption.find_gone(request).union(each.key for each in preemptors if each)
        search = self._preemption.make_search(request.pod_uid, self._requests.search(own), free)
        chooser = GroupVictimSearch(
            self._state, search, kinds, needed, ids=self._ids, out_of_time=out_of_time
        )
        try:
            victims = chooser.choose(request.nodes or ())
        except OutOfTimeError:
            return PreemptReply(unfinished=True, message=_TOO_SLOW)
        if isinstance(victims, int):
            text = f"without the pods with a priority below {own.pod.priority}, {victims} of "
            return PreemptReply(message=f"{text}{needed} members of the group fit")
        for uid in question.members:
            self._preemption.preemptors.forget(uid)
        self._keep_devices(members, kinds, victims, now)
        evictions = tuple(
            Eviction(node=node, victims=tuple(pod.uid for pod in pods))
            for node, pods in victims.pods.items()
        )
        if evictions:
            self._holds.note_evicted(question.group.key)
        free_now = "" if evictions else _FREE
        return PreemptReply(evictions=evictions, waiting=not evictions, message=free_now)

    def _find_problem(self, question: GroupQuestion, members: GroupMembers, now: float) -> str:
        """Return why nobody is evicted for a group, whoever runs."""
        if len(self._preemption.preemptors) + len(question.members) > MAX_PREEMPTORS:
            return _BUSY
        pods = self._state.pods
        if (patient := next(filter(pods.never_preempts, question.members), None)) is not None:
            return f"the preemptionPolicy of member {pods.name_of(patient)} is Never"
        if (seconds := self._holds.eviction_pauses.until(question.group.key) - now) > 0:
            text = "the group did not use the devices of pods that were evicted for it"
            return f"evicts no pod for another {math.ceil(seconds)} s, because {text}"
        problem = members.find_problem(needed_members(question.group, len(question.members)))
        return shorten_message(problem.message) if problem else ""

    def _keep_devices(
        self,
        members: GroupMembers,
        kinds: Sequence[MemberKind],
        victims: GroupVictims,
        now: float,
    ) -> None:
        """Keep for each member what it gets when the victims are gone."""
        for member, fitting in members.assign(victims.placement, kinds):
            allocations = fitting.solution.allocations if fitting.solution else ()
            devices = DeviceVictims(
                node=fitting.name,
                pods=tuple(pod.uid for pod in victims.pods.get(fitting.name, ())),
                claims=tuple(sorted(victims.claims.get(fitting.name, ()))),
                holds=tuple(hold for each in allocations for hold in read_holds(each)),
            )
            uid = member.request.pod.uid
            self._preemption.preemptors.begin(uid, member.search, devices, now)
