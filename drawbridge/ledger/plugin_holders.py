"""Which devices of device plugins pods still hold on their nodes.

A container keeps the devices of a plugin until it ends, also after the plugin is gone. The API does
not say which devices these are: each device of the driver that publishes them can be one. To leave
as many devices free as are held would keep the number right and still give a held device away. So
all devices of such a driver on the node stay with the plugin until the last of these pods ends.

Anybody can create a pod with `spec.nodeName`, and the kubelet starts it without the devices if the
node does not name their resource. The kubelet names it while a plugin serves it, and with 0 later,
until the Node is deleted: one that was registered again does not name what older pods hold. With 0
it refuses the pod, so that one which nobody has bound and which has not started holds nothing. What
a kubelet admitted before has started by then: it names 0 when the plugin is gone for 5 minutes, or
when it starts itself, and then refuses pods without running containers as well.
"""

from collections.abc import Collection, Iterable, Mapping

from drawbridge.dra.nodes import Node
from drawbridge.ledger.extended_resources import is_extended, requested_names
from drawbridge.ledger.pods import Pod


def find_held_names(pod: Pod) -> frozenset[str]:
    """Return the extended resources for which a pod can hold devices of plugins on some node.

    For names in its status the scheduler created a claim, so no plugin allocated a device. A pod
    without containers is one that a cache shortened: its own resources have the names.
    """
    if not pod.is_running:
        return frozenset()
    claimed = {each.resource_name for each in pod.status.class_claim.request_mappings}
    kept = pod.spec.resources.requests if pod.spec.resources is not None else ()
    return frozenset((*requested_names(pod), *filter(is_extended, kept))) - claimed


def find_accepted_names(pod: Pod) -> frozenset[str]:
    """Return the names of a pod that its node had when a scheduler or the kubelet accepted it.

    No scheduler binds a pod to a node that has 0 of what it requests.
    """
    return find_held_names(pod) if pod.is_admitted or pod.is_bound else frozenset()


def select_holdable(
    names: Collection[str], accepted: Collection[str], created: str, node: Node
) -> frozenset[str]:
    """Return the names of which pods created at this time, or later, can hold devices of a node.

    Those that are `accepted` were accepted for one of the pods.
    """
    holdable = frozenset(names).intersection(node.named if created > node.created else names)
    return holdable - node.emptied.difference(accepted)


def find_held_on(node: Node, pod: Pod) -> frozenset[str]:
    """Return the extended resources for which a pod can hold devices of plugins on its node."""
    created = pod.metadata.creation_timestamp or ""
    return select_holdable(find_held_names(pod), find_accepted_names(pod), created, node)


def find_held_on_nodes(pods: Iterable[Pod], nodes: Iterable[Node]) -> Mapping[str, frozenset[str]]:
    """Return the names that pods hold, by node."""
    by_name = {node.name: node for node in nodes}
    held: dict[str, frozenset[str]] = {}
    for pod in pods:
        if (node := by_name.get(pod.spec.node_name)) and (names := find_held_on(node, pod)):
            held[node.name] = held.get(node.name, frozenset()) | names
    return held
