"""What a request asks of a device, whoever holds it: selectors and amounts, asked once a device.

Two requests that ask the same share one screen, whatever they are called.
"""

import enum
from typing import NamedTuple

from dra.capacity import Amounts, CapacityError, Misfit, amounts, lacking
from solver.candidates import Candidate
from solver.expressions import Expressions, Failed


class Stage(enum.StrEnum):
    """Where a device falls out, in the order in which it is judged."""

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


class Verdict(NamedTuple):
    """What the selectors say: `stage` is None for a device that all of them select."""

    stage: Stage | None = None
    number: int = 0
    failed: Failed | None = None


class Need(NamedTuple):
    """What a request takes of a device; `misfit` where it would not fit even if all were free."""

    amounts: Amounts
    misfit: Misfit | None = None
    error: CapacityError | None = None


SELECTED = Verdict()
UNSUPPORTED = Verdict(Stage.SUPPORT)
NOTHING = Need({})


class Screen:
    """Selectors of a class and a request, and the amounts asked; compared by identity."""

    def __init__(
        self,
        expressions: Expressions,
        selectors: tuple[tuple[str, ...], tuple[str, ...]],
        asked: Amounts,
        *,
        binding: bool,
        fractional: bool,
    ) -> None:
        self.selectors = selectors
        self.asked = asked
        self._expressions = expressions
        self._binding = binding
        self._fractional = fractional

    def verdict(self, candidate: Candidate) -> Verdict:
        """Say what the selectors make of a device; per-device node selection is not among them."""
        known = candidate.verdicts.get(self)
        if known is None:
            known = candidate.verdicts[self] = self._judged(candidate)
        return known  # type: ignore[return-value]  # this screen put it there

    def need(self, candidate: Candidate) -> Need:
        """Say what is taken of a device's capacities."""
        known = candidate.needs.get(self)
        if known is None:
            known = candidate.needs[self] = self._needed(candidate)
        return known  # type: ignore[return-value]  # this screen put it there

    def _judged(self, candidate: Candidate) -> Verdict:
        device, driver = candidate.device, candidate.pool.driver
        if device.binding_conditions and not self._binding:
            return UNSUPPORTED
        for stage, selectors in zip((Stage.CLASS, Stage.REQUEST), self.selectors, strict=True):
            for number, source in enumerate(selectors):
                outcome = self._expressions.selects(source, driver, device)
                if outcome is not True:
                    failed = outcome if isinstance(outcome, Failed) else None
                    return Verdict(stage, number, failed)
        return SELECTED

    def _needed(self, candidate: Candidate) -> Need:
        capacity = candidate.device.capacity
        if not capacity and not self.asked:
            return NOTHING
        try:
            taken = amounts(capacity, self.asked, fractional=self._fractional)
        except CapacityError as error:
            return Need({}, error=error)
        if isinstance(taken, Misfit):
            return Need({}, misfit=taken)
        return Need(taken, misfit=lacking(capacity, taken))
