"""What is used and left of device quotas, from the claims that were read."""

from collections.abc import Iterator, Sequence
from typing import Final

from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.dra.inventory import Inventory
from drawbridge.ledger.quota_lines import measure_quotas
from drawbridge.ledger.quota_use import QuotaLine, QuotaUse
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
    claims = (each for each in map(read_claim, objects.claims) if isinstance(each, Claim))
    use = measure_quotas(quotas, inventory, claims, objects.labels)
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
