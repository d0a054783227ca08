"""Tests of the parser: grammar, macros, limits and arbitrary text."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.cel.ast import Ident, Literal, copy_tree, walk
from drawbridge.cel.errors import CompileError, Problem
from drawbridge.cel.macros import MACROS, SORT_BY
from drawbridge.cel.parser import ParserOptions, parse
from tests.cel.trees import show
from tests.tables import every_row, load_cases
from tests.thorough import drawn

CASES = Path(__file__).parent / "cases"
OPTIONS = ParserOptions({**MACROS, **SORT_BY})
NEWER = ParserOptions(OPTIONS.macros, escaped_fields=True)
BARE = ParserOptions({})


def trees() -> list[tuple[str, str]]:
    return [
        pair
        for table in ("trees.yaml", "macros.yaml")
        for case in load_cases(CASES / table)
        for pair in case["trees"].items()
    ]


def problems(source: str, options: ParserOptions = OPTIONS) -> tuple[Problem, ...]:
    """Return the errors of a text."""
    try:
        parse(source, options)
    except CompileError as error:
        return error.problems
    return ()


def kind(source: str, options: ParserOptions = OPTIONS) -> str | None:
    """Return the kind of the first complaint, None if there is none."""
    reported = problems(source, options)
    return reported[0].kind if reported else None


@every_row(("source", "tree"), trees())
def test_an_expression_parses_to_the_expected_tree(source: str, tree: str) -> None:
    assert show(parse(source, OPTIONS)) == tree


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("m.`a.b`", "m.a.b"),
        ("m.`a b-c/d.e_1`", "m.a b-c/d.e_1"),
        ("m.?`in`", "_?._(m, 'in')"),
        ("has(m.`in`)", "has(m.in)"),
        ("A{`x.y`: 1}", "A{x.y: 1}"),
    ],
)
def test_fields_may_be_quoted_if_the_version_supports_it(source: str, tree: str) -> None:
    assert show(parse(source, NEWER)) == tree
    assert kind(source, OPTIONS) == "syntax"


@every_row("source", ["`a`", "m.``", "m.`a", "m.`a$`", "m.`a`(1)", "[1].all(`x`, x)"])
def test_only_fields_may_be_quoted(source: str) -> None:
    assert kind(source, NEWER) == "syntax"


def test_without_macros_a_macro_call_is_a_plain_call() -> None:
    assert show(parse("a.all(x, has(x.y))", BARE)) == "a->all(x, has(x.y))"
    assert isinstance(parse("has(a)", BARE), type(parse("f(a)", BARE)))


@every_row(
    ("source", "name", "offset"),
    [
        ("  abc", "ident", 2),
        (".abc", "ident", 1),
        ("a.b", "select", 1),
        ("a .?b", "call", 2),
        ("f (a)", "call", 2),
        ("a.f(b)", "call", 3),
        ("a + b", "call", 2),
        ("a[0]", "call", 1),
        ("a ? b : c", "call", 2),
        (" [a]", "list", 1),
        (" {a: b}", "map", 1),
        (" A.b {c: d}", "message", 5),
        ("- 1", "literal", 0),
        ("!!!a", "call", 0),
        ("a.all(x, x)", "comprehension", 5),
        ("'é😀' + a", "call", 5),
    ],
)
def test_the_offset_of_a_node_is_its_operator_or_first_character(
    source: str, name: str, offset: int
) -> None:
    node = parse(source, OPTIONS)
    assert type(node).__name__.lower().startswith(name)
    assert node.offset == offset


def test_the_offset_of_an_entry_is_its_colon() -> None:
    node = parse("{a: b, c : d}", OPTIONS)
    assert [entry.offset for entry in getattr(node, "entries", ())] == [2, 9]


@every_row("source", [source for source, _ in trees()])
def test_node_ids_are_unique_in_a_tree(source: str) -> None:
    nodes = walk(parse(source, OPTIONS))
    assert len({node.id for node in nodes}) == len(nodes)


@every_row("source", [source for source, _ in trees()])
def test_a_copy_is_an_equal_tree_with_new_ids(source: str) -> None:
    node = parse(source, OPTIONS)
    ids = iter(range(1000, 2000))
    copy = copy_tree(node, lambda: next(ids))
    assert show(copy) == show(node)
    assert {id(each) for each in walk(copy)}.isdisjoint(id(each) for each in walk(node))
    assert min(each.id for each in walk(copy)) >= 1000


def nested(opening: str, inside: str, closing: str, times: int) -> str:
    return opening * times + inside + closing * times


@every_row(
    ("opening", "inside", "closing", "deepest"),
    [
        # one more recursion of the grammar rule
        ("(", "a", ")", 249),
        ("[", "a", "]", 249),
        ("f(", "a", ")", 249),
        ("{a: ", "a", "}", 249),
        ("-(", "a", ")", 249),
        ("a[", "a", "]", 249),
        ("a ? a : ", "a", "", 249),
        # two at a time: the right operand of an operator counts, too
        ("1 + (", "1", ")", 124),
        ("1 == (", "1", ")", 124),
        ("1 + 1 * (", "1", ")", 83),
        # no recursion of a rule, but nested nodes
        ("", "1", " + 1", 250),
        ("", "1", " == 1", 250),
        ("", "a", ".b", 250),
        ("", "a", "[0]", 250),
        ("", "a", ".f()", 250),
    ],
)
def test_the_nesting_limit_equals_that_of_cel_go(
    opening: str, inside: str, closing: str, deepest: int
) -> None:
    assert kind(nested(opening, inside, closing, deepest)) is None
    assert kind(nested(opening, inside, closing, deepest + 1)) == "recursion"


@pytest.mark.parametrize("operator", [" && ", " || "])
def test_chains_of_a_logical_operator_do_not_nest(operator: str) -> None:
    assert kind(operator.join(["a"] * 2000)) is None


def test_prefix_operators_do_not_nest() -> None:
    assert kind("!" * 5001 + "a") is None


def test_a_nesting_error_replaces_all_other_errors() -> None:
    assert kind("1 + if + " + "(" * 251 + "a") == "recursion"


def test_an_expression_that_is_too_long_is_refused() -> None:
    assert kind("'" + "x" * 99_998 + "'") is None
    assert kind("'" + "x" * 99_999 + "'") == "size"


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    node = parse("'\ud83d\ude00 \ud800'", OPTIONS)
    assert isinstance(node, Literal)
    assert node.value == "😀 \ufffd"


def test_error_columns_count_characters() -> None:
    reported = problems("'😀' +\n if")
    assert [(p.kind, p.line, p.column) for p in reported] == [("reserved", 2, 2)]


PIECES = st.sampled_from(
    [
        *"()[]{}.,:?!+-*<'\"\\|&=@\n\t\u00e9\U0001f600\ud800",
        *[
            "==",
            "&&",
            "||",
            "in",
            "true",
            "null",
            "a",
            "b.c",
            "if",
            "1",
            "2u",
            "1.5",
            "'s'",
            "has(",
            ".all(x,",
            "cel.bind(",
            "a{",
            ".?b",
            "[?c",
        ],
        *["`d`", "0x", "1e", "//", "r'", 'b"', "'''"],
    ]
)


@settings(max_examples=drawn(80, thorough=400))
@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_parses_or_has_errors_at_positions_inside_it(source: str) -> None:
    lines = source.split("\n")
    for problem in problems(source):
        if problem.line:
            assert 0 <= problem.column <= len(lines[problem.line - 1]) + 1


@every_row(
    "piece",
    [
        *"([{'\"\\`|=.,?:-!a1 \n\u00e9",
        *[
            "'''",
            '"""',
            "a.",
            "a(",
            "a?",
            "1:",
            "has(",
            "'\\",
            "\"'",
            "r'",
            "'''\\q",
            "a{",
            "[1].all(x,",
            "{1:",
            "(a",
            ")a",
            "']",
            "0x",
            "1e",
        ],
        *("if ", "// \n", "a ? b : ", "a && ", "1 + ", "99999999999999999999 "),
    ],
)
def test_ten_kibibytes_of_any_text_parse_or_fail_without_a_crash(piece: str) -> None:
    source = (piece * 10_240)[:10_240]
    assert kind(source) in {None, "syntax", "recursion", "reserved", "macro"}


def test_an_identifier_parses_to_an_identifier() -> None:
    node = parse("abc", OPTIONS)
    assert isinstance(node, Ident)
    assert node.name == "abc"
