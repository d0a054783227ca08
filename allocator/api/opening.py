"""Connects the API to the process: its address, its certificate, and the API server."""

import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Sequence

import msgspec
from prometheus_client import CollectorRegistry

from allocator.api.callers import CallerAccess
from allocator.api.calls import ApiCalls
from allocator.api.http_handler import ApiHandler, is_loopback, serve_api
from allocator.api.reviews import Reviews
from allocator.api.searches import ApiSearches
from allocator.api.watched_preemption import PreemptionCaches
from allocator.state.caches import AllocatorCaches
from allocator.state.live_state import LiveState
from allocator.term import TermKeeper
from certs.serving import CertificateOptions, list_metrics, make_certificate
from drawbridge.cluster.session import Session
from drawbridge.names import ALLOCATOR_SERVICE
from drawbridge.process.addresses import Address
from drawbridge.process.run import run_background


class ApiOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the API is served; `audience` is that of the tokens of its clients.

    Without an audience, tokens have that of the API server.
    """

    listen: Address
    audience: str = ""
    certificate: CertificateOptions


def list_api_metrics(options: ApiOptions | None) -> Sequence[CollectorRegistry]:
    """Return the metrics of the certificate of the API, if it has one."""
    if options is None or is_loopback(options.listen):
        return ()
    return list_metrics(options.certificate)


@contextlib.asynccontextmanager
async def open_api(
    options: ApiOptions | None,
    session: Session,
    state: LiveState,
    leadership: TermKeeper,
    caches: AllocatorCaches,
) -> AsyncIterator[None]:
    """Serve the API until the context exits; without options, serve nothing."""
    if options is None:
        yield
        return
    is_local = is_loopback(options.listen)
    reviews = Reviews(session, options.audience, now=time.monotonic)
    access = CallerAccess(reviews, is_local=is_local)
    preemption = PreemptionCaches(session, caches.pods, caches.shares)
    calls = ApiCalls(state, leadership, access, ApiSearches(), preemption)
    handler = ApiHandler(calls, access)
    certificate = None
    if not is_local:
        optional = ssl.VerifyMode.CERT_OPTIONAL
        certificate = make_certificate(options.certificate, session, ALLOCATOR_SERVICE, optional)
    renewal = () if certificate is None else (certificate.run(),)
    async with (
        run_background((*renewal, *preemption.run())),
        serve_api(options.listen, certificate, handler),
    ):
        yield
