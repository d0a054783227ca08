"""Runs one process of an installation with the command of its Deployment.

Ports are free ones, so they are read from the log. Readiness comes from the process's own endpoint.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.controlplane.processes import Process, StartError

# How often readiness is checked.
LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class EndpointResponse:
    """The response of an operations endpoint."""

    code: int
    text: str


class Replica:
    """A process that can end and start again under the same name and log."""

    def __init__(self, name: str, words: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.words = words
        self.log = log
        self.process: Process | None = None
        self._from = 0
        self._looked = 0.0
        self._seen = False
        self._ports: dict[str, int] = {}

    # --- run -----------------------------------------------------------------------------------

    def start(self) -> Process:
        """Start it; it is not ready yet."""
        self._from = self.log.stat().st_size if self.log.exists() else 0
        self._ports, self._seen = {}, False
        self.process = Process(self.name, self.words, self.log)
        return self.process

    @property
    def alive(self) -> bool:
        """Return whether it runs."""
        return self.process is not None and self.process.child.poll() is None

    def started_process(self) -> Process:
        """Return its process; AssertionError if it was never started."""
        assert self.process is not None, f"{self.name} was not started"
        return self.process

    def wait_ready(self, seconds: float = 60) -> None:
        """Wait until it is ready; StartError with readyz and its log otherwise."""
        try:
            self.started_process().wait_ready(self.ready, seconds)
        except StartError as error:
            raise StartError(f"{error}\nreadyz: {self.request('health', '/readyz').text}") from None

    def kill(self) -> None:
        """Kill it, as in a crash."""
        self.started_process().kill()

    def stop(self) -> int:
        """Stop it as a kubelet does, and return its exit code."""
        process = self.started_process()
        process.stop(40)
        return int(process.child.returncode)

    # --- logs, metrics -------------------------------------------------------------------------

    def lines(self) -> list[dict[str, Any]]:
        """Return the JSON lines that it has logged since its start."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as log:
            log.seek(self._from)
            texts = log.read().decode(errors="replace").splitlines()
        lines = []
        for text in texts:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                lines.append(line)
        return lines

    def messages(self, msg: str) -> list[dict[str, Any]]:
        """Return the log lines with this message."""
        return [line for line in self.lines() if line.get("msg") == msg]

    def port(self, listener: str) -> int:
        """Return the port of a listener; 0 if it does not listen."""
        if listener not in self._ports:
            for line in self.messages("listening"):
                port = str(line["address"]).rpartition(":")[2]
                self._ports[str(line["name"])] = int(port) if port.isdecimal() else 0  # a socket
        return self._ports.get(listener, 0)

    def request(self, listener: str, path: str) -> EndpointResponse:
        """Request an operations endpoint; code 0 if the connection fails."""
        port = self.port(listener)
        if not port:
            return EndpointResponse(0, "it does not listen")
        url = f"http://127.0.0.1:{port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return EndpointResponse(answer.status, answer.read().decode())
        except urllib.error.HTTPError as answer:
            return EndpointResponse(answer.code, answer.read().decode())
        except OSError as problem:
            return EndpointResponse(0, f"{problem}")

    def ready(self) -> bool:
        """Return whether it is ready, checked at most every LOOK_SECONDS."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS or not self._seen:
            self._seen = self.alive and self.request("health", "/readyz").code == http.client.OK
            self._looked = now
        return self._seen and self.alive

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of a metric with these labels."""
        total = 0.0
        for line in self.request("metrics", "/metrics").text.splitlines():
            head, _, value = line.rpartition(" ")
            if head.partition("{")[0] == name and all(
                f'{key}="{text}"' in head for key, text in labels.items()
            ):
                total += float(value)
        return total
