"""A running server on a unix socket, whose status and write path the test sets."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.calls import SchedulerCalls
from allocator.scheduler.protocol import HEADER, VERSION_TEXT, BindReply, PostFilterReply
from allocator.scheduler.server import ActivationStreams, serve_calls
from allocator.writes.binding import Attempt, BindOutcome
from drawbridge.dra.claim import read_claim
from drawbridge.dra.classes import read_class
from drawbridge.dra.nodes import node_reader
from drawbridge.dra.slices import read_slice
from drawbridge.ledger.pods import pod_reader
from tests.allocator.clusters import Cluster

READERS = {
    "DeviceClass": read_class,
    "Node": node_reader().read,
    "Pod": pod_reader().read,
    "ResourceClaim": read_claim,
    "ResourceSlice": read_slice,
}


class Served:
    """The calls of a cluster, and a client on their socket."""

    def __init__(self, cluster: Cluster, socket: Path) -> None:
        self.cluster = cluster
        self.socket = socket
        self.status: dict[str, Any] = {"ready": True, "leading": True, "reasons": []}
        self.binder: dict[str, Any] = {}
        self.bound: list[tuple[str, str]] = []
        self.streams = ActivationStreams()
        self.changed = asyncio.Event()
        self.waiting = WaitingPods(cluster.decisions)
        self.calls = SchedulerCalls(
            state=self,
            leadership=self,
            binder=self,
            publish=self.streams.publish,
            report=lambda _: None,
            changed=self.changed,
            now=lambda: cluster.now,
        )

    # --- the state and the leadership ---

    @property
    def ready(self) -> bool:
        """Whether decisions exist."""
        return True

    @property
    def decisions(self) -> object:
        """The decisions of the cluster."""
        return self.cluster.decisions

    @property
    def leading(self) -> bool:
        """Whether the status says so."""
        return bool(self.status["leading"])

    has_term = leading

    def find_problems(self) -> list[str]:
        """The reasons of the status, unless it is ready."""
        return [] if self.status["ready"] else list(self.status["reasons"])

    def describe(self) -> str:
        """Why nothing is allocated."""
        return ", ".join(self.status["reasons"])

    # --- the write path ---

    async def bind(self, pod_uid: str, node: str) -> Attempt:
        """Answer as the test says."""
        if self.binder.get("raises"):
            raise RuntimeError("unexpected")
        self.bound.append((pod_uid, node))
        reply = msgspec.convert(self.binder.get("bind", {"bound": True}), BindReply)
        return Attempt(BindOutcome.BOUND if reply.bound else BindOutcome.FAILED, reply.message)

    async def release(self, _: str) -> PostFilterReply:
        """Answer as the test says."""
        return msgspec.convert(self.binder.get("release", {}), PostFilterReply)

    # --- the client ---

    async def send(self, request: dict[str, Any]) -> tuple[int, str | None, Any]:
        """Send a request of a case; returns the status, the version and the body."""
        text = request.get("text", json.dumps(request["body"]) if "body" in request else None)
        async with self._client() as client:
            headers = {HEADER: request["version"]} if request.get("version") else {}
            data = None if text is None else io.BytesIO(text.encode())
            method, url = request["method"], f"http://allocator{request['path']}"
            async with client.request(method, url, data=data, headers=headers) as response:
                version = response.headers.get(HEADER)
                if response.content_type == "application/x-ndjson":
                    return response.status, version, json.loads(await response.content.readline())
                return response.status, version, json.loads(await response.read())

    @contextlib.asynccontextmanager
    async def events(self) -> AsyncIterator[aiohttp.StreamReader]:
        """Open the event stream."""
        async with self._client() as client:
            url, headers = "http://allocator/v1/events", {HEADER: VERSION_TEXT}
            async with client.get(url, headers=headers) as response:
                yield response.content

    def _client(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(self.socket)))


@contextlib.asynccontextmanager
async def serving(cluster: Cluster, folder: Path) -> AsyncIterator[Served]:
    """Serve a cluster until the context exits."""
    served = Served(cluster, folder / "run" / "allocator.sock")
    async with serve_calls(str(served.socket), served.calls, served.streams):
        yield served


def cluster_of(objects: list[dict[str, Any]]) -> Cluster:
    """The cluster with these objects of the API."""
    cluster = Cluster()
    for obj in objects:
        read = READERS[obj["kind"]](obj)
        assert not isinstance(read, tuple), read
        cluster.add(read)
    return cluster
