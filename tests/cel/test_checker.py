"""Tests of the type checker, of name resolution and of literal validation."""

from pathlib import Path

import pytest

from drawbridge.cel.ast import Call, CelNode, Ident, Select, walk
from drawbridge.cel.checker import Checked, Declarations, check, declare
from drawbridge.cel.errors import CompileError, Problem
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.macros import MACROS, SORT_BY
from drawbridge.cel.parser import ParserOptions, parse
from drawbridge.cel.types import ANY, BOOL, DYN, INT, STRING, Type, describe, list_of, map_of
from drawbridge.cel.validate import KUBERNETES, validate
from tests.tables import YamlValue, every_row, load_cases

CASES = Path(__file__).parent / "cases"
OPTIONS = ParserOptions({**MACROS, **SORT_BY})
VARIABLES = {
    "b": BOOL,
    "d": DYN,
    "i": INT,
    "l": list_of(DYN),
    "m": map_of(STRING, ANY),
    "s": STRING,
}
LIBRARIES = libraries("1.36", stored=True)
PLAIN = declare(LIBRARIES, VARIABLES, {})


def checked(source: str, declarations: Declarations = PLAIN) -> Checked:
    tree = check(parse(source, OPTIONS), source, declarations)
    validate(tree, source, KUBERNETES)
    return tree


def refusal(source: str, declarations: Declarations = PLAIN) -> tuple[Problem, ...]:
    with pytest.raises(CompileError) as caught:
        checked(source, declarations)
    return caught.value.problems


def kinds(source: str) -> set[str]:
    """Return the kinds of all complaints."""
    try:
        checked(source)
    except CompileError as error:
        return {problem.kind for problem in error.problems}
    return set()


def of_type(source: str, declarations: Declarations = PLAIN) -> str:
    tree = checked(source, declarations)
    return describe(tree.types[tree.node.id])


def only(tree: Checked, kind: type[CelNode]) -> CelNode:
    """Return the only node of a kind."""
    (node,) = (node for node in walk(tree.node) if isinstance(node, kind))
    return node


def rows(column: str) -> list[tuple[str, YamlValue]]:
    return [
        row
        for table in ("types.yaml", "syntax.yaml", "macro_errors.yaml")
        for case in load_cases(CASES / table)
        for row in case.get(column, {}).items()
    ]


@every_row(("source", "first"), rows("refused"))
def test_the_first_error_has_the_expected_kind_and_position(
    source: str, first: tuple[str, int, int]
) -> None:
    problem = refusal(source)[0]
    assert [problem.kind, problem.line, problem.column] == first


@every_row(("source", "type_"), rows("fine"))
def test_a_valid_expression_has_the_expected_type(source: str, type_: str) -> None:
    assert of_type(source) == type_


@every_row(("source", "type_"), rows("fine"))
def test_no_type_variable_remains_after_the_check(source: str, type_: str) -> None:  # noqa: ARG001  # shared rows
    assert "_var" not in " ".join(describe(each) for each in checked(source).types.values())


DEVICE = {"driver": STRING, "attributes": map_of(STRING, map_of(STRING, ANY))}
OBJECTS = declare(LIBRARIES, {"device": Type("object", "dra.Device")}, {"dra.Device": DEVICE})


@every_row(
    ("source", "type_"),
    [
        ("device", "dra.Device"),
        ("device.driver", "string"),
        ("device.attributes['x'].y", "any"),
        ("device.?driver", "optional_type(string)"),
        ("has(device.driver)", "bool"),
        ("dra.Device", "type(dra.Device)"),
        ("dra.Device{driver: 'x'}", "dra.Device"),
        ("timestamp", "type(timestamp)"),
    ],
)
def test_a_declared_object_field_has_its_type(source: str, type_: str) -> None:
    assert of_type(source, OBJECTS) == type_


@every_row(
    ("source", "kind", "column"),
    [
        ("device.pool", "undefined_field", 7),
        ("has(device.pool)", "undefined_field", 4),
        ("device['driver']", "no_matching_overload", 7),
        ("device.driver.x", "field_selection", 14),
        ("device.attributes['x'].y.all(z, true)", "not_iterable", 23),
        ("dra.Device{pool: 'x'}", "undefined_field", 16),
        ("dra.Device{driver: 1}", "type_mismatch", 18),
        ("device == 1", "no_matching_overload", 8),
    ],
)
def test_an_undeclared_object_field_is_an_error(source: str, kind: str, column: int) -> None:
    problem = refusal(source, OBJECTS)[0]
    assert (problem.kind, problem.column) == (kind, column)


def test_names_resolve_to_variables_or_types() -> None:
    tree = checked("i")
    assert tree.names[tree.node.id] == ("i", None)
    tree = checked("int")
    assert tree.names[tree.node.id] == ("int", INT)
    tree = checked("google.protobuf.Timestamp")
    assert isinstance(tree.node, Select)
    assert tree.names[tree.node.id].name == "google.protobuf.Timestamp"


