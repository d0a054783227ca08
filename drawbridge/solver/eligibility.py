"""Selector and capacity checks of a request that do not depend on allocations.

Each check runs once per device. Requests with equal selectors and amounts share one filter.
"""

import enum
from typing import NamedTuple

from drawbridge.dra.capacity import Amounts, CapacityError, Misfit, consumed_amounts, find_shortfall
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


class RequestFilter:
    """The selectors of a class and a request, and the requested amounts; compared by identity."""

    def __init__(
        self,
        expressions: ExpressionEvaluator,
        selectors: tuple[tuple[str, ...], tuple[str, ...]],
        requested: Amounts,
        *,
        binding: bool,
        fractional: bool,
    ) -> None:
        self.selectors = selectors
        self.requested = requested
        self._expressions = expressions
        self._binding = binding
        self._fractional = fractional
        # Each device keeps its results, and most have one of few.
        self._verdicts: dict[SelectorVerdict, SelectorVerdict] = {}
        self._needs: dict[tuple[tuple[str, str], ...], CapacityNeed] = {}

    def check_selectors(self, candidate: Candidate) -> SelectorVerdict:
        """Evaluate the selectors on a device; does not check the device's node selection."""
        cached = candidate.verdicts.get(self)
        if cached is None:
            cached = candidate.verdicts[self] = self._evaluate_selectors(candidate)
        return cached  # type: ignore[return-value]  # stored by this filter

    def required_capacity(self, candidate: Candidate) -> CapacityNeed:
        """Return the amounts consumed from the device's capacities."""
        cached = candidate.needs.get(self)
        if cached is None:
            cached = candidate.needs[self] = self._compute_capacity(candidate)
        return cached  # type: ignore[return-value]  # stored by this filter

    def _evaluate_selectors(self, candidate: Candidate) -> SelectorVerdict:
        device, driver = candidate.device, candidate.pool.driver
        if device.binding_conditions and not self._binding:
            return UNSUPPORTED
        for stage, selectors in zip((Stage.CLASS, Stage.REQUEST), self.selectors, strict=True):
            for number, source in enumerate(selectors):
                outcome = self._expressions.selects(source, driver, device)
                if outcome is not True:
                    failed = outcome if isinstance(outcome, EvaluationFailure) else None
                    verdict = SelectorVerdict(stage, number, failed)
                    return self._verdicts.setdefault(verdict, verdict)
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
        written = tuple([(name, str(amount)) for name, amount in taken.items()])
        return self._needs.setdefault(written, CapacityNeed(taken))
