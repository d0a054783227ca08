"""Tests of the well-known protobuf messages."""

import pytest

from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.times import Duration, Timestamp
from drawbridge.cel.values import NONE, CelValue, Uint
from drawbridge.cel.wellknown import FIELDS, TYPES, construct
from tests.tables import every_row

PACKAGE = "google.protobuf."


@every_row(
    ("name", "fields", "value"),
    [
        ("Int64Value", {"value": 5}, 5),
        ("Int64Value", {}, 0),
        ("Int32Value", {"value": -(2**31)}, -(2**31)),
        ("UInt32Value", {"value": Uint(5)}, Uint(5)),
        ("UInt64Value", {}, Uint(0)),
        ("DoubleValue", {"value": 0.1}, 0.1),
        ("FloatValue", {"value": 0.1}, 0.10000000149011612),
        ("FloatValue", {"value": 0.5}, 0.5),
        ("FloatValue", {"value": 1e300}, float("inf")),
        ("BoolValue", {}, False),
        ("StringValue", {"value": "a"}, "a"),
        ("BytesValue", {}, b""),
        ("Timestamp", {"seconds": 5, "nanos": 3}, Timestamp(5_000_000_003)),
        ("Duration", {"seconds": -1}, Duration(-1_000_000_000)),
        ("Value", {}, None),
        ("Value", {"null_value": 0}, None),
        ("Value", {"number_value": 1.5}, 1.5),
        ("Value", {"struct_value": {"a": 1, "b": [True, None]}}, {"a": 1.0, "b": [True, None]}),
        ("Value", {"list_value": ["a", b"a", 2**60]}, ["a", "YQ==", str(2**60)]),
        ("ListValue", {}, []),
        ("ListValue", {"values": [1]}, [1.0]),
        ("Struct", {}, {}),
        ("Struct", {"fields": {"a": {"b": Duration(1_500_000_000)}}}, {"a": {"b": "1.5s"}}),
    ],
)
def test_a_well_known_message_converts_to_its_value(
    name: str, fields: dict[str, CelValue], value: CelValue
) -> None:
    made = construct(PACKAGE + name, fields)
    assert made == value
    assert type(made) is type(value)


@every_row(
    ("name", "fields", "kind"),
    [
        ("Int32Value", {"value": 2**31}, "overflow"),
        ("UInt32Value", {"value": Uint(2**32)}, "overflow"),
        ("FloatValue", {"value": "a"}, "conversion"),
        ("Timestamp", {"seconds": "a"}, "conversion"),
        ("Any", {}, "conversion"),
        ("Struct", {"fields": {"a": NONE}}, "conversion"),
    ],
)
def test_an_invalid_field_value_raises_an_error(
    name: str, fields: dict[str, CelValue], kind: str
) -> None:
    with pytest.raises(EvaluationError) as caught:
        construct(PACKAGE + name, fields)
    assert caught.value.kind == kind


def test_every_well_known_message_declares_a_type_and_fields() -> None:
    assert TYPES.keys() == FIELDS.keys()
