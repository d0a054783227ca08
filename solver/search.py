"""The search: depth first, devices in order, combinations and not permutations, first one wins.

Chooses exactly what the scheduler chooses. Its stack is a list, so that no claim is too long for
it. What makes hopeless searches short is handed in as `Shortcuts`: it may say that a candidate or a
whole branch leads nowhere, and nothing else.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from solver.candidates import Candidate
from solver.demand import MOST_RESULTS, Option
from solver.state import State, Taken

STEPS = 200_000
# Dead ends before shortcuts are worth what it takes to make them.
PATIENCE = 4


class GaveUp(Exception):  # noqa: N818  # no bug: the answer is that there is none
    """The search took more steps than it may."""


class Ends(enum.Enum):
    """How a branch ends; an overrun leaves all devices up to an alternative."""

    NO = enum.auto()
    OVERRUN = enum.auto()
    # Not ends, but what goes on: a choice was pushed, or there is nothing left to choose.
    PUSHED = enum.auto()
    SOLVED = enum.auto()


PUSHED, SOLVED = Ends.PUSHED, Ends.SOLVED


class Pick:
    """A device to choose for an option: `at` is the candidate tried last."""

    __slots__ = ("at", "candidates", "failed", "number", "option", "situation")

    def __init__(
        self,
        option: Option,
        number: int,
        candidates: Sequence[Candidate],
        at: int,
        situation: object = None,
    ) -> None:
        self.option = option
        self.number = number
        self.candidates = candidates
        self.at = at
        self.situation = situation
        self.failed: set[object] = set()


class Alternatives:
    """The options of a prioritized wish, of which `index` is being tried."""

    __slots__ = ("exceeded", "index", "wish")

    def __init__(self, wish: int) -> None:
        self.wish = wish
        self.index = 0
        self.exceeded = True


class ClaimEnd:
    """The end of a claim: an overrun behind it is a plain no before it."""

    __slots__ = ()


Frame: TypeAlias = Pick | Alternatives | ClaimEnd


class Shortcuts(Protocol):
    """What knows that something leads nowhere, without an error that would be met there."""

    def refuted(self) -> bool:
        """Tell whether there is no solution at all."""

    def hopeless(self, option: Option, number: int, start: int) -> bool:
        """Tell whether no solution follows, when device `number` is next, from `start` on."""

    def twin(self, candidate: Candidate) -> object:
        """Give what is equal for candidates that are interchangeable."""

    def situation(self, option: Option) -> object:
        """Give what is equal for states in which an option has the same future."""


class Deepest(NamedTuple):
    """The first dead end of those that lie deepest: no device could be taken there."""

    option: Option
    number: int
    taken: tuple[Taken, ...]


class Search:
    """One search on one site; `helped` makes the shortcuts once the first way has failed."""

    def __init__(
        self,
        state: State,
        every: Mapping[Option, Sequence[Candidate]],
        helped: "Callable[[Search], Shortcuts]",
        steps: int = STEPS,
    ) -> None:
        self.state = state
        self.every = every
        self.helped = helped
        self.left = steps
        self.stack: list[Frame] = []
        self.shortcuts: Shortcuts | None = None
        self.deepest: Deepest | None = None
        self._dead: set[object] = set()
        self._patience = PATIENCE

    def run(self) -> Ends | None:
        """Search; None where the state's trail is the solution. Raises Abort and GaveUp."""
        ends = self._wish(0)
        while ends is not SOLVED:
            if ends is PUSHED:
                pick = self.stack[-1]
                assert isinstance(pick, Pick)  # noqa: S101  # what was pushed last
                ends = self._try(pick)
            elif self.stack:
                ends = self._back(ends)
            else:
                return ends
        return None

    def _wish(self, number: int) -> Ends:
        """Go on with the first device of a wish, in the claim at hand or the next."""
        wishes = self.state.demand.wishes
        if number >= len(wishes):
            return SOLVED
        wish = wishes[number]
        if number and wishes[number - 1].claim != wish.claim:
            self.stack.append(ClaimEnd())
        if wish.prioritized:
            self.stack.append(Alternatives(number))
        return self._device(wish.options[0], 0, 0)

    def _device(self, option: Option, number: int, start: int) -> Ends:
        """Go on with a device of an option, looking from `start` on."""
        candidates = self.every[option] if option.every else self.state.site.candidates
        count = len(candidates) if option.every else option.wanted.count
        if option.every and not candidates:
            return Ends.NO
        if number >= count:
            return self._wish(option.wish + 1)
        if count - number > MOST_RESULTS - self.state.counts[option.claim]:
            return Ends.OVERRUN
        situation = None
        if self.shortcuts is not None:
            if self.shortcuts.hopeless(option, number, start):
                return Ends.NO
            situation = self.shortcuts.situation(option) if number == 0 else None
            if situation in self._dead:
                return Ends.NO
        self.stack.append(Pick(option, number, candidates, start - 1, situation))
        return PUSHED

    def _try(self, pick: Pick) -> Ends:
        """Take the next candidate that can be taken and go on behind it."""
        option, candidates = pick.option, pick.candidates
        last = pick.number + 1 if option.every else len(candidates)
        at = pick.at + 1
        while at < last:
            candidate = candidates[at]
            if self._useful(pick, candidate) and self.state.take(option, candidate) is None:
                pick.at = at
                return self._device(option, pick.number + 1, at + 1)
            at += 1
        self._drop(pick)
        depth = len(self.state.trail)
        if self.deepest is None or depth > len(self.deepest.taken):
            self.deepest = Deepest(option, pick.number, tuple(self.state.trail))
        return Ends.NO

    def _drop(self, pick: Pick) -> None:
        """Give up a choice that led nowhere, and remember so."""
        self.stack.pop()
        if pick.situation is not None:
            self._dead.add(pick.situation)

    def _useful(self, pick: Pick, candidate: Candidate) -> bool:
        """Count a step, and tell whether a candidate may lead further than those before."""
        self.left -= 1
        if self.left < 0:
            raise GaveUp
        if not pick.failed or self.shortcuts is None:
            return True
        return self.shortcuts.twin(candidate) not in pick.failed

    def _back(self, ends: Ends) -> Ends:
        """Go back to the newest choice and make the next one."""
        frame = self.stack[-1]
        if isinstance(frame, Alternatives):
            return self._alternative(frame, ends)
        if isinstance(frame, ClaimEnd):
            self.stack.pop()
            return Ends.NO
        if ends is Ends.NO and self.shortcuts is None and self._impatient():
            self.shortcuts = self.helped(self)
            if self.shortcuts.refuted():
                self.stack.clear()
                return Ends.NO
        self.state.undo()
        if ends is Ends.OVERRUN:
            self.stack.pop()
            return ends
        if frame.option.every:
            self._drop(frame)
            return ends
        if self.shortcuts is not None:
            frame.failed.add(self.shortcuts.twin(frame.candidates[frame.at]))
        return PUSHED

    def _impatient(self) -> bool:
        self._patience -= 1
        return self._patience < 0

    def _alternative(self, frame: Alternatives, ends: Ends) -> Ends:
        if ends is Ends.NO:
            frame.exceeded = False
        frame.index += 1
        options = self.state.demand.wishes[frame.wish].options
        if frame.index < len(options):
            return self._device(options[frame.index], 0, 0)
        self.stack.pop()
        return Ends.OVERRUN if frame.exceeded else Ends.NO
