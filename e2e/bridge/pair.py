"""Runs one pair: a kube-scheduler with the plugin, and the allocator beside it.

Both run in a UTS namespace of their own, as in a pod: the kube-scheduler names itself after its
host, and the allocator recognises the Lease of its own kube-scheduler by that name.
"""

import contextlib
import copy
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import yaml

from e2e.controlplane.plane import ControlPlane, answers
from e2e.controlplane.processes import Process, free_port
from e2e.installed.installation import NAMESPACE
from e2e.installed.launch import COMMANDS
from e2e.installed.manifest import JSON
from e2e.installed.replica import Replica

_STATUS = (
    b"GET /v1/status HTTP/1.1\r\nHost: allocator\r\nDrawbridge-Protocol: 1.3\r\n"
    b"Connection: close\r\n\r\n"
)
# Sets the host name of the new namespace and becomes the program.
_BECOME = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'


def on_host(host: str, words: Sequence[str | Path]) -> list[str | Path]:
    """Return the command that runs a program on a host of that name; needs Linux."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["/usr/bin/unshare", *rights, "--uts", "/bin/sh", "-c", _BECOME, host, *words]


class PairFiles(NamedTuple):
    """What both processes are started with."""

    program: Path
    access: Path
    template: JSON  # the KubeSchedulerConfiguration of the manifests
    words: Mapping[str, Sequence[str]]  # the options of each container in the manifests


class Pair:
    """A kube-scheduler and an allocator that live and die independently of each other."""

    def __init__(
        self, plane: ControlPlane, host: str, files: PairFiles, relay: Path | None = None
    ) -> None:
        """Without a relay, the plugin calls the allocator itself."""
        self.plane = plane
        self.host = host
        self.files = files
        self.folder = plane.folder / "bridge" / host
        self.folder.mkdir(parents=True)
        self.socket = plane.sockets / host / "allocator.sock"
        self.configuration = self._write_configuration(relay or self.socket)
        words: list[str | Path] = [
            COMMANDS / "drawbridge",
            "serve",
            "allocator",
            *files.words["allocator"],
        ]
        words += [f"--kubeconfig={files.access}", f"--socket={self.socket}"]
        words += ["--health=127.0.0.1:0", "--metrics=127.0.0.1:0"]
        # Several pairs share the interfaces of this machine.
        words += ["--api=:0", f"--namespace={NAMESPACE}"]
        log = self.folder / "allocator.log"
        self.allocator = Replica(f"{host}-allocator", on_host(host, words), log)
        self.scheduler: Process | None = None

    def _write_configuration(self, called: Path) -> Path:
        """Write the configuration of the manifests with what is different on this machine."""
        template = copy.deepcopy(self.files.template)
        for profile in template["profiles"]:
            profile["pluginConfig"][0]["args"]["socket"] = str(called)
        connection = {"kubeconfig": str(self.files.access), "qps": 5000, "burst": 5000}
        path = self.folder / "scheduler.yaml"
        path.write_text(yaml.safe_dump({**template, "clientConnection": connection}), "utf-8")
        return path

    def start(self) -> None:
        """Start what does not run; returns when both are healthy."""
        if not self.allocator.alive:
            self.plane.processes[self.allocator.name] = self.allocator.start()
        if self.scheduler is None or self.scheduler.child.poll() is not None:
            self.start_scheduler()

    def start_scheduler(self) -> None:
        """Start the kube-scheduler."""
        port, name = free_port(), f"{self.host}-scheduler"
        words: list[str | Path] = [self.files.program, *self.files.words["scheduler"]]
        words += [f"--config={self.configuration}", f"--secure-port={port}"]
        words += ["--bind-address=127.0.0.1", "-v=2"]
        self.scheduler = Process(name, on_host(self.host, words), self.folder / "scheduler.log")
        self.scheduler.port = port
        self.plane.processes[name] = self.scheduler

    @contextlib.contextmanager
    def unpriced(self) -> Iterator[None]:
        """Run an allocator in which no expression costs anything, until the context exits."""
        words = self.allocator.words
        module: list[str | Path] = [sys.executable, "-m", "e2e.bridge.unpriced"]
        at = list(words).index(COMMANDS / "drawbridge")
        self.allocator.words = [*words[:at], *module, *words[at + 1 :]]
        self.restart_allocator()
        try:
            yield
        finally:
            self.allocator.words = words
            self.restart_allocator()

    def restart_allocator(self) -> None:
        """Kill the allocator and start it again; returns when it listens."""
        self.allocator.kill()
        self.start()
        self.wait_healthy()

    def wait_healthy(self) -> None:
        """Wait until both processes are healthy."""
        scheduler = self.running_scheduler()
        scheduler.wait_ready(lambda: answers(f"https://127.0.0.1:{scheduler.port}/healthz"))
        process = self.allocator.started_process()
        process.wait_ready(lambda: self.allocator.request("health", "/healthz").code == 200)

    def running_scheduler(self) -> Process:
        """Return the kube-scheduler; AssertionError if it was never started."""
        assert self.scheduler is not None, f"{self.host} has no scheduler"
        return self.scheduler

    def send(self, number: signal.Signals) -> None:
        """Send a signal to both processes."""
        for process in (self.running_scheduler(), self.allocator.started_process()):
            process.child.send_signal(number)

    def stop(self) -> None:
        """Stop both processes as a kubelet does."""
        self.running_scheduler().stop()
        self.allocator.stop()

    def ready(self) -> bool:
        """Whether both processes run and the pod would be ready by the probes of the manifests."""
        return self.scheduler_alive and self.allocator.ready() and self._scheduler_ready()

    def _scheduler_ready(self) -> bool:
        return answers(f"https://127.0.0.1:{self.running_scheduler().port}/readyz")

    def allocator_status(self) -> str:
        """Return what the allocator says of itself, or why it does not."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(2)
        try:
            with connection:
                connection.connect(str(self.socket))
                connection.sendall(_STATUS)
                return b"".join(iter(partial(connection.recv, 65536), b"")).decode()
        except OSError as problem:
            return f"{problem}"

    @property
    def scheduler_alive(self) -> bool:
        """Whether the kube-scheduler runs."""
        return self.scheduler is not None and self.scheduler.child.poll() is None
