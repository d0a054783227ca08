"""Which new pods Drawbridge translates, by their namespace and by what the nodes offer."""

from collections.abc import Collection

from drawbridge.models.pods import PodKind


def is_translated(kind: PodKind, enforced: Collection[str], offered: Collection[str]) -> bool:
    """Whether a new pod of a kind gets claims.

    `enforced` are namespaces, `offered` the classes of which some node has devices without a plugin
    beside them: admission leaves requests as they are while no node offers the devices to claims.
    """
    return (
        kind.translated is not None
        and kind.namespace in enforced
        and all(name in offered for name in kind.translated.devices)
    )
