"""The devices that are held for the members of groups, from the answer until all are reserved.

A hold is made and ends as a whole: when a member gives its devices back, when a member loses them
to a pod with a higher priority, or at its deadline, which the scheduler's progress moves, within a
limit. A scheduler that is slow to come to groups that were woken has more time.

A group whose hold ended in vain gets the next one after a pause that grows, and so do the groups of
a namespace if several of them do: groups that never complete, and that a tenant can make without an
end, cannot hold devices all the time. If pods were evicted for the group before, the next ones are
evicted after a pause that is much longer. Who loses devices to another namespace does not pause.
What ended in vain is reported.
"""

from collections.abc import Iterable
from statistics import median
from typing import Any, Final

import msgspec

from allocator.state.cluster_state import AllocatorState
from allocator.state.group_records import GroupHold, namespace_of_group
from allocator.state.record_states import RecordEvent
from allocator.state.records import VictimQuestion
from allocator.state.reports import EndedHold, HoldEnd
from allocator.state.reserved_pods import ReservedPods

# How long the scheduler may take from one member to the next, and for all of them. The first is
# longer than its longest back-off of 10 s, because members of its own groups are not tried before.
# It is this factor longer than groups of the namespace that were woken took recently: one of many
# that wait must not pause because the scheduler is busy.
STEP_SECONDS: Final = 15.0
STEPS_PER_DELAY: Final = 3.0
RECENT_DELAYS: Final = 16
MAX_HOLD_SECONDS: Final = 60.0


