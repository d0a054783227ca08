"""Depth-first search for devices: in order, over combinations, the first solution wins.

The search chooses exactly the devices that kube-scheduler chooses. Its stack is a list, so the size
of a claim cannot exhaust the call stack. `Pruning` shortens hopeless searches: it can exclude a
candidate or a branch, and it changes nothing else.
"""

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from drawbridge.dra.allocation import MAX_RESULTS
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.demand import Option
from drawbridge.solver.meter import SearchLimitExceeded
from drawbridge.solver.orders import CandidateOrders
from drawbridge.solver.state import ChosenDevice, State

STEPS = 200_000
# After this many dead ends, pruning saves more than it costs to set up.
DEAD_ENDS_BEFORE_PRUNING = 4


class BranchEnd(enum.Enum):
    """How a branch ends. An overrun undoes all devices back to the last list of alternatives."""

    NO = enum.auto()
    OVERRUN = enum.auto()
    # The search continues: a choice was pushed, or all devices are chosen.
    PUSHED = enum.auto()
    SOLVED = enum.auto()


PUSHED, SOLVED = BranchEnd.PUSHED, BranchEnd.SOLVED


class DeviceChoice:
    """A device to choose for an option; `position` is the index of the candidate tried last."""

    __slots__ = ("candidates", "failed", "number", "option", "position", "state_key")

    def __init__(
        self,
        option: Option,
        number: int,
        candidates: Sequence[Candidate],
        position: int,
        state_key: object = None,
    ) -> None:
        self.option = option
        self.number = number
        self.candidates = candidates
        self.position = position
        self.state_key = state_key
        self.failed: set[object] = set()


class Alternatives:
    """The options of a request with `firstAvailable`; `index` is the option being tried."""

    __slots__ = ("all_overran", "index", "request_index")

    def __init__(self, request_index: int) -> None:
        self.request_index = request_index
        self.index = 0
        self.all_overran = True


class ClaimEnd:
    """The end of a claim: an overrun in a later claim is an ordinary dead end in this one."""

    __slots__ = ()


SearchFrame: TypeAlias = DeviceChoice | Alternatives | ClaimEnd


class Pruning(Protocol):
    """Excludes branches without a solution, unless an error would occur in them."""

    def is_impossible(self) -> bool:
        """Return whether there is no solution at all."""

    def is_hopeless(self, option: Option, number: int, start: int) -> bool:
        """Return whether no solution follows if device `number` is next, from `start` on."""

    def equivalence_class(self, candidate: Candidate) -> object:
        """Return a key that is equal for interchangeable candidates."""

    def state_key(self, option: Option) -> object:
        """Return a key that is equal for states with the same results for an option."""


class DeadEnd(NamedTuple):
    """The first of the deepest dead ends: no candidate was suitable for this device."""

    option: Option
    number: int
    taken: tuple[ChosenDevice, ...]


