"""Serves a page until a signal comes, and prints its URL."""

import asyncio
from collections.abc import Coroutine, Sequence

from cli.served_page.server import PageServer, WriteAudit
from cli.served_page.snapshots import Snapshots
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams
from drawbridge.process.run import StopSignal

_ADVICE = (
    "Only this machine can open it, and only with this URL: whoever has the URL sees what you may"
    " read. Ctrl-C ends it.\n"
)
_OTHER_PORT = "    Choose another port with --port, or omit --port for a free one."


async def serve(
    snapshots: Snapshots,
    write_audit: WriteAudit,
    port: int,
    streams: Streams,
    background: Sequence[Coroutine[None, None, None]] = (),
) -> int:
    """Serve the page until a signal comes; raises what ends `background`."""
    server, stop = PageServer(snapshots, write_audit, port), StopSignal()
    tasks = [asyncio.create_task(each) for each in background]
    stop.install()
    try:
        try:
            await server.open()
        except OSError as error:
            streams.err.write(f"drawbridge page: error: {error.strerror}\n{_OTHER_PORT}\n")
            return BAD
        streams.out.write(f"{server.url}\n")
        streams.out.flush()
        streams.err.write(_ADVICE)
        streams.err.flush()
        stopped = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for task in done - {stopped}:
            # A page that nobody updates any more would be wrong in silence.
            task.result()
    finally:
        stop.remove()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.close()
    return DONE
