"""Measures how long a small, valid review waits while other requests are handled."""

import http.client
import json
import random
import socket
import ssl
import threading
import time
from types import TracebackType
from typing import Self

from e2e.damaged import reviews
from e2e.damaged.play import Target, trusted
from e2e.damaged.wires import HOST, PATH

PAUSE_SECONDS = 0.05


class Bystander:
    """A client that sends a review every 50 ms, from entering its context until leaving it."""

    def __init__(self, target: Target) -> None:
        self.seconds: list[float] = []
        self.errors: list[str] = []
        self._target = target
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        body = json.dumps(reviews.review(random.Random(0), "bystander", self._target.namespace))
        trust = trusted(self._target)
        while not self._ended.wait(PAUSE_SECONDS):
            began = time.monotonic()
            try:
                status = self._send(body, trust)
            except OSError as problem:
                self.errors.append(f"a small review beside the load: {problem!r}")
                continue
            self.seconds.append(time.monotonic() - began)
            if status != http.client.OK:
                self.errors.append(f"a small review beside the load: status {status}")

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
