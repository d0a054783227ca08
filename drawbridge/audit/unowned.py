"""Counts the devices of claims that no running pod uses: they are held all the same."""

from collections.abc import Iterator, Mapping

from drawbridge.audit.demand import Sizes, count_devices
from drawbridge.audit.objects import AuditedObjects, namespace_of, text_at
from drawbridge.documents.values import Value
from drawbridge.dra.claim import Claim
from drawbridge.ledger.pods import FINISHED


def count_unowned(
    objects: AuditedObjects, groups: Mapping[str, str], sizes: Sizes
) -> dict[str, dict[str, float]]:
    """Return the devices by group of nodes and class; `groups` has the group of each node."""
    pools = {(each.driver, each.pool): each.node_name or "" for each in objects.slices}
    running = {
        (namespace_of(each), text_at(each, "metadata", "name")) for each in _running(objects)
    }
    unowned: dict[str, dict[str, float]] = {}
    for claim in objects.claims:
        namespace = claim.metadata.namespace or "default"
        users = {(namespace, each.name) for each in claim.status.reserved_for}
        nodes = {pools.get(pool, "") for pool in _pools_of(claim)}
        where = groups.get(next(iter(nodes), "")) if len(nodes) == 1 else None
        if where is None or users & running:
            continue
        spec = objects.claim_specs.get(("ResourceClaim", namespace, claim.metadata.name))
        held = unowned.setdefault(where, {})
        for name, number in count_devices([spec], sizes).items():
            held[name] = held.get(name, 0) + number
    return unowned


def _running(objects: AuditedObjects) -> Iterator[Value]:
    return (
        each
        for each in objects.pods
        if text_at(each, "spec", "nodeName") and text_at(each, "status", "phase") not in FINISHED
    )


def _pools_of(claim: Claim) -> Iterator[tuple[str, str]]:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation else ()
    return ((each.driver, each.pool) for each in results)
