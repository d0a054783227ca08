"""The session of a process at a fake API server, without sockets."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

from drawbridge.cluster.errors import error_from_response
from drawbridge.cluster.reachability import Reachability
from drawbridge.cluster.server_clock import ServerClock
from drawbridge.cluster.session import Session
from tests.cluster.fake.server import Server
from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.store import encoded
from tests.cluster.fake.trouble import Seen

_NAMESPACE = "drawbridge-system"
_NO_CREDENTIALS: Any = SimpleNamespace(namespace=_NAMESPACE)


class ServerSession(Session):
    """Sends the requests of a process to a server, with the retries of any session."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._namespace = _NAMESPACE
        self._credentials = _NO_CREDENTIALS
        self._pause = asyncio.sleep
        self.reachability = Reachability()
        self.clock = ServerClock()

    def with_new_connections(self) -> Any:  # noqa: ANN401  # what is entered is this session
        """Return this one, which goes on afterwards: there are no connections."""
        return contextlib.nullcontext(self)

    async def _access(self, rejected: object) -> Any:  # noqa: ANN401  # of the session
        """No credentials."""

    async def _send_once(self, access: object, request: Any) -> bytes:  # noqa: ANN401, ARG002  # of the session
        headers = {"Content-Type": request.content_type, "Accept": request.accept}
        body = request.data or b""
        answer = await self.answer(
            Seen(request.method, request.path, dict(request.query), headers, body)
        )
        self.reachability.record_response()
        return answer

    async def answer(self, seen: Seen) -> bytes:
        """Return the body of the response to a request; raises ApiError."""
        try:
            return self._server.answer(seen).body
        except RefusedError as refused:
            raise error_from_response(refused.code, {}, encoded(refused.body)) from None
