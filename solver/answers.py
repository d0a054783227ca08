"""What the solver answers for a node: a solution, or why there is none."""

import enum
from typing import TypeAlias

import msgspec

from solver.reasons import Reason
from solver.results import Json


class Outcome(enum.StrEnum):
    """Why there is no solution: not on this node, not for this pod at all, or not known."""

    NO = "not this node"
    ERROR = "error"
    GAVE_UP = "gave up"


class Solution(msgspec.Struct, frozen=True):
    """The allocations of the claims, in their order, as they would stand in their status."""

    node: str
    allocations: tuple[Json, ...]


class Failure(msgspec.Struct, frozen=True):
    """Why the claims cannot be had on a node; an error is one for the pod on all nodes."""

    node: str
    outcome: Outcome
    reasons: tuple[Reason, ...]


Answer: TypeAlias = Solution | Failure
