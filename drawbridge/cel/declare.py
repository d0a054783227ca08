"""The types with which a library declares its functions: signature, implementation and cost.

The checker reads the signature, the compiler the implementation and the counted cost, and the
estimator the estimate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from drawbridge.cel.kinds import CelValue, no_such_overload
from drawbridge.cel.types import Type

Implementation = Callable[..., object]
UNBOUNDED = 2**64 - 1


class Range(msgspec.Struct, frozen=True):
    """A range of sizes, both ends included; saturates at UNBOUNDED."""

    min: int
    max: int


ANY_SIZE = Range(0, UNBOUNDED)
UNKNOWN: CelValue = object()  # an argument that is not a constant, see `Overload.prepare`


class Operand(msgspec.Struct, frozen=True):
    """An argument as the estimator knows it: type, size, literal value, element size."""

    type: Type
    size: Range
    literal: CelValue | None = None
    items: Range = ANY_SIZE


class CallEstimate(msgspec.Struct, frozen=True):
    """The most that a call costs without its arguments, and the size of its result if known."""

    cost: int
    size: Range | None = None


def unimplemented(*_: CelValue) -> CelValue:
    """Stand in for the implementation of what the compiler plans itself, or nobody can call."""
    raise no_such_overload()


Cost = Callable[[tuple[CelValue, ...], CelValue], int]
Estimate = Callable[[tuple[Operand, ...]], CallEstimate | None]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    `implementation` takes the arguments (the target of a member call first) and
    returns a value or raises EvaluationError. It is called only with values of the declared
    parameter types, unless it is `unguarded`. `cost` computes the counted cost from arguments and
    result; the default is 1.
    `estimate` computes its bounds before the values are known; the default is exactly 1. `prepare`
    is called once at compile time, with the constant arguments and UNKNOWN for the others. It
    returns a faster implementation (for example, with a compiled regular expression) or None.
    """

    id: str
    params: tuple[Type, ...]
    result: Type
    implementation: Callable[..., CelValue]
    member: bool = False
    cost: Cost | None = None
    estimate: Estimate | None = None
    prepare: Callable[[tuple[CelValue, ...]], Callable[..., CelValue] | None] | None = None
    unguarded: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A function name with its overloads.

    `cost` and `estimate` apply to all overloads and take precedence over those of an overload. If
    the overload is found only at run time, only these apply.
    """

    name: str
    overloads: tuple[Overload, ...]
    cost: Cost | None = None
    estimate: Estimate | None = None


def members(
    name: str, *rows: tuple[str, tuple[Type, ...], Type, Callable[..., CelValue]]
) -> Function:
    """Return a function that is called on its first argument: id, parameters, result, meaning."""
    return Function(name, tuple(Overload(*row, member=True) for row in rows))


@dataclass(frozen=True, slots=True)
class Library:
    """A named set of functions, and of type names that are values in expressions."""

    name: str
    functions: tuple[Function, ...]
    types: Mapping[str, Type] = field(default_factory=dict)