class Search:
    """One search on one node. It calls `make_pruning` after the first few dead ends."""

    def __init__(
        self,
        state: State,
        orders: CandidateOrders,
        make_pruning: "Callable[[Search], Pruning]",
        steps: int = STEPS,
    ) -> None:
        self.state = state
        self.orders = orders
        self.make_pruning = make_pruning
        self.meter = state.node_view.meter
        self.steps_left = steps
        self.stack: list[SearchFrame] = []
        self.pruning: Pruning | None = None
        self.deepest: DeadEnd | None = None
        self._dead_states: set[object] = set()
        self._dead_ends_left = DEAD_ENDS_BEFORE_PRUNING

    def run(self) -> bool:
        """Search, and return whether the state's trail is the solution.

        Raises Abort and SearchLimitExceeded.
        """
        ends = self._enter_request(0)
        while ends is not SOLVED:
            if ends is PUSHED:
                choice = self.stack[-1]
                assert isinstance(choice, DeviceChoice)  # noqa: S101  # pushed last
                ends = self._try_next(choice)
            elif self.stack:
                ends = self._backtrack(ends)
            else:
                return False
        return True

    def _enter_request(self, number: int) -> BranchEnd:
        """Continue with the first device of a request."""
        requests = self.state.demand.requests
        if number >= len(requests):
            return SOLVED
        request = requests[number]
        if number and requests[number - 1].claim != request.claim:
            self.stack.append(ClaimEnd())
        if request.prioritized:
            self.stack.append(Alternatives(number))
        return self._choose_device(request.options[0], 0, 0)

    def _choose_device(self, option: Option, number: int, start: int) -> BranchEnd:
        """Continue with a device of an option, from candidate `start` on."""
        candidates = self.orders.candidates_for(option)
        count = len(candidates) if option.all_mode else option.wanted.count
        if option.all_mode and not candidates:
            return BranchEnd.NO
        if number >= count:
            return self._enter_request(option.request_index + 1)
        if count - number > MAX_RESULTS - self.state.counts[option.claim]:
            return BranchEnd.OVERRUN
        state_key = None
        if self.pruning is not None:
            if self.pruning.is_hopeless(option, number, start):
                return BranchEnd.NO
            state_key = self.pruning.state_key(option) if number == 0 else None
            if state_key in self._dead_states:
                return BranchEnd.NO
        self.stack.append(DeviceChoice(option, number, candidates, start - 1, state_key))
        return PUSHED

    def _try_next(self, choice: DeviceChoice) -> BranchEnd:
        """Take the next suitable candidate and continue after it."""
        option, candidates = choice.option, choice.candidates
        last = choice.number + 1 if option.all_mode else len(candidates)
        position = choice.position + 1
        while position < last:
            candidate = candidates[position]
            if self._should_try(choice, candidate) and self._take(option, candidate):
                choice.position = position
                return self._choose_device(option, choice.number + 1, position + 1)
            position += 1
        self._abandon(choice)
        depth = len(self.state.trail)
        if self.deepest is None or depth > len(self.deepest.taken):
            self.deepest = DeadEnd(option, choice.number, tuple(self.state.trail))
        return BranchEnd.NO

    def _abandon(self, choice: DeviceChoice) -> None:
        """Remove a choice without a solution, and remember its state."""
        self.stack.pop()
        if choice.state_key is not None:
            self._dead_states.add(choice.state_key)

    def _take(self, option: Option, candidate: Candidate) -> bool:
        """Choose a device if it is suitable; the steps of its checks count as the search's."""
        before = self.meter.spent
        rejection = self.state.take(option, candidate)
        self.steps_left -= self.meter.spent - before
        return rejection is None

    def _should_try(self, choice: DeviceChoice, candidate: Candidate) -> bool:
        """Count a step; return False if an interchangeable candidate has failed."""
        self.steps_left -= 1
        if self.steps_left < 0:
            raise SearchLimitExceeded
        self.meter.spend(1)
        if not choice.failed or self.pruning is None:
            return True
        return self.pruning.equivalence_class(candidate) not in choice.failed

    def _backtrack(self, ends: BranchEnd) -> BranchEnd:
        """Return to the newest choice and try its next candidate or alternative."""
        frame = self.stack[-1]
        if isinstance(frame, Alternatives):
            return self._next_alternative(frame, ends)
        if isinstance(frame, ClaimEnd):
            self.stack.pop()
            return BranchEnd.NO
        if ends is BranchEnd.NO and self.pruning is None and self._count_dead_end():
            self.pruning = self.make_pruning(self)
            if self.pruning.is_impossible():
                self.stack.clear()
                return BranchEnd.NO
        self.state.undo()
        if ends is BranchEnd.OVERRUN:
            self.stack.pop()
            return ends
        if frame.option.all_mode:
            self._abandon(frame)
            return ends
        if self.pruning is not None:
            frame.failed.add(self.pruning.equivalence_class(frame.candidates[frame.position]))
        return PUSHED

    def _count_dead_end(self) -> bool:
        self._dead_ends_left -= 1
        return self._dead_ends_left < 0

    def _next_alternative(self, frame: Alternatives, ends: BranchEnd) -> BranchEnd:
        if ends is BranchEnd.NO:
            frame.all_overran = False
        frame.index += 1
        options = self.state.demand.requests[frame.request_index].options
        if frame.index < len(options):
            return self._choose_device(options[frame.index], 0, 0)
        self.stack.pop()
        return BranchEnd.OVERRUN if frame.all_overran else BranchEnd.NO
