"""Calls that would exhaust memory or time are refused before they start."""

import pytest

from drawbridge.cel.environment import Environment
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library.format import format_text
from drawbridge.cel.library.regex import check_pattern, compile_pattern
from drawbridge.cel.library.versions import functions, libraries
from drawbridge.cel.types import DYN

TABLE = functions(libraries("1.36", stored=True))
ENVIRONMENT = Environment({"x": DYN}, libraries("1.36", stored=True))
LONG = "a" * 10_000


def call(name: str, id_: str, *args: object) -> object:
    """Call one overload."""
    overload = next(one for one in TABLE[name].overloads if one.id == id_)
    return overload.implementation(*args)


def nested(depth: int) -> list[object]:
    """Return a list that contains the same list twice, at each of `depth` levels."""
    found: list[object] = []
    for _ in range(depth):
        found = [found, found]
    return found


@pytest.mark.parametrize(
    ("name", "id_", "args"),
    [
        ("lists.range", "lists_range", (10**12,)),
        ("_+_", "add_list", ([0] * 600_000, [0] * 600_000)),
        ("_+_", "add_string", ("a" * 6_000_000, "a" * 6_000_000)),
        ("replace", "string_replace_string_string", (LONG, "", LONG)),
        ("join", "list_join_string", (["a"] * 2_000, LONG)),
        ("flatten", "list_flatten_int", (nested(30), 30)),
        ("format", "string_format", ("%s", [nested(30)])),
        ("distinct", "list_distinct", ([1, 1.5] * 3_000 + [float(i) for i in range(6_000)],)),
        ("sets.contains", "list_sets_contains_list", ([1.5] * 5_000, [1] * 5_000)),
        ("findAll", "string_find_all_string", ("a" * 30_000, "(a*b)?")),
        ("matches", "matches_string", ("a" * 1_000_000, "b" * 1_000)),
    ],
)
def test_a_result_larger_than_the_budget_is_refused(
    name: str, id_: str, args: tuple[object, ...]
) -> None:
    with pytest.raises(EvaluationError) as caught:
        call(name, id_, *args)
    assert caught.value.kind == "cost_exceeded"


def test_a_result_just_within_the_bounds_is_created() -> None:
    assert call("_+_", "add_list", [0] * 500_000, [0] * 500_000) == [0] * 1_000_000
    assert call("replace", "string_replace_string_string", "aaa", "", "-") == "-a-a-a-"


def test_nested_shared_values_are_compared_and_counted_once() -> None:
    a, b = nested(60), nested(60)
    assert call("_==_", "equals", a, b) is True
    cost = TABLE["indexOf"].cost
    assert cost is not None
    assert cost(([a], 1), -1) == 0


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*x", "(a{500}){2}"])
def test_patterns_do_not_backtrack(pattern: str) -> None:
    found = compile_pattern(pattern).search(b"a" * 5_000 + b"b!")
    assert (found is None) == (pattern != "(a{500}){2}")


@pytest.mark.parametrize(
    "pattern",
    ["(", "a(?=b)", r"(a)\1", "a{1001}", r"\C", "a**", "(?P<é>a)", "(" * 1001 + ")" * 1001],
)
def test_a_pattern_that_go_refuses_is_refused(pattern: str) -> None:
    assert check_pattern(pattern) is not None


@pytest.mark.parametrize(
    "pattern", [r"\\C", r"\Q\C\E", r"\pL+", "(?i)a", "(?P<n>a)", r"\z", "[[:alpha:]]", ""]
)
def test_a_pattern_that_go_accepts_is_accepted(pattern: str) -> None:
    assert check_pattern(pattern) is None


def test_a_pattern_that_needs_too_much_memory_is_refused() -> None:
    assert check_pattern(r"(\pL{900}){1}" * 60) is not None


def test_the_width_of_a_clause_wraps_around_as_in_cel_go() -> None:
    assert len(format_text("%.65535e", [1.0])) == 65535
    assert len(format_text("%.65536e", [1.0])) == len("1.000000×10⁰⁰")  # noqa: RUF001  # what is written
    assert format_text("%.257f", [1.0]) == "1.0"
    assert format_text("%.99999999999f", [1.0]) == "%!(NOVERB)"


def test_an_expression_cannot_bypass_the_bounds() -> None:
    doubled = "[0, 0]"
    for i in range(30):
        doubled = f"cel.bind(v{i}, {doubled}, v{i} + v{i})"
    with pytest.raises(EvaluationError):
        ENVIRONMENT.compile(f"{doubled}.size() > 0").evaluate({"x": 1})
