"""Connects the API to the process: its address, its certificate, and the API server."""

import argparse
import contextlib
import ssl
import time
from collections.abc import AsyncIterator

from allocator.api.callers import CallerAccess
from allocator.api.calls import ApiCalls, ApiLeadership, ApiState
from allocator.api.reviews import Reviews
from allocator.api.searches import ApiSearches
from allocator.api.server import ApiHandler, is_loopback, serve_api
from allocator.api.watched_preemption import PreemptionCaches
from certs.serving import make_certificate
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.session import Session
from drawbridge.ledger.pods import Pod
from drawbridge.names import ALLOCATOR_SERVICE
from drawbridge.process.run import run_background


@contextlib.asynccontextmanager
async def open_api(
    options: argparse.Namespace,
    session: Session,
    state: ApiState,
    leadership: ApiLeadership,
    pods: Cache[Pod],
) -> AsyncIterator[None]:
    """Serve the API on the address of the options, if there is one, until the context exits."""
    if options.api is None:
        yield
        return
    is_local = is_loopback(options.api)
    reviews = Reviews(session, options.api_audience, now=time.monotonic)
    access = CallerAccess(reviews, is_local=is_local)
    preemption = PreemptionCaches(session, pods)
    calls = ApiCalls(state, leadership, access, ApiSearches(), preemption)
    handler = ApiHandler(calls, access)
    certificate = None
    if not is_local:
        optional = ssl.VerifyMode.CERT_OPTIONAL
        certificate = make_certificate(options, session, ALLOCATOR_SERVICE, optional)
    renewal = () if certificate is None else (certificate.run(),)
    async with (
        run_background((*renewal, *preemption.run())),
        serve_api(options.api, certificate, handler),
    ):
        yield
