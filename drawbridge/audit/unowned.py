"""Counts the devices of claims that no pod uses: they are held all the same."""

from collections.abc import Collection, Iterator, Mapping

from drawbridge.audit.demand import Sizes, count_devices
from drawbridge.audit.objects import AuditedObjects, namespace_of, text_at
from drawbridge.dra.claim import Claim
from drawbridge.ledger.pods import FINISHED


def count_unowned(
    objects: AuditedObjects, users: Collection[tuple[str, str]], sizes: Sizes
) -> dict[str, dict[str, float]]:
    """Return the devices by node and class of claims that none of the pods `users` uses.

    The pods are given by namespace and name; what they hold is counted with them.
    """
    pools = {(each.driver, each.pool): each.node_name or "" for each in objects.slices}
    unowned: dict[str, dict[str, float]] = {}
    for claim in objects.claims:
        namespace = claim.metadata.namespace or "default"
        nodes = {pools.get(pool, "") for pool in _pools_of(claim)}
        used = any((namespace, each.name) in users for each in claim.status.reserved_for)
        if used or len(nodes) != 1:
            continue
        spec = objects.claim_specs.get(("ResourceClaim", namespace, claim.metadata.name))
        held = unowned.setdefault(nodes.pop(), {})
        for name, number in count_devices([spec], sizes).items():
            held[name] = held.get(name, 0) + number
    return unowned


def count_unowned_by_group(
    objects: AuditedObjects, groups: Mapping[str, str], sizes: Sizes
) -> dict[str, dict[str, float]]:
    """Return the devices that no running pod uses; `groups` has the group of each node."""
    running = {
        (namespace_of(each), text_at(each, "metadata", "name"))
        for each in objects.pods
        if text_at(each, "spec", "nodeName") and text_at(each, "status", "phase") not in FINISHED
    }
    by_group: dict[str, dict[str, float]] = {}
    for node, devices in count_unowned(objects, running, sizes).items():
        held = by_group.setdefault(groups.get(node, ""), {})
        for name, number in devices.items():
            held[name] = held.get(name, 0) + number
    return by_group


def _pools_of(claim: Claim) -> Iterator[tuple[str, str]]:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation else ()
    return ((each.driver, each.pool) for each in results)
