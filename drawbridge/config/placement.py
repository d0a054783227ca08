"""Decides who allocates devices: for the pods of a namespace, and on a node.

Every process asks these functions, so that they agree.
"""

from collections.abc import Mapping, Sequence

from drawbridge.config.label_selectors import selector_matches
from drawbridge.config.model import Configuration, OwnedPool, Placement
from drawbridge.names import PLACEMENT_LABEL


def decide_placement(
    namespace_labels: Mapping[str, str], configuration: Configuration
) -> Placement:
    """Decide the placement of the pods of a namespace.

    Without bridge placement in the configuration it is native. Else a valid label decides, and
    without one the selector. A label with another value counts as none.
    """
    if configuration.placement is Placement.NATIVE:
        return Placement.NATIVE
    value = namespace_labels.get(PLACEMENT_LABEL)
    if value in set(Placement):
        return Placement(value)
    selector = configuration.bridge.namespace_selector
    selected = selector is None or selector_matches(selector, namespace_labels)
    return Placement.BRIDGE if selected else Placement.NATIVE


def decide_placements(
    namespaces: Mapping[str, Mapping[str, str]], configuration: Configuration
) -> dict[str, Placement]:
    """Decide the placement by the name of the namespace; "" stands for all other namespaces."""
    labels = {"": {}, **namespaces}
    return {name: decide_placement(own, configuration) for name, own in labels.items()}


def owned_pools(configuration: Configuration) -> tuple[OwnedPool, ...]:
    """Return the entries that apply: none without bridge placement."""
    return configuration.owned_pools if configuration.placement is Placement.BRIDGE else ()


def selecting_entries(owned: Sequence[OwnedPool], labels: Mapping[str, str]) -> tuple[int, ...]:
    """Return the entries that select a node with these labels."""
    return tuple(
        i for i, entry in enumerate(owned) if selector_matches(entry.node_selector, labels)
    )
