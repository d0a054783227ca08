"""The server of the webhook bench: real admission behind the real door, and an echo beside it.

Its cluster is the sample inventory, known from memory. Runs on the core it is told to.
"""

import asyncio
import base64
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from cli.reading import read
from cli.world import world
from config.model import Configuration
from documents.values import Value
from dra.finding import Finding
from facts.gather import Objects, gather
from serve import logs
from serve.admit import Door
from serve.gate import Gate
from serve.http import Address
from serve.tls import Certificate
from translate.pods import Given, given
from webhook.admission import Admission
from webhook.limits import LimitRange
from webhook.memory import Memory
from webhook.quota import ResourceQuota
from webhook.templates import Made

SAMPLES: Final = Path(__file__).parent.parent / "examples" / "inventory"
ECHO: Final = "/echo?timeout=5s"
OUT, IN = "outside", "inside"
_PATCH: Final = base64.b64encode(
    b'[{"op":"add","path":"/metadata/annotations","value":{"bench":"echo"}}]'
).decode()


class Known:
    """Two namespaces, one of them opted in; facts of the samples."""

    def __init__(self) -> None:
        samples = world(read([str(SAMPLES)], sys.stdin.buffer))
        objects = Objects(samples.slices, samples.classes, samples.nodes)
        configuration = Configuration()
        self._given = given(configuration, gather(objects, configuration).facts)
        self._labels: dict[str, Mapping[str, str]] = {
            OUT: {"kubernetes.io/metadata.name": OUT},
            IN: {"kubernetes.io/metadata.name": IN, "drawbridge.dev/translate": "enforce"},
        }

    def given(self) -> Given | None:
        return self._given

    def namespace(self, name: str) -> Mapping[str, str] | None:
        return self._labels.get(name)

    def limits(self, namespace: str) -> Sequence[LimitRange]:
        del namespace
        return ()

    def quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        del namespace
        return ()

    def others(self) -> Sequence[Finding]:
        return ()


class Store:
    """Keeps what was created, as a watch would tell it; nothing is waited for."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Mapping[str, Value]] = {}

    def seen(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        return self._kept.get((namespace, name))

    async def create(
        self, namespace: str, value: Mapping[str, Value], *, dry_run: bool = False
    ) -> Mapping[str, Value] | None:
        stored: dict[str, Value] = msgspec.json.decode(msgspec.json.encode(value))
        metadata = stored["metadata"]
        if isinstance(metadata, dict):
            now = datetime.now(UTC).isoformat(timespec="seconds")
            metadata |= {"namespace": namespace, "creationTimestamp": now, "uid": "u"}
            if not dry_run:
                self._kept[namespace, str(metadata["name"])] = stored
        return stored

    async def read(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        return self.seen(namespace, name)

    async def touch(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        del namespace, name, annotations


async def echo(request: web.BaseRequest) -> web.Response:
    """Read the review whole, and allow it with a patch that is ready."""
    review = msgspec.json.decode(await request.read())
    response = {
        "uid": review["request"]["uid"],
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": _PATCH,
    }
    answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


async def serve(certificate: str, key: str) -> None:
    """Serve until killed."""
    pair = Certificate(certificate, key)
    pair.refresh()
    made = Made(Store(), lambda: datetime.now(UTC))
    door = Door(Admission(Known(), made, Memory()), list)

    async def handle(request: web.BaseRequest) -> web.Response:
        return await (echo(request) if request.raw_path == ECHO else door.handle(request))

    gate = Gate(Address("127.0.0.1", 0), pair, handle)
    await gate.open()
    print(gate.port, flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve on the core named."""
    core, certificate, key = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    logs.configure("info")
    if profile := os.environ.get("BENCH_PROFILE"):
        _profiled(profile)
    asyncio.run(serve(certificate, key))


def _profiled(path: str) -> None:
    """Write where time goes, at the end: for a look by hand."""
    import cProfile  # noqa: PLC0415  # only for that look
    import signal  # noqa: PLC0415

    profile = cProfile.Profile(time.process_time)
    profile.enable()

    def end(*_: object) -> None:
        profile.disable()
        profile.dump_stats(path)
        logging.shutdown()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)


if __name__ == "__main__":
    main()
