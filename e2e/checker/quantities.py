"""Computes quantities as exact fractions, and the amounts that shared devices grant.

Exact arithmetic shows rounding errors of the product and of others.
"""

import math
import re
from fractions import Fraction
from typing import Any

# What comes out of a JSON decoder: its shape is what the rules are about.
Json = dict[str, Any]

MAX = 2**63 - 1
SUFFIXES: dict[str, Fraction | int] = {
    "": 1, "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip  # one line a family reads best


class RefusedError(Exception):
    """The device cannot serve the amount that is asked of it."""


def quantity(text: object) -> Fraction:
    """Read a quantity as the API writes it."""
    match = re.fullmatch(r"([+-]?[0-9.]+)(?:[eE]([+-]?\d+)|([a-zA-Z]*))", str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    number, exponent, suffix = match.groups()
    if exponent:
        return Fraction(number + "e" + exponent)
    return Fraction(number) * SUFFIXES[suffix or ""]


def amount(capacity: Json, requested: object, *, fractional: bool) -> Fraction:
    """What a request takes of one capacity; RefusedError when the policy has no such amount."""
    policy = capacity.get("requestPolicy") or {}
    assert isinstance(policy, dict)
    if requested is None:
        return quantity(policy.get("default", capacity["value"]))
    wanted = quantity(requested)
    if policy.get("validValues"):
        enough = [value for value in map(quantity, policy["validValues"]) if value >= wanted]
        if not enough:
            raise RefusedError(f"no valid value reaches {requested}")
        return enough[0]
    if policy.get("validRange"):
        wanted = in_range(wanted, policy["validRange"], fractional=fractional)
    return wanted


def in_range(wanted: Fraction, valid: Json, *, fractional: bool) -> Fraction:
    """Raise a request to the next amount of a range."""
    low = quantity(valid["min"])
    if wanted < low:
        wanted = low
    elif "step" in valid:
        step = quantity(valid["step"])
        limits = [quantity(valid[name]) for name in ("min", "max", "step") if name in valid]
        unit = Fraction(1, 1000) if fractional and all(map(milli, limits)) else Fraction(1)
        if unit != 1 and not milli(wanted):
            raise RefusedError(f"{wanted} is no number of milli units")
        # In whole units everything is rounded up before the arithmetic.
        low, step, wanted = (math.ceil(each / unit) * unit for each in (low, step, wanted))
        wanted = low + math.ceil((wanted - low) / step) * step
        if wanted / unit > MAX:
            raise RefusedError(f"{wanted} does not fit into the range's arithmetic")
    if "max" in valid and wanted > quantity(valid["max"]):
        raise RefusedError(f"{wanted} is above the range's maximum {valid['max']}")
    return wanted


def milli(value: Fraction) -> bool:
    """Return whether a value is a whole number of milli units in 64 bits."""
    return (value * 1000).denominator == 1 and abs(value * 1000) <= MAX
