"""Results of the solver for a node: a solution, or a failure with reasons."""

import enum
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from drawbridge.dra.allocation import Allocation, with_share_ids
from drawbridge.solver.reasons import Reason


class FailureKind(enum.StrEnum):
    """Kinds of failure: on this node, for the whole pod, or the search reached its limit."""

    NO = "not this node"
    ERROR = "error"
    GAVE_UP = "gave up"


class Solution(msgspec.Struct, frozen=True):
    """The allocations of the claims in order.

    `preferences` is how many preferred rules of the claims hold.
    """

    node: str
    allocations: tuple[Allocation, ...]
    preferences: int = 0

    def with_new_share_ids(self, ids: Callable[[], str]) -> "Solution":
        """Return the solution with other share IDs."""
        renewed = tuple(with_share_ids(each, lambda *_: ids()) for each in self.allocations)
        return Solution(self.node, renewed, self.preferences)


class Failure(msgspec.Struct, frozen=True):
    """Why the claims cannot be allocated on a node. An error applies to all nodes."""

    node: str
    outcome: FailureKind
    reasons: tuple[Reason, ...]


SolverResult: TypeAlias = Solution | Failure
