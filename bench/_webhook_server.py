"""The server of the webhook bench: the real admission and HTTP handlers, and an echo handler.

Its cluster view is the sample inventory, held in memory. The caller chooses the CPU core.
"""

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from bench._cluster import make_admission
from cli.input.cluster_objects import sort_documents
from cli.input.files import read_documents
from drawbridge.config.model import Configuration
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.process import logs
from drawbridge.process.addresses import Address
from drawbridge.process.listener import TLSListener
from drawbridge.process.tls import ServingCertificate
from drawbridge.translate.pods import TranslationContext, make_context
from webhook.server.configuration_reviews import ConfigurationReviews
from webhook.server.http_handler import AdmissionHTTPHandler
from webhook.server.process import list_endpoints

SAMPLES: Final = Path(__file__).parent.parent / "examples" / "inventory"
ECHO: Final = "/echo?timeout=5s"
_PATCH: Final = base64.b64encode(
    b'[{"op":"add","path":"/metadata/annotations","value":{"bench":"echo"}}]'
).decode()


def sampled() -> TranslationContext:
    """Return the translation context of the sample inventory."""
    samples = sort_documents(read_documents([str(SAMPLES)], sys.stdin.buffer))
    objects = FactsInput(samples.slices, samples.classes, samples.nodes)
    configuration = Configuration()
    return make_context(configuration, gather_facts(objects, configuration).facts)


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    """Parse the complete review, and allow it with a prepared patch."""
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
    pair = ServingCertificate(certificate, key)
    pair.refresh()
    reviews = make_admission(sampled()).handler
    configured = ConfigurationReviews().review
    endpoints = AdmissionHTTPHandler(list_endpoints(reviews, configured), list)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return await (echo(request) if request.raw_path == ECHO else endpoints.handle(request))

    listener = TLSListener(
        Address("127.0.0.1", 0), pair, handle, find_responder=endpoints.find_responder
    )
    await listener.open()
    print(listener.port, flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve on the given CPU core."""
    core, certificate, key = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    logs.configure("info")
    asyncio.run(serve(certificate, key))


if __name__ == "__main__":
    main()
