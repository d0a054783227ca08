"""Counts what allocated claims hold: each claim once, whoever uses it, and devices where they are.

What a claim asks for says less: `All` is any number, several pods can use one claim, and a claim
can be held that no pod uses.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from drawbridge.audit.demand import Sizes, find_share
from drawbridge.audit.objects import AuditedObjects, namespace_of, text_at
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list
from drawbridge.dra.claim import Claim, request_choices
from drawbridge.ledger.pods import FINISHED

# Namespace and name of a claim or a pod.
Name = tuple[str, str]
# Devices, or shares of them, by node and class.
ByNode = dict[str, dict[str, float]]

_OF_CLASS: Final = ("status", "extendedResourceClaimStatus")


class AllocatedClaims:
    """The allocated claims of a cluster, and the pods that use them and have not ended."""

    def __init__(self, objects: AuditedObjects, sizes: Sizes) -> None:
        pools = {(each.driver, each.pool): each.node_name or "" for each in objects.slices}
        self._devices: dict[Name, ByNode] = {}
        reserved: dict[Name, set[Name]] = {}
        for claim in objects.claims:
            if claim.status.allocation is None:
                continue
            namespace = claim.metadata.namespace or "default"
            name = namespace, claim.metadata.name
            self._devices[name] = _read_devices(claim, pools, sizes)
            for user in (each for each in claim.status.reserved_for if each.is_pod):
                reserved.setdefault((namespace, user.name), set()).add(name)
        self._pods = [e for e in objects.pods if text_at(e, "status", "phase") not in FINISHED]
        self._claims = {
            _name(pod): self._devices.keys() & {*_claims_of(pod), *reserved.get(_name(pod), ())}
            for pod in self._pods
        }
        self._users: dict[Name, list[Name]] = {name: [] for name in self._devices}
        for pod, claims in self._claims.items():
            for claim_name in claims:
                self._users[claim_name].append(pod)

    def held_by(self, pod: Value) -> dict[str, float] | None:
        """Return what a pod holds by class; None if none of its claims is allocated.

        The pods that use one claim hold equal parts of it.
        """
        claims = self._claims.get(_name(pod))
        if not claims:
            return None
        held: dict[str, float] = {}
        for name in sorted(claims):
            for devices in self._devices[name].values():
                _add(held, devices, 1 / len(self._users[name]))
        return held

    def count_without(self, pods: Collection[Name]) -> ByNode:
        """Return what is held by others than these pods, or by nobody."""
        without: ByNode = {}
        for name, by_node in self._devices.items():
            users = self._users[name]
            others = sum(each not in pods for each in users) / len(users) if users else 1.0
            for node, devices in by_node.items() if others else ():
                _add(without.setdefault(node, {}), devices, others)
        return without

    def count_by_group(
        self, groups: Mapping[str, str], find_asked: Callable[[Value], Mapping[str, float]]
    ) -> ByNode:
        """Return what is held by node group and class; `groups` has the group of each node.

        `find_asked` tells what running pods hold of which no claim is known to be allocated.
        """
        running = {_name(e): node for e in self._pods if (node := text_at(e, "spec", "nodeName"))}
        held: ByNode = {}
        for name, by_node in self._devices.items():
            # A driver that is gone publishes no more where the devices are.
            used_on = next((running[e] for e in self._users[name] if e in running), "")
            for node, devices in by_node.items():
                _add(held.setdefault(groups.get(node or used_on, ""), {}), devices)
        for pod in self._pods:
            node = running.get(_name(pod), "")
            if node and not self._claims[_name(pod)] and _refers_to_claims(pod):
                _add(held.setdefault(groups.get(node, ""), {}), find_asked(pod))
        return held


def _read_devices(claim: Claim, pools: Mapping[Name, str], sizes: Sizes) -> ByNode:
    choices = [each for one in claim.spec.devices.requests for each in request_choices(one)]
    classes = {each.name: each.requested.device_class_name for each in choices}
    allocation = claim.status.allocation
    by_node: ByNode = {}
    for result in allocation.devices.results if allocation else ():
        if result.admin_access:
            continue
        name = classes.get(result.request, "")
        is_share = result.share_id is not None
        amounts = result.consumed_capacity.items() if is_share else ()
        consumed = {capacity: amount.value() for capacity, amount in amounts}
        node = pools.get((result.driver, result.pool), "")
        _add(by_node.setdefault(node, {}), {name: find_share(consumed, sizes.get(name, {}))})
    return by_node


def _add(held: dict[str, float], devices: Mapping[str, float], part: float = 1.0) -> None:
    for name, number in devices.items():
        held[name] = held.get(name, 0) + number * part


def _name(pod: Value) -> Name:
    return namespace_of(pod), text_at(pod, "metadata", "name")


def _claims_of(pod: Value) -> Iterator[Name]:
    """Yield the claims that a pod names, those that were generated for it, and that of a class."""
    references: Iterable[Value] = (
        *as_list(get_value(pod, ("spec", "resourceClaims"))),
        *as_list(get_value(pod, ("status", "resourceClaimStatuses"))),
        get_value(pod, _OF_CLASS),
    )
    for reference in references:
        if name := text_at(reference, "resourceClaimName"):
            yield namespace_of(pod), name


def _refers_to_claims(pod: Value) -> bool:
    return bool(get_value(pod, ("spec", "resourceClaims")) or get_value(pod, _OF_CLASS))
