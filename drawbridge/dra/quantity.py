"""Exact Kubernetes quantities, such as `81559Mi`, `1.5Gi`, `100m` and `1e3`.

A quantity behaves as in Kubernetes even where the result depends on its notation: for CEL, `1k` is
an integer, but `1.0` and `8Ei` are not, because Kubernetes stores the first as a scaled int64 and
the others as arbitrary decimals. A quantity therefore keeps value, format and representation.
Comparison uses only the value. Quantities that would take long to format are rejected.
"""

import enum
import functools
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NoReturn

INT64_MAX: Final = 2**63 - 1

# Kubernetes has no limits and computes for minutes on `1e2147483647`.
_MAX_TEXT_LENGTH: Final = 1000
_MAX_EXPONENT: Final = 1000
# Below about this value, the 32-bit exponent of Kubernetes overflows.
_MIN_EXPONENT: Final = -2_000_000_000
_FINEST: Final = -9  # nano: finer amounts are rounded up
_INT64_DIGITS: Final = 18

_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
# Bits, and the number of digits up to which Kubernetes uses an int64. The rule is approximate and
# visible: `99Ti` is an integer for CEL, `100Ti` is not.
_BINARY: Final = {s: (10 * n, 14 - 3 * n) for n, s in enumerate(_BINARY_SUFFIXES, 1)}

# Possessive quantifiers, so that a long string without a match fails in one pass.
_GRAMMAR: Final = re.compile(r"([+-]?)0*+([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?+[0-9]*+)")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")
_EXPECTED: Final = (
    f"expected a number and at most one suffix of {', '.join(filter(None, _DECIMAL))}, "
    f"{', '.join(_BINARY)}, or an exponent such as e3"
)
# The characters that Go's strings.TrimSpace removes.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class QuantityError(ValueError):
    """A value is not a quantity."""


class Format(enum.StrEnum):
    """The notation of a quantity."""

    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"
    DECIMAL_EXPONENT = "DecimalExponent"


