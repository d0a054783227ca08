"""Validates literals in expressions whose types are correct.

The checks are those that Kubernetes enables. Each is a function from the checked tree to
complaints. Only an expression that calls a validated function is walked.
"""

from collections.abc import Callable, Iterable, Iterator

from drawbridge.cel.ast import Call, CelNode, ListLiteral, Literal, MapLiteral, children, walk
from drawbridge.cel.checker import Checked
from drawbridge.cel.errors import CompileError, EvaluationError
from drawbridge.cel.lexer import Complaint, locate_problems
from drawbridge.cel.library.format import Argument, check_format
from drawbridge.cel.library.regex import check_pattern
from drawbridge.cel.types import Type, describe
from drawbridge.cel.unify import TooComplexError, Unifier

_FORMAT = "format"
_LITERALS = (ListLiteral, MapLiteral)  # a union would be made anew for each node


class ValidatedNodes:
    """The calls among some nodes, and the list and map literals outside `format` calls."""

    __slots__ = ("calls", "checked", "literals", "same")

    def __init__(self, checked: Checked, nodes: Iterable[CelNode]) -> None:
        self.checked = checked
        self.same = Unifier().same
        self.calls = [node for node in nodes if isinstance(node, Call)]
        formatted: set[int] = set()
        for call in self.calls:  # an outer call precedes those in its arguments
            if call.function == _FORMAT and call.id not in formatted:
                formatted.update(each.id for each in walk(call))
        self.literals = [each for each in checked.aggregates if each.id not in formatted]


Validator = Callable[[ValidatedNodes], Iterable[Complaint]]
Validators = tuple[Validator, ...]


def validate(checked: Checked, source: str, validators: Validators) -> None:
    """Raise CompileError with the complaints of all validators."""
    names = {resolved.function.name for resolved in checked.calls.values()}
    has_functions = not names.isdisjoint(_VALIDATED_FUNCTIONS)
    if not checked.aggregates and not has_functions:
        return
    nodes = ValidatedNodes(checked, walk(checked.node) if has_functions else ())
    try:
        complaints = [complaint for validator in validators for complaint in validator(nodes)]
    except (TooComplexError, RecursionError):
        complaints = [Complaint("recursion", -1, "the types of the expression are too complex")]
    if complaints:
        raise CompileError(locate_problems(complaints, source))


def duration_literals(nodes: ValidatedNodes) -> Iterator[Complaint]:
    """Require that the constant argument of `duration` is a duration."""
    return _conversions(nodes, "duration")


def timestamp_literals(nodes: ValidatedNodes) -> Iterator[Complaint]:
    """Require that the constant argument of `timestamp` is a timestamp."""
    return _conversions(nodes, "timestamp")


def _conversions(nodes: ValidatedNodes, name: str) -> Iterator[Complaint]:
    for call in nodes.calls:
        argument = call.args[0] if call.args and call.function == name else None
        if not isinstance(argument, Literal):
            continue
        overload = nodes.checked.calls[call.id].overloads[0]
        try:
            overload.implementation(argument.value)
        except EvaluationError as error:
            message = f"invalid {name} argument: {error.message}"
            yield Complaint("literal", argument.offset, message)


def regex_literals(nodes: ValidatedNodes) -> Iterator[Complaint]:
    """Require that the constant argument of `matches` is a regular expression.

    As in cel-go, this examines the first argument, which in `matches(text, regex)` is the text.
    """
    for call in nodes.calls:
        argument = call.args[0] if call.args and call.function == "matches" else None
        if isinstance(argument, Literal) and isinstance(argument.value, str):
            problem = check_pattern(argument.value)
            if problem is not None:
                message = f"invalid matches argument: {problem}"
                yield Complaint("literal", argument.offset, message)


def homogeneous_literals(nodes: ValidatedNodes) -> Iterator[Complaint]:
    """Require literals of one element type, except in arguments of `format`."""
    for literal in nodes.literals:
        if isinstance(literal, ListLiteral):
            yield from _homogeneous_list(nodes, literal)
        else:
            yield from _homogeneous_map(nodes, literal)


def _homogeneous_list(nodes: ValidatedNodes, literal: ListLiteral) -> Iterator[Complaint]:
    expected: Type | None = None
    for index, element in enumerate(literal.elements):
        type_ = nodes.checked.types[element.id]
        if index in literal.optional and type_.params:
            type_ = type_.params[0]
        if expected is None:
            expected = type_
        elif not nodes.same(expected, type_):
            yield _mismatch(element, expected, type_)
            return


def _homogeneous_map(nodes: ValidatedNodes, literal: MapLiteral) -> Iterator[Complaint]:
    expected: tuple[Type, Type] | None = None
    types = nodes.checked.types
    for entry in literal.entries:
        if isinstance(entry.key, str):
            continue  # a field name, which only a message has
        key, value = types[entry.key.id], types[entry.value.id]
        if entry.optional and value.params:
            value = value.params[0]
        if expected is None:
            expected = key, value
            continue
        if not nodes.same(expected[0], key):
            yield _mismatch(entry.key, expected[0], key)
        if not nodes.same(expected[1], value):
            yield _mismatch(entry.value, expected[1], value)


def _mismatch(node: CelNode, expected: Type, actual: Type) -> Complaint:
    message = f"expected type '{describe(expected)}' but found '{describe(actual)}'"
    return Complaint("type_mismatch", node.offset, message)


def format_literals(nodes: ValidatedNodes) -> Iterator[Complaint]:
    """Require that the clauses of a constant format string fit the literal arguments."""
    for call in nodes.calls:
        text, arguments = call.target, call.args[0] if call.args else None
        if (
            call.function != _FORMAT
            or not (isinstance(text, Literal) and isinstance(text.value, str))
            or not isinstance(arguments, ListLiteral)
        ):
            continue
        offsets: dict[int, int] = {}
        parts = _argument(nodes.checked, arguments, offsets).parts
        problem = check_format(text.value, parts)
        if problem is not None:
            offset = call.offset if problem.node is None else offsets[problem.node]
            yield Complaint("literal", offset, problem.message)


def _argument(checked: Checked, node: CelNode, offsets: dict[int, int]) -> Argument:
    """Return the format argument of `node`; only nested literals have parts."""
    offsets[node.id] = node.offset
    literal = isinstance(node, _LITERALS)
    parts = children(node) if literal else ()
    return Argument(
        node.id,
        checked.types[node.id],
        tuple(_argument(checked, part, offsets) for part in parts),
    )


_VALIDATED_FUNCTIONS = frozenset({"duration", "timestamp", "matches", _FORMAT})
# The order is Kubernetes'; it decides which of two complaints at one position comes first.
KUBERNETES: Validators = (
    duration_literals,
    timestamp_literals,
    regex_literals,
    homogeneous_literals,
    format_literals,
)
