"""Kubernetes quantities, exactly: `81559Mi`, `1.5Gi`, `100m`, `1e3`.

A quantity answers what upstream's answers, also where that depends on how it was written: `1k` is
an integer for CEL, `1.0` and `8Ei` are not, because upstream holds the first as a scaled int64 and
the others as a decimal with places, or as one of any size. So value, format and that representation
are kept apart here as there; comparison looks at the value alone. Work is bounded: what would take
long to write out is refused. Knows nothing of devices.
"""

import enum
import functools
import math
import re
from decimal import Decimal
from typing import Final, NoReturn

INT64_MAX: Final = 2**63 - 1

# Upstream sets no limits and computes for minutes on `1e2147483647`.
_LONGEST_TEXT: Final = 1000
_GREATEST_EXPONENT: Final = 1000
# Below about this one upstream's 32-bit exponent wraps around, and the tiny becomes huge.
_LEAST_EXPONENT: Final = -2_000_000_000
_FINEST: Final = -9  # nano: nothing finer is kept, what is finer is rounded up
_INT64_DIGITS: Final = 18

_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
# Bits, and with how many digits upstream surely holds it in an int64 (a rough rule, and visible:
# `99Ti` is an integer for CEL, `100Ti` is not).
_BINARY: Final = {s: (10 * n, 14 - 3 * n) for n, s in enumerate(_BINARY_SUFFIXES, 1)}

# Possessive, so that a long text that does not match is given up in one pass.
_GRAMMAR: Final = re.compile(r"([+-]?)0*+([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?+[0-9]*+)")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")
_EXPECTED: Final = (
    f"expected a number and at most one suffix of {', '.join(filter(None, _DECIMAL))}, "
    f"{', '.join(_BINARY)}, or an exponent such as e3"
)
# What Go's strings.TrimSpace takes away.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class QuantityError(ValueError):
    """A text or number is no quantity; says why."""


class Format(enum.StrEnum):
    """How a quantity was written, and will be written again."""

    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"
    DECIMAL_EXPONENT = "DecimalExponent"


@functools.total_ordering
class Quantity:
    """An amount `mantissa * 10**scale`, immutable, compared and hashed by value.

    `decimal` tells the representation upstream would hold: an arbitrary decimal, not an int64
    with a scale. `text` is what `str` gives back, where upstream keeps what it has read instead of
    the canonical form. Use `parse`, `from_json` or `Quantity.of` to make one.
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
        """Make the quantity of a whole number."""
        return cls(value, 0, form, not _is_int64(value))

    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.mantissa > 0) - (self.mantissa < 0)

    def compare(self, other: "Quantity") -> int:
        """Return -1, 0 or 1 for less, equal or greater, by value."""
        mine, others = _aligned(self, other)
        return (mine > others) - (mine < others)

    def identical(self, other: "Quantity") -> bool:
        """Tell whether Go's `==` holds: the same value in the same representation.

        Go compares decimals by address there, so two of them never are.
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
        """Return the exact value if it is a whole number, however it is represented."""
        if self.scale >= 0:
            return _shifted(self.mantissa, self.scale)
        value, rest = divmod(self.mantissa, 10**-self.scale)
        return None if rest else value

    def nanos(self) -> int:
        """Return the exact value in billionths; nothing finer exists."""
        return self.scaled_value(_FINEST)

    def scaled_value(self, scale: int) -> int:
        """Return the value in units of `10**scale`, rounded away from zero.

        Where upstream's result overflows an int64, this one is right.
        """
        shift = self.scale - scale
        return (_shifted if shift >= 0 else _cut)(self.mantissa, abs(shift))

    def value(self) -> int:
        """Return the value as a whole number, rounded away from zero."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """Return the value in thousandths, rounded away from zero."""
        return self.scaled_value(-3)

    def as_int64(self) -> int | None:
        """Return the value where upstream has it at hand as an int64: CEL's `isInteger`."""
        if self.decimal or self.scale < 0:
            return None
        value = _shifted(self.mantissa, self.scale)
        return value if _is_int64(value) else None

    def as_approximate_float(self) -> float:
        """Return upstream's approximation, bit for bit: CEL's `asApproximateFloat`."""
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
        # Upstream leaves the int64 also for a product that is not whole.
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
        """Write it with the greatest suffix of its format that needs no fraction."""
        if not self.mantissa:
            return "0"
        if self.format is Format.BINARY_SI:
            value = self.exact_int()
            # Small and fractional amounts are written in decimals by upstream too.
            if value is not None and abs(value) >= 1024:
                return _canonical_binary(value)
        return _canonical_decimal(self.mantissa, self.scale, self.format)


