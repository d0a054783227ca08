"""What goes wrong inside one document, on its way to becoming a finding.

Knows offsets into a document's text, and nothing of files, lines or objects.
"""

from typing import NamedTuple

from documents.paths import Path
from dra.finding import Code


class DocumentProblem(NamedTuple):
    """One thing wrong: in words, where in the value, and where in the text.

    `first` is the place it contradicts, where there is one.
    """

    code: Code
    message: str
    path: Path = ()
    offset: int = 0
    first: int | None = None


class UnreadableError(Exception):
    """Ends the reading of one document; caught where documents are made, never seen outside."""

    def __init__(self, *problems: DocumentProblem) -> None:
        super().__init__(problems[0].message)
        self.problems = problems
