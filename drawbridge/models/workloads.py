"""Who creates a pod again that ended, and where it can start."""

import enum
from typing import Final

from drawbridge.models.pods import PodKind

_SAME_NODE: Final = ("DaemonSet",)


class Again(enum.Enum):
    """What follows the end of a pod."""

    ANYWHERE = "anywhere"  # its owner creates another one, which the scheduler places
    SAME_NODE = "same node"  # a DaemonSet, or a template that names its node
    NEVER = "never"  # nobody creates it again


def find_successor(kind: PodKind) -> Again:
    """Return what follows the end of a pod of a kind. Owners that nobody knows create it again."""
    if kind.is_bare or kind.is_ending:
        return Again.NEVER
    if kind.owner_kind in _SAME_NODE or kind.named_node:
        return Again.SAME_NODE
    return Again.ANYWHERE
