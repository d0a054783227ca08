"""What the allocator remembers of a group: one record. Its members have records of their own.

A record outlasts its pods, because a group that is created anew pauses as before. Beyond a limit,
the namespace with most members loses the group that was used least recently. What was held for it
ends then as promises of its members do.

A tenant can make groups without an end, so that what counts for all groups of a namespace has a
record of its own.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from allocator.decisions.group_questions import GroupAnswer, GroupQuestion
from allocator.decisions.group_searches import GroupDecision
from allocator.decisions.group_victims import GroupVictimSearch
from allocator.state.pauses import NO_PAUSE, WAKE_PAUSES, NamespacePause, Pause, PauseLimits
from drawbridge.bounded_cache import BoundedCache
from drawbridge.fair_cache import FairCache

# The members of all groups together. A decision that was cut counts them once more, and what
# searches remember takes as much as so many of them.
MAX_MEMBERS: Final = 65536
SEARCH_MEMBERS: Final = 16
VICTIM_SEARCH_MEMBERS: Final = 256
# The groups of namespaces beyond are answered as if none had failed.
MAX_NAMESPACES: Final = 4096
PauseKind: TypeAlias = Literal["pause", "eviction_pause"]
# If pods were evicted for a group in vain, the next ones are evicted after a longer pause.
PAUSES: Final[Mapping[PauseKind, PauseLimits]] = {
    "pause": WAKE_PAUSES,
    "eviction_pause": PauseLimits(30.0, 3600.0),
}


class GroupHold(msgspec.Struct, frozen=True):
    """The members whose devices are held, those that are `left` to be reserved, and the deadline.

    `asked` are those that got an answer and were not reserved since. No pod takes anything from
    the group that comes `first`.
    """

    key: str
    members: frozenset[str]
    left: frozenset[str]
    since: float
    until: float
    asked: frozenset[str] = frozenset()
    first: bool = False


class GroupRefusal(msgspec.Struct, frozen=True):
    """The answer to some members, which holds until a time in one state of the cluster."""

    epoch: int
    until: float
    members: frozenset[str]
    answer: GroupAnswer


class GroupAlone(msgspec.Struct, frozen=True):
    """The members that can be decided about alone until a time, once each.

    One of them was refused in the state `refused`.
    """

    members: frozenset[str] = frozenset()
    until: float = 0.0
    refused: int = -1


class GroupRecord(msgspec.Struct, frozen=True):
    """All that is known of a group.

    The decision about it and its search for pods to evict were `cut`. Pods were `evicted` for it
    since a member was bound. It was `woken` at a time and not reserved since. A change of the
    leader has `interrupted` it. All but what was asked, and what searches found, is of one `term`.
    """

    term: int = 0
    question: GroupQuestion | None = None
    refusal: GroupRefusal | None = None
    cut: GroupDecision | None = None
    cut_victims: GroupVictimSearch | None = None
    hold: GroupHold | None = None
    alone: GroupAlone = GroupAlone()
    evicted: bool = False
    woken: float | None = None
    interrupted: bool = False
    pause: Pause = NO_PAUSE
    eviction_pause: Pause = NO_PAUSE

    def count_cost(self) -> int:
        """Return how many members take as much memory."""
        members = len(self.question.members) if self.question is not None else 0
        searches = SEARCH_MEMBERS + len(self.cut.members) if self.cut is not None else 0
        searches += VICTIM_SEARCH_MEMBERS if self.cut_victims is not None else 0
        return max(members + searches, 1)


class NamespaceRecord(msgspec.Struct, frozen=True):
    """What counts for all groups of a namespace: its pauses, and when one of them can gather.

    The scheduler was late for groups that were woken by the last `delays`. All but the time from
    which groups can gather is of one `term`.
    """

    term: int = 0
    gathers_from: float = 0.0
    delays: tuple[float, ...] = ()
    pause: NamespacePause = NamespacePause()
    eviction_pause: NamespacePause = NamespacePause()


_NOTHING: Final = GroupRecord()
_NO_GROUPS: Final = NamespaceRecord()


class GroupTable:
    """The records by the key of the group."""

    def __init__(self) -> None:
        # A record of each group; its members count, and 16 or 256 for a search that was cut.
        self._records: FairCache[GroupRecord] = FairCache(MAX_MEMBERS)
        # What counts for the groups of a namespace: failures, delays, and when they gather.
        self._namespaces: BoundedCache[str, NamespaceRecord] = BoundedCache(MAX_NAMESPACES)
        self._held: dict[str, None] = {}  # in the order in which the holds began
        self._term = 0

    def get(self, key: str) -> GroupRecord:
        """Return the record of a group; an empty one if nothing is remembered."""
        record = (self._records.get(key) if key else None) or _NOTHING
        if record.term == self._term:
            return record
        # What a decision has held by now, it held in an earlier term.
        cut = record.cut if record.cut is not None and record.cut.since == math.inf else None
        return GroupRecord(self._term, record.question, record.refusal, cut, record.cut_victims)

    def members_of(self, key: str) -> Collection[str]:
        """Return the members with which the scheduler asked about a group last.

        It can ask for victims for one when it has asked about all of these.
        """
        question = self.get(key).question
        return question.members if question is not None else ()

    def change(self, key: str, **changes: Any) -> None:  # noqa: ANN401  # fields of a record
        """Change parts of a record, which begins with that."""
        record = replace(self.get(key), **changes)
        self._records.put(key, record, cost=record.count_cost())
        if record.hold is None:
            self._held.pop(key, None)
        else:
            self._held.setdefault(key)

    def note_copy(self, key: str) -> None:
        """Note that a copy of the process has decided about a group, or was refused."""
        record = self.get(key)
        for search in (record.cut, record.cut_victims):
            if search is not None:
                search.cuts.note_copy()

    def of_namespace(self, key: str) -> NamespaceRecord:
        """Return what counts for all groups of the namespace of a group."""
        record = self._namespaces.get(namespace_of_group(key)) or _NO_GROUPS
        if record.term != self._term:
            record = NamespaceRecord(self._term, gathers_from=record.gathers_from)
        return record

    def change_namespace(self, key: str, **changes: Any) -> None:  # noqa: ANN401  # as well
        """Change what counts for all groups of the namespace of a group."""
        self._namespaces.put(namespace_of_group(key), replace(self.of_namespace(key), **changes))

    def paused_until(self, key: str, kind: PauseKind) -> float:
        """Return when the pause of a group or its namespace ends; 0 if there was none."""
        both = (self.get(key), self.of_namespace(key))
        return max(float(getattr(each, kind).until) for each in both)

    def pause(self, key: str, kind: PauseKind, now: float, factor: float = 1.0) -> None:
        """Let a group pause, `factor` times as long as usual, because something was in vain."""
        own, shared = getattr(self.get(key), kind), getattr(self.of_namespace(key), kind)
        self.change(key, **{kind: own.grown(now, PAUSES[kind], factor)})
        self.change_namespace(key, **{kind: shared.grown(key, now, PAUSES[kind], factor)})

    def forgive(self, key: str) -> None:
        """Forget that something was in vain for a group."""
        for kind in PAUSES:
            if getattr(self.get(key), kind).failures:
                shared = getattr(self.of_namespace(key), kind)
                self.change(key, **{kind: NO_PAUSE})
                self.change_namespace(key, **{kind: shared.forgiven(key)})

    def holds(self) -> list[GroupHold]:
        """Return all holds, in the order in which they began."""
        holds = {key: self.get(key).hold for key in self._held}
        for key in [key for key, hold in holds.items() if hold is None]:
            del self._held[key]
        return [hold for hold in holds.values() if hold is not None]

    def end_term(self) -> None:
        """Keep what was asked, and what its searches found; another process decides meanwhile."""
        self._term += 1
        self._held.clear()


def namespace_of_group(key: str) -> str:
    """Return the namespace that the key of a group begins with."""
    return key.partition("/")[0]
