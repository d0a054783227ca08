"""What a command reads and writes: the three streams and what the terminal can show.

Commands get these as data and touch no stream of the process themselves, so that every command
can be run in a test. Knows nothing of commands.
"""

import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, TextIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Input as bytes, output and errors as text; `color` and `unicode` are about `out`."""

    stdin: BinaryIO
    out: TextIO
    err: TextIO
    color: bool = False
    unicode: bool = False


def of_process(environment: Mapping[str, str]) -> Streams:
    """The streams of this process; colour only on a terminal and never against NO_COLOR."""
    for stream in (sys.stdout, sys.stderr):
        # Text from input files may not exist in the terminal's encoding; that must not end a run.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    terminal = sys.stdout.isatty() and environment.get("TERM") != "dumb"
    return Streams(
        stdin=sys.stdin.buffer,
        out=sys.stdout,
        err=sys.stderr,
        color=terminal and not environment.get("NO_COLOR"),
        unicode=(sys.stdout.encoding or "").lower().replace("-", "").startswith("utf8"),
    )
