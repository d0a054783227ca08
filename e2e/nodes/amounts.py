"""Parses Kubernetes quantities as exact fractions, from the description of the format."""

import re
from fractions import Fraction

_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FORM = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?:[eE](?P<exponent>[+-]?\d+)|(?P<unit>[A-Za-z]*))"
)


def amount(text: str) -> Fraction:
    """Read a quantity; ValueError when it is none."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    number: Fraction = Fraction(match["number"].rstrip("."))
    if match["exponent"]:
        return number * Fraction(10) ** int(match["exponent"])
    unit = match["unit"] or ""
    if unit in _BINARY:
        return number * Fraction(1024) ** _BINARY[unit]
    if unit not in _DECIMAL:
        raise ValueError(f"{text!r} has no known unit")
    return number * Fraction(10) ** _DECIMAL[unit]
