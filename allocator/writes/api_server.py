"""Implements `allocator.writes.cluster_writes` with `cluster`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec

from allocator.state.large_pods import PodReader
from allocator.state.seen_pods import release_of
from allocator.writes.cluster_writes import (
    FINALIZER,
    Check,
    ClusterWrites,
    PodName,
    PodPlace,
    check_nothing,
)
from drawbridge.api_error import ApiError
from drawbridge.cluster.client import Fence, ObjectVersion, ResourceClient
from drawbridge.cluster.protobuf_metadata import MetadataEdit
from drawbridge.cluster.resources import CLAIMS, PODS, ApiObject
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import read_header
from drawbridge.dra.allocation import Allocation, Consumer, to_json
from drawbridge.dra.claim import Claim, claim_reader
from drawbridge.foreign_json import ForeignDecoder
from drawbridge.ledger.pods import (
    GeneratedClaimStatus,
    Pod,
    PodClaim,
    find_claim_names,
    find_generated,
)
from drawbridge.names import ALLOCATION_ANNOTATION, RELEASED_CONDITION

_READER: Final = claim_reader()
_POD_READER: Final = PodReader()


class _PodMetadata(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    resource_claims: tuple[PodClaim, ...] = ()


class _PodStatus(msgspec.Struct, rename="camel"):
    resource_claim_statuses: tuple[GeneratedClaimStatus, ...] = ()


class _Pod(msgspec.Struct):
    """Where a pod runs, with which claims. The response to a binding has a text as its status."""

    metadata: _PodMetadata = msgspec.field(default_factory=_PodMetadata)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus | str = ""


_decode_pod: Final[Callable[[bytes], _Pod]] = ForeignDecoder[_Pod](_Pod, any_depth=True).decode


class VerifiedObjects(Protocol):
    """A watch that may be of another history than the API server for a moment."""

    @property
    def verified(self) -> bool:
        """Whether the API server certainly has the history of the watch."""
        ...

    async def wait_until_verified(self) -> None:
        """Wait while the API server may have another history than the watch."""


class ClaimWatch(Protocol):
    """The watch of claims."""

    @property
    def newest(self) -> str:
        """The newest version that it, or any response, has told of."""
        ...

    def compare_written(self, version: str, since: str) -> None:
        """Notice another history, if a write is older than the version seen before it."""


class Leadership(Fence, Protocol):
    """Tells whether this process leads, by what it knows or by a read."""

    async def confirm(self) -> None:
        """Raise NotLeadingError unless a read that is sent from now on shows that it leads."""


class WriteFence:
    """Lets a write wait while objects may be others than those that a decision has read.

    After etcd was restored from a backup, devices can be in use by claims that were deleted before,
    and a node can belong to other schedulers again.
    """

    def __init__(self, leadership: Leadership, *read: VerifiedObjects) -> None:
        self._leadership = leadership
        self._read = read

    async def check(self) -> None:
        """Raise NotLeadingError unless this process certainly leads."""
        while not all(each.verified for each in self._read):
            for each in self._read:
                await each.wait_until_verified()  # another one can be in doubt by then
        await self._leadership.check()

    async def confirm(self) -> None:
        """Raise NotLeadingError unless a read that is sent from now on shows that it leads."""
        await self._leadership.confirm()


class _DecisionFence:
    """The fence of one write, which also asks whether its decision still holds."""

    def __init__(self, fence: Fence, check: Check) -> None:
        self._fence, self._check = fence, check

    async def check(self) -> None:
        """Raise what the fence raises, or the check after it."""
        await self._fence.check()
        self._check()


class ApiServerWrites:
    """Reads and writes claims behind a fence, and binds pods."""

    def __init__(self, session: Session, fence: Leadership, watch: ClaimWatch) -> None:
        self._session, self._fence, self._watch = session, fence, watch
        self._claims, self._pods = self._claims_behind(fence), self._pods_behind(fence)
        self._watched_pods = ResourceClient(session, PODS, _decode_watched_pod)

    def _claims_behind(self, fence: Fence) -> ResourceClient[Claim]:
        return ResourceClient(self._session, CLAIMS, _decode_claim, fence=fence)

    def _pods_behind(self, fence: Fence) -> ResourceClient[_Pod]:
        return ResourceClient(self._session, PODS, _decode_pod, fence=fence)

    async def confirm_leading(self) -> None:
        """Read the Lease again; raises NotLeadingError unless it is ours."""
        await self._fence.confirm()

    async def read_claim(self, namespace: str, name: str) -> Claim | None:
        """Read a claim from the API server; None if it does not exist."""
        return await self._claims.read(name, namespace)

    def list_claims(self) -> AsyncIterator[Claim]:
        """Yield the current claims of all namespaces, without those that cannot be read.

        A claim that cannot be read was never marked here: whoever made it unreadable since then
        has changed its version as well.
        """
        return self._claims.iterate()

    async def mark(self, claim: Claim, mark: str, check: Check) -> Claim:
        """Write the allocation mark and the finalizer."""
        edit = MetadataEdit(
            added_finalizers=(FINALIZER,), annotations={ALLOCATION_ANNOTATION: mark}
        )
        return await self._edit(claim, edit, check)

    async def unmark(self, claim: Claim) -> Claim:
        """Remove the allocation mark, and the finalizer unless the claim is allocated."""
        removed = (FINALIZER,) if claim.status.allocation is None else ()
        edit = MetadataEdit(removed_finalizers=removed, annotations={ALLOCATION_ANNOTATION: None})
        return await self._edit(claim, edit)

    async def allocate(
        self, claim: Claim, allocation: Allocation, consumers: Sequence[Consumer], check: Check
    ) -> Claim:
        """Write the allocation and the consumers."""
        status = {"allocation": to_json(allocation), "reservedFor": list(map(to_json, consumers))}
        return await self._write_status(claim, status, check)

    async def set_consumers(self, claim: Claim, consumers: Sequence[Consumer]) -> Claim:
        """Write the consumers of an allocated claim."""
        return await self._write_status(claim, {"reservedFor": list(map(to_json, consumers))})

    async def deallocate(self, claim: Claim) -> Claim:
        """Remove the allocation and the consumers."""
        status = {"allocation": None, "reservedFor": None, "devices": None}
        return await self._write_status(claim, status)

    async def read_place(self, pod: PodName) -> PodPlace | None:
        """Return where a pod is; None if it does not exist."""
        current = await self._pods.read(pod.name, pod.namespace)
        if current is None or current.metadata.uid != pod.uid:
            return None
        return _place_of(current)

    async def list_users(self, claim: Claim) -> list[tuple[PodName, PodPlace]]:
        """Return the pods that name a claim, as the API server has them now."""
        namespace, name = claim.metadata.namespace, claim.metadata.name
        return [
            (PodName(namespace, each.metadata.name, each.metadata.uid), place)
            async for each in self._pods.iterate(namespace)
            if name in (place := _place_of(each)).claims
        ]

    async def list_pods_on(self, node: str) -> list[Pod]:
        """Return the pods of a node, as the watch reads them."""
        return [each async for each in self._watched_pods.iterate(fields=f"spec.nodeName={node}")]

    async def end_bindings(self, pod: PodName, claim: Claim) -> PodPlace | None:
        """Write a condition, which gives the pod another version."""
        condition = {
            "type": RELEASED_CONDITION,
            "status": "True",
            "reason": "AllocationReleased",
            "message": release_of(claim),
        }
        try:
            changed = await self._pods.write_conditions(
                pod.name, pod.uid, [condition], pod.namespace
            )
        except ApiError:
            if await self.read_place(pod) is None:
                return None
            raise
        return _place_of(changed)

    async def bind(self, pod: PodName, node: str, version: str, check: Check) -> None:
        """Bind a version of a pod to a node."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
                "resourceVersion": version,
            },
            "target": {"kind": "Node", "name": node},
        }
        pods = self._pods_behind(_DecisionFence(self._fence, check))
        await pods.bind(pod.name, binding, pod.namespace)

    async def _edit(self, claim: Claim, edit: MetadataEdit, check: Check = check_nothing) -> Claim:
        metadata = claim.metadata
        current = ObjectVersion(
            metadata.namespace,
            metadata.name,
            metadata.uid,
            metadata.resource_version,
            metadata.finalizers,
        )
        claims = self._claims_behind(_DecisionFence(self._fence, check))
        return await self._compare(claim, claims.edit_metadata(current, edit))

    async def _write_status(
        self, claim: Claim, status: ApiObject, check: Check = check_nothing
    ) -> Claim:
        metadata = claim.metadata
        body = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": status,
        }
        claims = self._claims_behind(_DecisionFence(self._fence, check))
        write = claims.merge(metadata.name, body, metadata.namespace, subresource="status")
        return await self._compare(claim, write)

    async def _compare(self, claim: Claim, write: Awaitable[Claim]) -> Claim:
        """Write, and compare the version with what was seen before. No change gives no version."""
        before = self._watch.newest
        written = await write
        version = written.metadata.resource_version
        if version != claim.metadata.resource_version:
            self._watch.compare_written(version, before)
        return written


_: type[ClusterWrites] = ApiServerWrites


def _place_of(pod: _Pod) -> PodPlace:
    spec, status = pod.spec, pod.status
    statuses = () if isinstance(status, str) else status.resource_claim_statuses
    claims = frozenset(find_claim_names(spec.resource_claims, find_generated(statuses)))
    return PodPlace(spec.node_name, pod.metadata.resource_version, claims)


def _decode_watched_pod(raw: bytes) -> Pod:
    pod = _POD_READER.read(raw)
    if isinstance(pod, tuple):
        raise ApiError(0, "InvalidData", f"a pod cannot be read: {pod[0].message}", unknown=False)
    return pod


def _decode_claim(raw: bytes) -> Claim:
    read = _READER.read(raw)
    if isinstance(read, tuple):
        name = "/".join(read_header(raw).key)
        message = f"claim {name} cannot be read: {read[0].path}: {read[0].message}"
        raise ApiError(0, "InvalidData", message, unknown=False)
    return read
