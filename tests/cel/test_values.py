"""Tests of equality, order, lookup and the kinds of values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.cel import semver
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.net import parse_cidr, parse_ip
from drawbridge.cel.numbers import format_fixed, format_shortest, parse_float, to_uint
from drawbridge.cel.times import Duration, Timestamp, parse_duration, parse_timestamp
from drawbridge.cel.types import (
    ANY,
    BOOL,
    DYN,
    INT,
    QUANTITY,
    STRING,
    A,
    Type,
    list_of,
    map_of,
    optional_of,
)
from drawbridge.cel.url import parse_url
from drawbridge.cel.values import (
    MISSING,
    NONE,
    CelValue,
    ComputedQuantity,
    Map,
    Optional,
    TypeValue,
    Uint,
    compare,
    contains,
    equal,
    find,
    fits,
    grow,
    iterate,
    make_map,
    same,
    size,
    type_name,
)
from drawbridge.dra.quantity import parse
from tests.tables import every_row

ONE = parse("1")
VERSION = semver.parse("1.2.3")
SCALARS: st.SearchStrategy[CelValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(Uint),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
)
VALUES: st.SearchStrategy[CelValue] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@every_row(
    ("a", "b", "expected"),
    [
        (1, 1.0, True),
        (1, Uint(1), True),
        (Uint(2**63), 2.0**63, True),
        (2**53 + 1, 2.0**53, True),  # cel-go compares as doubles
        (2**53 + 1, 2**53, False),
        (1, True, False),
        (0, False, False),
        ("a", b"a", False),
        (None, None, True),
        (None, ONE, False),
        (math.nan, math.nan, False),
        ([1, 2], [1.0, Uint(2)], True),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        ([VERSION], ["1.2.3"], True),  # a comparison that fails is not false
        (Optional(1), Optional(1.0), True),
        (Optional(1), NONE, False),
        (NONE, NONE, True),
        (Timestamp(5, 0), Timestamp(5, 3600), True),
        (Duration(5), Timestamp(5), False),
        (TypeValue("int"), TypeValue("int"), True),
        ("1.2.3", VERSION, False),
    ],
)
def test_different_kinds_are_unequal_except_numbers(
    a: CelValue, b: CelValue, *, expected: bool
) -> None:
    assert equal(a, b) is expected


@every_row(
    ("a", "b"),
    [
        (VERSION, "1.2.3"),
        (ONE, 1),
        (parse_ip("::1"), "::1"),
        (parse_cidr("::/0"), parse_ip("::")),
        (parse_url("/a"), "/a"),
        (ONE, ComputedQuantity(1, 0, ONE.format, decimal=False)),
    ],
)
def test_kubernetes_types_compare_only_with_the_same_type(a: CelValue, b: CelValue) -> None:
    with pytest.raises(EvaluationError) as caught:
        equal(a, b)
    assert caught.value.kind == "no_such_overload"
    assert not same(a, b)


def test_a_computed_quantity_compares_only_on_the_left() -> None:
    assert equal(ComputedQuantity(1, 0, ONE.format, decimal=False), ONE)


@given(VALUES)
def test_a_value_equals_itself_and_is_in_its_list(value: CelValue) -> None:
    assert equal(value, value)
    assert contains([value], value)


@given(VALUES, VALUES)
def test_equality_is_symmetric(a: CelValue, b: CelValue) -> None:
    assert equal(a, b) == equal(b, a)


@given(st.sampled_from([int, Uint, float]), st.integers(0, 2**53), st.integers(0, 2**53))
def test_numbers_of_different_kinds_are_ordered(kind: type, a: int, b: int) -> None:
    assert compare(kind(a), b) == (a > b) - (a < b)


def test_nan_and_different_kinds_have_no_order() -> None:
    for a, b, kind in (
        (1.0, math.nan, "nan_order"),
        (1, "a", "no_such_overload"),
        ([], [], "no_such_overload"),
    ):
        with pytest.raises(EvaluationError) as caught:
            compare(a, b)
        assert caught.value.kind == kind


def test_a_map_finds_a_number_of_another_kind() -> None:
    types = make_map([(1, "int"), (Uint(2**63), "uint"), (True, "bool")])
    assert isinstance(types, Map)
    assert [types.find(key) for key in (1, Uint(1), 1.0, 2.0**63, True)] == [
        "int", "int", "int", "uint", "bool",
    ]  # fmt: skip
    assert types.find(1.5) is MISSING
    assert find({"a": 1}, 1) is MISSING


def test_a_map_of_strings_is_a_dict_and_the_last_duplicate_is_effective() -> None:
    assert make_map([("a", 1), ("a", 2)]) == {"a": 2}


def test_a_map_grows_in_place_until_a_key_is_not_a_string() -> None:
    grown = grow({}, "a", 1)
    assert grow(grown, "b", 2) is grown
    mixed = grow(grown, 3, 4)
    assert isinstance(mixed, Map)
    assert list(iterate(mixed)) == ["a", "b", 3]
    with pytest.raises(EvaluationError):
        grow(mixed, 3.0, 5)


def test_a_map_with_a_default_finds_every_key_and_contains_only_its_own() -> None:
    class Domains(dict[str, CelValue]):
        def __missing__(self, key: str) -> CelValue:
            return {}

    given = Domains(a=1)
    assert [find(given, "b"), find(given, 1), contains(given, "b")] == [{}, {}, False]


@every_row(
    ("container", "key", "kind"),
    [
        ([1], 0.5, "index"), ([1], "0", "index"),
        ("abc", 0, "no_such_overload"), (1, 0, "no_such_overload"),
    ],
)  # fmt: skip
def test_an_invalid_lookup_raises_an_error_of_the_expected_kind(
    container: CelValue, key: CelValue, kind: str
) -> None:
    with pytest.raises(EvaluationError) as caught:
        find(container, key)
    assert caught.value.kind == kind


def test_size_counts_characters() -> None:
    assert [size("😀é"), size("é".encode()), size([1]), size({"a": 1})] == [2, 2, 1, 1]


@every_row(
    ("type_", "fitting", "unfit"),
    [
        (INT, 1, True), (INT, -1, Uint(1)), (BOOL, True, 1), (STRING, "", b""),
        (list_of(INT), [], {}), (list_of(INT), [1, "unseen"], ["a"]), (list_of(A), ["a"], "a"),
        (map_of(STRING, INT), {"a": 1}, {"a": "b"}), (QUANTITY, ONE, 1),
        (optional_of(A), NONE, None), (Type("wrapper", params=(INT,)), None, "a"),
    ],
)  # fmt: skip
def test_a_type_check_examines_only_the_first_element(
    type_: Type, fitting: CelValue, unfit: CelValue
) -> None:
    guard = fits(type_)
    assert guard is not None
    assert (guard(fitting), guard(unfit)) == (True, False)


def test_every_value_fits_a_dynamic_type() -> None:
    assert [fits(type_) for type_ in (DYN, ANY, A)] == [None, None, None]


def test_type_names_of_values() -> None:
    values: list[CelValue] = [1, Uint(1), 1.0, True, None, "", b"", [], {}, NONE, ONE, VERSION]
    assert [type_name(value) for value in values] == [
        "int", "uint", "double", "bool", "null_type", "string", "bytes", "list", "map",
        "optional_type", "kubernetes.Quantity", "kubernetes.Semver",
    ]  # fmt: skip


@given(st.floats(allow_nan=False))
def test_a_formatted_double_parses_to_the_same_value(value: float) -> None:
    for text in (format_shortest(value), format_fixed(value)):
        assert parse_float(text) == value


@every_row(
    ("value", "whole"),
    [
        (0.9, 0),
        (-0.0, 0),
        (1.9, 1),
        (2.0**63, 2**63),
        (-0.5, None),
        (-1.0, None),
        (2.0**64, None),
        (math.nan, None),
        (math.inf, None),
    ],
)
def test_a_double_is_truncated_to_an_unsigned_integer(value: float, whole: int | None) -> None:
    assert to_uint(value) == whole


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_duration_in_nanoseconds_parses_to_the_same_value(nanos: int) -> None:
    assert parse_duration(f"{nanos}ns") == Duration(nanos)


@given(st.datetimes())
def test_a_formatted_timestamp_parses_to_the_same_value(moment: object) -> None:
    read = parse_timestamp(f"{moment.isoformat()}Z")  # type: ignore[attr-defined]  # a datetime
    assert parse_timestamp(str(read)) == read
