"""Results of the solver for a node: a solution, or a failure with reasons."""

import enum
from typing import TypeAlias

import msgspec

from drawbridge.solver.reasons import Reason
from drawbridge.solver.results import AllocationJSON


class FailureKind(enum.StrEnum):
    """Kinds of failure: on this node, for the whole pod, or the search reached its limit."""

    NO = "not this node"
    ERROR = "error"
    GAVE_UP = "gave up"


class Solution(msgspec.Struct, frozen=True):
    """The allocations of the claims in order, in the form of their status.

    `preferences` is how many preferred rules of the claims hold.
    """

    node: str
    allocations: tuple[AllocationJSON, ...]
    preferences: int = 0

    def with_allocations(self, allocations: tuple[AllocationJSON, ...]) -> "Solution":
        """Return the solution with other share IDs."""
        return Solution(self.node, allocations, self.preferences)


class Failure(msgspec.Struct, frozen=True):
    """Why the claims cannot be allocated on a node. An error applies to all nodes."""

    node: str
    outcome: FailureKind
    reasons: tuple[Reason, ...]


SolverResult: TypeAlias = Solution | Failure
