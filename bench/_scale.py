"""How much a bench measures: `python -m bench --brief` runs each bench for a moment."""

import os
from typing import Final, TypeVar

# In the environment, because some benches start processes that import them again.
VARIABLE: Final = "BENCH_BRIEF"

T = TypeVar("T")


def scaled(full: T, brief: T) -> T:
    """Choose the size of a measurement; a brief one checks the answers, its times mean nothing."""
    return brief if os.environ.get(VARIABLE) else full