class GroupHolds:
    """The holds of all groups."""

    def __init__(self, state: AllocatorState, reserved: ReservedPods) -> None:
        self._state, self._reserved = state, reserved
        self._groups = reserved.groups

    def find(self, key: str, now: float) -> GroupHold | None:
        """Return the hold of a group, unless a member has lost its part."""
        self._end_lost(now)
        return self._groups.get(key).hold

    def find_unasked(self, key: str, now: float) -> frozenset[str]:
        """Return the members that have devices, or can get them alone, and have not asked since."""
        hold, alone = self.find(key, now), self._groups.get(key).alone
        parts = hold.left - hold.asked if hold else frozenset[str]()
        return parts | alone.members if alone.until > now else parts

    def _end_lost(self, now: float) -> None:
        """End the holds of which a member has lost its part, and not got it again."""
        for key, uid in self._state.records.take_lost():
            hold = self._groups.get(key).hold
            if hold is not None and uid in hold.left and self._reserved.find(uid) is None:
                self.end(key, now, HoldEnd.LOST)

    def begin(  # noqa: PLR0913  # all but four by name
        self,
        key: str,
        members: Iterable[str],
        now: float,
        since: float,
        *,
        woken: bool = False,
        first: bool = False,
    ) -> None:
        """Hold what is promised to members; `since` is when holds without a pause began.

        A group that is `woken` waits for the scheduler. No pod takes anything from the `first`.
        """
        uids = frozenset(members)
        if woken:
            self._groups.change(key, woken=now)
        hold = GroupHold(key, uids, uids, since, since, first=first)
        self._change(hold, until=self._deadline(hold, now))

    def note_turn(self, key: str, now: float) -> None:
        """Remember how late the scheduler comes to a group whose hold has ended."""
        if self._groups.get(key).hold is None:
            self._note_delay(key, now)

    def _note_delay(self, key: str, now: float) -> None:
        if (woken := self._groups.get(key).woken) is not None:
            self._groups.change(key, woken=None)
            delays = (*self._groups.of_namespace(key).delays, now - woken)
            self._groups.change_namespace(key, delays=delays[-RECENT_DELAYS:])

    def note_asked(self, hold: GroupHold, uid: str) -> None:
        """Remember that the scheduler has the answer for a member."""
        self._change(hold, asked=hold.asked | {uid})
        self._keep_part(hold, uid)

    def note_reserved(self, key: str, uid: str, now: float) -> None:
        """Move the deadline, because the scheduler has reserved a member."""
        hold = self._groups.get(key).hold
        if hold is None or uid not in hold.members:
            return
        left = hold.left - {uid}
        if left:
            self._change(hold, left=left, until=self._deadline(hold, now), asked=hold.asked - {uid})
        else:
            self._groups.change(key, hold=None)
            self._note_delay(key, now)
            self._try_rest(key, uid, now)

    def _try_rest(self, key: str, own: str, now: float) -> None:
        """Have the members tried that wait: nobody decided about them while something was held.

        They ask for victims, too, which they did not while the group waited for what is released.
        """
        records, question = self._state.records, self._groups.get(key).question
        for uid in question.members if question else ():
            record = records.get(uid)
            if record.waiting is not None and uid != own:
                waiting = msgspec.structs.replace(record.waiting, tried=-1)
                pause = record.device_pause.extended(now)
                victims = (record.victims or VictimQuestion())._replace(asks=True)
                parts = {"waiting": waiting, "device_pause": pause, "victims": victims}
                records.change(uid, RecordEvent.SEARCHED, **parts)

    def take_back(self, key: str, uid: str, now: float) -> bool:
        """Add the part of a reserved member to its hold again; False if there is no hold."""
        hold = self.find(key, now)
        if hold is None or uid not in hold.members or not self._reserved.hold(uid, now):
            return False
        self._change(hold, left=hold.left | {uid})
        self._keep_part(hold, uid)
        return True

    def note_given_back(self, key: str, uid: str, now: float) -> None:
        """End the hold as a whole, because a member does not need its part."""
        hold = self._groups.get(key).hold
        if hold is not None and uid in hold.members:
            self.end(key, now, HoldEnd.GIVEN_BACK)

    def end(self, key: str, now: float, end: HoldEnd | None = None) -> None:
        """Give back what is left of a hold; it ended in vain, or another one replaces it (None)."""
        hold = self._groups.get(key).hold
        if hold is None:
            return
        self._groups.change(key, hold=None)
        was_taken = self._was_taken(hold)
        self._reserved.release_promised(hold.left)
        if end is None:
            return
        self._report(hold, end)
        if not was_taken:
            # A longer hold is followed by a longer pause.
            factor = max(1.0, (now - hold.since) // STEP_SECONDS)
            self._groups.pause(key, "pause", now, factor)
            if self._groups.get(key).evicted:
                self._groups.pause(key, "eviction_pause", now)

    def _was_taken(self, hold: GroupHold) -> bool:
        """Whether all parts that a hold has lost went to pods of other namespaces."""
        lost = [uid for uid in hold.left if self._reserved.find(uid) is None]
        takers = [self._state.records.get(uid).taken_by for uid in lost]
        return bool(takers) and not {"", namespace_of_group(hold.key)}.intersection(takers)

    def _report(self, hold: GroupHold, end: HoldEnd) -> None:
        """Have the end of a hold reported, on one of its members."""
        if (request := self._state.records.get(min(hold.left)).request) is not None:
            ended = EndedHold(request.pod, end, len(hold.left), len(hold.members))
            self._state.reports.append(ended)

    def evicts_at(self, key: str, now: float) -> float:
        """Return when a group may evict others again; 0 if nothing keeps it from that now."""
        until = self._groups.paused_until(key, "eviction_pause") if key else 0.0
        return until if until > now else 0.0

    def note_refused(self, key: str, now: float) -> None:
        """Let a group pause that was refused the devices of pods that were evicted for it."""
        if self._groups.get(key).evicted:
            self._groups.change(key, evicted=False)
            self._groups.pause(key, "eviction_pause", now)

    def succeed(self, key: str) -> None:
        """Forget that holds ended in vain, because a member is bound."""
        self._groups.forgive(key)
        if self._groups.get(key).evicted:
            self._groups.change(key, evicted=False)

    def expire(self, now: float) -> None:
        """End the holds whose time is over, or that lost a part."""
        for hold in self._groups.holds():
            if hold.until <= now:
                self.end(hold.key, now, HoldEnd.DEADLINE)
        self._end_lost(now)

    def clear(self) -> None:
        """Forget all groups, because another process decides meanwhile."""
        for hold in self._groups.holds():
            self._report(hold, HoldEnd.LEADER_CHANGED)
        self._groups.end_term()

    def _change(self, hold: GroupHold, **changes: Any) -> None:  # noqa: ANN401  # its fields
        self._groups.change(hold.key, hold=msgspec.structs.replace(hold, **changes))

    def _keep_part(self, hold: GroupHold, uid: str) -> None:
        """Let a part last as long as its hold can; all parts end with the hold."""
        self._reserved.prolong(uid, hold.since + MAX_HOLD_SECONDS)

    def _deadline(self, hold: GroupHold, now: float) -> float:
        delay = median(self._groups.of_namespace(hold.key).delays or (0.0,))
        step = max(STEP_SECONDS, STEPS_PER_DELAY * delay)
        return min(now + step, hold.since + MAX_HOLD_SECONDS)
