"""The servers of the webhook bench: the real admission and HTTP handlers, and parts of them.

Part `tcp` writes a prepared response for whatever arrives, `tls` does so over TLS, `http` responds
to every review without a review, and `reviews` reviews. The cluster view is the sample inventory,
held in memory. The caller chooses the CPU core.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench._cluster import make_admission
from cli.input.cluster_objects import sort_documents
from cli.input.files import read_documents
from drawbridge.config.model import Configuration
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.process import logs, review
from drawbridge.process.addresses import Address
from drawbridge.process.listener import TLSListener
from drawbridge.process.tls import ServingCertificate
from drawbridge.translate.context import TranslationContext, make_context
from webhook.admission.replies import Reply
from webhook.server.configuration_reviews import ConfigurationReviews
from webhook.server.http_handler import AdmissionHTTPHandler, Endpoint
from webhook.server.process import list_endpoints

SAMPLES: Final = Path(__file__).parent.parent / "examples" / "inventory"
PARTS_OF_HTTP: Final = ("http", "reviews")
ALLOWED: Final = Reply(200, review.compose_review("705ab4f5-6393-11e8-b7cc-420100000000"))
_RESPONSE: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: bench\r\n"
    b"Date: Tue, 24 Nov 2026 12:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s"
) % (len(ALLOWED.body), ALLOWED.body)


def sampled() -> TranslationContext:
    """Return the translation context of the sample inventory."""
    samples = sort_documents(read_documents([str(SAMPLES)], sys.stdin.buffer))
    objects = FactsInput(samples.slices, samples.classes, samples.nodes)
    configuration = Configuration()
    return make_context(configuration, gather_facts(objects, configuration).facts)


class _Prepared(asyncio.Protocol):
    """Writes the prepared response for whatever arrives."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # of a stream
        self._write = transport.write

    def data_received(self, _: bytes) -> None:
        """Write the response."""
        self._write(_RESPONSE)


def _list_endpoints(part: str) -> Mapping[str, Endpoint]:
    if part == "reviews":
        reviews = make_admission(sampled()).handler
        return list_endpoints(
            configuration=ConfigurationReviews().review,
            pods=reviews.review_pod,
            workloads=reviews.review_workload,
            guard=reviews.review_guarded_pod,
        )
    return {"/admit/pods": Endpoint("pods", lambda *_: ALLOWED)}


async def _open(certificate: str, key: str, part: str) -> int:
    """Start a server, and return its port."""
    pair = ServingCertificate(certificate, key)
    pair.refresh()
    if part in PARTS_OF_HTTP:
        handler = AdmissionHTTPHandler(_list_endpoints(part), list)
        listener = TLSListener(
            Address("127.0.0.1", 0), pair, handler.handle, find_responder=handler.find_responder
        )
        await listener.open()
        return listener.port
    context = pair.context if part == "tls" else None
    served = await asyncio.get_running_loop().create_server(_Prepared, "127.0.0.1", 0, ssl=context)
    port: int = served.sockets[0].getsockname()[1]
    return port


async def serve(certificate: str, key: str, part: str) -> None:
    """Serve until killed."""
    print(await _open(certificate, key, part), flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve on the given CPU core."""
    core, certificate, key, *more = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    logs.configure("info")
    asyncio.run(serve(certificate, key, *(more or ["reviews"])))


if __name__ == "__main__":
    main()
