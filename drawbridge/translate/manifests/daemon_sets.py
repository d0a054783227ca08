"""Says that one manifest is not for all nodes: a DaemonSet, while nodes move to a driver."""

from collections.abc import Iterator
from typing import Final

from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.translate.changes.queues import Mappings
from drawbridge.translate.manifests.codes import PODS_DECIDED_BY_NODE
from drawbridge.translate.manifests.workloads import group_kind

_KINDS: Final = frozenset({("apps", "DaemonSet"), ("apps.kruise.io", "DaemonSet")})


def report_mixed_nodes(owner: Value, mappings: Mappings, facts: Facts | None) -> Iterator[Finding]:
    """Report a DaemonSet whose requests only plugins serve on some nodes, and drivers on others.

    Facts tell nothing of labels, so they count all nodes, also those that it does not select.
    """
    if facts is None or not facts.knows_offers or group_kind(as_mapping(owner)) not in _KINDS:
        return
    for name, mapped in mappings.items():
        classes = {each.name for each in mapped}
        offers = [each for each in facts.offers if not each.dual]
        by_driver = [each for each in offers if classes <= set(each.classes)]
        by_plugin = [each for each in offers if name in each.names and each not in by_driver]
        if by_driver and by_plugin:
            plugins, drivers = (
                count_noun(sum(each.nodes for each in some), "node")
                for some in (by_plugin, by_driver)
            )
            yield PODS_DECIDED_BY_NODE.at(
                "spec.template",
                f"only a device plugin serves {name} on {plugins}, and claims can use {drivers}: "
                "admission decides about each pod by its node",
            )
