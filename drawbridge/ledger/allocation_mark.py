"""The allocation mark: an annotation with what devices have at allocation, such as counters.

Slices can disappear after an allocation; the mark keeps the original values. A tenant can write the
annotation, so its counters apply only to devices that the claim holds and that no slice describes,
within the bounds of `drawbridge.solver.lost_devices`. The capacity in it is for people: what shares
consume is in the status of the claim. An API server of another version, or without a feature gate,
can store less of that than is written; what the mark has and the status lacks was left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from drawbridge.dra.allocation import Allocation, AllocationResult
from drawbridge.dra.claim import CLAIM, Claim, ClaimMetadata
from drawbridge.dra.decode import decode_quantity
from drawbridge.dra.device import CounterUse
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.validation import format_object_name
from drawbridge.finding import Finding
from drawbridge.ledger import codes
from drawbridge.names import ALLOCATION_ANNOTATION

ALLOCATOR = "drawbridge"


class MarkedDevice(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A device, or a share of it, when it was allocated: its counters, and what is to be stored."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumes_counters: tuple[CounterUse, ...] = ()
    consumed_capacity: Mapping[str, Quantity] = {}
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


_ID: Final = attrgetter("driver", "pool", "device")
_STORED: Final = tuple(
    each for each in msgspec.structs.fields(AllocationResult) if hasattr(MarkedDevice, each.name)
)


class Mark(msgspec.Struct, frozen=True):
    """The allocator of a claim, and its devices as they were at allocation."""

    allocator: str = ""
    devices: tuple[MarkedDevice, ...] = ()

    def by_result(self) -> Mapping[tuple[str, str, str, str | None], MarkedDevice]:
        """Return the entries by driver, pool, device and share; the first one of each counts."""
        return {
            (each.driver, each.pool, each.device, each.share_id): each
            for each in reversed(self.devices)
        }


UNMARKED = Mark()


def is_mark_of(mark: Mark, allocation: Allocation | None) -> bool:
    """Return whether our allocator wrote an allocation: its mark names exactly these devices.

    A tenant can forge or remove the mark of its own claim. So this alone is a reason to give a
    device back, and never one to take a device from others. An API server can store no share.
    """
    if allocation is None or mark.allocator != ALLOCATOR:
        return False
    held, marked = _held(allocation), mark.by_result().keys()
    named = {(each.driver, each.pool, each.device, each.share_id) for each in held}
    return named in (marked, {(*device, None) for *device, _ in marked})


def read_mark(metadata: ClaimMetadata) -> Mark | Finding:
    """Read the mark of a claim; `UNMARKED` if it has none."""
    text = metadata.annotations.get(ALLOCATION_ANNOTATION)
    if text is None:
        return UNMARKED
    try:
        return msgspec.json.decode(text, type=Mark, dec_hook=decode_quantity)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError, TypeError) as error:
        path = f"metadata.annotations[{ALLOCATION_ANNOTATION}]"
        return codes.MARK_UNREADABLE.at(
            path,
            f"the annotation cannot be read, so the counters of the current slices apply: {error}",
            object=format_object_name(CLAIM, metadata),
        )


def is_allocated_by_us(claim: Claim) -> bool:
    """Return whether our allocator wrote the allocation of a claim, as `is_mark_of` reads it.

    A mark by itself says less: another client can allocate a claim that has one, before our
    allocator does or after its allocation has ended.
    """
    mark = read_mark(claim.metadata)
    return isinstance(mark, Mark) and is_mark_of(mark, claim.status.allocation)


class DroppedField(NamedTuple):
    """A field that an API server has not stored, and the result without it."""

    name: str
    result: AllocationResult

    def __str__(self) -> str:
        """Return it for messages."""
        return f"{self.name} of device {self.result.driver}/{self.result.pool}/{self.result.device}"


def find_dropped(claim: Claim) -> DroppedField | None:
    """Return what an API server has not stored of an allocation of ours, by its mark.

    A tenant can forge the mark, so this is a reason to end the allocation of its claim, and never
    one to change what others get. `list_dropped` is.
    """
    mark, allocation = read_mark(claim.metadata), claim.status.allocation
    if not isinstance(mark, Mark) or allocation is None or not is_mark_of(mark, allocation):
        return None
    return next(_compare(mark.devices, allocation), None)


def list_dropped(written: Allocation, stored: Allocation) -> frozenset[str]:
    """Return the names of the fields that the response to the write of an allocation lacks."""
    return frozenset(each.name for each in _compare(_held(written), stored))


def _compare(
    written: Iterable[MarkedDevice | AllocationResult], stored: Allocation
) -> Iterator[DroppedField]:
    # Webhooks and policies can change the order, and the devices.
    pairs = zip(sorted(_held(stored), key=_ID), sorted(written, key=_ID), strict=False)
    for result, device in pairs:
        for field in _STORED if _ID(result) == _ID(device) else ():
            if getattr(device, field.name) and not getattr(result, field.name):
                yield DroppedField(field.encode_name, result)


def can_be_released(claim: Claim) -> bool:
    """Return whether our allocator may end the allocation of a claim that no bound pod uses.

    Another client has written it if the mark names other devices, or there is none. Any other text
    is of somebody who may write the claim, and says nothing of the allocation. It must not keep a
    pod for ever with devices with which it cannot start.
    """
    mark, is_marked = read_mark(claim.metadata), ALLOCATION_ANNOTATION in claim.metadata.annotations
    if isinstance(mark, Mark) and mark.allocator == ALLOCATOR:
        return is_mark_of(mark, claim.status.allocation)
    return is_marked and claim.status.allocation is not None


def format_mark(mark: Mark) -> str:
    """Return the value of the annotation."""
    return msgspec.json.encode(mark, enc_hook=str, order="sorted").decode()


def make_mark(
    allocation: Allocation, draws: Callable[[PoolID, str], tuple[CounterUse, ...]]
) -> Mark:
    """Create the mark of an allocation before it is written.

    `draws` returns the counters that a device consumes now, with its effective groups: the
    published ones, or those that the configuration declares instead.
    """
    return Mark(ALLOCATOR, tuple(_mark_device(each, draws) for each in _held(allocation)))


def _held(allocation: Allocation) -> Iterator[AllocationResult]:
    return (each for each in allocation.devices.results if not each.admin_access)


def _mark_device(
    result: AllocationResult, draws: Callable[[PoolID, str], tuple[CounterUse, ...]]
) -> MarkedDevice:
    return MarkedDevice(
        consumes_counters=draws(PoolID(result.driver, result.pool), result.device),
        **{each.name: getattr(result, each.name) for each in _STORED},
    )
