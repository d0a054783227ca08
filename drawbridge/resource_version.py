"""The resourceVersion of an object as a number, which grows with time."""

import re
from typing import Final

# More digits than the API server ever counts to.
_NUMBER: Final = re.compile(r"[0-9]{1,40}")


def parse_version(text: str) -> int:
    """Return a resourceVersion as a number; 0 for an object without one, as in a file."""
    return int(text) if _NUMBER.fullmatch(text) else 0
