"""How many cases the generators draw: with THOROUGH=1, as in CI's schedule, many more."""

import os

THOROUGH = bool(os.environ.get("THOROUGH"))


def drawn(number: int, thorough: int) -> int:
    """Choose the number of cases."""
    return thorough if THOROUGH else number
