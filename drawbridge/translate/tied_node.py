"""Finds the one node that a pod is for, and the kinds of nodes that this may be.

A DaemonSet controller writes the node of each pod into its affinity. While some nodes have a device
plugin and others a driver, the claims of such a pod depend on its node.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.facts.model import Facts, NodeOffer
from drawbridge.translate.decisions.node_offers import MAX_KINDS

HOSTNAME: Final = "kubernetes.io/hostname"
_TERMS: Final = (
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)


def find_tied_node(pod: Value) -> str:
    """Return the node of a pod that can run on one node only, by its name or hostname."""
    hostname = get_value(pod, ("spec", "nodeSelector", HOSTNAME))
    if isinstance(hostname, str) and hostname:
        return hostname
    tied = {_find_in_term(as_mapping(each)) for each in as_list(get_value(pod, _TERMS))}
    return tied.pop() if len(tied) == 1 else ""


def _find_in_term(term: Mapping[str, Value]) -> str:
    for field, key in (("matchFields", "metadata.name"), ("matchExpressions", HOSTNAME)):
        for requirement in map(as_mapping, as_list(term.get(field))):
            values = as_list(requirement.get("values"))
            is_of_key = requirement.get("key") == key and requirement.get("operator") == "In"
            is_one = is_of_key and len(values) == 1
            if is_one and isinstance(values[0], str):
                return values[0]
    return ""


def list_possible_kinds(pod: Value, facts: Facts | None) -> Iterator[tuple[NodeOffer, ...]]:
    """Yield the kinds of nodes by which admission can have decided about a pod.

    The first ones are none: those of all nodes decide, as for pods that are not tied to a node.
    """
    yield ()
    if facts is not None and facts.is_mixed and find_tied_node(pod):
        for offer in facts.offers_by_frequency[:MAX_KINDS]:
            if not offer.dual:
                yield (offer,)
