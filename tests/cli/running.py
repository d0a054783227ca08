"""Runs commands in this process: on files, and on an API server."""

import asyncio
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from cli.main import dispatch
from cli.terminal.streams import Streams
from tests.cluster.fake.api import FakeApi

_BRIDGE = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: bridge
ownedPools:
- driver: gpu.nvidia.com
  nodeSelector: {matchLabels: {topology.kubernetes.io/zone: %s}}
"""
# The scheduler of a pod that requests eight GPUs, the zone with owned pools in the sample
# inventory, and what is found.
EIGHT_IN_OWNED_POOLS = [
    ("drawbridge", "a", []),
    ("drawbridge", "b", ["CountNeverFits"]),  # one device, where others have eight
    ("drawbridge", "none", ["CountNeverFits"]),  # no node is owned, which is no better
    ("volcano", "b", []),
    ("volcano", "a", ["CountNeverFits"]),  # eight devices, which the fence keeps from it
]
JUDGED_POOLS = {
    "drawbridge": "in the pools of ownedPools: ",
    "volcano": "outside the pools of ownedPools: ",
}


class Printed(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


def own_zone(folder: Path, zone: str) -> Path:
    """Write a configuration of bridge placement in one zone, and return its path."""
    path = folder / "configuration.yaml"
    path.write_text(_BRIDGE % zone, "utf-8")
    return path


def command(*words: str, stdin: str | bytes = b"", called: str = "drawbridge") -> Printed:
    out, err = io.StringIO(), io.StringIO()
    data = stdin.encode() if isinstance(stdin, str) else stdin
    code = dispatch(words, Streams(io.BytesIO(data), out, err), called)
    return Printed(code, out.getvalue(), err.getvalue())


def on_api(
    folder: Path,
    objects: Iterable[dict[str, Any]],
    *words: str,
    stdin: str = "",
    version: str = "1.36",
    prepare: Callable[[FakeApi], object] = lambda _: None,
    check: Callable[[FakeApi], object] = lambda _: None,
) -> Printed:
    """Run a command in a thread, with the kubeconfig of an API server that has these objects."""

    async def run_with_api() -> Printed:
        async with FakeApi(version=version) as api:
            for obj in objects:
                api.put(obj)
            prepare(api)
            access = ("--kubeconfig", str(api.kubeconfig(folder / "config")))
            printed = await asyncio.to_thread(command, *words, *access, stdin=stdin)
            check(api)
            return printed

    return asyncio.run(run_with_api())


def read_findings(out: str) -> list[dict[str, Any]]:
    """Read the findings in JSON output, and check their structure."""
    printed: dict[str, list[dict[str, Any]]] = json.loads(out)
    assert list(printed) == ["findings"]
    for finding in printed["findings"]:
        fields = list(finding)
        assert fields[:6] == ["code", "severity", "path", "object", "message", "remedy"]
        assert fields[6:] in ([], ["file"], ["file", "line", "column"])
    return printed["findings"]
