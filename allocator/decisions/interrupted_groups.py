"""Which groups come before all other pods, because a part of them is bound and runs for nothing.

A change of the leader interrupts groups. Others wait until these have an answer, for a short time.
Then one of them at a time gathers devices: it keeps what becomes free, one by one, until enough
members fit. Otherwise groups and pods that need less would take each device before it.

Devices that are gathered are idle, so that it takes a limited time. After a group that gathered in
vain, nobody gathers for as long, and its namespace for much longer. A tenant can write what makes a
group: others wait for its groups for a limited part of the time.
"""

from collections.abc import Collection
from typing import Final

from allocator.state.group_records import GroupTable

# How long others wait at the start of a term until interrupted groups are asked about. On a busy
# machine, the scheduler needs seconds to come to them.
FIRST_SECONDS: Final = 10.0
# A part of a group that is bound so long after the start of a term was decided before it.
YOUNG_SECONDS: Final = 60.0
# Interrupted groups come first for so long, and then wait as all others do.
INTERRUPTED_SECONDS: Final = 900.0
GATHER_SECONDS: Final = 60.0
# How long nobody gathers after a group that did so in vain, and how long its namespace does not.
PAUSE_SECONDS: Final = 60.0
NAMESPACE_PAUSE_SECONDS: Final = 600.0


class InterruptedGroups:
    """The groups that a change of the leader has interrupted, by key."""

    def __init__(self, groups: GroupTable) -> None:
        self._groups = groups
        self._unanswered: set[str] = set()
        self._is_over = False  # whether no group comes first any more
        self._first_until: float | None = None
        self._began: float | None = None
        self._gathering = ""
        self._gathers_until = 0.0
        self._pause_until = 0.0

    def begin_term(self, keys: Collection[str]) -> None:
        """Begin with the groups of which a part is bound now; nothing is gathered any more.

        The records of groups are of the new term by now.
        """
        self._is_over, self._gathering = False, ""
        self._first_until = self._began = None
        for key in keys:
            self._groups.change(key, interrupted=True)
        self._unanswered = {key for key in keys if key in self}

    def __contains__(self, key: str) -> bool:
        return not self._is_over and self._groups.get(key).interrupted

    def come_first(self, key: str, now: float) -> tuple[int, float] | None:
        """Return for how many groups others wait, and until when; None if `key` need not.

        The scheduler asks about them at once. One that it does not ask about delays others briefly.
        """
        if not self._unanswered or key in self:
            return None
        if self._first_until is None:
            self._first_until = now + FIRST_SECONDS
        if now >= self._first_until:
            self._unanswered.clear()
            return None
        return len(self._unanswered), self._first_until

    def note_partly_bound(self, key: str, now: float) -> None:
        """Add a group of which a part is bound, if the term has just begun.

        The scheduler may hold members that were decided about before, and bind some of them.
        """
        if self._age(now) < YOUNG_SECONDS:
            self._groups.change(key, interrupted=True)

    def _age(self, now: float) -> float:
        """Return how long the term lasts; it begins with the first call."""
        if self._began is None:
            self._began = now
        return now - self._began

    def note_answer(self, key: str) -> None:
        """Let others wait no longer for a group that has an answer."""
        self._unanswered.discard(key)

    def complete(self, key: str) -> None:
        """Forget a group whose members fit; the next one can gather."""
        if key in self:
            self._groups.change(key, interrupted=False)
        if key == self._gathering:
            self._gathering = ""

    # --- gathering ---

    def is_gathering(self, key: str) -> bool:
        """Whether a group gathers devices now."""
        return bool(key) and key == self._gathering

    def gather(self, key: str, now: float) -> float | None:
        """Return until when a group that does not fit can gather devices; None if it cannot.

        The first that asks while no other one gathers has the turn.
        """
        self.expire(now)
        if self._gathering:
            return self._gathers_until if key == self._gathering else None
        paused = max(self._pause_until, self._groups.of_namespace(key).gathers_from)
        if key not in self or now < paused:
            return None
        self._gathering, self._gathers_until = key, now + GATHER_SECONDS
        return self._gathers_until

    def expire(self, now: float) -> None:
        """End the turn of a group that gathered in vain, and at last those of all."""
        if self._age(now) >= INTERRUPTED_SECONDS:
            self._is_over = True
        if self._gathering and now >= self._gathers_until:
            self._pause_until = self._gathers_until + PAUSE_SECONDS
            until = self._gathers_until + NAMESPACE_PAUSE_SECONDS
            self._groups.change_namespace(self._gathering, gathers_from=until)
            self._gathering = ""
