"""Calls that would exhaust memory or time have prices above the limit of a call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.cel.environment import Environment
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import Cancelled
from drawbridge.cel.library.format import format_text
from drawbridge.cel.library.prices import PRICES
from drawbridge.cel.library.regex import (
    check_pattern,
    compile_pattern,
    estimate_program,
    is_too_large,
    pattern_price,
)
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.meter import MOST_WORK, MOST_WORK_OF_CALL
from drawbridge.cel.scopes import declare
from drawbridge.cel.types import DYN
from tests.tables import every_row

TABLE = declare(libraries("1.36", stored=True), {}, {}).functions
ENVIRONMENT = Environment({"x": DYN}, libraries("1.36", stored=True))
LONG = "a" * 10_000


def call(name: str, id_: str, *args: object) -> object:
    """Call one overload."""
    overload = next(one for one in TABLE[name].overloads if one.id == id_)
    return overload.implementation(*args)


def nested(depth: int) -> list[object]:
    """Return a list that contains the same list twice, at each of `depth` levels."""
    nested: list[object] = []
    for _ in range(depth):
        nested = [nested, nested]
    return nested


@every_row(
    ("id_", "args"),
    [
        ("lists_range", (10**12,)),
        ("add_list", ([0] * 600_000, [0] * 600_000)),
        ("add_string", ("a" * 6_000_000, "a" * 6_000_000)),
        ("string_replace_string_string", (LONG, "", LONG)),
        ("list_join_string", (["a"] * 2_000, LONG)),
        ("list_flatten_int", (nested(30), 30)),
        ("string_format", ("%s", [nested(30)])),
        ("string_format", ("%.65535e" * 30, [1.0] * 30)),
        ("list_distinct", ([1, 1.5] * 3_000 + [float(i) for i in range(6_000)],)),
        ("list_sets_contains_list", ([1.5] * 5_000, [1] * 5_000)),
        ("list_a_index_of_int", ([nested(30)], nested(30))),
        ("string_last_index_of_string", ("a" * 5_000, "b" * 5_000)),
        ("string_to_url", ("/" + "a" * 30_000,)),
        ("string_to_semver", ("1.2.3-" + "a." * 10_000 + "a",)),
        ("string_find_all_string", ("a" * 3_000, "(a*b)?")),
        ("matches_string", ("a" * 1_000_000, "b+")),
        ("matches_string", (LONG, "(a?){500}b")),
    ],
)
def test_no_price_of_a_large_call_is_within_the_limit_of_a_call(
    id_: str, args: tuple[object, ...]
) -> None:
    assert PRICES[id_](*args) > MOST_WORK_OF_CALL


@every_row(
    ("id_", "args"),
    [
        ("matches_string", ("a" * 64, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")),
        ("string_find_all_string", ("a" * 64, "[a-z]")),
        ("string_split_string", ("a," * 32, ",")),
        ("list_sets_intersects_list", (["a" * 64] * 48, ["b" * 64] * 48)),
        ("string_to_semver", ("12.4.131-rc.1+build.7",)),
        ("list_string_sort", (["a" * 64] * 48,)),
    ],
)
def test_a_call_on_the_values_of_an_attribute_is_within_the_limit(
    id_: str, args: tuple[object, ...]
) -> None:
    assert PRICES[id_](*args) < MOST_WORK_OF_CALL


def test_an_empty_text_is_replaced_between_all_characters() -> None:
    assert call("replace", "string_replace_string_string", "aaa", "", "-") == "-a-a-a-"


def test_nested_shared_values_are_compared_and_counted_once() -> None:
    a, b = nested(60), nested(60)
    assert call("_==_", "equals", a, b) is True
    cost = TABLE["indexOf"].cost
    assert cost is not None
    assert cost(([a], 1), -1) == 0


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*x", "(a{500}){2}"])
def test_patterns_do_not_backtrack(pattern: str) -> None:
    match = compile_pattern(pattern).search(b"a" * 5_000 + b"b!")
    assert (match is None) == (pattern != "(a{500}){2}")


@every_row(
    "pattern",
    ["(", "a(?=b)", r"(a)\1", "a{1001}", r"\C", "a**", "(?P<é>a)", "(" * 1001 + ")" * 1001],
)
def test_a_pattern_that_go_refuses_is_refused(pattern: str) -> None:
    assert check_pattern(pattern) is not None


@every_row("pattern", [r"\\C", r"\Q\C\E", r"\pL+", "(?i)a", "(?P<n>a)", r"\z", "[[:alpha:]]", ""])
def test_a_pattern_that_go_accepts_is_accepted(pattern: str) -> None:
    assert check_pattern(pattern) is None


@pytest.mark.parametrize("pattern", [r"\pL{1000}", r"(\pL{900}){1}" * 60, r"\pL" * 3_000])
def test_a_pattern_with_a_large_program_is_not_built(pattern: str) -> None:
    # Kubernetes accepts it, so it is no error at compile time.
    assert check_pattern(pattern) is None
    assert pattern_price(pattern) > MOST_WORK
    with pytest.raises(Cancelled):
        compile_pattern(pattern)


PARTS = (
    "a", "k", "é", "🚀", ".", "[a-z]", "[^a]", "[^é-ü🚀]", r"\d", r"\W", r"\pL", r"\PN",
    "[[:^alpha:]]", "(ab|cd)", "(?:x|.)", "(?i)", r"\Q.k.\E", "a*", "(b|k)+?", "(?s:.)",
)  # fmt: skip
REPEATS = ("", "", "", "{3}", "{0,9}", "{2,}", "?")


@given(
    st.sampled_from(("", "(?i)")),
    st.lists(st.tuples(st.sampled_from(PARTS), st.sampled_from(REPEATS)), max_size=12),
)
def test_no_program_is_larger_than_its_text_tells(flags: str, parts: list[tuple[str, str]]) -> None:
    pattern = flags + "".join(f"(?:{part}){repeat}" for part, repeat in parts)
    if not is_too_large(pattern):
        assert compile_pattern(pattern).programsize <= estimate_program(pattern)


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


DIGITS = "0" * 5_000 + "7"


@every_row(
    ("source", "result"),
    [
        (f'int("{DIGITS}")', 7),
        (f'int("-{DIGITS}")', -7),
        (f'uint("{DIGITS}") == 7u', True),
        (f'"%.{DIGITS}f".format([1.5])', "1.5000000"),
        (f'duration("{DIGITS}h") == duration("7h")', True),
        (f'timestamp("2020-01-01T00:00:00Z").getHours("+{DIGITS}:0")', 7),
    ],
)
def test_any_number_of_leading_zeros_is_read(source: str, result: object) -> None:
    assert ENVIRONMENT.compile(source).evaluate({"x": 1}).value == result


@pytest.mark.parametrize("text", ["9" * 5_000, "-" + "9" * 5_000, "0" * 9_000 + ":"])
@pytest.mark.parametrize("function", ["int", "uint", "double", "duration", "timestamp"])
def test_a_number_that_is_too_long_or_invalid_is_an_error(function: str, text: str) -> None:
    with pytest.raises(EvaluationError):
        ENVIRONMENT.compile(f"{function}(x)").evaluate({"x": text})
