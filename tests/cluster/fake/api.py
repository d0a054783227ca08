"""A fake API server of tests and benches: HTTP on loopback, versions, conflicts, watches, apply.

    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        session = await Session.open(str(api.kubeconfig(tmp_path / "config")))

The objects, the answers and the watches are those of `tests.cluster.fake.server`, which a test can
ask without HTTP as well.
"""

import asyncio
import itertools
import json
import socket
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.cluster.fake import port_forward
from tests.cluster.fake.rights import Rights
from tests.cluster.fake.server import Server
from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.trouble import Seen, Trouble

CUT = b"\0cut"
MOST = 3 * 1024 * 1024


class FakeApi(Server):
    """One API server on loopback; an async context manager.

    `tokens`, where set, who may ask, and `rights` for what; `requests` is everything that was
    asked; `forwards` are the local ports that the ports of pods are forwarded to, and
    `forwarded_bytes`, where set, is how much of what a pod sends passes before the connection is
    lost.
    """

    def __init__(
        self, *, version: str = "1.36", watch_list: bool = True, tls: ssl.SSLContext | None = None
    ) -> None:
        self._news = asyncio.Event()
        super().__init__(version=version, watch_list=watch_list)
        self.tokens: set[str] | None = None
        self.rights: Rights | None = None
        self.requests: list[Seen] = []
        self.forwards: dict[tuple[str, int], int] = {}
        self.forwarded_bytes: int | None = None
        self.connections = 0
        self.url = ""
        self.context: dict[str, str] = {}  # more of the context in its kubeconfig
        self._tls = tls
        self._troubles: list[Trouble] = []
        self._runner: web.AppRunner | None = None
        self._listener: socket.socket

    # --- lifecycle -----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self, port: int = 0) -> None:
        """Listen; on the previous port after a restart, because kubeconfigs contain it."""
        application = web.Application(client_max_size=MOST)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        self._listener = socket.create_server(("127.0.0.1", port))
        await web.SockSite(self._runner, self._listener, ssl_context=self._tls).start()
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Close all watches and stop listening; the objects stay for another `start`."""
        self.heal()
        self.end_watches()
        if self._runner:
            # A connection accepted just now gets its handler in the next rounds of the loop.
            # A server that closes before would leave the connection open.
            asyncio.get_running_loop().remove_reader(self._listener)
            for _ in range(3):
                await asyncio.sleep(0)
            await self._runner.cleanup()
            self._runner = None

    def kubeconfig(self, path: Path, **user: object) -> Path:
        """Write a kubeconfig for this server; `user` has the user fields, such as `token`."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": user}],
            "contexts": [
                {"name": "fake", "context": {"cluster": "fake", "user": "fake", **self.context}}
            ],
        }
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    # --- waiting -------------------------------------------------------------------------------

    async def until(self, question: Callable[[], object], seconds: float = 10) -> None:
        """Wait until a condition holds; checked after every request and every write."""
        async with asyncio.timeout(seconds):
            while not question():
                self._news.clear()
                await self._news.wait()

    def tell(self) -> None:
        """Make all waiters check their conditions."""
        self._news.set()

    def asked(self, method: str, part: str, *, watch: bool = False) -> list[Seen]:
        """Return the requests with a method whose path contains `part`."""
        return [
            seen
            for seen in self.requests
            if seen.method == method and part in seen.path and seen.watches == watch
        ]

    # --- fault injection -----------------------------------------------------------------------

    def fail(  # all by name
        self,
        code: int,
        *,
        method: str = "",
        part: str = "",
        times: float = 1,
        watch: bool | None = None,
        reason: str = "",
        message: str = "on request",
        retry_after: float | None = None,
        body: bytes | None = None,
        after: bool = False,
        **details: Any,  # noqa: ANN401  # JSON
    ) -> None:
        """Fail the next matching requests; with `after`, process them first."""
        self._troubles.append(
            Trouble(
                method, part, watch, times, code, reason, message, retry_after, body,
                after=after, details=details,
            )
        )  # fmt: skip

    def cut(
        self, *, method: str = "", part: str = "", times: float = 1, after: bool = False
    ) -> None:
        """Close the connection of the next matching requests; with `after`, process them first."""
        self._troubles.append(Trouble(method, part, None, times, cut=True, after=after))

    def hold(self, *, method: str = "", part: str = "", times: float = 1) -> asyncio.Event:
        """Block the next matching requests until the returned event is set."""
        gate = asyncio.Event()
        self._troubles.append(Trouble(method, part, None, times, gate=gate))
        return gate

    def when(
        self, action: Callable[[], object], *, method: str = "", part: str = "", times: float = 1
    ) -> None:
        """Call a function just before the next matching requests are handled, to cause a race."""
        self._troubles.append(Trouble(method, part, None, times, action=action))

    def heal(self) -> None:
        """Remove all injected faults; blocked requests continue."""
        for trouble in self._troubles:
            if trouble.gate:
                trouble.gate.set()
        self._troubles.clear()

    def cut_watches(self) -> None:
        """Close the connections of all watches in the middle of a chunk."""
        self.say(CUT)

    # --- request handling ----------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        seen = Seen(
            request.method, f"/{request.match_info['path']}", dict(request.query),
            dict(request.headers), body,
        )  # fmt: skip
        self.requests.append(seen)
        self.tell()
        try:
            self._known(seen)
            meant = self._meant(seen)
            await self._trouble([one for one in meant if not one.after], request)
            response = await self._handle(seen, request)
            await self._trouble([one for one in meant if one.after], request)
        except RefusedError as refused:
            headers = {}
            if refused.retry_after is not None:
                headers["Retry-After"] = f"{refused.retry_after:g}"
            return web.json_response(refused.body, status=refused.code, headers=headers)
        except _RawError as raw:
            return web.Response(status=raw.code, body=raw.body)
        finally:
            self.tell()
        return response

    async def _handle(self, seen: Seen, request: web.Request) -> web.StreamResponse:
        if port_forward.PATH.match(seen.path):
            return await port_forward.forward(self, seen, request)
        if seen.watches:
            return await self._stream(seen, request)
        answer = self.answer(seen)
        return web.Response(body=answer.body, status=answer.code, content_type=answer.content_type)

    async def _stream(self, seen: Seen, request: web.Request) -> web.StreamResponse:
        lines = asyncio.Queue[bytes | None]()
        watcher = self.watch(seen, lines.put_nowait)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        end: bytes | None = b""
        try:
            await response.prepare(request)
            while end == b"":
                queued = [await lines.get()]
                queued += (lines.get_nowait() for _ in range(lines.qsize()))
                end = next((line for line in queued if line in (None, CUT)), b"")
                ready = itertools.takewhile(lambda line: line not in (None, CUT), queued)
                await response.write(b"".join(line for line in ready if line))
            if end == CUT and request.transport:
                request.transport.abort()
        except ConnectionError:
            pass  # the client closed the watch
        finally:
            self.end(watcher)
        return response

    def _known(self, seen: Seen) -> None:
        token = seen.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.tokens is not None and token not in self.tokens:
            raise RefusedError(401, "Unauthorized")
        if self.rights is not None:
            self.rights.check(seen)

    def _meant(self, seen: Seen) -> list[Trouble]:
        meant = [trouble for trouble in self._troubles if trouble.meets(seen)]
        # One error for each request; gates and actions can precede it.
        stops = [one for one in meant if one.code or one.cut]
        chosen = [one for one in meant if one.gate or one.action] + stops[:1]
        for one in chosen:
            one.times -= 1
        return chosen

    async def _trouble(self, troubles: Iterable[Trouble], request: web.Request) -> None:
        for trouble in troubles:
            if trouble.gate:
                await trouble.gate.wait()
            if trouble.action:
                trouble.action()
            if trouble.cut and request.transport:
                request.transport.abort()
                raise RefusedError(500, "cut")
            if trouble.body is not None:
                raise _RawError(trouble.code, trouble.body)
            if trouble.code:
                raise RefusedError(
                    trouble.code, trouble.message, reason=trouble.reason,
                    retry_after=trouble.retry_after, **trouble.details,
                )  # fmt: skip


class _RawError(Exception):
    def __init__(self, code: int, body: bytes) -> None:
        super().__init__(code)
        self.code = code
        self.body = body
