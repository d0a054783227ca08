"""How large a value may become: what keeps a hostile expression from filling the memory.

Upstream counts most costs after the work is done, and some only by what went in. What would be
larger than the whole budget of a selector is refused here before it is made.
"""

from typing import Final

from cel.errors import EvaluationError

# A budget of 1,000,000 pays for going over ten million characters once, or over that many elements.
MOST_CHARACTERS: Final = 10_000_000
MOST_ELEMENTS: Final = 1_000_000
# Pairs of elements that are compared in one call.
MOST_PAIRS: Final = 4_000_000


def check_size(size: int, most: int) -> None:
    """Refuse a result that is too large to be worth making."""
    if size > most:
        raise EvaluationError(
            "cost_exceeded", f"operation cancelled: a value of size {size} is beyond {most}"
        )
