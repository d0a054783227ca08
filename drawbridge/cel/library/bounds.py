"""Limits the size of values, so that a hostile expression cannot exhaust the memory.

Kubernetes charges most costs after the work, and some only by the size of the input. A result that
is larger than the total budget of a selector is refused before it is created.
"""

from typing import Final

from drawbridge.cel.errors import EvaluationError

# A budget of 1,000,000 pays for one pass over ten million characters or over that many elements.
MOST_CHARACTERS: Final = 10_000_000
MOST_ELEMENTS: Final = 1_000_000
# The number of element pairs that one call compares.
MOST_PAIRS: Final = 4_000_000


def check_size(size: int, most: int) -> None:
    """Refuse a result that is too large."""
    if size > most:
        raise EvaluationError(
            "cost_exceeded", f"operation cancelled: a value of size {size} is beyond {most}"
        )
