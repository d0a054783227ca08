"""Tests of quantities against a table of Kubernetes results and against exact fractions."""

import copy
import functools
import operator
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.dra.decode import MAX_CACHED_QUANTITIES, QuantityDecoder
from drawbridge.dra.quantity import (
    INT64_MAX,
    Format,
    Quantity,
    QuantityError,
    format_amount,
    from_json,
    parse,
    parse_any,
)
from tests.tables import every_row, read_yaml
from tests.thorough import drawn

CASES: dict[str, list[dict[str, Any]]] = read_yaml(
    (Path(__file__).parent / "cases" / "quantity.yaml").read_text(encoding="utf-8")
)
READ = (
    "suffixes",
    "fractions",
    "signs and zeros",
    "canonical output",
    "rounding up to nano",
    "size",
)
OPERATORS = {"+": operator.add, "-": operator.sub}

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def fraction(quantity: Quantity) -> Fraction:
    return Fraction(quantity.nanos(), 10**9)


def cases(*groups: str) -> pytest.MarkDecorator:
    listed = [case for group in groups for case in CASES[group]]
    names = [str(case.get("text", case.get("sum", case.get("product")))) for case in listed]
    return pytest.mark.parametrize("case", listed, ids=names)


@cases(*READ)
def test_quantities_behave_as_in_kubernetes(case: dict[str, Any]) -> None:
    quantity = parse(case["text"])
    assert str(quantity) == case["str"]
    assert quantity.format == case["format"]
    assert quantity.as_int64() == case["integer"]
    assert quantity.as_approximate_float() == float(case["float"])
    if "value" in case:
        assert quantity.value() == case["value"]
    if "milli" in case:
        assert quantity.milli_value() == case["milli"]


@cases("sums")
def test_a_sum_is_represented_as_in_kubernetes(case: dict[str, Any]) -> None:
    first, operation, second = case["sum"]
    result = OPERATORS[operation](parse(first), parse(second))
    assert (str(result), result.format, result.as_int64()) == (
        case["str"],
        case["format"],
        case["integer"],
    )


@cases("products")
def test_a_product_is_represented_as_in_kubernetes(case: dict[str, Any]) -> None:
    first, factor = case["product"]
    result = parse(first) * factor
    assert (str(result), result.format, result.as_int64()) == (
        case["str"],
        case["format"],
        case["integer"],
    )


@cases("refused", "refused for its size")
def test_an_invalid_quantity_is_rejected_by_value(case: dict[str, Any]) -> None:
    with pytest.raises(QuantityError) as refused:
        parse(case["text"])
    assert repr(case["text"]) in str(refused.value)


@cases("kept where upstream loses it")
def test_a_value_above_the_largest_suffix_is_kept(case: dict[str, Any]) -> None:
    assert str(parse(case["text"])) == case["str"]
    assert parse(case["str"]) == parse(case["text"])


@pytest.mark.parametrize(
    "text", ["9" * 1_000_000, "0" * 1001, "1" * 5000 + "Gi", "1e" + "9" * 100_000, "x" * 1_000_000]
)
def test_a_long_string_is_rejected_with_a_short_message(text: str) -> None:
    with pytest.raises(QuantityError, match="longer than 1000 characters") as refused:
        parse(text)
    assert len(str(refused.value)) < 200


def test_the_largest_and_smallest_quantities_are_cheap_in_every_operation() -> None:
    huge, tiny = parse("9" * 997 + "e99"), parse("-1e-1999999999")
    for quantity in (huge + tiny, huge - tiny, huge * INT64_MAX, parse("1e1000") + tiny):
        assert quantity > parse("8Ei")
        assert parse_any(str(huge)) == huge
        assert isinstance(hash(quantity), int)
    assert str(tiny) == "-1e-9"
    assert parse("1e1000").as_approximate_float() == float("inf")
    assert huge.as_approximate_float() == float("inf")
    assert (-huge).as_approximate_float() == float("-inf")


def test_quantities_are_equal_and_hashed_by_value_in_any_representation() -> None:
    for same in (("1", "1.0", "1000m", "1e0", "+1"), ("1Ki", "1024", "1.024k"), ("0", "-0", "Gi")):
        quantities = [parse(text) for text in same]
        assert len(set(quantities)) == 1
        assert all(a == b for a in quantities for b in quantities)
    assert parse("1") != parse("1001m")
    assert parse("1") != 1


