"""Says on which nodes pods outlive the device plugin that gave them devices."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from drawbridge.audit.objects import AuditedObjects
from drawbridge.config.model import Configuration
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.dra.families import allocates_by
from drawbridge.facts.families import known_families
from drawbridge.facts.served_names import advertised_resources
from drawbridge.ledger.plugin_holders import find_held_on
from drawbridge.ledger.pods import Pod, pod_reader

_MAX_NAMES: Final = 10


def note_outlived(objects: AuditedObjects, configuration: Configuration) -> Iterator[str]:
    """Yield one note about the nodes that publish devices which pods hold from a gone plugin."""
    families, reader = known_families(configuration), pod_reader()
    nodes = {each.name: each for each in objects.nodes}
    extended = {each.spec.extended_resource_name for each in objects.classes}
    drivers: dict[str, set[str]] = {}
    for published in objects.slices:
        drivers.setdefault(published.node_name or "", set()).add(published.driver)
    pods, held = Counter[str](), set[str]()
    for value in objects.pods:
        pod = reader.read(value)
        node = nodes.get(pod.spec.node_name) if isinstance(pod, Pod) else None
        if not isinstance(pod, Pod) or node is None or node.name not in drivers:
            continue
        names = {
            name
            for name in find_held_on(node, pod) - advertised_resources(node).keys()
            if name in extended
            or any(
                driver in families and allocates_by(families[driver], name)
                for driver in drivers[node.name]
            )
        }
        pods[node.name] += bool(names)
        held |= names
    if where := sorted(+pods):
        number = sum(pods.values())
        still = f"{count_noun(number, 'pod')} still {'holds' if number == 1 else 'hold'}"
        yield (
            f"Plugins are gone on {list_some(where, _MAX_NAMES, 'node')}, but {still} their devices"
            f" ({', '.join(sorted(held))}), which a driver publishes. Drain these nodes: other pods"
            " must not get devices there before."
        )
