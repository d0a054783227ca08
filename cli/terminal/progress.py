"""Shows the progress of a long folder on a terminal."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TypeVar

from cli.terminal.streams import Streams

T = TypeVar("T")
# Fewer files are done before a person can read the line.
_LEAST, _EVERY = 200, 50
_CLEAR = "\r\033[K"


def with_progress(
    items: Sequence[T], options: argparse.Namespace, streams: Streams, noun: str = "files"
) -> Iterator[T]:
    """Yield the items, and print their number on stderr if that is a terminal."""
    if options.quiet or len(items) < _LEAST or not streams.err.isatty():
        yield from items
        return
    try:
        for number, item in enumerate(items):
            if number % _EVERY == 0:
                streams.err.write(f"{_CLEAR}{number:,} of {len(items):,} {noun}")
                streams.err.flush()
            yield item
    finally:
        streams.err.write(_CLEAR)
        streams.err.flush()
