"""Short helpers to build a ledger, reserve devices and read the holders."""

from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import DeviceID
from drawbridge.ledger.ledger import Ledger, Reservation, ReservationRefusal
from tests.ledger.claims import DRIVER, POOL, allocation, claim

P = PoolID(DRIVER, POOL)


def device(name: str) -> DeviceID:
    return DeviceID(P, name)


def reserve(ledger: Ledger, **reservations: str) -> ReservationRefusal | None:
    made = {uid: Reservation(allocation(*text.split())) for uid, text in reservations.items()}
    return ledger.assume(made)


def held(ledger: Ledger) -> dict[str, list[str]]:
    return {each.name: [*ledger.holders(each)] for each in ledger.devices()}


def of(*uids: str) -> Ledger:
    ledger = Ledger()
    for uid in uids:
        ledger.observe(claim(uid, 1))
    return ledger
