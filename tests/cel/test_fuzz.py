"""Any input has a result or a defined error in bounded time, and never an internal error."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.cel import CompileError, Environment, EvaluationError
from drawbridge.cel.dra import Selectors, device_environment, device_variables, find_reads
from drawbridge.cel.dra.questions import QuestionError, read_question
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.quantity import parse
from tests.cel.calls import calls
from tests.tables import every_row
from tests.thorough import THOROUGH, drawn

GOLDEN = json.loads((Path(__file__).parent / "golden" / "cel_device.json").read_text())
EXPRESSIONS = [case["expression"] for case in GOLDEN["cases"] if len(case["expression"]) < 400]
ENVIRONMENTS = [device_environment(version, list_attributes=True) for version in ("1.36", "1.37")]
NEWEST = ENVIRONMENTS if THOROUGH else ENVIRONMENTS[-1:]
DEVICE = device_variables(
    "d",
    Device(
        name="x",
        attributes={
            "s": Attribute(string="gpu"),
            "i": Attribute(integer=3),
            "v": Attribute(version="1.2.3"),
            "strs": Attribute(strings=("a", "b")),
            "ints": Attribute(integers=(1, 2)),
        },
        capacity={"mem": Capacity(parse("40Gi"))},
    ),
    list_attributes=True,
)
PIECES = st.sampled_from(
    [
        "",
        "device",
        ".attributes",
        '["d"]',
        ".s",
        ".i",
        ".v",
        ".strs",
        ".capacity",
        ".mem",
        ".driver",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "?",
        ":",
        ".",
        "?.",
        "&&",
        "||\n",
        "",
        "",
        "",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "in",
        "1",
        "0",
        "-1",
        "1u",
        "2.5",
        "9223372036854775807",
        '"a"',
        "'b'",
        'b"c"',
        "true",
        "false",
        "null\n",
        "",
        "",
        "",
        "has(",
        ".all(",
        ".exists(",
        ".map(",
        ".filter(",
        "x,",
        "cel.bind(",
        "x",
        "y",
        "size(",
        "int(",
        "string(",
        "quantity(",
        "semver(\n",
        "",
        "",
        "",
        '"40Gi"',
        '"1.2.3"',
        ".matches(",
        ".find(",
        ".split(",
        ".join(",
        ".format(",
        ".orValue(",
        "optional.of(",
        "optional.none()\n",
        "",
        "",
        "",
        "lists.range(",
        ".sort()",
        ".flatten()",
        ".distinct()",
        "sets.contains(",
        "ip(",
        "cidr(",
        "url(",
        "timestamp(",
        "duration(\n",
        "",
        "",
        "",
        ".compareTo(",
        ".isGreaterThan(",
        ".sum()",
        ".min()",
        ".includes(",
        "dyn(",
        "type(",
        "google.protobuf.Int64Value{\n",
        "",
        "",
        "",
        "value:",
        "//",
        "\n",
        "\t",
        "\\",
        "`",
        "é",
        "💥",
        "",
    ]
)


def _evaluate(source: str, environments: Sequence[Environment] = ENVIRONMENTS) -> None:
    for environment in environments:
        try:
            program = environment.compile(source)
        except CompileError as error:
            assert error.problems  # noqa: PT017  # a failure is a valid result, too
            continue
        find_reads(program).projection(DEVICE)
        try:
            program.evaluate(DEVICE)
        except EvaluationError as error:
            assert error.kind  # noqa: PT017  # a failure is a valid result, too


@settings(max_examples=drawn(80, thorough=400))
@given(st.text(max_size=40))
def test_any_text_has_a_result_or_a_defined_error(source: str) -> None:
    _evaluate(source)


@settings(max_examples=drawn(120, thorough=600))
@given(st.lists(PIECES, max_size=14).map(" ".join))
def test_any_mixture_of_tokens_has_a_result_or_a_defined_error(source: str) -> None:
    _evaluate(source)


@settings(max_examples=drawn(120, thorough=600))
@given(st.sampled_from(EXPRESSIONS), st.data())
def test_a_damaged_expression_has_a_result_or_a_defined_error(
    source: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, min(len(source), start + 8)))
    middle = data.draw(st.one_of(st.just(""), PIECES, st.sampled_from(EXPRESSIONS)))
    _evaluate(source[:start] + middle + source[end:])


def test_values_of_other_types_than_assumed_have_a_result_or_a_defined_error() -> None:
    for source in sorted(set(calls("1.37")))[:: drawn(3, thorough=1)]:
        _evaluate(source, NEWEST)


@settings(max_examples=drawn(40, thorough=200))
@given(st.binary(max_size=60))
def test_any_bytes_are_a_question_or_raise_a_question_error(line: bytes) -> None:
    try:
        read_question(line)
    except QuestionError as error:
        assert error.args != ("",)  # noqa: PT017  # a failure is a valid result, too


@pytest.mark.parametrize("depth", [10, 120, 249, 260, 3000])
@pytest.mark.parametrize(
    ("opening", "core", "closing"),
    [
        ("(", "true", ")"),
        ("[", "1", "]"),
        ('{"a": ', "1", "}"),
        ("!(", "true", ")"),
        ("-(", "device.attributes['d'].i", ")"),
        ("size([", "1", "]) + 1"),
        ("device.attributes['d'].i + (", "1", ")"),
        ("true ? (", "true", ") : false"),
        ("device.attributes['d'].i == 3 ? (", "true", ") : false"),
        ("[1].all(x, ", "x == 1", ")"),
        ("[1].map(x, ", "device.attributes['d'].i", ")"),
        ("[1].map(x, true, [", "x", "])"),
        ("cel.bind(x, 1, ", "x == 1", ")"),
        ("false || (true && (1 == 1 + 1 * -(", "1", ")))"),
        ("optional.of(", "device.attributes['d'].i", ")"),
        ("device.attributes['d'][", "'s'", "]"),
        ("dyn(", "device.attributes['d'].i", ")"),
    ],
)
def test_any_nesting_depth_has_a_result_or_a_defined_error(
    opening: str, core: str, closing: str, depth: int
) -> None:
    _evaluate(opening * depth + core + closing * depth, NEWEST)


@every_row(
    "step", [" + 1", " && true", " || false", ".a", "[0]", " == 1", " in [1]", ".map(x, x)", ".?a"]
)
def test_any_chain_length_has_a_result_or_a_defined_error(step: str) -> None:
    for length in (10, 240, 260, 3000):
        _evaluate("device.attributes['d'].i" + step * length, NEWEST)
        _evaluate("1" + step * length, NEWEST)


@every_row(
    "source",
    [
        "lists.range(1000000000000).size() > 0",
        "lists.range(3000).all(x, lists.range(3000).all(y, x + y >= 0))",
        "lists.range(100000).map(x, x).size() == 100000",
        "lists.range(30000).transformMap(i, v, v).size() == 30000",
        '"a".replace("", "b").size() == 3',
        '"%.1000000f".format([1.0]).size() > 0',
        "cel.bind(a, [1, 2], " * 40 + "a + a" + ")" * 40 + ".size() > 0",
        "".join(f"cel.bind(a{i + 1}, a{i} + a{i}, " for i in range(60)).replace("a0", "[1]")
        + "a60.size() > 0"
        + ")" * 60,
        '"' + "a" * 5000 + '".matches("(a*)*b")',
        '"' + "a" * 3000 + '".matches("' + "(a?)" * 800 + '")',
    ],
)
def test_expensive_expressions_end_in_bounded_time(source: str) -> None:
    _evaluate(source)


def test_text_that_is_not_valid_utf8_has_a_result_or_a_defined_error() -> None:
    for source in ("'\ud800'", "device.driver == '\udfff'", "\ud800"):
        _evaluate(source)
        assert Selectors().evaluate(source, "d", Device(name="x")).compile in ("ok", "error")
