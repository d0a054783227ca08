"""Answers questions about groups, whose members get devices as a whole, or none do.

The scheduler asks about a member. If nothing is held for the group, it is asked for all members
that have no node, and their devices are searched and promised together: for at least as many as
must run, else for none. Each member then gets its part when the scheduler asks for it.

A group is identified by its key, which has the namespace: no tenant names a group of another one.
What is remembered is bounded; a group that was forgotten is asked about anew.
"""

import math
from typing import Final

from msgspec.structs import replace

from allocator.decisions.basis import Basis
from allocator.decisions.group_devices import GroupDevices
from allocator.decisions.group_members import known_group
from allocator.decisions.group_preemption import FORGOTTEN, GroupPreemption
from allocator.decisions.group_questions import (
    STAGE,
    GroupAnswer,
    GroupQuestion,
    key_of_group,
)
from allocator.decisions.group_victims import ContinuedVictims
from allocator.decisions.interrupted_groups import InterruptedGroups
from allocator.decisions.pod_requests import with_at_most
from allocator.decisions.preemption import DevicePreemption
from allocator.scheduler.protocol import (
    GroupReference,
    PreemptReply,
    PreemptRequest,
    PreFilterReply,
    SchedulingPod,
)
from allocator.state.group_holds import MAX_HOLD_SECONDS, STEP_SECONDS, GroupHolds
from allocator.state.group_records import GroupHold, GroupRefusal
from allocator.state.record_states import RecordEvent
from allocator.state.reports import HoldEnd
from drawbridge.agreement import allocator_codes as codes
from drawbridge.dra.counted import count_noun
from drawbridge.ledger.node_fit import make_reason

# A refusal holds for the other members of the group for this time, if nothing has changed.
REFUSAL_SECONDS: Final = 1.0


