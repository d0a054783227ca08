"""Connections never take the file descriptors that the process needs for others."""

import asyncio
import contextlib
import io
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from drawbridge.process.addresses import Address
from drawbridge.process.health import serve_operations
from drawbridge.process.listener import DEFAULT_LISTENER_LIMITS, ListenerLimits
from tests.process import http_client
from tests.process.http_client import request
from tests.tables import every_row

ANY = Address("127.0.0.1", 0)
RAISE = """
import resource, sys
from drawbridge.process import descriptors
descriptors.MOST = 300
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
descriptors.raise_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE), descriptors.find_limit())
"""


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [(64, 256, "256 256 256"), (64, 400, "300 400 300"), (350, 400, "350 400 350")],
    ids=["to the hard limit", "to what is needed", "never lower"],
)
def test_a_process_uses_the_file_descriptors_that_it_may(soft: int, hard: int, raised: str) -> None:
    command = [sys.executable, "-c", RAISE, f"{soft}", f"{hard}"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)  # noqa: S603  # our own
    assert shown.stdout.strip() == raised


@every_row("descriptors", [64, 256, 1024, 1600, 3200, 65_536])
def test_all_listeners_together_leave_a_quarter(descriptors: int) -> None:
    admission = DEFAULT_LISTENER_LIMITS.fit(descriptors)
    operations = ListenerLimits(connections=64, handshakes=32, part=8).fit(descriptors)
    most = [each.connections + 2 * each.handshakes for each in (admission, operations)]
    assert most[0] + 2 * most[1] <= descriptors * 3 // 4
    assert min(*admission[:2], *operations[:2]) >= 1
    assert (admission == DEFAULT_LISTENER_LIMITS) == (descriptors >= 3200)


def find_port(lines: io.StringIO, listener: str) -> int:
    read = map(json.loads, lines.getvalue().splitlines())
    (port,) = (
        int(line["address"].rpartition(":")[2])
        for line in read
        if line["msg"] == "listening" and line["name"] == listener
    )
    return port


@pytest.mark.parametrize("listener", ["health", "metrics"])
def test_clients_that_hold_connections_to_operations_lose_them(
    lines: io.StringIO, listener: str
) -> None:
    async def play() -> tuple[int, int]:
        async with serve_operations(ANY, ANY, list), contextlib.AsyncExitStack() as stack:
            port = find_port(lines, listener)
            held = [await stack.enter_async_context(http_client.connect(port)) for _ in range(100)]
            async with http_client.connect(port) as probe:
                path = "/readyz" if listener == "health" else "/metrics"
                status = (await probe.send_request(request("GET", path))).status
            ended = [each for each in held if each.reader.at_eof() or each.reader.exception()]
            return status, len(held) - len(ended)

    status, left = asyncio.run(asyncio.wait_for(play(), 60))
    assert status == 200
    assert left < 64


def test_a_probe_is_answered_though_others_came_while_the_process_was_busy(
    lines: io.StringIO,
) -> None:
    async def play() -> bytes:
        async with serve_operations(ANY, ANY, list):
            with contextlib.ExitStack() as stack:
                port = find_port(lines, "health")
                # Connecting blocks the loop, so all of them wait until it accepts connections.
                probe = stack.enter_context(socket.create_connection((ANY.host, port)))
                for number in range(1, 60):
                    source = (f"127.0.1.{number}", 0)
                    stack.enter_context(socket.create_connection((ANY.host, port), None, source))
                probe.sendall(request("GET", "/healthz"))
                probe.setblocking(False)  # noqa: FBT003  # the signature of the socket module
                return await asyncio.get_running_loop().sock_recv(probe, 1024)

    assert asyncio.run(asyncio.wait_for(play(), 60)).startswith(b"HTTP/1.1 200 ")


def test_a_burst_of_plain_connections_stays_within_the_descriptors(lines: io.StringIO) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def play() -> int:
        async with serve_operations(ANY, ANY, list):
            with contextlib.ExitStack() as stack:
                at, before = (ANY.host, find_port(lines, "health")), count()
                clients = [stack.enter_context(socket.create_connection(at)) for _ in range(300)]
                most = 0
                for _ in range(50):
                    await asyncio.sleep(0)
                    most = max(most, count())
                return most - before - len(clients)

    most = asyncio.run(asyncio.wait_for(play(), 60))
    assert 64 <= most <= 64 + 2 * 32
