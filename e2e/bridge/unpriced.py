"""Runs a command of Drawbridge in which no expression costs anything.

So only interruptions and copies of the process bound what expressions of claims and slices take.
"""

import importlib
import sys
from typing import Final

_ENDLESS: Final = 1 << 60
_LIMITS: Final = ("MOST_WORK", "MOST_WORK_OF_CALL")


def main() -> int:
    """Lift the limits, and run the command."""
    # Before others take them.
    module = importlib.import_module("drawbridge.cel.meter")
    for limit in _LIMITS:
        assert isinstance(getattr(module, limit), int)
        setattr(module, limit, _ENDLESS)
    start = importlib.import_module("cli.__main__")
    return int(start.main())


if __name__ == "__main__":
    sys.exit(main())
