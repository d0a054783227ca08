"""Check ResourceQuotas against the charges of a translated pod's claims, to deny the pod early.

The quota admission of the API server enforces the limit when the claims are created. At that time
no user sees the error.
"""

from collections.abc import Iterator, Mapping, Sequence

from drawbridge.agreement.admission_codes import (
    QUOTA_EXCEEDED,
    QUOTA_NOT_ON_CLAIMS,
    QUOTA_TOO_LARGE,
)
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.quota import DEVICES, REQUESTS
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.finding import Finding


def check_quotas(
    charges: Mapping[str, int], names: Sequence[str], quotas: Sequence[ResourceQuota]
) -> tuple[Finding, ...]:
    """Report quotas that the claims exceed, and quotas on legacy names that do not count claims.

    A quota that is not known may be exceeded. The API server knows it when the claims are created.
    """
    findings = [each for quota in quotas for each in _find_exceeded(charges, quota)]
    unknown = next((each.metadata.name for each in quotas if each.reduced), "")
    if unknown and charges:
        message = f"ResourceQuota {unknown} is too large, so it is not compared with the claims"
        findings.append(QUOTA_TOO_LARGE.at("spec", message))
    for name in names:
        key = f"{REQUESTS}{name}"
        limiting = [each for each in quotas if key in (each.spec.hard or {})]
        if limiting and key not in charges:
            findings.append(_report_uncounted(key, limiting, charges, quotas))
    return tuple(findings)


def _find_exceeded(charges: Mapping[str, int], quota: ResourceQuota) -> Iterator[Finding]:
    if quota.counts_pods_only:
        return
    for key, requested in charges.items():
        limit = quota.find_limit(key)
        if limit is not None and limit.most < limit.used + Quantity.of(requested):
            yield QUOTA_EXCEEDED.at(
                "spec",
                f"ResourceQuota {quota.metadata.name}: {key}: the claims of the pod request"
                f" {requested}, but {limit.used} of {limit.most} are in use",
            )


def _report_uncounted(
    key: str,
    limiting: Sequence[ResourceQuota],
    charges: Mapping[str, int],
    quotas: Sequence[ResourceQuota],
) -> Finding:
    enforced = [
        f"{class_key} of ResourceQuota {quota.metadata.name}"
        for quota in quotas
        for class_key in charges
        if class_key in (quota.spec.hard or {}) and class_key.endswith(DEVICES)
    ]
    names = " and ".join(each.metadata.name for each in limiting)
    classes = [each for each in charges if each.endswith(DEVICES)]
    message = f"ResourceQuota {names}: {key} does not count claims"
    if enforced:
        verb = "does" if len(enforced) == 1 else "do"
        return QUOTA_NOT_ON_CLAIMS.at("spec", f"{message}, but {', '.join(enforced)} {verb}")
    remedy = f"Limit {' and '.join(classes)} in the namespace."
    return QUOTA_NOT_ON_CLAIMS.at("spec", f"{message}; no quota limits them", remedy=remedy)
