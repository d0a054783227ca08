"""What the planner tells from the shape of a call or a comprehension alone.

These are cel-go's own distinctions; each decides what a call costs or how it may fail.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cel import ast
from cel.attributes import QualifiedAttribute
from cel.checker import Resolved
from cel.constant_folding import FoldedValue
from cel.declare import UNKNOWN, Overload
from cel.errors import EvaluationError
from cel.frame import Run

Step = FoldedValue | QualifiedAttribute | Run


@dataclass(slots=True)
class Compiled:
    """A program's closure and the number of slots it needs after the variables."""

    run: Run
    slots: int


@dataclass(slots=True)
class LocalVariable:
    """A variable in sight: its slot, and for an accumulator what makes its first value."""

    slot: int
    initial: Run | None = None


# Functions that cel-go implements as a whole, not overload by overload, beside the operators.
_WHOLE = frozenset({"@in", "size", "type", "dyn", "matches", "sort", "@sortByAssociatedKeys"})


def prepared(overload: Overload, steps: Sequence[Step], offset: int) -> Callable[..., object]:
    """The meaning of an overload, made faster by what is known of its arguments."""
    if overload.prepare is None:
        return overload.meaning
    known = tuple(s.value if isinstance(s, FoldedValue) else UNKNOWN for s in steps)
    try:
        return overload.prepare(known) or overload.meaning
    except EvaluationError as error:
        # Only what cel-go knows for a constant may fail this early.
        if all(step.constant for step in steps if isinstance(step, FoldedValue)):
            raise EvaluationError("constant", error.message, offset) from None
        return overload.meaning


def is_variadic(resolved: Resolved, last: Step) -> bool:
    """Tell whether a call of two arguments stops at the first one that fails.

    That is so where cel-go calls it as one of any number of arguments: when the overload is only
    found at run time, unless the function is one whatever the types; and with a constant pattern.
    """
    name = resolved.function.name
    if name == "format":
        return True
    if name in ("matches", "find", "findAll") and isinstance(last, FoldedValue) and last.constant:
        return isinstance(last.value, str)
    return len(resolved.overloads) != 1 and name not in _WHOLE and not name.startswith("_")


def is_optional_choice(resolved: Resolved, arguments: Sequence[ast.SyntaxNode]) -> bool:
    """Tell whether a call is the `or` or `orValue` of optionals, which may not look right."""
    ids = [overload.id for overload in resolved.overloads]
    return len(arguments) == 2 and (
        len(ids) != 1 or ids[0] in ("optional_or_optional", "optional_orValue_value")
    )


def unit(values: tuple[object, ...], result: object) -> int:  # noqa: ARG001  # the shape of a cost
    """What most calls cost."""
    return 1


def quantifier(node: ast.Comprehension) -> bool | None:
    """Tell `exists` (True) and `all` (False) from other comprehensions, by their shape."""
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


def _reads(part: ast.SyntaxNode, node: ast.Comprehension) -> bool:
    return isinstance(part, ast.Ident) and part.name == node.accumulator


def local_slot(step: Step, floor: int) -> int:
    """The slot of a step that is a variable of a comprehension and no more, else -1."""
    if isinstance(step, QualifiedAttribute) and not step.qualifiers and not step.test:
        return step.slot if step.slot >= floor else -1
    return -1


def always(node: ast.SyntaxNode) -> bool:
    """Tell whether a loop goes on whatever happens, because its macro looks at every element."""
    return isinstance(node, ast.Literal) and node.value is True
