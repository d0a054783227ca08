"""Measures what claims use of quotas, and reports who uses more than a limit that was lowered."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from drawbridge.config.model import Placement
from drawbridge.dra.claim import Claim
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.dra.inventory import Inventory, find_published_pool
from drawbridge.finding import Finding
from drawbridge.ledger import codes
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.quota_use import QuotaLine, QuotaUse, published_capacity


def measure_quotas(
    quotas: Sequence[DeviceQuota],
    inventory: Inventory,
    claims: Iterable[Claim],
    labels: Mapping[str, Mapping[str, str]],
) -> QuotaUse:
    """Return what these claims use of quotas; `labels` are those of the namespaces."""
    use = QuotaUse(quotas, published_capacity(partial(find_published_pool, inventory)))
    for namespace, texts in labels.items():
        use.set_labels(namespace, texts)
    for claim in claims:
        namespace, allocation = claim.metadata.namespace or "default", claim.status.allocation
        use.charge_allocation(uid_of(claim), namespace, claim.spec, allocation)
    return use


def report_exceeded(line: QuotaLine, placements: Mapping[str, Placement]) -> Finding:
    """Report who uses more than the total of a quota, and what becomes of new pods.

    `placements` are those of namespaces, "" that of all others.
    """
    who = f"namespace {line.namespace} uses" if line.namespace else "the selected namespaces use"
    concerned = (
        {placements.get(line.namespace, placements[""])}
        if line.namespace
        else set(placements.values())
    )
    if concerned == {Placement.NATIVE}:
        new = "native placement gives new ones devices"
    else:
        new = f"new ones {'with bridge placement ' if len(concerned) > 1 else ''}wait"
    message = (
        f"quota {line.quota}: {who} {line.used} of {line.key.describe(line.limit)}: running pods "
        f"stay, and {new}"
    )
    return codes.QUOTA_BELOW_USE.at("", message, object=f"Quota/{line.quota}")
