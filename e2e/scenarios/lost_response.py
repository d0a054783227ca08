"""Scenarios: the stock scheduler misses a response of the API server."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

from e2e.controlplane import files
from e2e.controlplane.plane import LOOPBACK
from e2e.controlplane.processes import free_port
from e2e.controlplane.threaded import ThreadedServer
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU: Final = "gpu.nvidia.com"
SCHEDULER: Final = "behind-a-proxy"
CLAIMS: Final = ("claim-a", "claim-b")
# Headers that are about one connection.
_OF_CONNECTION: Final = {"connection", "host", "transfer-encoding", "content-length"}


class FaultyProxy(ThreadedServer):
    """Passes requests to the API server; lives as long as its `with` block.

    While it is `faulty`, it loses the response to the first write of an allocation, and holds back
    what a watch says about claims.
    """

    def __init__(self, server: str, token: str) -> None:
        super().__init__()
        self.port = free_port()
        self.lost = threading.Event()
        self._server = server
        # A client of Kubernetes sends no token without TLS.
        self._token = {"Authorization": f"Bearer {token}"}
        self._faulty = False
        self._healed = asyncio.Event()

    def break_down(self) -> None:
        """Begin to lose responses and to hold back watches."""
        self._faulty = True

    def heal(self) -> None:
        """Pass everything on."""
        self._faulty = False
        self._loop.call_soon_threadsafe(self._healed.set)

    async def _start(self) -> None:
        context = ssl._create_unverified_context()  # noqa: S323, SLF001  # loopback, self-signed
        connector = TCPConnector(ssl=context, limit=0)
        self._client = ClientSession(
            connector=connector, timeout=ClientTimeout(total=None), auto_decompress=False
        )
        self._runner = web.ServerRunner(web.Server(self._pass), shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, self.port).start()

    async def _stop(self) -> None:
        self._healed.set()
        await self._client.close()  # ends the watches that are passed on
        await self._runner.cleanup()

    async def _pass(self, asked: web.BaseRequest) -> web.StreamResponse:
        headers = {k: v for k, v in asked.headers.items() if k.lower() not in _OF_CONNECTION}
        headers |= self._token
        body = await asked.read()
        url = self._server + asked.raw_path
        async with self._client.request(asked.method, url, headers=headers, data=body) as response:
            if self._faulty and asked.method != "GET" and _is_allocation(asked.path):
                await response.read()  # the API server has written it
                self.lost.set()
                if asked.transport is not None:
                    asked.transport.abort()
                return web.Response()  # nobody gets it
            kept = {k: v for k, v in response.headers.items() if k.lower() not in _OF_CONNECTION}
            answer = web.StreamResponse(status=response.status, headers=kept)
            with contextlib.suppress(ClientError, ConnectionError):  # one side has ended
                await answer.prepare(asked)
                async for chunk in response.content.iter_any():
                    if self._faulty and asked.path.endswith("/resourceclaims"):
                        await self._healed.wait()
                    await answer.write(chunk)
                await answer.write_eof()
            return answer


def _is_allocation(path: str) -> bool:
    return path.endswith(f"/resourceclaims/{CLAIMS[0]}/status")


@scenario("full", needs=("processes",))
def the_stock_scheduler_allocates_a_device_twice_after_a_lost_response(stage: Stage) -> None:
    """It takes the error for a write that did not happen, and gives the device to the next claim.

    Only programs of Kubernetes and the driver of the node take part. The proxy does what the end
    of an API server does: the first allocation is written and its response lost, and the scheduler
    hears nothing about claims for a while. The driver refuses the second pod.
    """
    stage.node("a", "lab-2g2n", {GPU: "full"})
    for name in ("first", *CLAIMS):
        stage.claim(name, claim_spec(request("gpu", GPU)))
    with _scheduler_behind_a_proxy(stage) as proxy:
        # A pod that runs shows that the scheduler has read everything; one device is left.
        _pod(stage, "first")
        stage.wait_running("first")
        proxy.break_down()
        _pod(stage, CLAIMS[0])
        assert proxy.lost.wait(60), "the scheduler wrote no allocation"
        assert _holders(stage) == [CLAIMS[0]]
        _pod(stage, CLAIMS[1])
        stage.wait("both claims have the device", lambda: _holders(stage) == list(CLAIMS))
        devices = [stage.allocated(name)[0]["device"] for name in CLAIMS]
        assert devices[0] == devices[1]
        proxy.heal()
        stage.wait("both pods are bound", lambda: all(_is_bound(stage, name) for name in CLAIMS))
    refused = stage.wait("the driver refuses", stage.violations)
    assert {each.code for each in refused} == {"DeviceTaken"}, refused
    for name in CLAIMS:
        stage.delete_pod(name)
    stage.violations()  # what the driver saw again before the second pod was gone


@contextlib.contextmanager
def _scheduler_behind_a_proxy(stage: Stage) -> Iterator[FaultyProxy]:
    plane = stage.processes
    token = plane.tokens["system:kube-scheduler"]
    with FaultyProxy(f"https://{LOOPBACK}:{plane.port}", token) as proxy:
        access = files.kubeconfig(
            plane.folder / "proxied.kubeconfig",
            f"http://{LOOPBACK}:{proxy.port}",
            plane.authority,
            token,
        )
        connection = {"kubeconfig": str(access)}
        extra = {"clientConnection": connection, "profiles": [{"schedulerName": SCHEDULER}]}
        plane.start_scheduler(SCHEDULER, extra)
        try:
            yield proxy
        finally:
            plane.processes.pop(SCHEDULER).stop()


def _pod(stage: Stage, name: str) -> None:
    """Create a pod with the claim of its name."""
    stage.pod(name, claims={"gpu": name}, schedulerName=SCHEDULER)


def _holders(stage: Stage) -> list[str]:
    """Return the contested claims that have a device."""
    return [name for name in CLAIMS if "allocation" in stage.get_claim(name).get("status", {})]


def _is_bound(stage: Stage, name: str) -> bool:
    return "nodeName" in stage.get_pod(name)["spec"]
