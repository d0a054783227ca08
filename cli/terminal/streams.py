"""The input, output and error streams of a command, and what the terminal supports.

Commands receive their streams as an argument and do not use those of the process, so that a test
can run any command.
"""

import errno
import io
import os
import sys
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple, TextIO, cast

from cli.terminal.folding import FoldingStream
from cli.terminal.printable import PrintableStream


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
    out, err = sys.stdout or _ClosedStream(), sys.stderr or io.StringIO()
    for stream in (out, err):
        # The encoding of the terminal may lack characters of the input. Escape them.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    terminal = out.isatty() and environment.get("TERM") != "dumb"
    out, err = make_safe(out), make_safe(err)
    return Streams(
        stdin=sys.stdin.buffer if sys.stdin else io.BytesIO(),
        out=out,
        err=err,
        color=terminal and not environment.get("NO_COLOR"),
        unicode=(out.encoding or "").lower().replace("-", "").startswith("utf8"),
    )


class _ClosedStream(io.StringIO):
    """A stream that was closed before the process started: what is written to it is lost."""

    def write(self, text: str) -> int:
        """Fail if there is something to write."""
        if text:
            raise OSError(errno.EBADF, "the standard output is closed")
        return 0


def make_safe(stream: TextIO) -> TextIO:
    """Return a stream for persons: escaped, and folded to the width if it is a terminal."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except OSError:
        columns = 0
    printable = cast("TextIO", PrintableStream(stream))
    return cast("TextIO", FoldingStream(printable, columns)) if columns else printable


def unfolded(stream: TextIO) -> TextIO:
    """Return the stream for text whose lines must stay as they are."""
    return stream.beneath if isinstance(stream, FoldingStream) else stream


def unescaped(stream: TextIO) -> TextIO:
    """Return the stream for control sequences of our own."""
    stream = unfolded(stream)
    return stream.beneath if isinstance(stream, PrintableStream) else stream


def for_data(stream: TextIO) -> TextIO:
    """Return the stream for data that programs read: unchanged, except in a terminal."""
    return unfolded(stream) if stream.isatty() else unescaped(stream)


def write_data(stream: TextIO, data: str | bytes) -> None:
    """Write data that programs read: as UTF-8 whatever the locale is, and in a terminal as text.

    Bytes are written unchanged: an unreadable file may contain invalid text.
    """
    stream = for_data(stream)
    binary = getattr(stream, "buffer", None)
    if binary is None:
        text = data if isinstance(data, str) else data.decode(errors="backslashreplace")
        stream.write(text)
        return
    stream.flush()
    # JSON has the same escape for half of a surrogate pair, which only JSON can contain.
    binary.write(data if isinstance(data, bytes) else data.encode(errors="backslashreplace"))