def test_identity_is_that_of_go_structs() -> None:
    assert parse("5").identical(parse("5"))
    assert not parse("5").identical(parse("5.0"))
    assert not parse("5").identical(parse("+5")), "the text kept differs"
    assert not parse("5").identical(Quantity.of(5)), "nothing read, nothing kept"
    assert not parse("1.5Gi").identical(parse("1.5Gi")), "decimals compare by address"


def test_a_quantity_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        parse("1").mantissa = 2
    with pytest.raises(AttributeError):
        parse("1").other = 2  # type: ignore[attr-defined]


def test_copies_are_identical() -> None:
    for text in ("5Gi", "1.001", "100m"):
        for copied in (copy.deepcopy(parse(text)), pickle.loads(pickle.dumps(parse(text)))):  # noqa: S301  # our own bytes
            assert copied.identical(parse(text))


def test_of_returns_integers_and_decimals_beyond_int64() -> None:
    assert Quantity.of(1024, Format.BINARY_SI).canonical() == "1Ki"
    assert Quantity.of(INT64_MAX).as_int64() == INT64_MAX
    assert Quantity.of(INT64_MAX + 1).as_int64() is None
    assert (-Quantity.of(-INT64_MAX - 1)).as_int64() is None


@every_row(
    ("text", "whole"),
    [("1.0", 1), ("2000m", 2), ("1.5Gi", 3 * 2**29), ("1e3", 1000), ("1.5", None), ("-1n", None)],
)
def test_exact_int_depends_only_on_the_value(text: str, whole: int | None) -> None:
    assert parse(text).exact_int() == whole


@every_row(
    ("value", "text"),
    [
        (1, "1"),
        (-3, "-3"),
        (1.5, "1500m"),
        (0.1, "100m"),
        (-0.0, "0"),
        (1e16, "10P"),
        (1e20, "100E"),
        (1e21, "1e+21"),
        (0.000001, "1u"),
        (1e-9, "1e-9"),
        (" 5Gi\n", "5Gi"),
        (None, "0"),
    ],
)
def test_json_values_are_read_as_go_reads_them(value: object, text: str) -> None:
    assert str(from_json(value)) == text


@every_row(
    ("value", "text"),
    [
        (8, "8"),
        (1.5, "1.5"),
        ("1e+23", "1e+23"),
        (1e17, "100P"),
        (1e21, "1e21"),
        (1e23, "100e21"),
        (2e-7, "200e-9"),
        (float("inf"), "inf"),
    ],
)
def test_an_amount_is_shown_as_written_but_without_the_exponent_of_a_float(
    value: object, text: str
) -> None:
    assert format_amount(value) == text


@every_row(
    "value",
    [True, [1], {}, float("nan"), float("inf"), 10**1000, -(10**5000), "", "\x1c1"],
    ids=["bool", "list", "object", "nan", "inf", "large", "very large", "empty", "separator"],
)
def test_other_json_values_are_rejected(value: object) -> None:
    with pytest.raises(QuantityError):
        from_json(value)


def test_it_is_a_field_of_structs_decoded_with_a_hook() -> None:
    class Amounts(msgspec.Struct):
        value: Quantity
        other: Quantity | None = None

    def hook(_: type, value: object) -> Quantity:
        return from_json(value)

    decoder = msgspec.json.Decoder(Amounts, dec_hook=hook)
    assert decoder.decode(b'{"value": "5Gi", "other": 1.5}') == Amounts(parse("5Gi"), parse("1.5"))
    with pytest.raises(msgspec.ValidationError, match=r"'5GB' is not a quantity.*\$\.value"):
        decoder.decode(b'{"value": "5GB"}')


SIGNS = st.sampled_from(["", "", "+", "-"])
SUFFIXES = st.sampled_from([*DECIMAL, *BINARY]) | st.integers(-30, 30).map("e{}".format)
DIGITS = st.text("0123456789", max_size=24) | st.integers(0, 10**6).map(str)
FRACTIONS = st.just("") | st.text("0123456789", max_size=14).map(".{}".format)


@st.composite
def texts(draw: st.DrawFn) -> str:
    digits = draw(DIGITS) or "0"
    return draw(SIGNS) + digits + draw(FRACTIONS) + draw(SUFFIXES)


