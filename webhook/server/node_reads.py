"""Reads a node, and which drivers publish devices of it, for a pod that can run there only.

A watch of all nodes would cost each replica more than these few reads.
"""

import asyncio
from typing import Final

import msgspec

from drawbridge.cluster.client import ResourceClient
from drawbridge.cluster.resources import NODES, SLICES
from drawbridge.cluster.session import Session
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.facts.alike import SeenNode
from webhook.server.recent_reads import RecentReads

_READ_SECONDS: Final = 5.0


class _SliceSpec(msgspec.Struct, frozen=True):
    driver: str = ""


class _DriverOfSlice(msgspec.Struct, frozen=True):
    spec: _SliceSpec = _SliceSpec()


_decode_driver: Final = msgspec.json.Decoder(_DriverOfSlice).decode


class NodeReads:
    """The nodes that were read a short time ago."""

    def __init__(self, session: Session) -> None:
        self._reader = node_reader()
        self._nodes = ResourceClient(session, NODES, self._reader.read)
        self._slices = ResourceClient(session, SLICES, _decode_driver)
        self._reads = RecentReads(self._read, "node")

    def get(self, name: str) -> SeenNode | None:
        """Return the node if it was read a short time ago."""
        return self._reads.get(name)

    async def read(self, name: str, seconds: float) -> SeenNode | None:
        """Read a node from the API server, or return None after the given time."""
        return await self._reads.read(name, seconds)

    async def _read(self, name: str) -> SeenNode | None:
        node, drivers = await asyncio.gather(
            self._nodes.read(name, seconds=_READ_SECONDS), self._list_drivers(name)
        )
        return SeenNode(node, drivers) if isinstance(node, Node) else None

    async def _list_drivers(self, name: str) -> frozenset[str]:
        slices = self._slices.iterate(fields=f"spec.nodeName={name}")
        return frozenset([each.spec.driver async for each in slices])
