"""Problems of one document, with offsets into its text, before they become findings."""

from typing import NamedTuple

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
