"""Determines plans from the shape of a call or a comprehension.

These distinctions are cel-go's; each affects the cost or the errors of a call.
"""

from collections.abc import Callable, Sequence

import msgspec

from drawbridge.cel import ast
from drawbridge.cel.attributes import QualifiedAttribute
from drawbridge.cel.checker import Resolved
from drawbridge.cel.constant_folding import FoldedValue
from drawbridge.cel.declare import UNKNOWN, Overload
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import Run

Step = FoldedValue | QualifiedAttribute | Run


class Compiled(msgspec.Struct, eq=False):
    """The closure of a program, the slots it needs after the variables, and its work."""

    run: Run
    slots: int
    work: int


class LocalVariable(msgspec.Struct, eq=False):
    """A variable in scope: its slot and, for an accumulator, its initial value."""

    slot: int
    initial: Run | None = None


_WHOLE = frozenset({"@in", "size", "type", "dyn", "matches", "sort", "@sortByAssociatedKeys"})


def is_whole(name: str) -> bool:
    """Tell whether cel-go implements a function once for all overloads, like the operators."""
    return name in _WHOLE or name.startswith(("_", "-", "!"))


def prepare_implementation(
    overload: Overload, steps: Sequence[Step], offset: int
) -> Callable[..., object]:
    """Return the implementation of an overload, specialized for the known arguments."""
    if overload.prepare is None:
        return overload.implementation
    constants = tuple(s.value if isinstance(s, FoldedValue) else UNKNOWN for s in steps)
    try:
        return overload.prepare(constants) or overload.implementation
    except EvaluationError as error:
        # Only an argument that is constant for cel-go may fail at compile time.
        if all(step.constant for step in steps if isinstance(step, FoldedValue)):
            raise EvaluationError("constant", error.message, offset) from None
        return overload.implementation


def is_variadic(resolved: Resolved, last: Step) -> bool:
    """Tell whether a call of two arguments stops at the first one that fails.

    cel-go plans such a call like one with any number of arguments: if the overload is found only at
    run time and the function has no common implementation, or if the pattern is constant.
    """
    name = resolved.function.name
    if name == "format":
        return True
    if name in ("matches", "find", "findAll") and isinstance(last, FoldedValue) and last.constant:
        return isinstance(last.value, str)
    return len(resolved.overloads) != 1 and not is_whole(name)


def is_optional_choice(resolved: Resolved, arguments: Sequence[ast.CelNode]) -> bool:
    """Tell whether a call is `or` or `orValue` of optionals, which evaluate lazily."""
    ids = [overload.id for overload in resolved.overloads]
    return len(arguments) == 2 and (
        len(ids) != 1 or ids[0] in ("optional_or_optional", "optional_orValue_value")
    )


def unit_cost(values: tuple[object, ...], result: object) -> int:  # noqa: ARG001  # the shape of a cost
    """Return a cost of 1, which most calls have."""
    return 1


def quantifier(node: ast.Comprehension) -> bool | None:
    """Recognize `exists` (True) and `all` (False) by their shape; None for other folds."""
    if not (isinstance(node.initial, ast.Literal) and isinstance(node.step, ast.Call)):
        return None
    if not isinstance(node.condition, ast.Call) or not _reads(node.result, node):
        return None
    if node.condition.function != "@not_strictly_false" or not _reads(node.step.args[0], node):
        return None
    tested = node.condition.args[0]
    if node.step.function == "_&&_" and node.initial.value is True and _reads(tested, node):
        return False
    negated = isinstance(tested, ast.Call) and tested.function == "!_"
    if node.step.function == "_||_" and node.initial.value is False and negated:
        return True
    return None


def _reads(part: ast.CelNode, node: ast.Comprehension) -> bool:
    return isinstance(part, ast.Ident) and part.name == node.accumulator


def local_slot(step: Step, floor: int) -> int:
    """Return the slot of a step that is only a comprehension variable, else -1."""
    if isinstance(step, QualifiedAttribute) and not step.qualifiers and not step.test:
        return step.slot if step.slot >= floor else -1
    return -1


def visits_all(node: ast.CelNode) -> bool:
    """Tell whether a loop never ends early, because its macro visits every element."""
    return isinstance(node, ast.Literal) and node.value is True
