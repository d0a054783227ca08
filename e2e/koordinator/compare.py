"""Compares one generated case: what Koordinator places, what Drawbridge does, and what is possible.

placed      Koordinator's choice satisfies the hints: Drawbridge must place the pod as well
violation   Drawbridge's choice violates a hint
refused     Drawbridge gives nothing, although a choice satisfies the hints
preference  Drawbridge's choice satisfies fewer preferences than another choice
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from e2e.koordinator.generate import generate
from e2e.koordinator.machines import OccupiedMachine
from e2e.koordinator.meaning import enumerate_choices, find_violations, is_packed, preferred
from e2e.koordinator.ours import Answer, answer
from e2e.koordinator.request import DeviceRequest
from e2e.koordinator.steps import ChosenHardware, place

# Findings that tell that a hint does not hold, so that nothing can be compared with it.
LOST = {"AlignmentLost", "HintLost"}


@dataclass
class Compared:
    """Sums over cases, and a sentence for each difference."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: dict[str, list[str]] = field(default_factory=dict)

    def add(self, other: "Compared") -> None:
        """Add the sums of other cases."""
        self.counts += other.counts
        for kind, texts in other.differences.items():
            self.differences.setdefault(kind, []).extend(texts)

    def report(self, kind: str, text: str) -> None:
        """Note a difference."""
        self.differences.setdefault(kind, []).append(text)


def compare_seeds(seeds: Iterable[int]) -> Compared:
    """Compare the cases of seeds."""
    compared = Compared()
    for seed in seeds:
        machine, request = generate(seed)
        theirs, ours = place(machine, request), answer(machine, request)
        compared.counts.update(_count(theirs, ours))
        if theirs and next(find_violations(machine, request, theirs), None):
            compared.counts["Koordinator violates a hint"] += 1
        for kind, text in _differences(machine, request, theirs, ours):
            compared.report(kind, f"{seed}: {text} | {request} | {ours}")
    return compared


def _count(theirs: ChosenHardware | None, ours: Answer) -> Iterator[str]:
    yield "cases"
    if theirs:
        yield "Koordinator places"
    if ours.chosen:
        yield "Drawbridge places"
    if ours.chosen and not theirs:
        yield "only Drawbridge places"
    if ours.refused:
        yield "refused at admission"


def _differences(
    machine: OccupiedMachine,
    request: DeviceRequest,
    theirs: ChosenHardware | None,
    ours: Answer,
) -> Iterator[tuple[str, str]]:
    if machine.partitions is None and request.policy == "Restricted" and not ours.refused:
        return  # nobody can tell which GPUs are a partition, and a finding says so
    if ours.chosen is None:
        at = machine.empty() if ours.refused else machine
        if theirs and next(find_violations(machine, request, theirs), None) is None:
            yield "placed", f"Koordinator gives {theirs}"
        elif possible := next(enumerate_choices(at, request), None):
            yield "refused", f"possible is {possible}"
        return
    if LOST.intersection(ours.codes):
        return
    for violation in find_violations(machine, request, ours.chosen):
        yield "violation", violation
    best = max(
        (preferred(machine, request, each).order() for each in enumerate_choices(machine, request)),
        default=(),
    )
    if best and (own := preferred(machine, request, ours.chosen).order()) < best:
        yield "preference", f"{own} instead of {best}"
    # With NICs or partitions, another choice may be the only one, or the better one.
    alone = not request.rdma and machine.partitions is None
    if alone and theirs and is_packed(machine, theirs) > is_packed(machine, ours.chosen):
        yield "packing", f"Koordinator gives {theirs}"