class GroupDecisions:
    """What is known of groups and held for them, and the answers about them."""

    def __init__(self, basis: Basis, preemption: DevicePreemption) -> None:
        self._basis, self._state, self._reserved = basis, basis.state, basis.reserved
        self._groups = basis.groups
        self.holds = GroupHolds(basis.state, basis.reserved)
        self.interrupted = InterruptedGroups(basis.groups)
        self._victims = GroupPreemption(basis, preemption)
        self._devices = GroupDevices(basis, self._victims, self.holds, self.interrupted)

    # --- groups that a change of the leader has interrupted ---

    def begin_term(self) -> None:
        """Decide about groups of which a part is bound before all others."""
        groups = self._state.pods.interrupted_groups()
        self.interrupted.begin_term([key_of_group(each) for each in groups])

    def wait_for_others(self, key: str, now: float) -> GroupAnswer | None:
        """Return that interrupted groups come first, for as long as they have no answer."""
        first = self.interrupted.come_first(key, now)
        if first is None:
            return None
        groups, until = first
        verb = "gets" if groups == 1 else "get"
        text = f"{count_noun(groups, 'group')} of which a part is bound {verb} devices first"
        reason = make_reason(codes.GANG_INTERRUPTED, STAGE, text)
        return GroupAnswer(reason=reason, pauses_until=until)

    def waits_until(self, key: str, now: float) -> float:
        """Return until when a group is not searched for, itself or behind others; 0 if never."""
        _, first = self.interrupted.come_first(key, now) or (0, 0.0)
        return max(first, self._groups.paused_until(key, "pause"))

    # --- what is known of groups ---

    def key_of(self, pod_uid: str) -> str:
        """Return the key of the group that a pod was last asked about with; empty for none."""
        return self._state.records.get(pod_uid).group

    def note_member(self, pod: SchedulingPod, group: GroupReference | None, now: float) -> None:
        """Remember the group of a pod.

        The last member that waits is asked about without its group, but has its part of the hold.
        """
        change, uid = self._state.records.change, pod.uid
        if group is not None:
            if (earlier := self.key_of(uid)) not in {"", group.key}:
                self.holds.note_given_back(earlier, uid, now)
                self._reserved.release_promised((uid,))
            change(uid, RecordEvent.ASKED, namespace=pod.namespace, group=group.key)
        elif self.key_of(uid) and self.find_hold(uid, now, alone=True) is None:
            change(uid, RecordEvent.ASKED, group="")

    def with_priority(self, pod: SchedulingPod) -> SchedulingPod:
        """Return a pod with the priority of its group, if that is lower."""
        question = self._groups.get(self.key_of(pod.uid)).question
        return pod if question is None else with_at_most(pod, question.priority)

    def is_refused(self, key: str) -> bool:
        """Whether a group does not fit, in the current state."""
        refusal = self._groups.get(key).refusal
        return (
            refusal is not None
            and refusal.epoch == self._state.epoch()
            and not refusal.answer.pauses_until
        )

    def expire(self, now: float) -> None:
        """End what was held for a limited time."""
        self.holds.expire(now)
        self.interrupted.expire(now)

    def note_end(self, pod_uid: str) -> bool:
        """Note that a pod is bound or gone; return whether its group can have another answer.

        The others need fewer devices together then, although no device is free that was not before.
        """
        seen, key = self._state.pods.get(pod_uid), self.key_of(pod_uid)
        if seen.node:
            self.holds.succeed(key)
        return self.forget_refusal(key_of_group(seen.gang) if seen.gang else key)

    def forget_refusal(self, key: str) -> bool:
        """Forget that a group was refused; return whether it can have another answer now."""
        if self._groups.get(key).refusal is None:
            return False
        self._groups.change(key, refusal=None)
        return True

    # --- answers ---

    def find_hold(self, pod_uid: str, now: float, *, alone: bool = False) -> GroupHold | None:
        """Return the hold that has a part for a pod, if the scheduler does not have it yet.

        A pod that is asked about again could not use its part, so that the hold ends, unless it is
        asked about `alone`, because the others have theirs.
        """
        hold = self.holds.find(self.key_of(pod_uid), now)
        if hold is None or pod_uid not in hold.left or (pod_uid in hold.asked and not alone):
            return None
        return hold

    def take_alone(self, pod_uid: str, now: float) -> bool:
        """Whether the others have devices or can get them, so that this member is decided about.

        That counts once.
        """
        key = self.key_of(pod_uid)
        alone = self._groups.get(key).alone
        if pod_uid not in alone.members or alone.until <= now:
            return False
        left = replace(alone, members=alone.members - {pod_uid})
        self._groups.change(key, alone=left)
        return True

    def note_alone(self, pod_uid: str, reply: PreFilterReply) -> None:
        """Wake no members to be decided about alone again before the state is another one."""
        if reply.complete and not reply.fit and (key := self.key_of(pod_uid)):
            refused = replace(self._groups.get(key).alone, refused=self._state.epoch())
            self._groups.change(key, alone=refused)

    def waiting_alone(self, key: str, answer: GroupAnswer, now: float) -> tuple[str, ...]:
        """Return the members to wake, to be decided about alone, unless one was refused."""
        if self._groups.get(key).alone.refused == self._state.epoch():
            return ()
        records = map(self._state.records.get, answer.alone)
        return tuple(each.uid for each in records if each.waiting and not each.pauses(now))

    def find_refusal(self, pod_uid: str, group: GroupReference, now: float) -> GroupAnswer | None:
        """Return why the group of a pod was just refused as it is, if that holds still."""
        record = self._groups.get(group.key)
        refusal, question = record.refusal, record.question
        if refusal is None or pod_uid not in refusal.members or refusal.until <= now:
            return None
        if question is None or question.group != group:
            return None  # another number of members must run, for example
        return refusal.answer if refusal.epoch == self._state.epoch() else None

    def answer(self, question: GroupQuestion, now: float) -> GroupAnswer:
        """Promise devices to the members of a group, or say what is missing."""
        key = question.group.key
        self._groups.change(key, question=question)
        if self._state.pods.bound_members_beside(question.members[0]):
            self.interrupted.note_partly_bound(key, now)
        since = self._end_hold(question, now)
        self._devices.end_another(question)
        if self._groups.get(key).cut is None and not self.interrupted.is_gathering(key):
            self._reserved.release_promised(question.members)
        return self._decide(question, now, since)

    def is_known(self, key: str) -> bool:
        """Whether the last question about a group is known, and what each member asks for."""
        question = self._groups.get(key).question
        return question is not None and not self._basis.requests.has_forgotten(question.members)

    def answer_again(self, key: str, now: float) -> GroupAnswer | None:
        """Ask the last question about a group again; None if there is nothing to ask."""
        question = self._groups.get(key).question
        if question is None or self.holds.find(key, now) is not None:
            return None
        self._devices.end_another(question)
        if self._groups.get(key).cut is not None:
            return self._decide(replace(question, asking=""), now)
        pods = self._state.pods
        members = [uid for uid in question.members if not pods.is_gone(uid)]
        left = tuple(uid for uid in members if not pods.get(uid).node and self._is_free(uid))
        if not left:
            return None
        scheduled = question.group.scheduled + len(members) - len(left)
        group = replace(question.group, scheduled=scheduled)
        return self.answer(GroupQuestion(group, left, question.priority), now)

    def _end_hold(self, question: GroupQuestion, now: float) -> float:
        """Replace a hold because there are more members, or because it was of no use.

        Return since when there are holds without a pause; infinity if there is none.
        """
        hold = self.holds.find(question.group.key, now)
        if hold is None:
            return math.inf
        end = HoldEnd.UNUSED if question.asking in hold.asked else None
        if now - hold.since >= MAX_HOLD_SECONDS:
            end = HoldEnd.DEADLINE
        self.holds.end(hold.key, now, end)
        return math.inf if end else hold.since

    def _is_free(self, uid: str) -> bool:
        """Whether nothing is reserved for a pod, apart from a promise."""
        return self._reserved.find(uid) is None or self._reserved.is_promised(uid)

    def _decide(self, question: GroupQuestion, now: float, since: float = math.inf) -> GroupAnswer:
        """Decide, or go on with a decision that was cut; an answer is held or remembered."""
        answer, since = self._devices.decide(question, now, since)
        if answer.complete:
            self._note(question, answer, now, since)
        return answer

    def _note(self, question: GroupQuestion, answer: GroupAnswer, now: float, since: float) -> None:
        """Hold what was promised, or remember why nothing was."""
        key, group = question.group.key, known_group(question, self._basis)
        if answer.placed:
            woken, first = not question.asking, key in self.interrupted
            self.holds.begin(key, answer.placed, now, since, woken=woken, first=first)
        if answer.alone:
            members, until = frozenset(answer.alone) - {question.asking}, now + STEP_SECONDS
            alone = replace(self._groups.get(key).alone, members=members, until=until)
            self._groups.change(key, alone=alone)
        self.interrupted.note_answer(key)
        if answer.placed or (group.min_count and group.scheduled >= group.min_count):
            self.interrupted.complete(key)
        if answer.reason is not None:
            # What a member waited for alone is for others now.
            for uid in question.members:
                self._state.records.change(uid, RecordEvent.UNPAIRED, paired=None)
            members = frozenset(question.members)
            # Who uses a claim is not in the epoch.
            is_about_users = answer.reason.code == codes.CLAIM_HAS_MAX_CONSUMERS.name
            until = now + (0.0 if is_about_users else REFUSAL_SECONDS)
            refusal = GroupRefusal(self._state.epoch(), until, members, answer)
            self._groups.change(key, refusal=refusal)

    def preempt(self, request: PreemptRequest, now: float) -> PreemptReply:
        """Return the pods to evict so that enough members fit, and keep their devices."""
        question = self._groups.get(self.key_of(request.pod_uid)).question
        if question is None:
            return PreemptReply(message=FORGOTTEN)
        question = replace(question, group=known_group(question, self._basis))
        return self._victims.choose(request, question, now)

    def note_copy(self, pod_uid: str) -> None:
        """Note that a copy of the process has decided about the group of a pod."""
        self._groups.note_copy(self.key_of(pod_uid))

    def continue_preemption(self, pod_uid: str) -> ContinuedVictims:
        """Continue the search for pods to evict that was cut, for the group of a pod."""
        question = self._groups.get(self.key_of(pod_uid)).question
        return ContinuedVictims() if question is None else self._victims.continue_search(question)
