"""Tests the libraries against a table of Kubernetes' results, and the differences of versions."""

from pathlib import Path

import pytest

from drawbridge.cel.environment import Environment
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.numbers import format_shortest
from drawbridge.cel.scopes import declare
from drawbridge.cel.types import DYN
from drawbridge.cel.values import Map, NamedFormat, Optional, TypeValue, type_name
from tests.tables import YamlValue, every_row, load_cases

TABLE: dict[str, list[dict[str, YamlValue]]] = load_cases(
    Path(__file__).parent / "cases" / "library.yaml"
)  # type: ignore[assignment]
CASES = [pytest.param(case, id=case["expression"]) for group in TABLE.values() for case in group]
BASE = Environment(
    {"x": DYN}, [one for one in libraries("1.36", stored=True) if one.name != "dra.includes"]
)
ENVIRONMENTS = {
    version: Environment({"x": DYN}, libraries(version, stored=True), version)
    for version in ("1.34", "1.35", "1.36", "1.37")
}


def shown(value: object) -> str:  # noqa: PLR0911  # one a kind
    """Format a value as the table does, in Go syntax."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format_shortest(value)
    if isinstance(value, (list, tuple)):
        return f"[{' '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{shown(value[key])}' for key in sorted(value))}]"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Optional):
        return shown(value.value) if value.present else "<nil>"
    if value is None:
        return "NULL_VALUE"
    if isinstance(value, bytes):
        return f"[{' '.join(map(str, value))}]"
    return str(value)


def outcome(expression: str, version: str = "1.36") -> object:
    """Evaluate an expression; an error is its kind."""
    program = ENVIRONMENTS[version].compile(expression)
    try:
        return program.evaluate({"x": 1}).value
    except EvaluationError as error:
        return error.kind


@every_row("case", CASES)
def test_results_and_costs_equal_those_of_kubernetes(case: dict[str, YamlValue]) -> None:
    program = BASE.compile(case["expression"])
    if "error" in case:
        with pytest.raises(EvaluationError) as caught:
            program.evaluate({"x": 1})
        assert (caught.value.kind, caught.value.cost) == (case["error"], case["cost"])
        return
    result = program.evaluate({"x": 1})
    assert (type_name(result.value), shown(result.value)) == (case["type"], case["value"])
    assert (result.cost, program.max_cost) == (case["cost"], case["at_most"])


@pytest.mark.parametrize(
    ("expression", "before", "since"),
    [
        ('"ab".indexOf("", 5)', 5, 2),
        ('"ab".indexOf("", -1)', -1, "index"),
        ('"ab".lastIndexOf("", 5)', 5, 2),
        ("lists.range(-1) == []", True, "list_elements"),
        ("lists.range(60).includes(59)", "list_elements", True),
    ],
)
def test_results_that_differ_in_1_37(expression: str, before: object, since: object) -> None:
    assert outcome(expression, "1.36") == before
    assert outcome(expression, "1.37") == since


def test_since_1_37_the_cost_of_an_affix_is_its_own_size() -> None:
    expression = f'"{"a" * 100}".startsWith("a")'
    costs = [
        ENVIRONMENTS[version].compile(expression).evaluate({"x": 1}).cost
        for version in ("1.36", "1.37")
    ]
    assert costs == [10, 1]


@every_row(
    ("version", "stored", "gate", "sort", "includes"),
    [
        ("1.34", False, False, False, False),
        ("1.34", True, False, True, False),
        ("1.35", False, False, True, False),
        ("1.35", True, True, True, False),
        ("1.36", False, False, True, False),
        ("1.36", False, True, True, True),
        ("1.36", True, False, True, True),
        ("1.37", False, False, True, False),
        ("1.37", False, True, True, True),
        ("1.37", True, False, True, True),
    ],
)
def test_a_new_expression_may_use_only_the_libraries_of_the_previous_version(  # a row of the table
    version: str, *, stored: bool, gate: bool, sort: bool, includes: bool
) -> None:
    names = declare(libraries(version, stored=stored, list_attributes=gate), {}, {}).functions
    assert ("sort" in names, "includes" in names) == (sort, includes)


def test_overload_ids_are_unique() -> None:
    for version in ENVIRONMENTS:
        table = declare(libraries(version, stored=True), {}, {}).functions
        ids = [overload.id for function in table.values() for overload in function.overloads]
        assert len(ids) == len(set(ids))


def test_versions_share_the_object_of_an_unchanged_library() -> None:
    new = declare(libraries("1.36", stored=False), {}, {}).functions
    stored = declare(libraries("1.36", stored=True), {}, {}).functions
    assert {name for name in new if new[name] != stored[name]} == set()


def test_authorization_functions_have_no_implementation() -> None:
    assert outcome('x.check("get")') == "no_such_overload"


def test_a_named_format_reports_errors_with_the_messages_of_the_api_server() -> None:
    checks = outcome("format.dns1123Label()")
    assert isinstance(checks, NamedFormat)
    assert checks.problems("a.b") == ["must not contain dots"]


def test_a_map_distinguishes_the_kinds_of_number_keys() -> None:
    types = outcome('{dyn(1): "int", dyn(1u): "uint"}')
    assert isinstance(types, Map)
    assert [types.find(1), len(types)] == ["int", 2]
