"""Check ResourceQuotas against the charges of a translated pod's claims, to deny the pod early.

The quota admission of the API server enforces the limit when the claims are created. At that time
no user sees the error.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.agreement.admission_codes import (
    QUOTA_EXCEEDED,
    QUOTA_NOT_ON_CLAIMS,
    QUOTA_TOO_LARGE,
)
from drawbridge.agreement.mirrored_quota import (
    MAX_CLASSES_TEXT,
    Classes,
    group_by_class,
    is_mirrored,
    read_classes,
)
from drawbridge.dra.counted import count_noun, join_words, list_some
from drawbridge.dra.quantity import Quantity, find_quantity
from drawbridge.dra.quota import CLAIMS, DEVICES, REQUESTS
from drawbridge.dra.resource_quotas import QuotaLimit, ResourceQuota
from drawbridge.finding import Finding
from drawbridge.names import MIRRORED_QUOTA, QUOTA_CLASSES_ANNOTATION

_RAISE: Final = "ask the administrator to raise the quota."
# A tenant can write quotas, and what the mirrored one notes. A message names so many of them, and
# so many limits are looked for.
_MAX_NAMED: Final = 3
_MAX_READ: Final = 2000


class _Limit(NamedTuple):
    """A limit that the claims exceed, as its quotas say it, and who has what is in use."""

    entries: str
    most: Quantity
    used: Quantity
    users: str = ""


def check_quotas(
    charges: Mapping[str, int],
    classes_of: Mapping[str, Collection[str]],
    quotas: Sequence[ResourceQuota],
) -> tuple[Finding, ...]:
    """Compare claims with quotas; `classes_of` has the classes of the claims by removed name.

    A quota that is not known may be exceeded. The API server knows it when the claims are created.
    """
    mirrored = next(
        (each for each in quotas if is_mirrored(each.metadata.name, each.metadata.labels)), None
    )
    noted = _read_noted(mirrored)
    others = [each for each in quotas if each is not mirrored]
    findings = []
    for quota in quotas:
        for key, requested, limit in _find_exceeded(charges, quota):
            source = _find_source(key, limit, noted, others) if quota is mirrored else None
            own = _Limit(f"ResourceQuota {quota.metadata.name}: {key}", limit.most, limit.used)
            findings.append(_report_exceeded(key, requested, source or own))
    unknown = next((each.metadata.name for each in quotas if each.reduced), "")
    if unknown and charges:
        message = f"ResourceQuota {unknown} is too large, so it is not compared with the claims"
        findings.append(QUOTA_TOO_LARGE.at("spec", message))
    own_keys = _entries(mirrored).keys() if mirrored else set()
    mine = {
        name: {f"{each}{DEVICES}" for each in classes} & own_keys for name, classes in noted.items()
    }
    # Entries of the mirrored quota for several classes of a name divide one limit.
    return (*dict.fromkeys(findings), *_find_uncounted(charges, classes_of, mine, others))


def _read_noted(mirrored: ResourceQuota | None) -> Classes:
    """Return what the mirrored quota notes, unless it is longer than what is kept of any quota."""
    annotations = (mirrored.metadata.annotations if mirrored else None) or {}
    is_short = len(annotations.get(QUOTA_CLASSES_ANNOTATION, "")) <= MAX_CLASSES_TEXT
    return read_classes(annotations) if is_short else {}


def _entries(quota: ResourceQuota) -> Mapping[str, str | int | float]:
    return quota.spec.hard or {}


def _find_uncounted(
    charges: Mapping[str, int],
    classes_of: Mapping[str, Collection[str]],
    mirrored: Classes,
    others: Iterable[ResourceQuota],
) -> Iterator[Finding]:
    """Yield the limited names whose claims no quota limits; `mirrored` has the entries of ours."""
    keys = {f"{REQUESTS}{name}" for name in classes_of}
    limiting, limited = defaultdict[str, list[str]](list), set[str]()
    for quota in others:
        if not quota.counts_pods_only:
            limited |= _entries(quota).keys() & charges.keys()
        for key in _entries(quota).keys() & keys - charges.keys():
            limiting[key].append(quota.metadata.name)
    for name, classes in classes_of.items():
        having = limiting.get(f"{REQUESTS}{name}")
        missing = {f"{each}{DEVICES}" for each in classes} - limited
        if having and (missing := missing - mirrored.get(name, frozenset())):
            yield _report_uncounted(name, having, sorted(missing))


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
    key: str, limit: QuotaLimit, noted: Classes, others: Sequence[ResourceQuota]
) -> _Limit | None:
    """Return the limit that an entry of the mirrored quota divides; None if it is not known.

    The entry has what pods and claims leave of the limit.
    """
    groups = (each for each in group_by_class(noted) if _limits_key(each, key, noted))
    names = sorted(next(groups, ()))
    if len(names) * len(others) > _MAX_READ:
        return None
    lowest = [_find_lowest(f"{REQUESTS}{name}", others) for name in names]
    written = [each for each in lowest if each is not None]
    if not written or len(written) < len(lowest):
        return None
    most = sum(each for each, _ in written)
    used = max(0, most - (limit.most - limit.used).floor())
    entries = list_some([entry for _, entry in written], _MAX_NAMED, "limit")
    return _Limit(entries, Quantity.of(most), Quantity.of(used), " by pods and claims")


def _limits_key(names: Iterable[str], key: str, classes: Classes) -> bool:
    """Tell whether an entry of the mirrored quota is about these names."""
    return any(
        key == f"{REQUESTS}{name}" or key.removesuffix(DEVICES) in classes[name] for name in names
    )


def _find_lowest(key: str, quotas: Iterable[ResourceQuota]) -> tuple[int, str] | None:
    """Return the limit that binds of those for a key, rounded down as the controller does."""
    limits = [
        (amount.floor(), f"ResourceQuota {each.metadata.name}: {key}")
        for each in quotas
        if not each.counts_pods_only and (amount := find_quantity(each.spec.hard, key)) is not None
    ]
    return min(limits, default=None)


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


def _report_uncounted(name: str, quotas: Sequence[str], missing: Sequence[str]) -> Finding:
    named = list_some(quotas, _MAX_NAMED, "quota")
    message = (
        f"ResourceQuota {named}: {REQUESTS}{name} does not count claims, and no quota limits"
        f" {join_words(missing, 'and')} in its place"
    )
    # Short enough for a warning beside a long name of a class.
    remedy = f"In mode enforce, {MIRRORED_QUOTA} does; else ask for such a quota."
    return QUOTA_NOT_ON_CLAIMS.at("spec", message, remedy=remedy)
