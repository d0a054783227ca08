"""Decides which devices the members of a group get, at one time, and promises them.

A decision can be cut between two steps; each promise to a member is checked when it is made.
"""

from collections.abc import Iterator
from typing import Final

from allocator.decisions.basis import Basis
from allocator.decisions.group_members import (
    AskingMember,
    MemberPlaces,
    find_members,
    find_unread,
    known_group,
)
from allocator.decisions.group_places import find_places
from allocator.decisions.group_preemption import GroupPreemption
from allocator.decisions.group_questions import (
    STAGE,
    GroupAnswer,
    GroupQuestion,
    needed_members,
    too_large,
)
from allocator.decisions.group_searches import (
    MAX_STALE_SEARCHES,
    GroupDecision,
    run_to_end,
)
from allocator.decisions.interrupted_groups import InterruptedGroups
from allocator.decisions.member_nodes import MemberNodes
from allocator.decisions.quota import QuotaSelection
from allocator.decisions.shortlist import FittingNode
from allocator.scheduler.protocol import GroupReference
from allocator.state.group_holds import MAX_HOLD_SECONDS, GroupHolds
from drawbridge.agreement import allocator_codes as codes
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.node_fit import make_reason
from drawbridge.solver.gangs import Ask, Steps
from drawbridge.solver.world import View

# So long after this answer, a group whose minimum is not known yet is tried again.
UNREAD_SECONDS: Final = 5.0


