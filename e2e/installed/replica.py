"""One process of an installation: started as its Deployment says, known by its log lines.

Addresses come from the log, because ports are free ones; what a kubelet and a Service would ask
(ready?) is asked of the process itself.
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

# A Service learns of a change only when somebody has looked; this often is soon enough.
LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Answer:
    """What an operations endpoint said."""

    code: int
    text: str


class Replica:
    """A process that may be ended and started again; its name and log stay."""

    def __init__(self, name: str, words: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.words = words
        self.log = log
        self.process: Process | None = None
        self._from = 0
        self._looked = 0.0
        self._seen = False
        self._ports: dict[str, int] = {}

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> Process:
        """Start it; it is not ready yet."""
        self._from = self.log.stat().st_size if self.log.exists() else 0
        self._ports, self._seen = {}, False
        self.process = Process(self.name, self.words, self.log)
        return self.process

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.child.poll() is None

    def running(self) -> Process:
        """Give its process; AssertionError when it was never started."""
        assert self.process is not None, f"{self.name} was not started"
        return self.process

    def wait_ready(self, seconds: float = 60) -> None:
        """Wait until it is ready; StartError with what it lacks and its log when it is not."""
        try:
            self.running().wait_ready(self.ready, seconds)
        except StartError as error:
            raise StartError(f"{error}\nreadyz: {self.ask('health', '/readyz').text}") from None

    def kill(self) -> None:
        """End it as a crash would."""
        self.running().kill()

    def stop(self) -> int:
        """End it as a kubelet would, and give its exit code."""
        process = self.running()
        process.stop(40)
        return int(process.child.returncode)

    # --- what it says --------------------------------------------------------------------------

    def lines(self) -> list[dict[str, Any]]:
        """Give what it has logged since it was started; what is no JSON object is left out."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as log:
            log.seek(self._from)
            texts = log.read().decode(errors="replace").splitlines()
        found = []
        for text in texts:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                found.append(line)
        return found

    def said(self, msg: str) -> list[dict[str, Any]]:
        """Give the log lines with this message."""
        return [line for line in self.lines() if line.get("msg") == msg]

    def port(self, listener: str) -> int:
        """Give the port of a listener; 0 while it does not listen."""
        if listener not in self._ports:
            for line in self.said("listening"):
                self._ports[str(line["name"])] = int(str(line["address"]).rpartition(":")[2])
        return self._ports.get(listener, 0)

    def ask(self, listener: str, path: str) -> Answer:
        """Ask an operations endpoint; code 0 when nobody answers."""
        port = self.port(listener)
        if not port:
            return Answer(0, "it does not listen")
        url = f"http://127.0.0.1:{port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return Answer(answer.status, answer.read().decode())
        except urllib.error.HTTPError as answer:
            return Answer(answer.code, answer.read().decode())
        except OSError as problem:
            return Answer(0, f"{problem}")

    def ready(self) -> bool:
        """Whether it is ready, as somebody saw it who looks now and then."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS or not self._seen:
            self._seen = self.alive and self.ask("health", "/readyz").code == http.client.OK
            self._looked = now
        return self._seen and self.alive

    def metric(self, name: str, **labels: str) -> float:
        """Sum the samples of a metric that have these labels; 0 without any."""
        total = 0.0
        for line in self.ask("metrics", "/metrics").text.splitlines():
            head, _, value = line.rpartition(" ")
            if head.partition("{")[0] == name and all(
                f'{key}="{text}"' in head for key, text in labels.items()
            ):
                total += float(value)
        return total