@functools.total_ordering
class Quantity:
    """An amount `mantissa * 10**scale`, immutable, compared and hashed by value.

    `decimal` is true if Kubernetes would use an arbitrary decimal instead of a scaled int64. `text`
    is the original string, where Kubernetes keeps it instead of the canonical form. Use `parse`,
    `from_json` or `Quantity.of` to create one.
    """

    __slots__ = ("decimal", "format", "mantissa", "scale", "text")

    mantissa: int
    scale: int
    format: Format
    decimal: bool
    text: str

    def __init__(
        self,
        mantissa: int,
        scale: int,
        form: Format,
        decimal: bool,  # noqa: FBT001  # positional for speed
        text: str = "",
    ) -> None:
        _set_mantissa(self, mantissa)
        _set_scale(self, scale)
        _set_format(self, form)
        _set_decimal(self, decimal)
        _set_text(self, text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a quantity cannot be changed: {name}")

    def __reduce__(self) -> tuple[type["Quantity"], tuple[object, ...]]:
        return Quantity, (self.mantissa, self.scale, self.format, self.decimal, self.text)

    @classmethod
    def of(cls, value: int, form: Format = Format.DECIMAL_SI) -> "Quantity":
        """Return the quantity of an integer."""
        return cls(value, 0, form, not _is_int64(value))

    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.mantissa > 0) - (self.mantissa < 0)

    def compare(self, other: "Quantity") -> int:
        """Return -1, 0 or 1 for less, equal or greater, by value."""
        mine, others = _aligned(self, other)
        return (mine > others) - (mine < others)

    def identical(self, other: "Quantity") -> bool:
        """Tell whether Go's `==` is true: the same value in the same representation.

        Go compares decimals by address, so two decimals are never identical.
        """
        return (
            self.mantissa == other.mantissa
            and self.scale == other.scale
            and self.format is other.format
            and self.text == other.text
            and not self.decimal
            and not other.decimal
        )

    def exact_int(self) -> int | None:
        """Return the exact value if it is an integer, in any representation; else None."""
        if self.scale >= 0:
            return _shifted(self.mantissa, self.scale)
        value, remainder = divmod(self.mantissa, 10**-self.scale)
        return None if remainder else value

    def nanos(self) -> int:
        """Return the exact value in billionths, the finest unit."""
        return self.scaled_value(_FINEST)

    def scaled_value(self, scale: int) -> int:
        """Return the value in units of `10**scale`, rounded away from zero.

        The result is correct even where Kubernetes overflows an int64.
        """
        shift = self.scale - scale
        return (_shifted if shift >= 0 else _round_up)(self.mantissa, abs(shift))

    def value(self) -> int:
        """Return the value as an integer, rounded away from zero."""
        return self.scaled_value(0)

    def floor(self) -> int:
        """Return the largest integer that is not above the value."""
        return self.nanos() // 10**-_FINEST

    def milli_value(self) -> int:
        """Return the value in thousandths, rounded away from zero."""
        return self.scaled_value(-3)

    def as_int64(self) -> int | None:
        """Return the value if Kubernetes stores it as an int64: CEL's `isInteger`."""
        if self.decimal or self.scale < 0:
            return None
        value = _shifted(self.mantissa, self.scale)
        return value if _is_int64(value) else None

    def as_approximate_float(self) -> float:
        """Return the same approximation as Kubernetes: CEL's `asApproximateFloat`."""
        base = float(Decimal(self.mantissa))  # infinite where float(int) would raise
        return base * _power_of_ten(self.scale) if self.scale else base

    def __add__(self, other: "Quantity") -> "Quantity":
        return _sum(self, other, 1)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return _sum(self, other, -1)

    def __mul__(self, factor: int) -> "Quantity":
        product = self.mantissa * factor
        if self.decimal or not self.mantissa:
            return Quantity(product, self.scale, self.format, self.decimal)
        if not factor:
            return Quantity(0, 0, self.format, decimal=False)
        # Kubernetes also changes to a decimal if the product is not an integer.
        whole = Quantity(product, self.scale, self.format, decimal=False).exact_int()
        fits = whole is not None and _is_int64(whole) and _is_int64(product)
        return Quantity(product, self.scale, self.format, not fits)

    def __neg__(self) -> "Quantity":
        negated = -self.mantissa
        return Quantity(negated, self.scale, self.format, self.decimal or not _is_int64(negated))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        mine, others = _aligned(self, other)
        return mine == others

    def __lt__(self, other: "Quantity") -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        return hash(self.nanos())

    def __str__(self) -> str:
        return self.text or self.canonical()

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def canonical(self) -> str:
        """Format with the largest suffix that needs no fraction."""
        if not self.mantissa:
            return "0"
        if self.format is Format.BINARY_SI:
            value = self.exact_int()
            # Kubernetes also uses decimals for small and fractional amounts.
            if value is not None and abs(value) >= 1024:
                return _canonical_binary(value)
        return _canonical_decimal(self.mantissa, self.scale, self.format)


# __init__ bypasses __setattr__ with these, which is faster than object.__setattr__.
_set_mantissa, _set_scale, _set_format, _set_decimal, _set_text = (
    vars(Quantity)[name].__set__ for name in ("mantissa", "scale", "format", "decimal", "text")
)


def parse(text: str) -> Quantity:
    """Parse a quantity as ParseQuantity of Kubernetes does. Raises QuantityError."""
    # A fast path for the two usual forms, `81559Mi` and `8`, with the result of `parse_any`.
    unit = _BINARY.get(text[-2:])
    if unit is None:
        if text.isdecimal() and len(text) <= _INT64_DIGITS and text.isascii() and text[0] != "0":
            kept = "" if text.endswith("000") else text
            return Quantity(int(text), 0, Format.DECIMAL_SI, False, kept)  # noqa: FBT003  # positional for speed
    else:
        digits = text[:-2]
        if digits.isdecimal() and len(digits) <= unit[1] and digits.isascii() and digits[0] != "0":
            value = int(digits)
            kept = text if value & 7 else ""
            return Quantity(value << unit[0], 0, Format.BINARY_SI, False, kept)  # noqa: FBT003  # positional for speed
    return parse_any(text)


