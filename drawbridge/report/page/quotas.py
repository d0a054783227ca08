"""What is used and left of device quotas, from the claims that were read."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.dra.inventory import Inventory, find_published_pool
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.quota_use import QuotaLine, QuotaUse, published_capacity
from drawbridge.report.page.model import Extent, PageObjects, QuotaOnPage, QuotasOnPage

MAX_LINES: Final = 500
_PER_MILLE: Final = 1000


def describe_quotas(
    objects: PageObjects, inventory: Inventory, quotas: Sequence[DeviceQuota]
) -> QuotasOnPage | None:
    """Return what namespaces have of their totals; None without quotas."""
    if not quotas:
        return None
    if objects.claims_known is Extent.NOTHING:
        return QuotasOnPage(is_known=False)
    use = QuotaUse(quotas, published_capacity(partial(find_published_pool, inventory)))
    for namespace, labels in objects.labels.items():
        use.set_labels(namespace, labels)
    for value in objects.claims:
        claim = read_claim(value)
        if isinstance(claim, Claim):
            namespace = claim.metadata.namespace or "default"
            use.charge_allocation(uid_of(claim), namespace, claim.spec, claim.status.allocation)
    lines = list(_list_lines(use, objects))
    return QuotasOnPage(
        lines=tuple(map(_describe, lines[:MAX_LINES])), more_lines=max(0, len(lines) - MAX_LINES)
    )


def _list_lines(use: QuotaUse, objects: PageObjects) -> Iterator[QuotaLine]:
    """Yield the lines; what several namespaces have together is known with all claims only."""
    is_whole = objects.claims_known is Extent.CLUSTER
    return (each for each in use.list_lines() if each.namespace or is_whole)


def _describe(line: QuotaLine) -> QuotaOnPage:
    limit = line.limit.nanos()
    share = min(_PER_MILLE, line.used.nanos() * _PER_MILLE // limit) if limit else _PER_MILLE
    return QuotaOnPage(
        quota=line.quota,
        namespace=line.namespace,
        device_class=line.key.device_class,
        amount=line.key.amount,
        used=f"{line.used}",
        limit=f"{line.limit}",
        left=f"{line.left}",
        per_mille=share,
    )