# How __init__ gets past __setattr__, at two thirds of the cost of object.__setattr__.
_set_mantissa, _set_scale, _set_format, _set_decimal, _set_text = (
    vars(Quantity)[name].__set__ for name in ("mantissa", "scale", "format", "decimal", "text")
)


def parse(text: str) -> Quantity:
    """Read a quantity as upstream's ParseQuantity does; QuantityError says what is wrong."""
    # A short cut for the two usual forms, `81559Mi` and `8`; `parse_any` says the same of them.
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
    """Read a quantity of any form; `parse` is this with a short way for the usual forms."""
    if len(text) > _LONGEST_TEXT:
        raise _refusal(text, f"longer than {_LONGEST_TEXT} characters")
    match = _GRAMMAR.fullmatch(text)
    if not text or match is None:
        raise _refusal(text, _EXPECTED)
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
    # Upstream's quick way takes `Gi` for 0Gi and its long way does not; so `Pi` is refused.
    if quantity.decimal and not any(map(str.isdigit, text[: match.start(4)])):
        raise _refusal(text, "there are no digits before the suffix")
    return quantity


def from_json(value: object) -> Quantity:
    """Read a decoded JSON or YAML value as the API does: text, number, or null for zero."""
    if isinstance(value, str):
        return parse(value.strip(_SPACES))
    if value is None:
        return Quantity(0, 0, Format.DECIMAL_SI, decimal=False)
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 10**_GREATEST_EXPONENT:
            raise QuantityError(f"the number has more than {_GREATEST_EXPONENT} digits")
        return parse(str(value))
    if isinstance(value, float):
        # It is read as Go would have written it.
        plain = value == 0 or 1e-6 <= abs(value) < 1e21
        text = format(Decimal(repr(value)), "f") if plain else repr(value).replace("e-0", "e-")
        return parse(text)
    raise QuantityError(f"a quantity is text or a number, not {type(value).__name__}")


def _is_int64(value: int) -> bool:
    return -INT64_MAX - 1 <= value <= INT64_MAX


def _shifted(mantissa: int, places: int) -> int:
    result: int = mantissa * 10**places
    return result


def _cut(mantissa: int, places: int) -> int:
    """Take decimal places away, rounding away from zero."""
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
    if not decimal and not (a.mantissa and b.mantissa):  # then the zero's scale does not count
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
    """Bring a decimal to nanos, away from zero, as upstream does with all but zero."""
    if not mantissa:
        return 0, max(scale, -_LONGEST_TEXT)
    if scale >= _FINEST:
        return _shifted(mantissa, scale - _FINEST), _FINEST
    # Beyond as many places as a text can have digits, one nano is left whatever the exponent.
    return _cut(mantissa, min(_FINEST - scale, _LONGEST_TEXT)), _FINEST


def _exponent(text: str, suffix: str) -> tuple[int, Format]:
    known = _DECIMAL.get(suffix)
    if known is not None:
        return known, Format.DECIMAL_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise _refusal(text, _EXPECTED)
    exponent = int(match[1])
    if not _LEAST_EXPONENT <= exponent <= _GREATEST_EXPONENT:
        raise _refusal(text, f"its exponent is above {_GREATEST_EXPONENT}, or far below zero")
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
    # Upstream drops a suffix that does not exist, so that 1000E reads 1; here the value is kept.
    exponent = scale - scale % 3
    if form is not Format.DECIMAL_EXPONENT:
        exponent = min(exponent, _DECIMAL["E"])
    number = mantissa * 10 ** (scale - exponent)
    if form is Format.DECIMAL_EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX[exponent]}"


def _power_of_ten(exponent: int) -> float:
    """Return Go's math.Pow10, which multiplies two table entries and rounds a second time."""
    if exponent > 308:
        return math.inf
    size = abs(exponent)
    high, low = float(f"1e{size // 32 * 32}"), float(f"1e{size % 32}")
    return high * low if exponent >= 0 else float(f"1e-{size // 32 * 32}") / low


def _refusal(text: str, reason: str) -> QuantityError:
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    return QuantityError(f"{shown!r} is not a quantity: {reason}")