@every_row(
    ("source", "overloads", "namespaced"),
    [
        ("i + 1", ["add_int64"], False),
        ("d + 1", ["add_int64"], False),
        ("s.size()", ["string_size"], False),
        ("size(d)", ["size_bytes", "size_list", "size_map", "size_string"], False),
        ("optional.of(i)", ["optional_of"], True),
        ("m['x']", ["index_map"], False),
    ],
)
def test_calls_resolve_to_the_possible_overloads(
    source: str,
    overloads: list[str],
    namespaced: bool,  # noqa: FBT001  # a column of the table
) -> None:
    tree = checked(source)
    resolved = tree.calls[only(tree, Call).id]
    assert sorted(overload.id for overload in resolved.overloads) == sorted(overloads)
    assert resolved.namespaced is namespaced


def test_the_checker_does_not_change_the_tree() -> None:
    node = parse("sets.contains([1], [i]) && int == type(1)", OPTIONS)
    before = repr(node)
    check(node, "", PLAIN)
    assert repr(node) == before


NAMES = {"x": INT, "a.x": STRING}


@every_row(
    ("source", "older", "newer"),
    [
        ("[{'x': 1}].exists(a, a.x == 1)", None, "bool"),
        ("[{'x': 1}].exists(a, a.x == 'q')", "bool", None),
        ("['q'].exists(x, .x == 1)", None, "bool"),
        ("['q'].exists(x, .x == 'q')", "bool", None),
        ("['q'].exists(x, x == 'q')", "bool", "bool"),
        ("a.x", "string", "string"),
    ],
)
def test_with_local_first_macro_variables_take_precedence(
    source: str, older: str | None, newer: str | None
) -> None:
    for expected, local_first in ((older, False), (newer, True)):
        declarations = declare(LIBRARIES, NAMES, {}, local_first=local_first)
        if expected is None:
            assert refusal(source, declarations)[0].kind == "no_matching_overload"
        else:
            assert of_type(source, declarations) == expected


def test_a_name_with_a_leading_dot_skips_a_hidden_macro_variable() -> None:
    declarations = declare(LIBRARIES, NAMES, {}, local_first=True)
    tree = checked("['q'].exists(x, .x == 1)", declarations)
    dotted = [n for n in walk(tree.node) if isinstance(n, Ident) and n.name == ".x"]
    assert [tree.names[node.id].name for node in dotted] == [".x"]


def test_a_type_error_names_the_found_and_the_expected_type() -> None:
    assert refusal("[1] + s")[0].message == (
        "found no matching overload for '_+_' applied to '(list(int), string)'"
    )
    assert refusal("s.startsWith([])")[0].message == (
        "found no matching overload for 'startsWith' applied to 'string.(list(dyn))'"
    )
    assert refusal("[1, s]")[0].message == "expected type 'int' but found 'string'"


def test_errors_are_reported_in_source_order() -> None:
    problems = refusal("b && (x + 1 ==\n y(s) || i)")
    assert [(p.kind, p.line, p.column) for p in problems] == [
        ("undeclared", 1, 7),
        ("undeclared", 2, 3),
        ("type_mismatch", 2, 10),
    ]


@pytest.mark.parametrize("count", [1, 99, 3000])
def test_at_most_one_hundred_errors_are_reported(count: int) -> None:
    assert len(refusal(f"[{', '.join(['x'] * count)}]")) == min(count, 100)


@every_row(
    "source",
    [
        "[1].all(x, " * 200 + "true" + ")" * 200,
        "[" * 240 + "]" * 240,
        "{1: " * 240 + "1" + "}" * 240,
        "!f(" * 200 + "b" + ")" * 200,
        "b ? i : " * 240 + "i",
        "m" + ".x" * 240,
        "[1]" + ".map(x, [x])" * 240,
        "[1]" + ".map(x, [[[[x]]]])" * 200,
        "dyn(" * 240 + "1" + ")" * 240,
        " && ".join(["b"] * 2500),
        "[" + "[]," * 3000 + "]",
        "[" + "[], [1], " * 1000 + "]",
        "[].all(x, [].all(y, x == y && " * 60 + "b" + "))" * 60,
    ],
)
def test_deep_and_long_expressions_are_checked_without_a_crash(source: str) -> None:
    assert kinds(source) <= {
        "recursion", "undeclared", "no_matching_overload", "type_mismatch", "work_exceeded",
    }  # fmt: skip


def grown(name: str, levels: int, result: str) -> str:
    """Bind names to maps, each of which has the one before as its key and its value."""
    steps = "".join(f"cel.bind({name}{n + 1}, {{{name}{n}: {name}{n}}}, " for n in range(levels))
    return f"cel.bind({name}0, [1], {steps}{result}{')' * (levels + 1)}"


def test_types_that_grow_exponentially_are_refused() -> None:
    source = grown("x", 60, grown("y", 60, "x60 == y60"))
    assert refusal(source)[0].kind == "work_exceeded"
    assert of_type(grown("x", 5, grown("y", 5, "x5 == y5"))) == "bool"


def test_a_type_that_contains_another_often_is_examined_once() -> None:
    assert of_type(grown("x", 60, "x60 == x60")) == "bool"
    assert of_type(grown("x", 60, "[x60, x60].size() == 2")) == "bool"
    assert refusal(grown("x", 60, "x60 == x59"))[0].kind == "no_matching_overload"
