"""Splits a stream of bytes into lines of any length.

The line iterator of aiohttp fails above 512 KiB, but an object in etcd can have 1.5 MiB.
"""

from drawbridge.cluster.errors import UnreachableError

# More than any object in etcd; a server that never sends a newline must not exhaust memory.
MAX_LINE_BYTES = 32 * 1024 * 1024


class LineSplitter:
    """Collects chunks and returns complete lines."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk and return the lines that it completes, without newlines and empty lines."""
        # The parts are joined once for each line; a growing buffer would take quadratic time.
        first, newline, remainder = chunk.partition(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if not newline:
            if self._size > self._max_line_bytes:
                raise UnreachableError(
                    f"a line of the stream is longer than {self._max_line_bytes} bytes"
                )
            return []
        lines = [b"".join(self._parts), *remainder.split(b"\n")]
        last = lines.pop()
        self._parts, self._size = [last], len(last)
        return [line for line in lines if line.strip()]
