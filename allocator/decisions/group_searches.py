"""The decisions about groups that were cut, so that each goes on where it stopped.

A decision takes the event loop for a short time only. One that needs more is cut after a small
step, and goes on with the next question about the same members, or with the next turn of waking.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeVar

from allocator.decisions.group_questions import GroupAnswer, GroupQuestion
from allocator.decisions.quota import QuotaRoom
from allocator.state.cluster_state import AllocatorState
from drawbridge.agreement import allocator_codes as codes
from drawbridge.dra.claim import Claim
from drawbridge.dra.quota_codes import DEVICE_QUOTA_USED_UP
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import Ask, CutSearch, Question, Steps
from drawbridge.solver.memo import CutOnNodeError
from drawbridge.solver.reasons import Reason

# A search that was cut, and found too few members, begins again if the use of devices has changed
# meanwhile. After so many times, its result counts.
MAX_STALE_SEARCHES: Final = 4
T = TypeVar("T")


class NodeCuts:
    """The nodes on which a search was cut.

    If it `may_pass`, it passes over those on which it was cut again after a copy had decided. Such
    a search refuses nobody, because it is not known what these nodes have.
    """

    def __init__(self, *, may_pass: bool = True) -> None:
        self.may_pass = may_pass
        self._cut, self._decided = set[str](), set[str]()
        self.again = set[str]()  # cut again

    @property
    def passed(self) -> bool:
        """Whether the search has passed over nodes."""
        return self.may_pass and bool(self.again)

    def note_copy(self) -> None:
        """Note that a copy of the process has decided."""
        self._decided |= self._cut

    def ask(self, ask: Ask, node: str, claims: Sequence[Claim]) -> Solution | None:
        """Ask about a node, if the search does not pass over it."""
        if self.may_pass and node in self.again:
            return None
        try:
            return ask(node, claims)
        except CutOnNodeError:
            (self.again if node in self._decided else self._cut).add(node)
            raise


class GroupDecision:
    """A decision about some members, which can be cut between two of its `steps`.

    A step finds out about one member, asks the solver about nodes, or promises to one member what
    was found. The steps read the time and the state of the cluster when they run. The group has
    held devices without a pause since `since`; that is infinite if it holds none.
    """

    def __init__(
        self,
        question: GroupQuestion,
        needed: int,
        since: float,
        steps: "Callable[[GroupDecision], Steps[GroupAnswer]]",
    ) -> None:
        self.question, self.members, self.needed = question, frozenset(question.members), needed
        self._held_since = self.since = since
        self.promised: dict[str, None] = {}  # to whom, in order
        self.now = 0.0
        self.use = 0  # of those devices, in which members are placed at first
        self._find_uses: Callable[[], Sequence[Ask]] = tuple
        self._uses: Sequence[Ask] = ()
        self._steps = steps
        self._begin()

    def _begin(self) -> None:
        # Which quota the first devices exceed that were found, and the room for others.
        self.exceeded: Reason | None = None
        self._room: QuotaRoom | None = None
        self.left_out = False  # whether the last search has left nodes out for that
        self.cuts = NodeCuts(may_pass=False)  # in the last search
        self._search: CutSearch[Question, GroupAnswer] = CutSearch(self._steps(self))

    def run(
        self,
        find_uses: Callable[[], Sequence[Ask]],
        now: float,
        out_of_time: Callable[[], bool],
    ) -> GroupAnswer | None:
        """Return the answer; None if the decision was cut.

        `find_uses` returns a question to the solver for each use of devices.
        """
        self._find_uses, self._uses, self.now = find_uses, (), now
        answer = self._search.run(self._ask, out_of_time)
        if answer is None and self.cuts.again and not self.cuts.may_pass:
            self._begin()  # other nodes may have devices by now
        return answer

    def begin_search(self, *, may_pass: bool) -> None:
        """Begin a search; one that passed over nodes is followed by others."""
        self.left_out, self.cuts = False, NodeCuts(may_pass=may_pass)

    def begin_promises(self) -> None:
        """Begin to promise; what is held then lasts no longer than the first promise."""
        self.promised.clear()
        self.since = min(self._held_since, self.now)

    def searches_again(self, answer: GroupAnswer, state: AllocatorState) -> bool:
        """Whether a search after this answer, which promises too little, can find more.

        If the devices that were found exceed a quota, those of other nodes can have less.
        """
        reason = answer.reason
        if reason is None or reason.code == codes.GANG_TOO_LARGE.name:
            return reason is not None
        if reason.code != DEVICE_QUOTA_USED_UP.name or self.exceeded is not None:
            return False
        self._room, self.exceeded = QuotaRoom(state, self.question.members), reason
        return True

    def has_other_use(self) -> bool:
        """Whether there is another use of devices in which more members may fit."""
        return self.use + 1 < len(self._current_uses())

    def _current_uses(self) -> Sequence[Ask]:
        self._uses = self._uses or self._find_uses()
        return self._uses

    def _ask(self, question: Question) -> Solution | None:
        uses, (node, claims) = self._current_uses(), question
        solution = self.cuts.ask(uses[min(self.use, len(uses) - 1)], node, claims)
        if solution is None or self._room is None or self._room.fits(claims, solution):
            return solution
        self.left_out = True
        return None


def run_to_end(steps: Generator[object, Any, T]) -> T:
    """Run steps that ask nothing and are not cut, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
