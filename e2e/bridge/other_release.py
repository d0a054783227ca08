"""Lets one half of a pair appear to be of another release: a relay between plugin and allocator.

It changes only the version of the protocol in the headers, with which each half decides whether it
accepts the other.
"""

import asyncio
import contextlib
import re
from pathlib import Path
from typing import Final, NamedTuple

from e2e.controlplane.threaded import ThreadedServer

_CHUNK: Final = 65536
_HEADER: Final = re.compile(rb"(?i)(drawbridge-protocol: )[0-9.]+\r\n")


class Heard(NamedTuple):
    """The version that each half hears from the other; empty for the one that it speaks."""

    by_allocator: str = ""
    by_plugin: str = ""


class OtherRelease(ThreadedServer):
    """Listens for a plugin and calls its allocator; lives as long as its `with` block."""

    def __init__(self, socket: Path, allocator: Path, heard: Heard) -> None:
        super().__init__()
        self._socket, self._allocator, self._heard = socket, allocator, heard
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def _start(self) -> None:
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        self._server = await asyncio.start_unix_server(self._accept, self._socket)

    async def _stop(self) -> None:
        if self._server:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                inward, outward = await asyncio.open_unix_connection(self._allocator)
            except OSError:
                return
            with contextlib.closing(outward):
                pumps = [
                    asyncio.create_task(_pump(reader, outward, self._heard.by_allocator)),
                    asyncio.create_task(_pump(inward, writer, self._heard.by_plugin)),
                ]
                try:
                    # Neither half keeps a connection that the other has closed.
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: str) -> None:
    """Copy one direction with a version until its end."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            text = _HEADER.sub(rb"\g<1>%b\r\n" % version.encode(), chunk) if version else chunk
            writer.write(text)
            await writer.drain()
