"""Compares what Drawbridge gives in one generated case with what the hints mean.

violation   Drawbridge's choice violates a hint
refused     Drawbridge gives nothing, although a choice satisfies the hints
preference  Drawbridge's choice satisfies fewer preferences than another choice
packing     Drawbridge's choice begins to use a part of the machine, and an equal one does not
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from e2e.koordinator.generate import generate
from e2e.koordinator.machines import OccupiedMachine
from e2e.koordinator.meaning import enumerate_choices, find_violations, is_packed, preferred
from e2e.koordinator.ours import Answer, answer
from e2e.koordinator.request import DeviceRequest

# Findings that tell that a hint does not hold, so that nothing can be compared with it.
LOST = {"AlignmentLost", "HintLost"}


@dataclass
class Compared:
    """Sums over cases, and a sentence for each difference by kind."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: dict[str, list[str]] = field(default_factory=dict)


def compare_seeds(seeds: Iterable[int]) -> Compared:
    """Compare the cases of seeds."""
    compared = Compared()
    for seed in seeds:
        machine, request = generate(seed)
        ours = answer(machine, request)
        compared.counts["placed" if ours.chosen else "refused" if ours.refused else "waits"] += 1
        for kind, text in find_differences(machine, request, ours):
            told = f"{seed}: {text} | {request} | {ours}"
            compared.differences.setdefault(kind, []).append(told)
    return compared


def find_differences(
    machine: OccupiedMachine, request: DeviceRequest, ours: Answer
) -> Iterator[tuple[str, str]]:
    """Yield the kind and a sentence of each difference of one case."""
    if machine.partitions is None and request.policy == "Restricted" and not ours.refused:
        return  # nobody can tell which GPUs are a partition, and a finding says so
    if ours.chosen is None:
        at = machine.empty() if ours.refused else machine
        if possible := next(enumerate_choices(at, request), None):
            yield "refused", f"possible is {possible}"
        return
    if LOST.intersection(ours.codes):
        return
    for violation in find_violations(machine, request, ours.chosen):
        yield "violation", violation
    own = preferred(machine, request, ours.chosen).order()
    choices = [
        (preferred(machine, request, each).order(), is_packed(machine, each), each)
        for each in enumerate_choices(machine, request)
    ]
    best = max((order for order, _, _ in choices), default=own)
    if own < best:
        yield "preference", f"{own} instead of {best}"
    # With NICs or partitions, another choice may be the only one, or the better one.
    alone = not request.rdma and machine.partitions is None
    if alone and not is_packed(machine, ours.chosen):
        for order, packed, choice in choices:
            if order == own and packed:
                yield "packing", f"as good is {choice}"
                break
