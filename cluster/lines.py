"""Cutting a stream of bytes into lines, however long they are.

aiohttp's own iterator over lines fails above 512 KiB, and an object in etcd may have 1.5 MiB.
"""

from cluster.errors import UnreachableError

# Above anything the API server can keep; a server that never ends a line must not fill memory.
LONGEST = 32 * 1024 * 1024


class Lines:
    """Takes chunks, gives whole lines, and keeps what is not one yet."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk; the lines that it ends, without their newlines and without empty ones."""
        # Parts are joined once a line: adding to one growing buffer would cost the square.
        first, newline, rest = chunk.partition(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if not newline:
            if self._size > self._longest:
                raise UnreachableError(f"a line of the stream is above {self._longest} bytes")
            return []
        lines = [b"".join(self._parts), *rest.split(b"\n")]
        last = lines.pop()
        self._parts, self._size = [last], len(last)
        return [line for line in lines if line.strip()]
