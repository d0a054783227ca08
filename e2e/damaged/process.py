"""Starts `drawbridge serve webhook` with the cluster objects that a translation needs."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from e2e.controlplane.certificates import self_signed
from e2e.damaged.play import Target, ready
from e2e.damaged.wires import HOST

ROOT = Path(__file__).parent.parent.parent
SYSTEM, NAMESPACE = "drawbridge-system", "damaged"
KIB = 1 << 10


class WebhookProcess:
    """The process, its address, and the unhandled exceptions in its log."""

    def __init__(self, running: asyncio.subprocess.Process, target: Target) -> None:
        self.running = running
        self.target = target
        self.bugs: list[str] = []
        self._most = 0

    def memory(self) -> int:
        """Return the resident bytes."""
        return self._status()["VmRSS"]

    def most(self) -> int:
        """Return the highest number of resident bytes so far."""
        return self._most

    def _status(self) -> dict[str, int]:
        text = Path(f"/proc/{self.running.pid}/status").read_text(encoding="utf-8")
        lines = (line.split() for line in text.splitlines() if line.startswith("Vm"))
        sizes = {name.rstrip(":"): int(size) * KIB for name, size, _ in lines}
        self._most = sizes["VmHWM"]
        return sizes

    async def listen(self, lines: asyncio.StreamReader) -> None:
        """Collect log lines with a stack: no request may cause an unhandled exception."""
        while raw := await lines.readline():
            try:
                line = json.loads(raw)
            except ValueError:
                self.bugs.append(f"a line that is no JSON: {raw[:300]!r}")
                continue
            if "stack" in line:
                self.bugs.append(f"{line['msg']}: {line.get('error')} {line['stack'][-600:]}")


def cluster() -> list[dict[str, Any]]:
    """Return the objects of the cluster: an opted-in namespace and the facts of the examples."""
    words = ("config", "facts", "--cluster", "examples/inventory")
    command = [sys.executable, "-m", "cli.main", *words]
    printed = subprocess.run(
        [*command, "-o", "json"], cwd=ROOT, check=False, capture_output=True
    ).stdout
    digest = json.loads(printed)["hash"]
    key = f"facts-{digest.removeprefix('sha256:')[:16]}.json"
    labels = {"drawbridge.dev/translate": "enforce"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": labels},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "drawbridge-facts", "namespace": SYSTEM},
            "data": {"current": digest, key: printed.decode()},
        },
    ]


@contextlib.asynccontextmanager
async def started(folder: Path, kubeconfig: Path) -> AsyncIterator[WebhookProcess]:
    """Start the process and wait until it is ready; it ends with the context."""
    certificate, key = self_signed(folder, HOST)
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli.main", "serve", "webhook", "--drain=0"),
        *(f"--{name}=127.0.0.1:0" for name in ("listen", "health", "metrics")),
        *(f"--tls-cert={certificate}", f"--tls-key={key}"),
        *(f"--kubeconfig={kubeconfig}", f"--namespace={SYSTEM}"),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    try:
        async with asyncio.timeout(60):
            lines = running.stderr or asyncio.StreamReader()
            port = await _port(lines)
            target = Target(port, certificate.read_text(encoding="ascii"), NAMESPACE)
            process = WebhookProcess(running, target)
            listening = asyncio.create_task(process.listen(lines))
            await ready(target)
        yield process
        running.terminate()
        await listening
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.kill()
        await running.wait()


async def _port(lines: asyncio.StreamReader) -> int:
    """Read the port of the admission listener from the log."""
    while raw := await lines.readline():
        line = json.loads(raw)
        if line["msg"] == "listening" and line["name"] == "admission":
            return int(line["address"].rpartition(":")[2])
    raise RuntimeError("the process ended before it listened")
