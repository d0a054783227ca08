"""Serve reviews over TLS until a stop signal, with health and metrics, and stop gracefully."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry

from certs.serving import CertificateOptions, list_metrics, make_certificate
from drawbridge.process import metrics
from drawbridge.process.addresses import Address
from drawbridge.process.listener import TLSListener
from drawbridge.process.run import (
    ProcessOptions,
    StartedProcess,
    run_background,
    run_configured,
)
from webhook.server.http_handler import (
    DEFAULT_LIMITS,
    AdmissionHTTPHandler,
    Endpoint,
    RequestLimits,
)

_LOG: Final = logging.getLogger("drawbridge.process")
# Drain time and this timeout together are shorter than the default grace period of 30 s.
_CLOSE_TIMEOUT: Final = 5.0


class ReviewOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a process that answers reviews; `drain` and `settle` in seconds.

    `settle` is how long the guard respects older inputs, or the judge refuses nothing.
    `metric_namespaces` is how many namespaces the counter of decisions names.
    """

    process: ProcessOptions
    certificate: CertificateOptions
    listen: Address
    drain: float
    settle: float
    metric_namespaces: int = 0


class ReviewService(NamedTuple):
    """What a process serves, and what runs beside it.

    `find_missing` returns the reasons why reviews cannot be handled yet, and `start` the coroutines
    that run until the stop.
    """

    endpoints: Mapping[str, Endpoint]
    find_missing: Callable[[], Sequence[str]]
    start: Callable[[], Iterable[Coroutine[Any, Any, None]]]
    collectors: Sequence[metrics.Source]
    limits: RequestLimits = DEFAULT_LIMITS


MakeService = Callable[[ReviewOptions, StartedProcess], ReviewService]


async def run_reviews(
    options: ReviewOptions, name: str, make_service: MakeService, *own: CollectorRegistry
) -> int:
    """Serve as the Service of this name until a stop signal, with metrics of its own.

    Return 0 after a graceful stop, 2 if serving is impossible.
    """
    common = (metrics.REVIEWS, metrics.FACTS, *list_metrics(options.certificate))
    with metrics.registered(*common, *own):
        serve = partial(_serve, options, name, make_service)
        return await run_configured(options.process, _LOG, serve)


async def _serve(
    options: ReviewOptions, name: str, make_service: MakeService, process: StartedProcess
) -> None:
    """Serve until the stop signal. Then continue until clients use another replica."""
    certificate = make_certificate(options.certificate, process.session, name)
    service = make_service(options, process)

    def find_missing() -> list[str]:
        return [*service.find_missing(), *filter(None, (certificate.find_problem(),))]

    handler = AdmissionHTTPHandler(service.endpoints, find_missing, service.limits)
    listener = TLSListener(
        options.listen, certificate, handler.handle, find_responder=handler.find_responder
    )
    process.readiness.find_missing = find_missing
    with metrics.registered(*service.collectors):
        await listener.open()
        async with run_background((certificate.run(), *service.start())):
            await process.stop.wait()
            # Keep serving until all clients use another replica.
            handler.closing = True
            await asyncio.sleep(options.drain)
            await listener.close(_CLOSE_TIMEOUT)
