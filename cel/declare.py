"""How a library says what its functions are: types, meaning, actual cost, estimated cost.

Knows no library and no tree; the checker reads the types, the compiler the meaning and the cost,
the estimator the estimate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cel.types import Type

CelValue = object
UNBOUNDED = 2**64 - 1


class Range(NamedTuple):
    """A size or a cost, from the least to the most; saturates at UNBOUNDED."""

    min: int
    max: int


ANY_SIZE = Range(0, UNBOUNDED)
UNKNOWN: CelValue = object()  # stands for an argument that is no constant, see `Overload.prepare`


class Operand(NamedTuple):
    """What the estimator knows of an argument: type, size, literal value, size of elements."""

    type: Type
    size: Range
    literal: CelValue | None = None
    items: Range = ANY_SIZE


class CallEstimate(NamedTuple):
    """The cost of a call (its arguments not included) and the size of its result if known."""

    cost: Range
    size: Range | None = None


Cost = Callable[[tuple[CelValue, ...], CelValue], int]
Estimate = Callable[[tuple[Operand, ...]], CallEstimate | None]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    `meaning` takes the arguments (a member's target first) and returns a value or raises
    EvaluationError; it is only called with values of the declared parameter types. `cost` is the
    counted cost of one call from arguments and result where it is not 1; `estimate` its bounds
    before the values are known, where they are not exactly 1. `prepare` is called once,
    with the arguments that are constants and UNKNOWN for the others, and may return a faster
    meaning of the same signature (a regular expression is compiled so), or None.
    """

    id: str
    params: tuple[Type, ...]
    result: Type
    meaning: Callable[..., CelValue]
    member: bool = False
    cost: Cost | None = None
    estimate: Estimate | None = None
    prepare: Callable[[tuple[CelValue, ...]], Callable[..., CelValue] | None] | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A function name with its overloads.

    `cost` and `estimate` stand for all overloads and come before the overload's own; they also
    hold where the overload is only found at run time, and then the overload's own do not.
    """

    name: str
    overloads: tuple[Overload, ...]
    cost: Cost | None = None
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Library:
    """A named set of functions, and of type names that stand for themselves in expressions."""

    name: str
    functions: tuple[Function, ...]
    types: Mapping[str, Type] = field(default_factory=dict)