class GroupDevices:
    """The search for the devices of a group."""

    def __init__(
        self,
        basis: Basis,
        victims: GroupPreemption,
        holds: GroupHolds,
        interrupted: InterruptedGroups,
    ) -> None:
        self._basis, self._state, self._reserved = basis, basis.state, basis.reserved
        self._groups, self._preemptors = basis.groups, basis.preemptors
        self._victims, self._holds, self._interrupted = victims, holds, interrupted

    def end_another(self, question: GroupQuestion) -> None:
        """End a decision that was cut, unless it is about what is asked."""
        cut = self._groups.get(question.group.key).cut
        about = frozenset(question.members), self._count_needed(question)
        if cut is not None and (cut.members, cut.needed) != about:
            self._groups.change(question.group.key, cut=None)
            self._reserved.release_promised(cut.promised)

    def _count_needed(self, question: GroupQuestion) -> int:
        gone = sum(map(self._state.pods.is_gone, question.members))
        return needed_members(known_group(question, self._basis), len(question.members) - gone)

    def decide(
        self, question: GroupQuestion, now: float, since: float
    ) -> tuple[GroupAnswer, float]:
        """Decide, or go on with a decision that was cut; return since when there are holds."""
        key, group = question.group.key, known_group(question, self._basis)
        cut = self._groups.get(key).cut
        needed = cut.needed if cut else self._count_needed(question)
        answer = None if cut else self._answer_before_search(question, group, needed, now)
        if answer is not None:
            return answer, since
        decision = cut or GroupDecision(
            question, needed, since, lambda own: self._steps(own, group)
        )
        self._groups.change(key, cut=None)  # one that raises an exception does not go on
        answer = decision.run(lambda: self._uses(question, now), now, self._basis.out_of_time)
        if answer is None:
            self._groups.change(key, cut=decision)
            text = f"the search for {needed} members of the group continues"
            reason = make_reason(codes.SEARCH_CONTINUES, STAGE, text)
            answer = GroupAnswer(reason=reason, complete=False)
        return answer, decision.since

    def _answer_before_search(
        self, question: GroupQuestion, group: GroupReference, needed: int, now: float
    ) -> GroupAnswer | None:
        """Return the answer to a group with too few members, or that waits; None to search."""
        if unread := find_unread(group, self._basis):
            text = f"the PodGroups of Coscheduling cannot be read: {unread}"
            reason = make_reason(codes.GANG_MINIMUM_UNKNOWN, STAGE, text)
            return GroupAnswer(reason=reason, pauses_until=now + UNREAD_SECONDS)
        if len(question.members) < needed:
            exist = len(question.members) + group.scheduled
            text = f"{exist} of {group.min_count} members of the group exist"
            return GroupAnswer(reason=make_reason(codes.GANG_INCOMPLETE, STAGE, text))
        if (paused := self._groups.paused_until(group.key, "pause")) > now:
            text = (
                "devices were held for the group and not all of its members were scheduled; it is "
                f"tried again in {paused - now:.0f} s"
            )
            return GroupAnswer((), make_reason(codes.GANG_PAUSES, STAGE, text), pauses_until=paused)
        waits = self._victims.find_wait(question)
        return None if waits is None else GroupAnswer(reason=waits)

    def _steps(self, own: GroupDecision, group: GroupReference) -> Steps[GroupAnswer]:
        """Find the members and where they fit, and promise that to them.

        If the cluster or a member changes meanwhile and too few fit, that begins again.
        """
        yield None
        question, needed = own.question, own.needed
        for again in range(MAX_STALE_SEARCHES, -1, -1):
            epoch = self._state.epoch()
            members = yield from find_members(question.members, needed, self._basis)
            if (problem := members.find_problem(needed, MemberNodes(self._state))) is not None:
                answer = GroupAnswer(reason=problem)
                break
            own.begin_search(may_pass=again > 0)
            places = yield from find_places(own, members, self._state)
            if epoch != self._state.epoch():
                places = places.usable_in(self._state)
            if again and places.lacking and (own.cuts.passed or epoch != self._state.epoch()):
                continue
            if (waits := self._victims.find_wait(question)) is not None:
                return GroupAnswer(reason=waits)
            if places.lacking and own.left_out:
                answer = GroupAnswer(reason=own.exceeded)
                break
            if places.lacking:
                yield from self._gather(own, places)
                reason = too_large(group, places.count_fitting(), needed)
                return GroupAnswer(reason=reason, preemptible=True)
            promising = self._promise(own, places, places.wanted)
            answer = yield from self._promise_all(question, promising)
            if not own.searches_again(answer, self._state):
                break
        if answer.reason is not None:
            self._victims.keep_nothing(question)  # it does not fit with that either
            self._holds.note_refused(group.key, own.now)
        return answer

    def _gather(self, own: GroupDecision, places: MemberPlaces) -> Steps[None]:
        """Keep what is free by now for an interrupted group that needs more."""
        question = own.question
        kept = sum(map(self._reserved.is_promised, question.members))
        if places.placement.placed <= kept or self._has_kept(question):
            return
        until = self._interrupted.gather(question.group.key, own.now)
        if until is None:
            return
        self._reserved.release_promised(question.members)
        answer = yield from self._promise(own, places, 0)
        for uid in answer.placed:
            self._reserved.prolong(uid, until)

    def _has_kept(self, question: GroupQuestion) -> bool:
        """Whether devices are kept for members, because pods were evicted for them."""
        return any(map(self._preemptors.find, question.members))

    def _uses(self, question: GroupQuestion, now: float) -> list[Ask]:
        """Return the questions to the solver, one for each use of devices."""
        return [self._basis.ask_in(view) for view in self._views(question, now)]

    def _views(self, question: GroupQuestion, now: float) -> Iterator[View]:
        """Yield the use of devices, at first as if those with a penalty were held."""
        preemptors = map(self._preemptors.find, question.members)
        kept = [each.key for each in preemptors if each is not None]
        kept += self._reserved.promised_claims(question.members)
        if kept:
            yield self._state.ledger.view_without(kept)
            return
        if (preferred := self._state.preferred_view(now)) is not None:
            yield preferred
        yield self._state.ledger.view()

    def _promise_all(
        self, question: GroupQuestion, promising: Steps[GroupAnswer]
    ) -> Steps[GroupAnswer]:
        """Promise to all members what was found for them, in place of what they have."""
        self._reserved.release_promised(question.members)
        if not self._has_kept(question):
            return (yield from promising)
        # Nobody else is answered before the devices are reserved.
        self._victims.keep_nothing(question)
        return run_to_end(promising)

    def _promise(self, own: GroupDecision, places: MemberPlaces, needed: int) -> Steps[GroupAnswer]:
        """Promise to members what was found: to at least as many as needed, or none."""
        own.begin_promises()
        quotas, assigned = QuotaSelection(self._state), list[tuple[AskingMember, FittingNode]]()
        for member, fitting in places.assign():
            if quotas.admits(member.search, fitting):
                assigned.append((member, fitting))
            yield None
        refusals = dict[str, None]()
        for member, fitting in assigned if len(assigned) >= needed else ():
            if refusal := self._promise_to(own, member, fitting):
                refusals[refusal] = None
            else:
                own.promised[member.uid] = None
            yield None
        kept = filter(self._reserved.is_promised, own.promised)
        placed = tuple(uid for uid in kept if self._is_member(uid, own))
        if len(placed) >= needed:
            return GroupAnswer(placed=placed, alone=places.members.alone)
        self._reserved.release_promised(placed)
        why = ", ".join(refusals) or "members have lost what was promised to them"
        text = f"devices for the group cannot be reserved: {why}"
        return GroupAnswer(reason=quotas.reason or make_reason(codes.GANG_TOO_LARGE, STAGE, text))

    def _is_member(self, uid: str, own: GroupDecision) -> bool:
        return self._state.records.get(uid).group == own.question.group.key

    def _promise_to(self, own: GroupDecision, member: AskingMember, fitting: FittingNode) -> str:
        """Promise to a member what was found, if it still asks for that; return why not."""
        requests, uid = self._basis.requests, member.request.pod.uid
        request = requests.find(uid)
        is_same = request is not None and request.claims == member.request.claims
        if request is None or not is_same or not self._is_member(uid, own):
            return "a member has changed"
        if problem := requests.find_problem(request):
            return problem
        claims = map(uid_of, member.search.unallocated)
        if self._reserved.find(uid) or any(self._has_devices(each, own) for each in claims):
            return "a member or its claim has devices already"
        refusal = self._reserved.reserve(
            request, fitting, member.search, own.now, seconds=MAX_HOLD_SECONDS
        )
        return refusal or ""

    def _has_devices(self, claim: str, own: GroupDecision) -> bool:
        """Whether a claim has devices by now that were not promised to members just before."""
        is_allocated = self._state.claims[claim].status.allocation is not None
        users = self._state.records.reserved_for(claim)
        return is_allocated or not own.promised.keys() >= set(users)
