"""Which devices of device plugins pods still hold on their nodes.

A container keeps the devices of a plugin until it ends, also after the plugin is gone. The API does
not say which devices these are: each device of the driver that publishes them can be one. To leave
as many devices free as are held would keep the number right and still give a held device away. So
all devices of such a driver on the node stay with the plugin until the last of these pods ends.
"""

from collections.abc import Iterable, Mapping

from drawbridge.ledger.extended_resources import is_extended, requested_names
from drawbridge.ledger.pods import Pod


def find_held_names(pod: Pod) -> frozenset[str]:
    """Return the extended resources for which a pod can hold devices of plugins on its node.

    For names in its status the scheduler created a claim, so no plugin allocated a device. A pod
    without containers is one that a cache shortened: its own resources have the names.
    """
    if not pod.is_running:
        return frozenset()
    claimed = {each.resource_name for each in pod.status.class_claim.request_mappings}
    kept = pod.spec.resources.requests if pod.spec.resources is not None else ()
    return frozenset((*requested_names(pod), *filter(is_extended, kept))) - claimed


def find_held_on_nodes(pods: Iterable[Pod]) -> Mapping[str, frozenset[str]]:
    """Return the names that pods hold, by node."""
    held: dict[str, frozenset[str]] = {}
    for pod in pods:
        if names := find_held_names(pod):
            held[pod.spec.node_name] = held.get(pod.spec.node_name, frozenset()) | names
    return held
