"""Tests of the walker with small struct types."""

import enum
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.dra.decode_errors import (
    MAX_FINDINGS,
    Schema,
    convert,
    describe_value,
    last_path_element,
    walk,
)
from tests.tables import every_row


class Colour(enum.Enum):
    """A closed choice."""

    RED = "red"
    BLUE = "blue"


class Even:
    """A type msgspec does not know."""

    def __init__(self, number: int) -> None:
        self.number = number


class Leaf(msgspec.Struct, frozen=True, rename="camel"):
    """Every kind of field."""

    how_many: int
    small: Annotated[int, msgspec.Meta(ge=0, le=9)] = 0
    ratio: float = 0.0
    colour: Colour | None = None
    mode: Literal["one", "all"] = "one"
    either: str | int = 0
    shared: Literal["no", "free"] | Annotated[int, msgspec.Meta(ge=2)] = "no"
    even: Even | None = None
    anything: Any = None


class Tree(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A strict type that holds others."""

    leaves: tuple[Leaf, ...] = ()
    by_name: Mapping[str, Leaf] = {}


def even(wanted: type, value: object) -> Even:
    if wanted is not Even or not isinstance(value, int) or value % 2:
        raise ValueError("not even")
    return Even(value)


SCHEMA = Schema(Tree, even)


def errors(value: object, path: str = "") -> dict[str, str]:
    return {f.path: f.code for f in walk(value, SCHEMA, path=path).findings}


GOOD: list[object] = [
    {},
    {"leaves": []},
    {"leaves": [{"howMany": 1, "small": 9, "ratio": 1, "colour": "red", "mode": "all"}]},
    {"leaves": [{"howMany": 1, "either": "x", "even": 4, "anything": {"a": [None]}}]},
    {"leaves": [{"howMany": 1, "unknown": 1, "either": 3}], "by_name": {"a": {"howMany": 0}}},
    {"leaves": None, "by_name": None},
    {"leaves": [{"howMany": 1, "ratio": None, "mode": None, "either": None}]},
]


@every_row("value", GOOD)
def test_a_valid_value_has_no_findings_and_converts(value: object) -> None:
    walked = walk(value, SCHEMA)
    assert walked.findings == ()
    assert isinstance(msgspec.convert(walked.value, Tree, dec_hook=even), Tree)
    assert isinstance(convert(value, SCHEMA), Tree)


BAD: list[tuple[object, dict[str, str]]] = [
    (3, {"": "WrongType"}),
    ({"leaves": {}}, {"leaves": "WrongType"}),
    ({"leaves": "ab"}, {"leaves": "WrongType"}),
    ({"leaf": 1, 2: 3}, {"leaf": "FieldUnknown", "2": "FieldUnknown"}),
    ({"leaves": [{}]}, {"leaves[0].howMany": "FieldMissing"}),
    ({"leaves": [{"howMany": None}]}, {"leaves[0].howMany": "FieldMissing"}),
    ({"leaves": [None]}, {"leaves[0]": "WrongType"}),
    ({"by_name": {"a.b/c": {"howMany": "x"}}}, {"by_name[a.b/c].howMany": "WrongType"}),
    ({"by_name": {1: {"howMany": 1}}}, {"by_name[1]": "WrongType"}),
    ({"leaves": [{"howMany": 1, "small": 10}]}, {"leaves[0].small": "WrongValue"}),
    ({"leaves": [{"howMany": 1, "small": -1}]}, {"leaves[0].small": "WrongValue"}),
    ({"leaves": [{"howMany": 1, "colour": "green"}]}, {"leaves[0].colour": "WrongValue"}),
    ({"leaves": [{"howMany": 1, "colour": []}]}, {"leaves[0].colour": "WrongType"}),
    ({"leaves": [{"howMany": 1, "mode": "two"}]}, {"leaves[0].mode": "WrongValue"}),
    ({"leaves": [{"howMany": 1, "either": 1.5}]}, {"leaves[0].either": "WrongType"}),
    ({"leaves": [{"howMany": 1, "even": 3}]}, {"leaves[0].even": "WrongValue"}),
    ({"leaves": [{"howMany": True, "ratio": True}]}, {
        "leaves[0].howMany": "WrongType", "leaves[0].ratio": "WrongType",
    }),
]  # fmt: skip


@every_row(("value", "expected"), BAD)
def test_every_error_has_its_path(value: object, expected: dict[str, str]) -> None:
    assert errors(value) == expected
    converted = convert(value, SCHEMA)
    assert isinstance(converted, tuple)
    assert {finding.path for finding in converted} == set(expected)


def test_paths_start_with_the_path_of_the_caller() -> None:
    assert errors({"leaves": [{}]}, "spec") == {"spec.leaves[0].howMany": "FieldMissing"}


def test_messages_contain_the_expected_type_and_the_value() -> None:
    leaf = {"howMany": [], "colour": "green", "mode": 3, "either": None, "ratio": "x" * 100}
    messages = {f.path: f.message for f in walk({"leaves": [leaf]}, SCHEMA).findings}
    assert messages == {
        "leaves[0].howMany": "howMany must be an integer, not a list",
        "leaves[0].colour": 'colour must be red or blue, not "green"',
        "leaves[0].mode": "mode must be all or one, not 3",
        "leaves[0].ratio": f'ratio must be a number, not "{"x" * 37}..."',
    }


def test_a_number_that_is_too_small_for_one_of_several_types_is_told_the_least() -> None:
    (finding,) = walk({"leaves": [{"howMany": 1, "shared": 1}]}, SCHEMA).findings
    assert finding.message == "shared must be free or no or an integer of at least 2, not 1"


def test_messages_name_the_entry_of_a_list_or_map() -> None:
    by_name = {"gpu.example.com/model": 1}
    (finding,) = walk({"by_name": by_name}, SCHEMA).findings
    assert finding.message.startswith("by_name[gpu.example.com/model] must be an object")


def test_the_number_of_findings_is_limited_and_reported() -> None:
    findings = walk({"leaves": [1] * MAX_FINDINGS}, SCHEMA).findings
    assert {finding.code for finding in findings} == {"WrongType"}
    findings = walk({"leaves": [1] * (MAX_FINDINGS + 7)}, SCHEMA).findings
    assert len(findings) == MAX_FINDINGS + 1
    assert findings[-1].code == "MoreErrors"


def test_an_error_that_only_msgspec_detects_is_a_finding() -> None:
    class Short(msgspec.Struct):
        name: Annotated[str, msgspec.Meta(max_length=3)]

    converted = convert({"name": "long"}, Schema(Short), path="spec")
    assert isinstance(converted, tuple)
    assert [(finding.path, finding.code) for finding in converted] == [("spec", "WrongValue")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (10**50, "a number of more than 38 digits"),
        ({}, "an object"),
        (b"x", "a bytes"),
    ],
)
def test_values_of_any_size_have_a_short_description(value: object, text: str) -> None:
    assert describe_value(value) == text


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["leaves", "by_name", "howMany", "even", "x"]), inner)
    ),
    max_leaves=12,
)


@given(odd)
def test_any_value_converts_or_has_findings(value: object) -> None:
    converted = convert(value, SCHEMA)
    assert isinstance(converted, Tree) or converted


@every_row(
    ("path", "element"),
    [
        ("spec.devices[3].name", "name"),
        ("spec.devices[3]", "devices[3]"),
        ("quotas[0].total[gpu.nvidia.com][devices]", "total[gpu.nvidia.com][devices]"),
        ("[a.b/c]", "[a.b/c]"),
        ("a]", "a]"),
        ("", "the document"),
    ],
)
def test_the_last_element_of_a_path_has_its_keys(path: str, element: str) -> None:
    assert last_path_element(path) == element
