"""What is kept of a claim if its namespace has no room, or if it cannot be decoded."""

import contextlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.dra.allocation import (
    AllocatedDevices,
    Allocation,
    AllocationResult,
    ClaimStatus,
    Consumer,
)
from drawbridge.dra.claim import Claim, ClaimMetadata, ClaimSpec, Devices, Request
from drawbridge.dra.decode import decode_quantity
from drawbridge.dra.device import NodeSelector
from drawbridge.foreign_json import UNDECODABLE
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


class _Part(msgspec.Struct, rename="camel"):
    """The parts of a claim, of its status and of its allocation, each undecoded."""

    metadata: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()
    allocation: msgspec.Raw = msgspec.Raw()
    devices: msgspec.Raw = msgspec.Raw()
    results: list[msgspec.Raw] | None = None
    node_selector: msgspec.Raw = msgspec.Raw()
    reserved_for: list[msgspec.Raw] | None = None


class _ResultName(msgspec.Struct):
    """Which device a result gives, whatever else it has."""

    driver: str
    pool: str
    device: str
    request: str = ""


class _Identity(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    namespace: str = ""
    resource_version: str = ""


_PART: Final = msgspec.json.Decoder(_Part | None)
_NULL: Final = b"null"


def rescue_claim(raw: bytes) -> Claim | None:
    """Return the devices that a claim holds which cannot be decoded; None if it holds none.

    It holds each whole, if it does not say which share of it. Raises one of UNDECODABLE if that is
    not known either.
    """
    claim = _PART.decode(raw) or _Part()
    status = _PART.decode(claim.status or _NULL) or _Part()
    allocation = _PART.decode(status.allocation or _NULL) or _Part()
    devices = _PART.decode(allocation.devices or _NULL) or _Part()
    if not devices.results:
        return None
    identity = msgspec.json.decode(claim.metadata, type=_Identity)
    metadata = ClaimMetadata(**msgspec.structs.asdict(identity))
    with contextlib.suppress(*UNDECODABLE):
        metadata = msgspec.json.decode(claim.metadata, type=ClaimMetadata)
    consumers = []
    for reference in status.reserved_for or ():
        with contextlib.suppress(*UNDECODABLE):
            consumers.append(msgspec.json.decode(reference, type=Consumer))
    nodes = NodeSelector(()) if allocation.node_selector else None  # none of them
    with contextlib.suppress(*UNDECODABLE):
        nodes = msgspec.json.decode(allocation.node_selector or _NULL, type=NodeSelector | None)
    results = AllocatedDevices(tuple(map(_rescue_result, devices.results)))
    allocated = ClaimStatus(Allocation(results, nodes), tuple(consumers))
    return reduce_claim(Claim(metadata=metadata, status=allocated))


def _rescue_result(raw: msgspec.Raw) -> AllocationResult:
    try:
        return msgspec.json.decode(raw, type=AllocationResult, dec_hook=decode_quantity)
    except UNDECODABLE:
        named = msgspec.json.decode(raw, type=_ResultName)
        return AllocationResult(**msgspec.structs.asdict(named))


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
