"""Writes text so that nothing in it controls the terminal.

Names, messages and file content come from others: an escape sequence or a mark that reverses the
direction of text would show something else than was read.
"""

import io
import json
import re
from typing import Final, TextIO

# The colours that commands use, or a character to look at.
_COLOUR_OR_CHARACTER: Final = re.compile(r"\033\[(?:0|3[136])m|[^\n\t\x20-\x7e]")


class StreamAbove(io.TextIOBase):
    """A stream that writes to another one, and is a terminal if that is."""

    def __init__(self, stream: TextIO) -> None:
        self.beneath = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has a variable
        """The encoding of the other stream."""
        return self.beneath.encoding

    def isatty(self) -> bool:
        """Whether the other stream is a terminal."""
        return self.beneath.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the other stream."""
        return self.beneath.fileno()

    def close(self) -> None:
        """Leave the other stream open."""

    def flush(self) -> None:
        """Flush the other stream."""
        self.beneath.flush()


class PrintableStream(StreamAbove):
    """Writes text to another stream, with each character escaped that is not printable."""

    def write(self, text: str) -> int:
        """Write text with lines, tabs and colours as they are."""
        self.beneath.write(make_printable(text))
        return len(text)


def make_printable(text: str) -> str:
    """Return a text with each character escaped that is not printable."""
    return _COLOUR_OR_CHARACTER.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    """Return what is shown, with an escape sequence that JSON has, too."""
    text = match[0]
    return text if len(text) > 1 or text.isprintable() else json.dumps(text)[1:-1]
