"""What a command reads and writes: the three streams and what the terminal can show.

Commands get these as data and touch no stream of the process themselves, so that every command
can be run in a test. Knows nothing of commands.
"""

import io
import sys
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple, TextIO


class Streams(NamedTuple):
    """Input as bytes, output and errors as text; `color` and `unicode` are about `out`."""

    stdin: BinaryIO
    out: TextIO
    err: TextIO
    color: bool = False
    unicode: bool = False


def of_process(environment: Mapping[str, str]) -> Streams:
    """The streams of this process; colour only on a terminal and never against NO_COLOR."""
    # A stream that was closed before we started is None; then nothing is read, nobody is told.
    out, err = sys.stdout or io.StringIO(), sys.stderr or io.StringIO()
    for stream in (out, err):
        # Text from input files may not exist in the terminal's encoding; that must not end a run.
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
