"""Reads selector questions from JSON: a device, an expression and the list-attributes gate.

A question is one JSON object with the device in short form: `{"device": {"driver": "d",
"attributes": {"model": {"string": "x"}}, "capacity": {"memory": "40Gi"}}, "expression": "...",
"list_attributes": "on"}`.
"""

from typing import Annotated, Any

import msgspec

from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.quantity import Quantity, QuantityError, from_json

LONGEST_NAME = 1000
BoundedName = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]


class QuestionError(ValueError):
    """A question is invalid; the message gives the reason."""


class SelectorQuestion(msgspec.Struct, frozen=True):
    """A device of a driver and the expression to evaluate on it."""

    driver: str
    device: Device
    expression: str
    list_attributes: bool = False


class _Device(msgspec.Struct, frozen=True, rename="camel"):
    driver: BoundedName = ""
    name: BoundedName = "device"
    attributes: dict[BoundedName, Attribute] = {}
    # A quantity, or `{"value": quantity}` as in a ResourceSlice.
    capacity: dict[BoundedName, Any] = {}
    allow_multiple_allocations: bool | None = None


class _Question(msgspec.Struct, frozen=True):
    expression: str
    device: _Device = _Device()
    list_attributes: str = "off"


_decoder = msgspec.json.Decoder(_Question)


def read_question(line: bytes) -> SelectorQuestion:
    """Read one line of JSON; raises QuestionError."""
    try:
        return _to_question(_decoder.decode(line))
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise QuestionError(f"{error}") from None


def _to_question(read: _Question) -> SelectorQuestion:
    if read.list_attributes not in ("on", "off"):
        raise QuestionError(f"list_attributes is {read.list_attributes!r}, expected on or off")
    shown = read.device
    device = Device(
        name=shown.name,
        attributes=shown.attributes,
        capacity={name: Capacity(_amount(value)) for name, value in shown.capacity.items()},
        allow_multiple_allocations=bool(shown.allow_multiple_allocations),
    )
    return SelectorQuestion(shown.driver, device, read.expression, read.list_attributes == "on")


def _amount(value: object) -> Quantity:
    try:
        return from_json(value["value"] if isinstance(value, dict) else value)
    except (QuantityError, KeyError) as error:
        raise QuestionError(f"no quantity: {error}") from None
