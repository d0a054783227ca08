"""What is kept of a claim whose namespace has more than its share of the memory."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from drawbridge.dra.allocation import Allocation, ClaimStatus
from drawbridge.dra.claim import Claim, ClaimMetadata, ClaimSpec, Devices, Request
from drawbridge.ledger.allocation_mark import ALLOCATOR, Mark, format_mark, is_mark_of, read_mark
from drawbridge.names import ALLOCATION_ANNOTATION

# The mark of a device is shorter: it has at most 64 counters and 32 capacities. A tenant can write
# any text there.
_CHARACTERS_OF_DEVICE: Final = 16 << 10


def reduce_claim(claim: Claim) -> Claim:
    """Return what must be known of a claim whatever else it has: the devices that it holds."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    held = {each.request.partition("/")[0] for each in results}
    requests = [each for each in claim.spec.devices.requests if each.name in held]
    if allocation is not None:
        devices = replace(allocation.devices, config=())
        allocation = replace(allocation, devices=devices)
    annotations = _reduce_mark(claim.metadata, allocation)
    return Claim(
        metadata=replace(claim.metadata, labels={}, annotations=annotations),
        spec=ClaimSpec(Devices(tuple(map(_without_conditions, requests)))),
        status=ClaimStatus(allocation, claim.status.reserved_for),
        reduced=True,
    )


def _reduce_mark(metadata: ClaimMetadata, allocation: Allocation | None) -> Mapping[str, str]:
    """Return the annotation with the counters of the devices that the claim holds.

    Of a mark that our allocator cannot have written for these devices, it keeps no allocator.
    """
    text = metadata.annotations.get(ALLOCATION_ANNOTATION)
    if text is None:
        return {}
    results = allocation.devices.results if allocation is not None else ()
    mark = read_mark(metadata) if len(text) <= len(results) * _CHARACTERS_OF_DEVICE else None
    if not isinstance(mark, Mark):
        return {ALLOCATION_ANNOTATION: ""}
    held = {(each.driver, each.pool, each.device, each.share_id) for each in results}
    is_ours = is_mark_of(mark, allocation)  # also if an API server has not stored the shares
    devices = [
        replace(device, consumed_capacity={})
        for result, device in reversed([*mark.by_result().items()])
        if is_ours or result in held
    ]
    reduced = Mark(ALLOCATOR if is_ours else "", tuple(devices))
    return {ALLOCATION_ANNOTATION: format_mark(reduced)}


def _without_conditions(request: Request) -> Request:
    """Return a request that an allocation fulfills: its class, number and amounts."""
    exactly = request.exactly and replace(request.exactly, selectors=(), tolerations=())
    subs = tuple(replace(each, selectors=(), tolerations=()) for each in request.first_available)
    return Request(request.name, exactly, subs)
