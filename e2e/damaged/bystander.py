"""Measures how long a small, valid review waits while other requests are handled.

On a busy machine, the wait includes the time in which the client or the event loop of the server
could run but had no core. The kernel counts that time, and it is subtracted.
"""

import http.client
import json
import random
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import NamedTuple, Self

from e2e.damaged import reviews
from e2e.damaged.play import Target, trusted
from e2e.damaged.wires import HOST, PATH

PAUSE_SECONDS = 0.05


class Wait(NamedTuple):
    """How long a review took, and how long without the time in which both had no core."""

    seconds: float
    net: float


class Bystander:
    """A client that sends a review every 50 ms, from entering its context until leaving it."""

    def __init__(self, target: Target, pid: int) -> None:
        self.waits: list[Wait] = []
        self.errors: list[str] = []
        self._target = target
        # The main thread of the server runs its event loop.
        self._schedules = (Path("/proc/thread-self"), Path(f"/proc/{pid}/task/{pid}"))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        body = json.dumps(reviews.review(random.Random(0), "bystander", self._target.namespace))
        trust = trusted(self._target)
        while not self._ended.wait(PAUSE_SECONDS):
            began, delayed = time.monotonic(), self._read_delay()
            try:
                status = self._send(body, trust)
            except OSError as problem:
                self.errors.append(f"a small review beside the load: {problem!r}")
                continue
            seconds = time.monotonic() - began
            self.waits.append(Wait(seconds, max(0.0, seconds - (self._read_delay() - delayed))))
            if status != http.client.OK:
                self.errors.append(f"a small review beside the load: status {status}")

    def _read_delay(self) -> float:
        """Return the seconds that client and server have waited for a core so far."""
        texts = ((each / "schedstat").read_text(encoding="ascii") for each in self._schedules)
        return sum(int(text.split()[1]) for text in texts) / 1e9

    def _send(self, body: str, trust: ssl.SSLContext) -> int:
        connection = http.client.HTTPSConnection("127.0.0.1", self._target.port, timeout=30)
        # The certificate names the Service.
        plain = connection.sock = _connect(self._target.port, trust)
        try:
            headers = {"Content-Type": "application/json", "Host": HOST}
            connection.request("POST", PATH, body, headers)
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            plain.close()
            connection.close()


def _connect(port: int, trust: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), 30)
    return trust.wrap_socket(plain, server_hostname=HOST)
