"""The input, output and error streams of a command, and what the terminal supports.

Commands receive their streams as an argument and do not use those of the process, so that a test
can run any command.
"""

import io
import sys
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple, TextIO


class Streams(NamedTuple):
    """Input as bytes, output and errors as text; `color` and `unicode` describe `out`."""

    stdin: BinaryIO
    out: TextIO
    err: TextIO
    color: bool = False
    unicode: bool = False


def process_streams(environment: Mapping[str, str]) -> Streams:
    """Return the streams of this process; color is on for a terminal without NO_COLOR."""
    # Python sets a stream to None if it was closed before the process started.
    out, err = sys.stdout or io.StringIO(), sys.stderr or io.StringIO()
    for stream in (out, err):
        # The encoding of the terminal may lack characters of the input. Escape them.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    terminal = out.isatty() and environment.get("TERM") != "dumb"
    return Streams(
        stdin=sys.stdin.buffer if sys.stdin else io.BytesIO(),
        out=out,
        err=err,
        color=terminal and not environment.get("NO_COLOR"),
        unicode=(out.encoding or "").lower().replace("-", "").startswith("utf8"),
    )
