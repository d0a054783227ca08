"""Selector and capacity checks of a request that do not depend on allocations.

Each check runs once per device, for all requests with equal selectors and amounts.
"""

import enum
import functools
from collections.abc import Callable
from typing import Final, NamedTuple

from drawbridge.digest import digest
from drawbridge.dra.capacity import Amounts, CapacityError, Misfit, consumed_amounts, find_shortfall
from drawbridge.dra.gates import Gates
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.expressions import EvaluationFailure, ExpressionEvaluator


class Stage(enum.StrEnum):
    """The checks that can reject a device, in the order in which they run."""

    POOL = "pool"
    HELD = "in use"
    CLASS = "class selector"
    REQUEST = "request selector"
    NODE = "node"
    CAPACITY = "capacity"
    SUPPORT = "support"
    GROUPS = "groups"
    COMPANY = "company"
    COUNTERS = "counters"
    TAINT = "taint"
    CONSTRAINT = "constraint"
    RULE = "rule"


class SelectorVerdict(NamedTuple):
    """The result of the selectors; `stage` is None if all of them select the device."""

    stage: Stage | None = None
    number: int = 0
    failed: EvaluationFailure | None = None


class CapacityNeed(NamedTuple):
    """The amounts a request consumes; `misfit` if they exceed even an unused device."""

    amounts: Amounts
    misfit: Misfit | None = None
    error: CapacityError | None = None

    @property
    def unsuitable(self) -> bool:
        """Whether even the unused device is unsuitable."""
        return self.misfit is not None or self.error is not None


SELECTED = SelectorVerdict()
UNSUPPORTED = SelectorVerdict(Stage.SUPPORT)
NO_CAPACITY = CapacityNeed({})
# Drivers decide how many different amounts devices have.
_MAX_NEEDS: Final = 256
SelectorTexts = tuple[tuple[str, ...], tuple[str, ...]]


@functools.lru_cache(maxsize=128)
def _rejected(stage: Stage, number: int) -> SelectorVerdict:
    """Return the verdict that most devices of a request have: one object for all of them."""
    return SelectorVerdict(stage, number)


class RequestFilter:
    """The selectors of a class and a request, and the requested amounts.

    Filters with the same `key` have the same results. `count_result` is called before each result
    that a device keeps.
    """

    def __init__(
        self,
        expressions: ExpressionEvaluator,
        selectors: SelectorTexts,
        requested: Amounts,
        count_result: Callable[[], None],
        *,
        gates: Gates,
    ) -> None:
        self.selectors = selectors
        self.requested = requested
        amounts = sorted((name, str(amount)) for name, amount in requested.items())
        self.key = digest(repr((selectors, amounts)).encode())
        self._expressions = expressions
        self._count_result = count_result
        self._binding = gates.supports_binding_conditions
        self._fractional = gates.fractional_capacity_range
        # Each device keeps what it needs, which is the same for most.
        self._needs: dict[tuple[tuple[str, str], ...], CapacityNeed] = {}

    def check_selectors(self, candidate: Candidate) -> SelectorVerdict:
        """Evaluate the selectors on a device; does not check the device's node selection."""
        cached = candidate.verdicts.get(self.key)
        if cached is None:
            older = candidate.older_verdicts.get(self.key)
            cached = older or self._evaluate_selectors(candidate)
            self._count_result()
            candidate.verdicts[self.key] = cached
        return cached  # type: ignore[return-value]  # stored by such a filter

    def required_capacity(self, candidate: Candidate) -> CapacityNeed:
        """Return the amounts consumed from the device's capacities."""
        cached = candidate.needs.get(self.key)
        if cached is None:
            cached = candidate.older_needs.get(self.key) or self._compute_capacity(candidate)
            self._count_result()
            candidate.needs[self.key] = cached
        return cached  # type: ignore[return-value]  # stored by such a filter

    def _evaluate_selectors(self, candidate: Candidate) -> SelectorVerdict:
        device, driver = candidate.device, candidate.pool.driver
        if device.binding_conditions and not self._binding:
            return UNSUPPORTED
        for stage, selectors in zip((Stage.CLASS, Stage.REQUEST), self.selectors, strict=True):
            for number, source in enumerate(selectors):
                outcome = self._expressions.selects(source, driver, device)
                if isinstance(outcome, EvaluationFailure):
                    return SelectorVerdict(stage, number, outcome)
                if not outcome:
                    return _rejected(stage, number)
        return SELECTED

    def _compute_capacity(self, candidate: Candidate) -> CapacityNeed:
        capacity = candidate.device.capacity
        if not capacity and not self.requested:
            return NO_CAPACITY
        try:
            taken = consumed_amounts(capacity, self.requested, fractional=self._fractional)
        except CapacityError as error:
            return CapacityNeed({}, error=error)
        if isinstance(taken, Misfit):
            return CapacityNeed({}, misfit=taken)
        if misfit := find_shortfall(capacity, taken):
            return CapacityNeed(taken, misfit=misfit)
        if len(self._needs) >= _MAX_NEEDS:
            self._needs.clear()
        written = tuple([(name, str(amount)) for name, amount in taken.items()])
        return self._needs.setdefault(written, CapacityNeed(taken))
