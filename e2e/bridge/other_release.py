"""Lets one half of a pair appear to be of another release: a relay between plugin and allocator.

It changes only the version of the protocol in the headers, with which each half decides whether it
accepts the other.
"""

import asyncio
import contextlib
import re
from pathlib import Path
from typing import Final, NamedTuple

from e2e.controlplane.threaded import ConnectionServer, until_one_ends

_CHUNK: Final = 65536
_HEADER: Final = re.compile(rb"(?i)(drawbridge-protocol: )[0-9.]+\r\n")


class Heard(NamedTuple):
    """The version that each half hears from the other; empty for the one that it speaks."""

    by_allocator: str = ""
    by_plugin: str = ""


class OtherRelease(ConnectionServer):
    """Listens for a plugin and calls its allocator; lives as long as its `with` block."""

    def __init__(self, socket: Path, allocator: Path, heard: Heard) -> None:
        super().__init__()
        self._socket, self._allocator, self._heard = socket, allocator, heard

    async def _listen(self) -> asyncio.Server:
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        return await asyncio.start_unix_server(self._accept, self._socket)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inward, outward = await asyncio.open_unix_connection(self._allocator)
        except OSError:
            return
        with contextlib.closing(outward):
            # Neither half keeps a connection that the other has closed.
            await until_one_ends(
                _pump(reader, outward, self._heard.by_allocator),
                _pump(inward, writer, self._heard.by_plugin),
            )


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: str) -> None:
    """Copy one direction with a version until its end."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            text = _HEADER.sub(rb"\g<1>%b\r\n" % version.encode(), chunk) if version else chunk
            writer.write(text)
            await writer.drain()
