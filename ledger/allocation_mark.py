"""Our mark on a claim: what its devices drew when we allocated them, and what we granted.

Slices change under an allocation; the mark keeps what was true. A tenant can write it, so it is
only ever believed where it is stricter than the slices, and only about devices the claim holds.
"""

from collections.abc import Callable, Mapping

import msgspec

from dra.allocation import Allocation, AllocationResult
from dra.claim import CLAIM, ClaimMetadata
from dra.device import CounterUse
from dra.finding import Finding
from dra.inventory import PoolID
from dra.names import ALLOCATION_ANNOTATION
from dra.quantity import Quantity, from_json
from dra.validation import format_object_name
from ledger import codes

ALLOCATOR = "drawbridge"


class MarkedDevice(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What was true of one device, or of a share of it, when it was allocated."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumes_counters: tuple[CounterUse, ...] = ()
    consumed_capacity: Mapping[str, Quantity] = {}


class Mark(msgspec.Struct, frozen=True):
    """Who allocated a claim, and what was true of its devices then."""

    allocator: str = ""
    devices: tuple[MarkedDevice, ...] = ()

    def about(self, result: AllocationResult) -> MarkedDevice | None:
        """Give what is said of a result."""
        key = (result.driver, result.pool, result.device, result.share_id)
        for each in self.devices:
            if (each.driver, each.pool, each.device, each.share_id) == key:
                return each
        return None


UNMARKED = Mark()


def read_mark(metadata: ClaimMetadata) -> Mark | Finding:
    """Read the mark of a claim; a claim without one is `UNMARKED`."""
    text = metadata.annotations.get(ALLOCATION_ANNOTATION)
    if text is None:
        return UNMARKED
    try:
        return msgspec.json.decode(text, type=Mark, dec_hook=_read)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError, TypeError) as error:
        path = f"metadata.annotations[{ALLOCATION_ANNOTATION}]"
        return codes.MARK_UNREADABLE.at(path, f"{error}", object=format_object_name(CLAIM, metadata))


def format_mark(mark: Mark) -> str:
    """Give the text of the annotation."""
    return msgspec.json.encode(mark, enc_hook=str, order="sorted").decode()


def make_mark(
    allocation: Allocation, draws: Callable[[PoolID, str], tuple[CounterUse, ...]]
) -> Mark:
    """Note what is true of the devices of an allocation that is about to be written.

    `draws` says what a device draws by now, with the groups that count for it: those published, or
    those that the configuration declares in their place.
    """
    results = (each for each in allocation.devices.results if not each.admin_access)
    return Mark(ALLOCATOR, tuple(_marked(each, draws) for each in results))


def _marked(result: AllocationResult, draws: Callable[[PoolID, str], tuple[CounterUse, ...]]) -> MarkedDevice:
    return MarkedDevice(
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        share_id=result.share_id,
        consumes_counters=draws(PoolID(result.driver, result.pool), result.device),
        consumed_capacity=result.consumed_capacity,
    )


def _read(wanted: type, value: object) -> Quantity:
    if wanted is not Quantity:
        raise TypeError(f"{wanted.__name__} cannot be read")
    return from_json(value)
