"""ResourceQuotas and what a translated pod's claims will be charged: an early refusal.

What binds is the API server's own quota, charged when the claims are made; then it is too late for
anybody to look. Knows nothing of pods.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from dra.finding import Finding
from dra.quantity import Quantity, QuantityError, from_json
from dra.quota import DEVICES, REQUESTS
from registration.admission_codes import QUOTA_ELSEWHERE, QUOTA_EXCEEDED
from webhook.admission.limit_ranges import Amounts, Named


class QuotaSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What may be held, and whether of some pods only."""

    hard: Amounts | None = None
    scopes: Sequence[str] | None = None
    scope_selector: Mapping[str, object] | None = None


class QuotaStatus(msgspec.Struct, frozen=True):
    """What is held."""

    hard: Amounts | None = None
    used: Amounts | None = None


class ResourceQuota(msgspec.Struct, frozen=True):
    """A ResourceQuota, as it is on the wire."""

    metadata: Named = Named()
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


def findings(
    charges: Mapping[str, int], names: Sequence[str], quotas: Sequence[ResourceQuota]
) -> tuple[Finding, ...]:
    """Tell what the claims exceed, and which limits on the legacy `names` do not count them."""
    told = [each for quota in quotas for each in _exceeded(charges, quota)]
    for name in names:
        key = f"{REQUESTS}{name}"
        holders = [each for each in quotas if key in (each.spec.hard or {})]
        if holders and key not in charges:
            told.append(_elsewhere(key, holders, charges, quotas))
    return tuple(told)


def _exceeded(charges: Mapping[str, int], quota: ResourceQuota) -> Iterator[Finding]:
    if quota.spec.scopes or quota.spec.scope_selector:
        return  # scopes are about pods, and a quota with any counts no claim
    hard = quota.status.hard or quota.spec.hard or {}
    for key, asked in charges.items():
        most, used = _amount(hard, key), _amount(quota.status.used, key) or Quantity.of(0)
        if most is not None and most < used + Quantity.of(asked):
            yield QUOTA_EXCEEDED.at(
                "spec",
                f"ResourceQuota {quota.metadata.name}: {key}: the pod's claims ask for {asked},"
                f" {used} of {most} are used",
            )


def _elsewhere(
    key: str,
    holders: Sequence[ResourceQuota],
    charges: Mapping[str, int],
    quotas: Sequence[ResourceQuota],
) -> Finding:
    binding = [
        f"{each} of ResourceQuota {quota.metadata.name}"
        for quota in quotas
        for each in charges
        if each in (quota.spec.hard or {}) and each.endswith(DEVICES)
    ]
    names = " and ".join(each.metadata.name for each in holders)
    classes = [each for each in charges if each.endswith(DEVICES)]
    told = f"ResourceQuota {names}: {key} counts no claims; "
    if binding:
        return QUOTA_ELSEWHERE.at("spec", f"{told}what binds is {', '.join(binding)}")
    remedy = f"Limit {' and '.join(classes)} in the namespace."
    return QUOTA_ELSEWHERE.at("spec", f"{told}nothing else limits them", remedy=remedy)


def _amount(amounts: Amounts | None, key: str) -> Quantity | None:
    if not amounts or key not in amounts:
        return None
    try:
        return from_json(amounts[key])
    except QuantityError:
        return None
