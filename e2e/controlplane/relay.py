"""A TCP relay that stands in for kube-proxy: from a Service's clusterIP to processes behind it.

Services of the rig have addresses of the loopback range, so the relay simply listens on one. It
knows no Kubernetes objects: whoever starts a process adds it, with the question whether it is
ready; connections go to the ready ones in turn, and to the next when one cannot be reached.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from e2e.controlplane.threaded import ConnectionServer

CHUNK = 65536


def always() -> bool:
    """Answer for a process that is ready whenever it listens."""
    return True


@dataclass(frozen=True)
class Backend:
    """A process on loopback that may stand behind a Service."""

    port: int
    ready: Callable[[], bool] = always


class Relay(ConnectionServer):
    """Listens on one address and port; lives as long as its `with` block."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__()
        self.address = address
        self.port = port
        self._backends: list[Backend] = []
        self._turn = 0

    def add(self, backend: Backend) -> None:
        """Let a process stand behind the Service."""
        self._backends = [*self._backends, backend]

    def remove(self, backend: Backend) -> None:
        """Send it no new connections."""
        self._backends = [other for other in self._backends if other != backend]

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, self.address, self.port)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for backend in await asyncio.to_thread(self._candidates):
            try:
                inward, outward = await asyncio.open_connection("127.0.0.1", backend.port)
            except OSError:
                continue
            try:
                await asyncio.gather(_pump(reader, outward), _pump(inward, writer))
            finally:
                outward.close()
            return

    def _candidates(self) -> list[Backend]:
        ready = [backend for backend in self._backends if backend.ready()]
        self._turn += 1
        start = self._turn % len(ready) if ready else 0
        return ready[start:] + ready[:start]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction until its end, then close that direction only."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
