"""Reads from a ResourceClaim what it holds: the fields that usage depends on, and their amounts.

A device that is allocated as a whole counts 1. A share counts as the largest fraction that it has
of any capacity of the device, in billionths. A device with admin access is used by others and
counts nothing.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

import msgspec

from drawbridge.dra.claim import EXTENDED_ANNOTATION
from drawbridge.dra.quantity import INT64_MAX, Quantity, QuantityError, from_json
from drawbridge.usage.accounts import NANO, ZERO, UsedAmount, round_to_nano

# The annotation of a claim that the scheduler makes for a pod with an extended resource.
_MEMORY: Final = "memory"
_ONE: Final = Fraction(1)


class ClaimOwner(msgspec.Struct, frozen=True):
    """An entry of `metadata.ownerReferences` of a claim."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class HeldPart(msgspec.Struct, frozen=True):
    """One device of an allocation, or one share of it, and its request with the class.

    `share` is the ID of the share.
    """

    class_name: str
    driver: str
    pool: str
    device: str
    shared: bool = False
    consumed: Mapping[str, Quantity] = {}
    request: str = ""
    share: str = ""


class ClaimHolding(msgspec.Struct, frozen=True):
    """What usage depends on in a claim. Times are Unix seconds; None if the claim has none.

    `pods` are the names of the pods that the claim is reserved for. `extended` tells that the
    scheduler made it for a pod that asks for an extended resource.
    """

    namespace: str
    name: str
    uid: str
    created: int | None = None
    allocated: int | None = None
    parts: tuple[HeldPart, ...] = ()
    pods: tuple[str, ...] = ()
    owner: ClaimOwner | None = None
    extended: bool = False


# Returns the capacities of a device by driver, pool and name; None if no slice has it.
FindCapacity = Callable[[str, str, str], Mapping[str, Fraction] | None]


# --- the wire format -----------------------------------------------------------------------------


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[ClaimOwner, ...] | None = None


class _Requested(msgspec.Struct, rename="camel"):
    name: str = ""
    device_class_name: str = ""


class _Request(_Requested, rename="camel"):
    exactly: _Requested | None = None
    first_available: tuple[_Requested, ...] | None = None


class _RequestedDevices(msgspec.Struct):
    requests: tuple[_Request, ...] | None = None


class _Spec(msgspec.Struct):
    devices: _RequestedDevices = msgspec.field(default_factory=_RequestedDevices)


class _Result(msgspec.Struct, rename="camel"):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str | int | float] | None = None


class _Results(msgspec.Struct):
    results: tuple[_Result, ...] | None = None


class _Allocation(msgspec.Struct, rename="camel"):
    devices: _Results = msgspec.field(default_factory=_Results)
    allocation_timestamp: str | None = None


class _Consumer(msgspec.Struct):
    resource: str = ""
    name: str = ""


class _Status(msgspec.Struct, rename="camel"):
    allocation: _Allocation | None = None
    reserved_for: tuple[_Consumer, ...] | None = None


class _Claim(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_DECODER = msgspec.json.Decoder(_Claim)


def read_claim_use(raw: bytes) -> ClaimHolding:
    """Read a claim of `resource.k8s.io/v1`; raises msgspec.DecodeError or ValueError."""
    claim = _DECODER.decode(raw)
    metadata, allocation = claim.metadata, claim.status.allocation
    classes = dict(_classes(claim.spec))
    results = (allocation.devices.results or ()) if allocation else ()
    owners = metadata.owner_references or ()
    return ClaimHolding(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        created=read_time(metadata.creation_timestamp),
        allocated=read_time(allocation.allocation_timestamp) if allocation else None,
        parts=tuple(_read_part(each, classes) for each in results if not each.admin_access),
        pods=tuple(e.name for e in claim.status.reserved_for or () if e.resource == "pods"),
        owner=next((each for each in owners if each.controller), owners[0] if owners else None),
        extended=(metadata.annotations or {}).get(EXTENDED_ANNOTATION) == "true",
    )


def _classes(spec: _Spec) -> list[tuple[str, str]]:
    """Return the class by the name that results have for a request or one of its alternatives."""
    classes = []
    for request in spec.devices.requests or ():
        exactly = request.exactly or request
        classes.append((request.name, exactly.device_class_name))
        classes += [
            (f"{request.name}/{each.name}", each.device_class_name)
            for each in request.first_available or ()
        ]
    return classes


def _read_part(result: _Result, classes: Mapping[str, str]) -> HeldPart:
    shared = result.share_id is not None
    consumed = result.consumed_capacity or {} if shared else {}
    return HeldPart(
        class_name=classes.get(result.request, ""),
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        shared=shared,
        consumed={name: _read_quantity(amount) for name, amount in consumed.items()},
        request=result.request.partition("/")[0],
        share=result.share_id or "",
    )


def _read_quantity(value: object) -> Quantity:
    try:
        return from_json(value)
    except QuantityError as error:
        raise ValueError(f"{value} is not a quantity: {error}") from None


def read_time(text: str | None) -> int | None:
    """Return a time of the API server in whole Unix seconds; None for anything else."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return int(time.replace(tzinfo=time.tzinfo or UTC).timestamp())


# --- amounts -------------------------------------------------------------------------------------


def measure_part(part: HeldPart, find_capacity: FindCapacity) -> UsedAmount:
    """Return how much of devices a part of a claim holds.

    The fraction of a share is unknown if no slice describes the device.
    """
    capacity = find_capacity(part.driver, part.pool, part.device)
    if not part.shared:
        return UsedAmount(_ONE, memory=_find_memory(capacity or {}))
    consumed = {name: to_fraction(amount) for name, amount in part.consumed.items()}
    memory = _find_memory(consumed)
    if capacity is None:
        return UsedAmount(unknown=_ONE, memory=memory)
    fractions = [
        amount / capacity[name] for name, amount in consumed.items() if capacity.get(name, ZERO) > 0
    ]
    share = min(_ONE, max(fractions, default=ZERO))
    return UsedAmount(round_to_nano(share), memory=memory)


def _find_memory(amounts: Mapping[str, Fraction]) -> Fraction:
    """Return the capacity `memory`, whatever its domain."""
    memory = amounts.get(_MEMORY)
    if memory is None:
        suffix = f"/{_MEMORY}"
        memory = next((each for name, each in amounts.items() if name.endswith(suffix)), ZERO)
    return max(ZERO, memory)


def to_fraction(amount: Quantity) -> Fraction:
    """Return the value of a quantity, at most that of an int64: some have 1,000 digits."""
    return min(Fraction(amount.nanos(), NANO), Fraction(INT64_MAX))
