"""An API server whose clock is wrong for one process: a TLS relay that shifts the `Date` header.

The API servers of a cluster run on several machines. A process takes its time from the one that it
talks to, so two processes can have different times although each follows an API server.
"""

import asyncio
import contextlib
import datetime as dt
import re
import ssl
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Final

from e2e.controlplane.processes import free_port
from e2e.controlplane.threaded import ConnectionServer, until_one_ends

_CHUNK: Final = 65536
_DATE: Final = re.compile(rb"(?<=\r\nDate: )[^\r]+(?=\r\n)")
_ADDRESS: Final = "127.0.0.1"


class ShiftedDates(ConnectionServer):
    """Listens on loopback with the certificate of an API server; lives as long as its `with`."""

    def __init__(self, api_server: int, certificate: Path, seconds: float) -> None:
        super().__init__()
        self.port = free_port()
        self._api_server, self._certificate = api_server, certificate
        self._shift = dt.timedelta(seconds=seconds)

    async def _listen(self) -> asyncio.Server:
        served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        served.load_cert_chain(self._certificate, self._certificate.with_suffix(".key"))
        return await asyncio.start_server(self._accept, _ADDRESS, self.port, ssl=served)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        trusted = ssl.create_default_context(cafile=self._certificate)
        with contextlib.suppress(OSError):
            inward, outward = await asyncio.open_connection(_ADDRESS, self._api_server, ssl=trusted)
            with contextlib.closing(outward):
                # TLS cannot close one direction only.
                await until_one_ends(
                    self._pump(reader, outward, shifted=False),
                    self._pump(inward, writer, shifted=True),
                )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, shifted: bool
    ) -> None:
        """Copy one direction until its end."""
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                writer.write(_DATE.sub(self._shifted, chunk) if shifted else chunk)
                await writer.drain()

    def _shifted(self, date: re.Match[bytes]) -> bytes:
        time = parsedate_to_datetime(date[0].decode()) + self._shift
        return format_datetime(time, usegmt=True).encode()
