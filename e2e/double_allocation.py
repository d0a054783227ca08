"""Shows how kube-scheduler allocates one device twice when a response of the API server is lost.

    python -m e2e.double_allocation [--kubernetes VERSION]

Only programs of Kubernetes take part: etcd, kube-apiserver and kube-scheduler. A proxy between
scheduler and API server does what the end of an API server does: the first allocation is
written and its response lost, and the scheduler hears nothing about claims for a while. The exit
code is 0 if two pods on the node have the device at the end.
"""

import argparse
import asyncio
import ssl
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

from e2e.controlplane import build, files
from e2e.controlplane.plane import LOOPBACK, ControlPlane, Options
from e2e.controlplane.processes import free_port
from e2e.controlplane.threaded import ThreadedServer
from e2e.runner import print_line
from e2e.scenarios import objects
from e2e.scenarios.objects import claim_spec, pod_spec, request
from e2e.scenarios.registry import VERSIONS
from e2e.timings import CLAIM_PATH, POD_PATH, until

CLAIMS: Final = ("claim-a", "claim-b")
CLASS, DRIVER, NODE = "gpu", "gpu.example.com", "node-a"
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
        await self._runner.cleanup()
        await self._client.close()

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
            await answer.prepare(asked)
            async for chunk in response.content.iter_any():
                if self._faulty and asked.path.endswith("/resourceclaims"):
                    await self._healed.wait()
                await answer.write(chunk)
            await answer.write_eof()
            return answer


def _is_allocation(path: str) -> bool:
    return path.endswith(f"{CLAIMS[0]}/status")


def prepare(plane: ControlPlane) -> None:
    """Create one node with one device, the class, and two claims."""
    until(lambda: bool(plane.admin.get("/api/v1/namespaces/default/serviceaccounts")["items"]))
    plane.admin.create("/api/v1/nodes", {"metadata": {"name": NODE}})
    size = {"capacity": {"cpu": "8", "memory": "8Gi", "pods": "20"}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    plane.admin.patch(f"/api/v1/nodes/{NODE}/status", {"status": {**size, **ready}})
    of_class = objects.device_class(CLASS, f"device.driver == '{DRIVER}'")
    plane.admin.apply(f"{objects.RESOURCE}/deviceclasses/{CLASS}", of_class)
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0"}]
    spec = {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": devices}
    published = {"metadata": {"name": NODE}, "spec": spec}
    plane.admin.create(f"{objects.RESOURCE}/resourceslices", published)
    for name in CLAIMS:
        spec = claim_spec(request("gpu", CLASS))
        plane.admin.create(CLAIM_PATH, {"metadata": {"name": name}, "spec": spec})


def create_pod(plane: ControlPlane, name: str, **claims: str) -> None:
    """Create a pod that has claims."""
    plane.admin.create(POD_PATH, {"metadata": {"name": name}, "spec": pod_spec(claims=claims)})


def holders(plane: ControlPlane) -> list[str]:
    """Return the claims that have the device."""
    claims = plane.admin.get(CLAIM_PATH)["items"]
    return [each["metadata"]["name"] for each in claims if "allocation" in each.get("status", {})]


def reproduce(plane: ControlPlane, say: Callable[[str], None]) -> list[str]:
    """Play the fault, and return the claims that have the device in the end."""
    prepare(plane)
    token = plane.tokens["system:kube-scheduler"]
    with FaultyProxy(f"https://{LOOPBACK}:{plane.port}", token) as proxy:
        access = files.kubeconfig(
            plane.folder / "proxied.kubeconfig",
            f"http://{LOOPBACK}:{proxy.port}",
            plane.authority,
            token,
        )
        connection: dict[str, Any] = {"kubeconfig": str(access)}
        plane.start_scheduler("kube-scheduler", {"clientConnection": connection})
        # A pod that is bound shows that the scheduler has read everything.
        create_pod(plane, "first")
        until(lambda: _is_bound(plane, "first"))
        proxy.break_down()
        create_pod(plane, "pod-a", gpu=CLAIMS[0])
        if not proxy.lost.wait(60):
            raise TimeoutError("the scheduler wrote no allocation")
        say(f"the response to a write is lost; allocated: {', '.join(holders(plane))}")
        create_pod(plane, "pod-b", gpu=CLAIMS[1])
        until(lambda: CLAIMS[1] in holders(plane))
        say(f"a second pod comes; allocated: {', '.join(holders(plane))}")
        proxy.heal()
        until(lambda: all(_is_bound(plane, name) for name in ("pod-a", "pod-b")))
        say("the scheduler reads again, and both pods are on the node of the device")
        return holders(plane)


def _is_bound(plane: ControlPlane, name: str) -> bool:
    return "nodeName" in plane.admin.get(f"{POD_PATH}/{name}")["spec"]


def main() -> int:
    """Run the reproduction."""
    parser = argparse.ArgumentParser(prog="python -m e2e.double_allocation", description=__doc__)
    parser.add_argument("--kubernetes", choices=VERSIONS, default=build.DEFAULT)
    arguments = parser.parse_args()
    with ControlPlane(Options(version=arguments.kubernetes, schedulers={})) as plane:
        held = reproduce(plane, print_line)
    return 0 if len(held) > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
