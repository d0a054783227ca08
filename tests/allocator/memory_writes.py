"""Writes of claims in memory: what each write changes. Where and when is decided by who stores.

They stand apart from `tests.cluster.memory_store`, because they implement `ClusterWrites`, whose
writes are steps of the protocol for allocations and not requests: a fault hits one of these steps,
and a simulation plays hundreds of thousands of them with decoded claims.
"""

import abc
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from allocator.writes.cluster_writes import FINALIZER
from drawbridge.dra.allocation import Allocation, ClaimStatus, Consumer
from drawbridge.dra.claim import Claim
from drawbridge.names import ALLOCATION_ANNOTATION

Change = Callable[[Claim], Claim]


class MemoryWrites(abc.ABC):
    """The writes of `ClusterWrites` that change a claim."""

    @abc.abstractmethod
    async def change(self, action: str, claim: Claim, change: Change) -> Claim:
        """Change this version of a claim, and return the stored one."""

    async def mark(self, claim: Claim, mark: str) -> Claim:
        """Write the mark and the finalizer."""
        return await self.change(
            "mark", claim, lambda current: _with_mark(current, mark, (FINALIZER,))
        )

    async def unmark(self, claim: Claim) -> Claim:
        """Remove the mark, and the finalizer of a claim without an allocation."""

        def change(current: Claim) -> Claim:
            kept = () if claim.status.allocation is None else current.metadata.finalizers
            return _with_mark(current, None, kept)

        return await self.change("unmark", claim, change)

    async def allocate(
        self, claim: Claim, allocation: Allocation, consumers: Sequence[Consumer]
    ) -> Claim:
        """Write the allocation and the consumers."""
        return await self.change(
            "allocate",
            claim,
            lambda current: replace(
                current, status=ClaimStatus(allocation, tuple(consumers), current.status.devices)
            ),
        )

    async def set_consumers(self, claim: Claim, consumers: Sequence[Consumer]) -> Claim:
        """Write the consumers."""
        return await self.change(
            "consumers",
            claim,
            lambda current: replace(
                current, status=replace(current.status, reserved_for=tuple(consumers))
            ),
        )

    async def deallocate(self, claim: Claim) -> Claim:
        """Remove the allocation and the consumers."""
        return await self.change(
            "deallocate", claim, lambda current: replace(current, status=ClaimStatus())
        )


def _with_mark(claim: Claim, mark: str | None, finalizers: tuple[str, ...]) -> Claim:
    annotations = dict(claim.metadata.annotations)
    annotations.pop(ALLOCATION_ANNOTATION, None)
    if mark is not None:
        annotations[ALLOCATION_ANNOTATION] = mark
    metadata = replace(claim.metadata, annotations=annotations, finalizers=finalizers)
    return replace(claim, metadata=metadata)
