"""Kubernetes' quantity functions."""

from typing import Final

from drawbridge.cel.declare import Function, Library, Overload, members
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.types import BOOL, DOUBLE, INT, QUANTITY, STRING
from drawbridge.cel.values import ComputedQuantity, Quantity
from drawbridge.dra.quantity import Format, QuantityError, parse


def _quantity(text: str) -> Quantity:
    try:
        return parse(text)
    except QuantityError as problem:
        raise EvaluationError("quantity", str(problem)) from None


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except QuantityError:
        return False
    return True


def _as_integer(quantity: Quantity) -> int:
    value = quantity.as_int64()
    if value is None:
        raise EvaluationError("quantity", "cannot convert value to integer")
    return value


def _is_integer(quantity: Quantity) -> bool:
    return quantity.as_int64() is not None


def _sum(quantity: Quantity) -> ComputedQuantity:
    return ComputedQuantity(quantity.mantissa, quantity.scale, quantity.format, quantity.decimal)


def _add(a: Quantity, b: Quantity) -> ComputedQuantity:
    return _sum(a + b)


def _subtract(a: Quantity, b: Quantity) -> ComputedQuantity:
    return _sum(a - b)


def _add_int(a: Quantity, b: int) -> ComputedQuantity:
    return _sum(a + Quantity.of(b, Format.DECIMAL_EXPONENT))


def _subtract_int(a: Quantity, b: int) -> ComputedQuantity:
    # Kubernetes negates the integer in 64 bits first, so the least one stays negative there.
    return _sum(a - Quantity.of(b, Format.DECIMAL_EXPONENT))


def _greater(a: Quantity, b: Quantity) -> bool:
    return b < a


def _less(a: Quantity, b: Quantity) -> bool:
    return a < b


_TEXT: Final = (STRING,)
_TWO: Final = (QUANTITY, QUANTITY)
_WITH_INT: Final = (QUANTITY, INT)
QUANTITIES: Final = Library(
    "kubernetes.quantity",
    (
        costs.parsing("quantity", Overload("string_to_quantity", _TEXT, QUANTITY, _quantity)),
        costs.parsing("isQuantity", Overload("is_quantity_string", _TEXT, BOOL, _is_quantity)),
        Function("sign", (Overload("quantity_sign", (QUANTITY,), INT, Quantity.sign),)),
        members("isGreaterThan", ("quantity_is_greater_than", _TWO, BOOL, _greater)),
        members("isLessThan", ("quantity_is_less_than", _TWO, BOOL, _less)),
        members("compareTo", ("quantity_compare_to", _TWO, INT, Quantity.compare)),
        members(
            "asApproximateFloat",
            ("quantity_get_float", (QUANTITY,), DOUBLE, Quantity.as_approximate_float),
        ),
        members("asInteger", ("quantity_get_int", (QUANTITY,), INT, _as_integer)),
        members("isInteger", ("quantity_is_integer", (QUANTITY,), BOOL, _is_integer)),
        members(
            "add",
            ("quantity_add", _TWO, QUANTITY, _add),
            ("quantity_add_int", _WITH_INT, QUANTITY, _add_int),
        ),
        members(
            "sub",
            ("quantity_sub", _TWO, QUANTITY, _subtract),
            ("quantity_sub_int", _WITH_INT, QUANTITY, _subtract_int),
        ),
    ),
)