def meant(text: str) -> Fraction:
    """Say what a text means, in the words of the API documentation and in exact arithmetic."""
    number = text.rstrip("numkKMGTPEi") if "e" not in text else text.partition("e")[0]
    suffix = text[len(number) :]
    if suffix in BINARY:
        unit = Fraction(1024) ** BINARY[suffix]
    else:
        unit = Fraction(10) ** (DECIMAL[suffix] if suffix in DECIMAL else int(suffix[1:]))
    if number.endswith("."):
        number += "0"
    size = abs(Fraction(number)) * unit * 10**9
    nanos = -(-size.numerator // size.denominator)
    if suffix in BINARY:
        nanos = min(nanos, INT64_MAX * 10**9)
    return Fraction(-nanos if text[0] == "-" else nanos, 10**9)


@settings(max_examples=drawn(100, thorough=10_000))
@given(texts(), texts())
def test_values_and_order_are_those_of_fractions(first: str, second: str) -> None:
    a, b = parse(first), parse(second)
    x, y = meant(first), meant(second)
    assert (fraction(a), fraction(b)) == (x, y)
    assert (a < b, a == b, a > b, a <= b, a >= b) == (x < y, x == y, x > y, x <= y, x >= y)
    assert a.compare(b) == (x > y) - (x < y)
    assert a.sign() == (x > 0) - (x < 0)
    assert (hash(a) == hash(b)) >= (a == b)
    assert (fraction(a + b), fraction(a - b), fraction(-a)) == (x + y, x - y, -x)


@settings(max_examples=drawn(100, thorough=10_000))
@given(texts())
def test_formatting_and_parsing_keeps_the_value(text: str) -> None:
    quantity = parse(text)
    for written in (str(quantity), quantity.canonical()):
        again = parse(written)
        assert again == quantity
        assert str(again) == written
    assert parse(quantity.canonical()).canonical() == quantity.canonical()


@settings(max_examples=drawn(40, thorough=1_000))
@given(texts())
def test_the_fast_path_of_parse_agrees_with_parse_any(text: str) -> None:
    short, long = parse(text), parse_any(text)
    assert (short.mantissa, short.scale, short.decimal) == (long.mantissa, long.scale, long.decimal)
    assert (short.format, short.text) == (long.format, long.text)


@settings(max_examples=drawn(40, thorough=1_000))
@given(texts(), st.integers(-(2**63), 2**63 - 1))
def test_a_product_is_that_of_fractions(text: str, factor: int) -> None:
    assert fraction(parse(text) * factor) == meant(text) * factor


@settings(max_examples=drawn(40, thorough=1_000))
@given(texts(), st.integers(-9, 9))
def test_scaled_values_round_away_from_zero(text: str, scale: int) -> None:
    exact = meant(text) / Fraction(10) ** scale
    value = parse(text).scaled_value(scale)
    assert abs(value) >= abs(exact)
    assert abs(value) - abs(exact) < 1
    assert value * exact >= 0


@settings(max_examples=drawn(100, thorough=10_000))
@given(st.text(max_size=30) | st.text("0123456789.+-eEinumkKMGTP", max_size=30))
def test_any_string_is_parsed_or_rejected_with_a_reason(text: str) -> None:
    reason = ""
    try:
        quantity = parse(text)
    except QuantityError as refusal:
        reason = str(refusal)
    assert repr(text) in reason or parse(str(quantity)) == quantity


def test_sums_do_not_depend_on_their_order() -> None:
    parts = [parse(text) for text in ("1.5Gi", "100m", "1n", "9E", "-3", "0.0", "1Ki")]
    assert functools.reduce(operator.add, parts) == functools.reduce(operator.add, parts[::-1])


def test_a_decoder_caches_a_bounded_number_of_quantities() -> None:
    decode = QuantityDecoder()
    for i in range(3 * MAX_CACHED_QUANTITIES):
        assert decode(Quantity, f"{i}Mi").value() == i << 20
    assert len(decode) <= MAX_CACHED_QUANTITIES


def test_a_decoder_does_not_cache_long_strings() -> None:
    decode = QuantityDecoder()
    long = "0" * 70 + "1"
    assert decode(Quantity, long) == decode(Quantity, long)
    assert len(decode) == 0
