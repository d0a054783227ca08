"""Asks whether the claims of one pod have room in the quotas of their namespace.

The ledger refuses what has none when devices are reserved. These questions are asked before, so
that no search is made in vain, and after it, by what was found.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from drawbridge.dra.allocation import Allocation
from drawbridge.dra.claim import Claim
from drawbridge.dra.device_quotas import Charge, QuotaExcess
from drawbridge.dra.quota_codes import DEVICE_QUOTA_TOO_SMALL, DEVICE_QUOTA_USED_UP
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.node_fit import make_reason
from drawbridge.ledger.quota_use import QuotaUse
from drawbridge.solver.reasons import Reason

STAGE: Final = "quota"
# A pod with more alternatives gets what the search takes first, or waits.
MAX_CHOICES: Final = 64


def find_least_excess(
    quotas: QuotaUse, namespace: str, claims: Iterable[Claim]
) -> QuotaExcess | None:
    """Return which limit the claims of a pod exceed with any devices."""
    if not quotas:
        return None
    unallocated, also = _split(quotas, claims)
    charges = {uid_of(each): quotas.least_charge(each.spec) for each in unallocated}
    return quotas.find_excess(namespace, charges, also=also)


def find_excess_with(
    quotas: QuotaUse,
    namespace: str,
    claims: Iterable[Claim],
    allocations: Sequence[Allocation],
) -> QuotaExcess | None:
    """Return which limit the claims of a pod exceed if those without devices get these."""
    if not quotas or not quotas.limits(namespace):
        return None
    unallocated, also = _split(quotas, claims)
    charges = {
        uid_of(claim): quotas.read_charge(claim.spec, allocation)
        for claim, allocation in zip(unallocated, allocations, strict=False)
    }
    return quotas.find_excess(namespace, charges, also=also)


def narrow_claims(quotas: QuotaUse, namespace: str, claims: Sequence[Claim]) -> Sequence[Claim]:
    """Return the claims without the alternatives that have no room."""
    if not quotas or not quotas.selecting(namespace):
        return claims
    unallocated, _ = _split(quotas, claims)
    requests = (request for each in unallocated for request in each.spec.devices.requests)
    choices = sum(len(each.first_available) for each in requests)
    if not choices or choices > MAX_CHOICES:
        return claims
    for only_first in (False, True):
        narrowed = _narrow(quotas, namespace, claims, only_first=only_first)
        if narrowed is not None:
            return narrowed
    return claims


def _narrow(
    quotas: QuotaUse, namespace: str, claims: Sequence[Claim], *, only_first: bool
) -> Sequence[Claim] | None:
    """Return the claims without the alternatives that have no room beside those before them.

    None if a request has no room beside them.
    """
    unallocated, also = _split(quotas, claims)
    charges = {uid_of(each): quotas.least_charge(each.spec) for each in unallocated}
    narrowed = []
    for claim in claims:
        if claim.status.allocation is not None:
            narrowed.append(claim)
            continue

        def has_room(charge: Charge, uid: str = uid_of(claim)) -> bool:
            charged = {**charges, uid: charge}
            return quotas.find_excess(namespace, charged, also=also) is None

        left = quotas.without_choices(claim.spec, has_room, only_first=only_first)
        if left is None:
            return None
        spec, charges[uid_of(claim)] = left
        narrowed.append(claim if spec is claim.spec else replace(claim, spec=spec))
    return tuple(narrowed)


def quota_reason(excess: QuotaExcess) -> Reason:
    """Return the reason of a pod that exceeds a quota."""
    code = DEVICE_QUOTA_TOO_SMALL if excess.never_fits else DEVICE_QUOTA_USED_UP
    return make_reason(code, STAGE, excess.message)


def _split(
    quotas: QuotaUse, claims: Iterable[Claim]
) -> tuple[tuple[Claim, ...], tuple[Charge, ...]]:
    """Return the claims without devices, and what the others are charged."""
    both = tuple(claims)
    unallocated = tuple(each for each in both if each.status.allocation is None)
    allocated = (each for each in both if each.status.allocation is not None)
    return unallocated, tuple(quotas.charge_of(uid_of(each)) for each in allocated)
