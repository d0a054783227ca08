"""Check ResourceQuotas against the charges of a translated pod's claims, to deny the pod early.

The quota admission of the API server enforces the limit when the claims are created. At that time
no user sees the error.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from drawbridge.agreement.admission_codes import (
    QUOTA_EXCEEDED,
    QUOTA_NOT_ON_CLAIMS,
    QUOTA_TOO_LARGE,
)
from drawbridge.agreement.mirrored_quota import (
    Classes,
    group_by_class,
    is_mirrored,
    read_classes,
)
from drawbridge.dra.counted import count_noun
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.quota import CLAIMS, DEVICES, REQUESTS
from drawbridge.dra.resource_quotas import QuotaLimit, ResourceQuota
from drawbridge.finding import Finding

_RAISE = "ask the administrator to raise the quota."


class _Limit(NamedTuple):
    """A limit that the claims exceed, as its quotas say it, and who has what is in use."""

    entries: str
    most: Quantity
    used: Quantity
    users: str = ""


def check_quotas(
    charges: Mapping[str, int], names: Sequence[str], quotas: Sequence[ResourceQuota]
) -> tuple[Finding, ...]:
    """Report quotas that the claims exceed, and quotas on legacy names that do not count claims.

    A quota that is not known may be exceeded. The API server knows it when the claims are created.
    """
    mirrored = next(
        (each for each in quotas if is_mirrored(each.metadata.name, each.metadata.labels)), None
    )
    others = [each for each in quotas if each is not mirrored]
    findings = [
        _report_exceeded(key, requested, _find_source(key, limit, quota, mirrored, others))
        for quota in quotas
        for key, requested, limit in _find_exceeded(charges, quota)
    ]
    unknown = next((each.metadata.name for each in quotas if each.reduced), "")
    if unknown and charges:
        message = f"ResourceQuota {unknown} is too large, so it is not compared with the claims"
        findings.append(QUOTA_TOO_LARGE.at("spec", message))
    limiting = {
        name: [each.metadata.name for each in others if f"{REQUESTS}{name}" in _entries(each)]
        for name in names
        if f"{REQUESTS}{name}" not in charges
    }
    if any(limiting.values()):
        noted = read_classes(mirrored.metadata.annotations) if mirrored else {}
        limited = {k for each in quotas if not each.counts_pods_only for k in _entries(each)}
        for name, having in limiting.items():
            classes = _classes_of(name, charges, noted)
            if having and classes and not limited & {*classes}:
                findings.append(_report_uncounted(name, having, classes))
    return tuple(findings)


def _entries(quota: ResourceQuota) -> Mapping[str, object]:
    return quota.spec.hard or {}


def _find_exceeded(
    charges: Mapping[str, int], quota: ResourceQuota
) -> Iterator[tuple[str, int, QuotaLimit]]:
    """Yield the entries of a quota that the claims exceed, and the amount of the claims."""
    if quota.counts_pods_only:
        return
    for key, requested in charges.items():
        limit = quota.find_limit(key)
        if limit is not None and limit.most < limit.used + Quantity.of(requested):
            yield key, requested, limit


def _find_source(
    key: str,
    limit: QuotaLimit,
    quota: ResourceQuota,
    mirrored: ResourceQuota | None,
    others: Sequence[ResourceQuota],
) -> _Limit:
    """Return a limit as users wrote it: the mirrored quota has what pods and claims leave of it."""
    as_written = _Limit(f"ResourceQuota {quota.metadata.name}: {key}", limit.most, limit.used)
    if quota is not mirrored:
        return as_written
    classes = read_classes(quota.metadata.annotations)
    groups = (each for each in group_by_class(classes) if _limits_key(each, key, classes))
    parts = [_find_lowest(f"{REQUESTS}{name}", others) for name in sorted(next(groups, ()))]
    written = [each for each in parts if each is not None]
    if not written or len(written) < len(parts):
        return as_written
    most = sum((each.most for each in written), Quantity.of(0))
    entries = " and ".join(each.entries for each in written)
    return _Limit(entries, most, most - (limit.most - limit.used), " by pods and claims")


def _limits_key(names: Iterable[str], key: str, classes: Classes) -> bool:
    """Tell whether an entry of the mirrored quota is about these names."""
    return any(
        key == f"{REQUESTS}{name}" or key.removesuffix(DEVICES) in classes[name] for name in names
    )


def _find_lowest(key: str, quotas: Sequence[ResourceQuota]) -> _Limit | None:
    """Return the limit that binds of those for a key."""
    limits = [
        _Limit(f"ResourceQuota {each.metadata.name}: {key}", limit.most, limit.used)
        for each in quotas
        if not each.counts_pods_only and (limit := each.find_limit(key)) is not None
    ]
    return min(limits, key=lambda each: each.most.nanos(), default=None)


def _report_exceeded(key: str, requested: int, limit: _Limit) -> Finding:
    message = (
        f"{limit.entries}: the claims of the pod request {requested}, but {limit.used} of"
        f" {limit.most} are in use{limit.users}"
    )
    return QUOTA_EXCEEDED.at("spec", message, remedy=_find_remedy(key, requested, limit))


def _find_remedy(key: str, requested: int, limit: _Limit) -> str:
    """Return what helps: a pod that requests more than the limit waits for ever."""
    noun = "claim" if key == CLAIMS else "device"
    can_wait = requested <= limit.most.floor()
    fewer = (limit.most - limit.used if can_wait else limit.most).floor()
    ways = [f"Wait until {noun}s are released"] if can_wait else []
    if noun == "device" and fewer > 0:
        ways.append(f"request at most {count_noun(fewer, noun)}")
    return ", ".join([*ways, f"or {_RAISE}" if ways else _RAISE]).capitalize()


def _classes_of(name: str, charges: Mapping[str, int], noted: Classes) -> list[str]:
    """Return the entries that would limit the claims for a name, without those of other names."""
    others = {each for other, classes in noted.items() if other != name for each in classes}
    others -= noted.get(name, frozenset())
    return [
        key for key in charges if key.endswith(DEVICES) and key.removesuffix(DEVICES) not in others
    ]


def _report_uncounted(name: str, quotas: Sequence[str], classes: Sequence[str]) -> Finding:
    message = (
        f"ResourceQuota {' and '.join(quotas)}: {REQUESTS}{name} does not count claims, and no"
        f" quota limits {' and '.join(classes)}"
    )
    entries = "this entry" if len(classes) == 1 else "these entries"
    remedy = f"Ask the administrator to add {entries} to a ResourceQuota of the namespace."
    return QUOTA_NOT_ON_CLAIMS.at("spec", message, remedy=remedy)
