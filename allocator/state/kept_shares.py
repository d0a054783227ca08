"""What to keep for a pod that preempts, while its victims still hold some of its devices.

A device is kept as soon as nobody holds it whose claim the pod waits for. Several claims can have
shares of one device: what one of them releases is kept at once, as far as the pod does not get it
from those that still hold theirs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.holdings import DeviceID, Hold

_ZERO: Final = Quantity.of(0)
# By device and capacity.
_Amounts: TypeAlias = dict[tuple[DeviceID, str], Quantity]


def find_kept(
    wanted: Iterable[Hold], pending: Sequence[Hold], expected: Iterable[Hold]
) -> Iterator[Hold]:
    """Yield what to keep of the wanted devices while claims still hold the pending ones.

    What others expect of these claims is not expected again.
    """
    devices = {hold.device_id for hold in pending}
    whole = {hold.device_id for hold in pending if not hold.shared}
    coming = _add_up(pending)
    for key, amount in _add_up(expected).items():
        coming[key] = coming.get(key, _ZERO) - amount
    for hold in wanted:
        if hold.device_id not in devices:
            yield hold
        elif hold.shared and hold.device_id not in whole:
            kept = replace(hold, consumed=dict(_take(hold, coming)))
            if any(amount.sign() for amount in kept.consumed.values()):
                yield kept


def find_missing(wanted: Iterable[Hold], kept: Iterable[Hold]) -> Iterator[Hold]:
    """Yield what a pod still expects of the shares that it wants."""
    kept_amounts = {(hold.device_id, hold.share): hold.consumed for hold in kept}
    for hold in wanted:
        has = kept_amounts.get((hold.device_id, hold.share), {})
        left = {name: amount - has.get(name, _ZERO) for name, amount in hold.consumed.items()}
        yield replace(hold, consumed=left)


def _take(hold: Hold, coming: _Amounts) -> Iterator[tuple[str, Quantity]]:
    """Yield what a share needs of each capacity beside what is coming, which becomes less."""
    for name, amount in hold.consumed.items():
        key = hold.device_id, name
        part = min(amount, max(coming.get(key, _ZERO), _ZERO))
        coming[key] = coming.get(key, _ZERO) - part
        yield name, amount - part


def _add_up(holds: Iterable[Hold]) -> _Amounts:
    total: _Amounts = {}
    for hold in holds:
        for name, amount in hold.consumed.items():
            key = hold.device_id, name
            total[key] = total.get(key, _ZERO) + amount
    return total
