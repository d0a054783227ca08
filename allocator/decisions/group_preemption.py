"""Decides which pods are evicted for a group, and keeps their devices for its members.

A search that needs more time than a call has goes on beside the calls, and the pod is woken at its
end. The scheduler evicts only the pods that it lists in the call that gets the result.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from allocator.decisions.basis import Basis
from allocator.decisions.group_members import (
    AskingMember,
    GroupMembers,
    MemberPlaces,
    find_members,
)
from allocator.decisions.group_questions import GroupQuestion, needed_members
from allocator.decisions.group_searches import run_to_end
from allocator.decisions.group_victims import (
    Ask,
    ChosenVictims,
    ContinuedVictims,
    GroupVictimSearch,
    Question,
)
from allocator.decisions.member_nodes import MemberNodes
from allocator.decisions.preemption import FREE, DevicePreemption
from allocator.decisions.quota import QuotaRoom, QuotaSelection
from allocator.decisions.shortlist import FittingNode
from allocator.decisions.victims import VictimSearch
from allocator.scheduler.protocol import Eviction, PreemptReply, PreemptRequest, shorten_message
from allocator.state.preemptors import MAX_PREEMPTORS
from allocator.state.record_states import RecordEvent
from allocator.state.records import DeviceVictims, PodRequest
from allocator.state.releases import waits_for
from drawbridge.ledger.holdings import read_holds
from drawbridge.solver.answers import Solution
from drawbridge.solver.reasons import Reason

FORGOTTEN: Final = "the group is not known any more; the pod is tried again"
_BUSY: Final = "too many pods preempt already; the pod is tried again"
_CONTINUES: Final = "the search for pods to evict for the group continues"


class GroupPreemption:
    """Preemption for the devices of groups."""

    def __init__(self, basis: Basis, preemption: DevicePreemption) -> None:
        self._basis, self._state, self._preemptors = basis, basis.state, basis.preemptors
        self._requests, self._groups = basis.requests, basis.groups
        self._preemption = preemption

    def find_wait(self, question: GroupQuestion) -> Reason | None:
        """Return which devices are being released for the group."""
        preemptors = map(self._preemptors.find, question.members)
        waiting = [each for each in preemptors if each is not None and each.pending]
        if not waiting:
            return None
        return waits_for(sum(len(each.holds) for each in waiting), waiting[0].node)

    def choose(self, request: PreemptRequest, question: GroupQuestion, now: float) -> PreemptReply:
        """Return the pods to evict so that enough members fit, or why nobody is evicted.

        A group that gets no victims keeps nothing of earlier ones: it fits neither with that.
        """
        own = self._requests.find(request.pod_uid)
        if own is None:
            return PreemptReply(message=FORGOTTEN)
        if (waits := self.find_wait(question)) is not None:
            return PreemptReply(waiting=True, message=waits.message)
        reply = self._choose(request, question, own, now)
        if not (reply.evictions or reply.waiting or reply.unfinished):
            self.keep_nothing(question)  # it is too little, and there is no more
        return reply

    def keep_nothing(self, question: GroupQuestion) -> None:
        """Keep nothing for the members any more."""
        for uid in question.members:
            self._state.records.change(uid, RecordEvent.NOT_KEPT, kept=None)

    def _choose(
        self, request: PreemptRequest, question: GroupQuestion, own: PodRequest, now: float
    ) -> PreemptReply:
        if message := self._find_problem(question, now):
            return PreemptReply(message=message)
        needed = needed_members(question.group, len(question.members))
        members = run_to_end(find_members(question.members, needed, self._basis))
        if (problem := members.find_problem(needed, MemberNodes(self._state))) is not None:
            return PreemptReply(message=shorten_message(problem.message))
        # Nobody is evicted for more members than must run, if that is not the only way.
        every, *fewer = members.list_choices(needed)
        choices = (*fewer, every)
        victims = self._victims_of(request, question, own)
        search = self._current_search(request, question, choices, victims)
        ask, epoch = self._ask(question, victims, search), self._state.epoch()
        chosen = search.run(ask, epoch, self._basis.out_of_time)
        if chosen is None:
            return PreemptReply(unfinished=True, message=_CONTINUES)
        if chosen.few is not None:
            self._groups.change(question.group.key, cut_victims=None)
            return _too_few(chosen.few, search, own)
        return self._evict(request, question, choices[search.choice], search, victims, own, now)

    def continue_search(self, question: GroupQuestion) -> ContinuedVictims:
        """Continue a search that was cut."""
        search = self._groups.get(question.group.key).cut_victims
        if search is None:
            return ContinuedVictims()
        own = self._requests.find(search.request.pod_uid)
        if own is None or self._requests.find_problem(own):
            self._groups.change(question.group.key, cut_victims=None)
            return ContinuedVictims()
        victims = self._victims_of(search.request, question, own)
        ask, epoch = self._ask(question, victims, search), self._state.epoch()
        chosen = search.run(ask, epoch, self._basis.out_of_time)
        ended = chosen is not None and (
            chosen.few is not None or search.place(ask, epoch, self._basis.out_of_time) is not None
        )
        return ContinuedVictims(search.request, ended)

    def _find_problem(self, question: GroupQuestion, now: float) -> str:
        """Return why nobody is evicted for a group, whoever runs."""
        if len(self._preemptors) + len(question.members) > MAX_PREEMPTORS:
            return _BUSY
        pods = self._state.pods
        patient = next((uid for uid in question.members if pods.get(uid).never_preempts), None)
        if patient is not None:
            return f"the preemptionPolicy of member {pods.get(patient).name} is Never"
        if (seconds := self._groups.paused_until(question.group.key, "eviction_pause") - now) > 0:
            text = "the group did not use the devices of pods that were evicted for it"
            return f"evicts no pod for another {math.ceil(seconds)} s, because {text}"
        return ""

    def _victims_of(
        self, request: PreemptRequest, question: GroupQuestion, own: PodRequest
    ) -> VictimSearch:
        """Return what is released without pods; what is kept for members counts as free."""
        search = self._requests.search(own)
        return self._preemption.make_search(request, search, question.members)

    def _current_search(
        self,
        request: PreemptRequest,
        question: GroupQuestion,
        choices: Sequence[GroupMembers],
        victims: VictimSearch,
    ) -> GroupVictimSearch:
        """Return the search that was cut, if it is for the same members; else a new one."""
        nodes = MemberNodes(self._state)
        key, kinds = question.group.key, [each.kinds(nodes) for each in choices]
        needed = needed_members(question.group, len(question.members))
        wanted = choices[0].count_wanted(needed)
        search = self._groups.get(key).cut_victims
        if search is None or (search.choices, search.needed) != (kinds, wanted):
            pods = {each.node: victims.candidates(each) for each in request.nodes or ()}
            search = GroupVictimSearch(request, kinds, wanted, pods, self._basis.lost_work.of)
            self._groups.change(key, cut_victims=search)
        return search

    def _ask(
        self, question: GroupQuestion, victims: VictimSearch, search: GroupVictimSearch
    ) -> Ask:
        """Return the question to the solver when pods are gone, in the current state.

        Nobody is evicted for devices that have more than a quota has room for.
        """
        room = QuotaRoom(self._state, question.members)

        def ask(of_node: Question) -> Solution | None:
            removed, node, claims = of_node
            victims.begin((node,))
            view = victims.view((node,), victims.released_without(removed))
            solution = search.cuts.ask(self._basis.ask_in(view), node, claims)
            if solution is None or room.fits(claims, solution):
                return solution
            search.over_quota = True
            return None

        return ask

    def _evict(  # noqa: PLR0913, PLR0917  # the end of one decision
        self,
        request: PreemptRequest,
        question: GroupQuestion,
        members: GroupMembers,
        search: GroupVictimSearch,
        victims: VictimSearch,
        own: PodRequest,
        now: float,
    ) -> PreemptReply:
        """Place the members without the victims, and keep the devices; or begin anew."""
        ask, epoch = self._ask(question, victims, search), self._state.epoch()
        placement = search.place(ask, epoch, self._basis.out_of_time)
        if placement is None:
            return PreemptReply(unfinished=True, message=_CONTINUES)
        chosen, key = search.chosen or ChosenVictims(), question.group.key
        places = MemberPlaces(members, search.kinds, placement, search.needed)
        if places.lacking or not _can_evict(chosen, request, victims):
            asker = search.request.pod_uid
            if places.lacking or request.pod_uid == asker or asker not in question.members:
                self._groups.change(key, cut_victims=None)  # what runs has changed
            if places.lacking and search.epoch == epoch:
                return _too_few(placement.placed, search, own)  # the same would be found again
            return PreemptReply(unfinished=True, message=_CONTINUES)
        self._groups.change(key, cut_victims=None)
        quotas = QuotaSelection(self._state)
        assigned = [each for each in places.assign() if quotas.admits(each[0].search, each[1])]
        if quotas.reason is not None and len(assigned) < search.needed:
            return PreemptReply(message=shorten_message(quotas.reason.message))
        self.keep_nothing(question)
        self._keep_devices(assigned, search, victims, now)
        if not chosen.pods:
            return PreemptReply(waiting=True, message=FREE)
        self._groups.change(key, evicted=True)
        evictions = tuple(
            Eviction(node=node, victims=tuple(pod.uid for pod in pods))
            for node, pods in chosen.pods.items()
        )
        listed = (pod for each in request.nodes or () for pod in each.pods or ())
        violations = sum(pod.violates and pod.uid in chosen.uids for pod in listed)
        return PreemptReply(evictions=evictions, violations=violations)

    def _keep_devices(
        self,
        assigned: Iterable[tuple[AskingMember, FittingNode]],
        search: GroupVictimSearch,
        victims: VictimSearch,
        now: float,
    ) -> None:
        """Keep for each member what it gets when the victims are gone; once what several share."""
        chosen, kept = search.chosen or ChosenVictims(), set[str]()
        released = victims.released_without(chosen.uids)
        for member, fitting in assigned:
            solved = fitting.by_claim(member.search.unallocated)
            own = {uid: allocation for uid, allocation in solved.items() if uid not in kept}
            if not own:
                continue
            kept.update(own)
            evicted = chosen.pods.get(fitting.name, ())
            holds = tuple(hold for each in own.values() for hold in read_holds(each))
            claims = victims.waits_for(released & self._claims_on(fitting.name), holds)
            devices = DeviceVictims(
                node=fitting.name,
                allocations=own,
                pods=tuple(pod.uid for pod in evicted),
                claims=tuple(sorted(claims)),
                holds=holds,
            )
            self._preemptors.begin(member.search, devices, now)

    def _claims_on(self, node: str) -> frozenset[str]:
        pools = self._state.planner.pools_for(node)
        return frozenset().union(*map(self._state.ledger.claims_in, pools))


def _too_few(few: int, search: GroupVictimSearch, own: PodRequest) -> PreemptReply:
    if search.cuts.passed:
        return PreemptReply(unfinished=True, message=_CONTINUES)
    text = f"without the pods with a priority below {own.pod.priority}, {few} of "
    text += f"{search.needed} members of the group fit"
    limits = " on devices for which its quotas have room" if search.over_quota else ""
    return PreemptReply(message=text + limits)


def _can_evict(chosen: ChosenVictims, request: PreemptRequest, victims: VictimSearch) -> bool:
    """Whether the scheduler can evict these pods, which are among those that it lists."""
    listed = {each.node: victims.candidates(each) for each in request.nodes or ()}
    return all(set(pods) <= set(listed.get(node, ())) for node, pods in chosen.pods.items())