def parse_any(text: str) -> Quantity:
    """Parse a quantity of any form, without the fast path of `parse`."""
    if len(text) > _MAX_TEXT_LENGTH:
        raise _error(text, f"longer than {_MAX_TEXT_LENGTH} characters")
    match = _GRAMMAR.fullmatch(text)
    if not text or match is None:
        raise _error(text, _EXPECTED)
    if text == "0":
        return Quantity(0, 0, Format.DECIMAL_SI, decimal=False, text=text)
    sign, whole, fraction, suffix = match.groups(default="")
    whole = whole or "0"
    negative = sign == "-"
    if suffix in _BINARY:
        quantity = _binary(text, whole, fraction, suffix, negative=negative)
    else:
        exponent, form = _exponent(text, suffix)
        scale = exponent - len(fraction)
        quantity = _decimal(text, whole + fraction, scale, form, negative=negative)
    # The fast path of Kubernetes reads `Gi` as 0Gi, but its slow path rejects `Pi`.
    if quantity.decimal and not any(map(str.isdigit, text[: match.start(4)])):
        raise _error(text, "there are no digits before the suffix")
    return quantity


def from_json(value: object) -> Quantity:
    """Convert a JSON or YAML value as the API does: a string, a number, or null for zero."""
    if isinstance(value, str):
        return parse(value.strip(_SPACES))
    if value is None:
        return Quantity(0, 0, Format.DECIMAL_SI, decimal=False)
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 10**_MAX_EXPONENT:
            raise QuantityError(f"the number has more than {_MAX_EXPONENT} digits")
        return parse(str(value))
    if isinstance(value, float):
        # Parse the string that Go would write.
        plain = value == 0 or 1e-6 <= abs(value) < 1e21
        text = format(Decimal(repr(value)), "f") if plain else repr(value).replace("e-0", "e-")
        return parse(text)
    raise QuantityError(f"a quantity must be a string or a number, not {type(value).__name__}")


def valid_quantity(value: object) -> Quantity | None:
    """Convert a JSON or YAML value; None if it is no quantity."""
    try:
        return from_json(value)
    except QuantityError:
        return None


def format_amount(value: object) -> str:
    """Format an amount as it is written, a float with an exponent as the API server writes it."""
    has_exponent = isinstance(value, float) and "e" in repr(value)
    quantity = valid_quantity(value) if has_exponent else None
    return f"{value}" if quantity is None else quantity.canonical()


def find_quantity(amounts: Mapping[str, object] | None, key: str) -> Quantity | None:
    """Return the quantity of a key; None if there is none, or it is invalid."""
    return valid_quantity(amounts[key]) if amounts and key in amounts else None


def to_int64(number: int) -> int:
    """Return the nearest number that an int64 has: nodes publish more digits than a float has."""
    return max(-INT64_MAX, min(number, INT64_MAX))


def format_nanos(nanos: int) -> str:
    """Format billionths as a quantity, with a binary suffix if they are whole KiB."""
    form = Format.BINARY_SI if nanos % (1024 * 10**-_FINEST) == 0 else Format.DECIMAL_SI
    return Quantity(nanos, _FINEST, form, decimal=True).canonical()


def encode_quantity(value: object) -> str:
    """Encode a quantity for msgspec, which does not know the type."""
    if isinstance(value, Quantity):
        return f"{value}"
    raise TypeError(f"cannot encode {type(value).__name__}")


def _is_int64(value: int) -> bool:
    return -INT64_MAX - 1 <= value <= INT64_MAX


def _shifted(mantissa: int, places: int) -> int:
    result: int = mantissa * 10**places
    return result


