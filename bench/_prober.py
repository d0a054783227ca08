"""Asks an allocator for its status again and again, for bench `large`.

`python -m bench._prober SOCKET` is a process of its own, so that the work of the bench delays no
question. It says when it asks. When its standard input ends, it prints the longest time between
two answers in milliseconds, and how many there were.
"""

import asyncio
import sys
import time

from bench._allocator import Connection

PAUSE_SECONDS = 0.02


async def probe(socket: str) -> None:
    """Ask until standard input ends."""
    connection = Connection(*await asyncio.open_unix_connection(socket))
    await connection.call("GET", "status")
    print("asking", flush=True)
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    longest, count, last = 0.0, 0, time.perf_counter()
    while not ended.done():
        await connection.call("GET", "status")
        now = time.perf_counter()
        longest, count, last = max(longest, now - last), count + 1, now
        await asyncio.sleep(PAUSE_SECONDS)
    print(f"{longest * 1000:.0f} {count}")


if __name__ == "__main__":
    asyncio.run(probe(sys.argv[1]))
