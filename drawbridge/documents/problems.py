"""Problems of one document, with offsets into its text, before they become findings."""

import re
from typing import Final, NamedTuple

from drawbridge.documents.paths import Path
from drawbridge.finding import Code


class DocumentProblem(NamedTuple):
    """One problem: its message, its path in the value, and its offset in the text.

    `first` is the offset of the value that it contradicts, if there is one.
    """

    code: Code
    message: str
    path: Path = ()
    offset: int = 0
    first: int | None = None


class UnreadableError(Exception):
    """Raised to stop reading one document; does not leave this package."""

    def __init__(self, *problems: DocumentProblem) -> None:
        super().__init__(problems[0].message)
        self.problems = problems


_ESCAPE_LETTERS: Final = 12  # of a pair of escapes
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def describe_surrogate(text: str, offset: int) -> str:
    """Name an escape of half a character near an offset where a parser failed; empty if none."""
    near = _SURROGATE.search(text, max(0, offset - _ESCAPE_LETTERS), offset + _ESCAPE_LETTERS)
    return f"{near[0]} is half of a surrogate pair, and not a character" if near else ""