def _round_up(mantissa: int, places: int) -> int:
    """Remove decimal places, rounding away from zero."""
    size: int = -(-abs(mantissa) // 10**places)
    return size if mantissa > 0 else -size


def _aligned(a: Quantity, b: Quantity) -> tuple[int, int]:
    """Return the two mantissas at one scale."""
    shift = a.scale - b.scale
    if shift == 0:
        return a.mantissa, b.mantissa
    if shift > 0:
        return _shifted(a.mantissa, shift), b.mantissa
    return a.mantissa, _shifted(b.mantissa, -shift)


def _sum(a: Quantity, b: Quantity, sign: int) -> Quantity:
    form = a.format if a.mantissa else b.format
    decimal = a.decimal or b.decimal
    if not decimal and not (a.mantissa and b.mantissa):  # then the scale of the zero is ignored
        mantissa, scale = (sign * b.mantissa, b.scale) if b.mantissa else (a.mantissa, a.scale)
        return Quantity(mantissa, scale, form, not _is_int64(mantissa))
    mine, others = _aligned(a, b)
    total = mine + sign * others
    fits = _is_int64(mine) and _is_int64(others) and _is_int64(total)
    return Quantity(total, min(a.scale, b.scale), form, decimal or not fits)


def _binary(text: str, whole: str, fraction: str, suffix: str, *, negative: bool) -> Quantity:
    mantissa = int(whole + fraction)
    bits, most_digits = _BINARY[suffix]
    size = mantissa << bits
    if not fraction and len(whole) <= most_digits:
        kept = text if mantissa & 7 else ""
        return Quantity(-size if negative else size, 0, Format.BINARY_SI, decimal=False, text=kept)
    size, scale = _rounded(size, -len(fraction))
    if size > INT64_MAX * 10**-scale:
        size, scale = INT64_MAX, 0
    small = 0 < size < 10**-scale
    form = Format.DECIMAL_SI if small else Format.BINARY_SI
    return Quantity(-size if negative else size, scale, form, decimal=True)


def _decimal(text: str, digits: str, scale: int, form: Format, *, negative: bool) -> Quantity:
    mantissa = -int(digits) if negative else int(digits)
    if len(digits) <= _INT64_DIGITS and scale >= _FINEST:
        kept = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return Quantity(mantissa, scale, form, decimal=False, text=text if kept else "")
    mantissa, scale = _rounded(mantissa, scale)
    return Quantity(mantissa, scale, form, decimal=True)


def _rounded(mantissa: int, scale: int) -> tuple[int, int]:
    """Round a decimal to nanos, away from zero, as Kubernetes does except for zero."""
    if not mantissa:
        return 0, max(scale, -_MAX_TEXT_LENGTH)
    if scale >= _FINEST:
        return _shifted(mantissa, scale - _FINEST), _FINEST
    # With more places than a string can have digits, the result is one nano for any exponent.
    return _round_up(mantissa, min(_FINEST - scale, _MAX_TEXT_LENGTH)), _FINEST


def _exponent(text: str, suffix: str) -> tuple[int, Format]:
    multiplier = _DECIMAL.get(suffix)
    if multiplier is not None:
        return multiplier, Format.DECIMAL_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise _error(text, _EXPECTED)
    exponent = int(match[1])
    if not _MIN_EXPONENT <= exponent <= _MAX_EXPONENT:
        raise _error(text, f"its exponent is above {_MAX_EXPONENT}, or far below zero")
    return exponent, Format.DECIMAL_EXPONENT


def _canonical_binary(value: int) -> str:
    suffix = ""
    for larger in _BINARY_SUFFIXES:
        if value % 1024:
            break
        value, suffix = value // 1024, larger
    return f"{value}{suffix}"


def _canonical_decimal(mantissa: int, scale: int, form: Format) -> str:
    while mantissa % 10 == 0:
        mantissa //= 10
        scale += 1
    # Kubernetes drops an unknown suffix, so that 1000E becomes 1. Drawbridge keeps the value.
    exponent = scale - scale % 3
    if form is not Format.DECIMAL_EXPONENT:
        exponent = min(exponent, _DECIMAL["E"])
    number = mantissa * 10 ** (scale - exponent)
    if form is Format.DECIMAL_EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX[exponent]}"


def _power_of_ten(exponent: int) -> float:
    """Return the result of Go's math.Pow10, which multiplies two table entries and rounds."""
    if exponent > 308:
        return math.inf
    size = abs(exponent)
    high, low = float(f"1e{size // 32 * 32}"), float(f"1e{size % 32}")
    return high * low if exponent >= 0 else float(f"1e-{size // 32 * 32}") / low


def _error(text: str, reason: str) -> QuantityError:
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    return QuantityError(f"{shown!r} is not a quantity: {reason}")
