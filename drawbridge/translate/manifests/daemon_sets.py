"""Says that the pods of a DaemonSet wait on some nodes, while nodes move to a driver."""

from collections.abc import Iterator
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.facts.model import Facts, NodeOffer
from drawbridge.finding import Finding
from drawbridge.names import DEVICES_LABEL
from drawbridge.translate.changes.queues import Mappings
from drawbridge.translate.manifests.codes import DAEMON_SET_ON_MIXED_NODES
from drawbridge.translate.manifests.workloads import group_kind

_KINDS: Final = frozenset({("apps", "DaemonSet"), ("apps.kruise.io", "DaemonSet")})
_SELECTOR: Final = ("spec", "template", "spec", "nodeSelector")


def report_mixed_nodes(owner: Value, mappings: Mappings, facts: Facts | None) -> Iterator[Finding]:
    """Report a DaemonSet whose claims some nodes serve, while a plugin serves others still.

    Its pods are alike, and each is for one node. Facts tell nothing of labels, so all nodes count,
    also those that it does not select; but one for nodes that have moved says so.
    """
    if facts is None or not facts.knows_offers or group_kind(as_mapping(owner)) not in _KINDS:
        return
    if DEVICES_LABEL in as_mapping(get_value(owner, _SELECTOR)):
        return
    for name, mapped in mappings.items():
        classes = {each.name for each in mapped}
        serving, left = list[NodeOffer](), list[NodeOffer]()
        for offer in facts.offers:
            if classes <= set(offer.classes) and not offer.dual:
                serving.append(offer)
            elif name in offer.names:
                left.append(offer)
        if serving and left:
            served, others = (
                count_noun(sum(each.nodes for each in offers), "node") for offers in (serving, left)
            )
            yield DAEMON_SET_ON_MIXED_NODES.at(
                "spec.template",
                f"{served} can serve claims for {name}; new pods wait on {others} whose device "
                "plugin still serves it",
            )
