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
from certs.serving import make_certificate
from cluster.session import Session
from dra.names import ALLOCATOR_SERVICE
from runtime.process import run_background


@contextlib.asynccontextmanager
async def open_api(
    options: argparse.Namespace, session: Session, state: ApiState, leadership: ApiLeadership
) -> AsyncIterator[None]:
    """Serve the API on the address of the options, if there is one, until the context exits."""
    if options.api is None:
        yield
        return
    is_local = is_loopback(options.api)
    reviews = Reviews(session, options.api_audience, now=time.monotonic)
    access = CallerAccess(reviews, is_local=is_local)
    handler = ApiHandler(ApiCalls(state, leadership, access, ApiSearches()), access)
    certificate = None
    if not is_local:
        optional = ssl.VerifyMode.CERT_OPTIONAL
        certificate = make_certificate(options, session, ALLOCATOR_SERVICE, optional)
    background = () if certificate is None else (certificate.run(),)
    async with run_background(background), serve_api(options.api, certificate, handler):
        yield
