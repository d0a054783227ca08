"""Read the resources of secondary networks from NetworkAttachmentDefinitions.

Users of a namespace can create these objects. Rows that are not well-formed are ignored, and the
first networks of each namespace are kept before further ones, so that no namespace fills the table.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from drawbridge.config.string_formats import NetworkName, ResourceName
from drawbridge.facts.model import NetworkFacts

KIND: Final = "NetworkAttachmentDefinition"
_GROUP: Final = "k8s.cni.cncf.io"
_RESOURCE: Final = "k8s.v1.cni.cncf.io/resourceName"


def read_network(value: object) -> NetworkFacts | None:
    """Return the network and its resource; None for other objects and networks without one."""
    fields = _mapping(value)
    group = f"{fields.get('apiVersion')}".partition("/")[0]
    if (group, fields.get("kind")) != (_GROUP, KIND):
        return None
    metadata = _mapping(fields.get("metadata"))
    resource = _mapping(metadata.get("annotations")).get(_RESOURCE)
    name = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    if not isinstance(resource, str) or ResourceName.problem(resource) is not None:
        return None
    return None if NetworkName.problem(name) else NetworkFacts(name, resource)


def network_table(rows: Iterable[NetworkFacts]) -> dict[NetworkFacts, int]:
    """Return the networks, each with its position in its namespace; the last of a name counts."""
    by_name = {each.name: each for each in rows}
    positions: dict[NetworkFacts, int] = {}
    counts: dict[str, int] = {}
    for name in sorted(by_name):
        namespace = name.partition("/")[0]
        positions[by_name[name]] = counts[namespace] = counts.get(namespace, 0) + 1
    return positions


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
