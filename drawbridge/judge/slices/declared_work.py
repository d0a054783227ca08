"""Finds slices whose annotation declares more selectors than the allocator evaluates."""

from collections.abc import Iterable, Iterator, Sequence

from drawbridge.cel.dra import Selectors
from drawbridge.dra.codes import COMPATIBILITY_ERROR
from drawbridge.dra.compatibility import Declaration
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.slices import KIND, Slice
from drawbridge.finding import Finding
from drawbridge.names import COMPATIBILITY_ANNOTATION
from drawbridge.solver.candidates import TOO_MUCH_DECLARED, Candidate, CandidateCache
from drawbridge.solver.expressions import ExpressionEvaluator
from drawbridge.solver.world import World


def check_declared_work(
    slices: Iterable[Slice], declarations: Sequence[Declaration], selectors: Selectors
) -> Iterator[Finding]:
    """Report slices of which the allocator offers some devices alone, or not at all."""
    world = World(build_inventory(()), compatibility=tuple(declarations))
    candidates = CandidateCache(world, ExpressionEvaluator(world.gates, selectors))
    for resource_slice in slices:
        if COMPATIBILITY_ANNOTATION not in resource_slice.annotations:
            continue
        count = len(resource_slice.devices)
        left = sum(map(_is_left, candidates.of_slice(resource_slice)))
        if left:
            path = f"metadata.annotations[{COMPATIBILITY_ANNOTATION}]"
            message = f"{TOO_MUCH_DECLARED}; {left} of {count} devices are compatible "
            yield COMPATIBILITY_ERROR.at(
                path,
                f"{message}with no others",
                object=f"{KIND}/{resource_slice.name}",
                remedy="Declare fewer selectors, or shorter ones that select many devices each.",
            )


def _is_left(candidate: Candidate) -> bool:
    error = candidate.rule.error if candidate.rule is not None else ""
    return TOO_MUCH_DECLARED in f"{error}{candidate.group_error}"
