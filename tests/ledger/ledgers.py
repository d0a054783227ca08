"""A ledger with claims, what is promised of it, and who holds what, in a word each."""

from dra.inventory import PoolID
from ledger.ledger import DeviceID, Ledger, Refusal, Reservation
from tests.ledger.claims import DRIVER, POOL, allocation, claim

P = PoolID(DRIVER, POOL)
LATER = 10.0


def device(name: str) -> DeviceID:
    return DeviceID(P, name)


def promised(ledger: Ledger, **promises: str) -> Refusal | None:
    made = {uid: Reservation(allocation(*text.split())) for uid, text in promises.items()}
    return ledger.assume(made, until=LATER, view=ledger.view())


def held(ledger: Ledger) -> dict[str, list[str]]:
    return {each.name: [*ledger.holders(each)] for each in ledger.devices()}


def of(*uids: str) -> Ledger:
    ledger = Ledger()
    for uid in uids:
        ledger.observe(claim(uid, 1))
    return ledger
