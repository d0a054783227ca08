"""The error of a command that has no result. `cli.main` prints why, in the form of `-o`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # `--help` needs none of this, and the import takes longer than it does.
    from drawbridge.documents.document import LocatedFinding


class CommandError(Exception):
    """A command has no result; `findings` say why."""

    def __init__(self, message: str, *findings: "LocatedFinding") -> None:
        super().__init__(message)
        self.findings = findings
