"""The server of the webhook bench: real admission behind the real door, and an echo beside it.

Its cluster is the sample inventory, known from memory. Runs on the core it is told to.
"""

import asyncio
import base64
import logging
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from bench._cluster import Known, Store
from cli.input_files import read
from cli.world import world
from config.model import Configuration
from facts.gather import Objects, gather
from runtime import logs
from runtime.health import Address
from runtime.listener import Gate
from runtime.tls import Certificate
from translate.pods import Given, given
from webhook.admission.answer_cache import Memory
from webhook.admission.handler import Admission
from webhook.admission.templates import Made
from webhook.server.http_handler import Door

SAMPLES: Final = Path(__file__).parent.parent / "examples" / "inventory"
ECHO: Final = "/echo?timeout=5s"
_PATCH: Final = base64.b64encode(
    b'[{"op":"add","path":"/metadata/annotations","value":{"bench":"echo"}}]'
).decode()


def sampled() -> Given:
    """Give what decides on the sample inventory."""
    samples = world(read([str(SAMPLES)], sys.stdin.buffer))
    objects = Objects(samples.slices, samples.classes, samples.nodes)
    configuration = Configuration()
    return given(configuration, gather(objects, configuration).facts)


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
    door = Door(Admission(Known(sampled()), made, Memory()), list)

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
