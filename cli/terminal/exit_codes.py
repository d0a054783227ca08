"""The exit codes of commands: 0 done, 1 an answer to act on, 2 errors or bad input.

Each command states in `EXIT_CODES` what its codes mean, for `--help` and docs/commands.md.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    # `--help` needs the codes, and these imports take longer than it does.
    from drawbridge.documents.document import LocatedFinding

DONE, NOTICE, BAD = 0, 1, 2
ExitCodes = Mapping[int, str]
JUDGED: Final[ExitCodes] = {
    DONE: "no errors",
    NOTICE: "with --strict: warnings",
    BAD: "errors, or bad input",
}


def exit_code(
    findings: "Iterable[LocatedFinding]", *, strict: bool = False, changed: bool = False
) -> int:
    """Return the exit code for findings; `changed` asks for code 1. Info findings do not count."""
    severities = {f"{each.finding.severity}" for each in findings}
    if "error" in severities:
        return BAD
    warned = strict and "warning" in severities
    return NOTICE if warned or changed else DONE


def describe_exit_codes(codes: ExitCodes) -> str:
    """Return the part of a help text that lists the exit codes."""
    return "exit codes:\n" + "".join(f"  {code}  {meaning}\n" for code, meaning in codes.items())
