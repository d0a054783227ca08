"""The HTTP handler and the TLS listener on a real socket, with a fake review handler."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from drawbridge.process.addresses import Address
from drawbridge.process.listener import (
    MAX_CONNECTIONS,
    MAX_HANDSHAKES,
    ListenerLimits,
    TLSListener,
)
from drawbridge.process.review import decode_review
from drawbridge.process.tls import ServingCertificate
from tests.process import http_client
from tests.process.key_pairs import NAME, KeyPair, create_client_context, create_pair, write_pair
from webhook.admission.replies import PendingReply, Reply
from webhook.server.http_handler import DEFAULT_LIMITS, AdmissionHTTPHandler, RequestLimits
from webhook.server.process import list_endpoints

ANY = Address("127.0.0.1", 0)


class FakeReviewHandler:
    """Allows everything, at once or when `unblocked` is set, and records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bytes, float]] = []
        self.has_tasks: list[bool] = []  # of each call, whether it is in a task
        self.started = asyncio.Event()
        self.unblocked = asyncio.Event()
        self.unblocked.set()
        self.error: Exception | None = None
        self.audited = Reply(200, b"")
        self._changed = asyncio.Event()

    def review_pod(self, body: bytes, seconds: float, _peer: str = "") -> Reply | PendingReply:
        """Handle the review of a pod."""
        return self._reply("pods", body, seconds)

    def review_guarded_pod(
        self, body: bytes, seconds: float, _peer: str = ""
    ) -> Reply | PendingReply:
        """Handle the review of a pod after all mutating webhooks."""
        return self._reply("guard", body, seconds)

    def review_workload(self, body: bytes, seconds: float, _peer: str = "") -> Reply | PendingReply:
        """Handle the review of a workload."""
        return self._reply("workloads", body, seconds)

    def review_configuration(
        self, body: bytes, seconds: float, _peer: str = ""
    ) -> Reply | PendingReply:
        """Handle the review of the configuration."""
        return self._reply("configuration", body, seconds)

    async def wait_for_calls(self, count: int) -> None:
        """Wait for a number of calls."""
        while len(self.calls) < count:
            self._changed.clear()
            await self._changed.wait()

    def _reply(self, webhook: str, body: bytes, seconds: float) -> Reply | PendingReply:
        self.calls.append((webhook, body, seconds))
        self.has_tasks.append(asyncio.current_task() is not None)
        self.started.set()
        self._changed.set()
        if self.error:
            raise self.error
        return self._allow(body) if self.unblocked.is_set() else self._wait(body)

    async def _wait(self, body: bytes) -> Reply:
        await self.unblocked.wait()
        return self._allow(body)

    def _allow(self, body: bytes) -> Reply:
        uid = decode_review(body).uid
        if not uid:
            return Reply(status=400, body=b"{}", outcome="error")
        response = {"response": {"uid": uid, "allowed": True}}
        body = msgspec.json.encode(response)
        return msgspec.structs.replace(self.audited, body=body, uid=uid, operation="CREATE")


class WebhookServer(NamedTuple):
    """A server and its parts."""

    reviews: FakeReviewHandler
    handler: AdmissionHTTPHandler
    listener: TLSListener
    certificate: ServingCertificate
    folder: Path
    pair: KeyPair

    def connect(
        self, *, trust: KeyPair | None = None, name: str | None = NAME
    ) -> contextlib.AbstractAsyncContextManager[http_client.Connection]:
        """Open a connection that trusts the initial certificate, or another one."""
        context = create_client_context(trust or self.pair)
        context.check_hostname = name is not None
        return http_client.connect(self.listener.port, context, name)

    async def send(self, data: bytes) -> http_client.Response:
        """Send one request on a new connection."""
        async with self.connect() as connection:
            return await connection.send_request(data)


@contextlib.asynccontextmanager
async def serve(
    folder: Path,
    *,
    find_missing: Callable[[], list[str]] = list,
    limits: RequestLimits = DEFAULT_LIMITS,
    max_connections: int = MAX_CONNECTIONS,
    max_handshakes: int = MAX_HANDSHAKES,
) -> AsyncIterator[WebhookServer]:
    """Run a server until the context exits."""
    reviews, pair = FakeReviewHandler(), create_pair()
    certificate = ServingCertificate(*write_pair(folder, pair))
    certificate.refresh()
    endpoints = list_endpoints(
        configuration=reviews.review_configuration,
        pods=reviews.review_pod,
        workloads=reviews.review_workload,
        guard=reviews.review_guarded_pod,
    )
    handler = AdmissionHTTPHandler(endpoints, find_missing, limits)
    listener = TLSListener(
        ANY,
        certificate,
        handler.handle,
        limits=ListenerLimits(max_connections, max_handshakes),
        linger=0.05,
        find_responder=handler.find_responder,
    )
    await listener.open()
    try:
        yield WebhookServer(reviews, handler, listener, certificate, folder, pair)
    finally:
        reviews.unblocked.set()
        await listener.close(1)
