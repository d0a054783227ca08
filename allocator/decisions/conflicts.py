"""Finds devices that several claims hold although only one can, which another allocator causes.

The fence keeps other schedulers from the owned pools. Where it is missing or was removed, a double
allocation cannot be prevented, only reported.
"""

from collections.abc import Iterator

from drawbridge.finding import Finding
from drawbridge.ledger.codes import DEVICE_HELD_TWICE
from drawbridge.ledger.ledger import DeviceID, Ledger


def find_conflicts(ledger: Ledger, claim_uid: str) -> Iterator[Finding]:
    """Yield one finding for each device of a claim that another claim holds as well."""
    record = ledger.claims.get(claim_uid)
    for hold in record.holds if record else ():
        device = DeviceID(hold.pool, hold.device)
        holders = {
            uid: holds for uid, holds in ledger.holders(device).items() if uid in ledger.claims
        }
        shared = all(each.shared for holds in holders.values() for each in holds)
        if len(holders) > 1 and not shared:
            names = sorted(ledger.claims[uid].name for uid in holders)
            yield DEVICE_HELD_TWICE.at(
                "status.allocation",
                f"held by {' and '.join(names)}",
                object=f"Device/{device.pool.driver}/{device.pool.name}/{device.name}",
            )
