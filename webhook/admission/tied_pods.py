"""Which node the claims of a created pod depend on, and what the nodes like it offer.

The node has to be in memory before the pod is decoded. So its name is found in the raw pod, and
counts only if the decoded pod can run on this node and no other.
"""

import re
from typing import Final, NamedTuple

from drawbridge.facts.alike import find_alike
from drawbridge.facts.model import Facts, NodeOffer
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.tied_node import HOSTNAME
from webhook.admission.protocols import RecentNodes

# The longest wait for a node. Without it, the facts of all nodes decide.
MAX_SECONDS: Final = 1.0
# A search takes some milliseconds there. For longer pods, too, the facts of all nodes decide.
MAX_BYTES: Final = 256 << 10
_NAME: Final = rb'"([a-z0-9][a-z0-9.-]{0,252})"'
_IN: Final = rb',"operator":"In","values":\[' + _NAME + rb"\]"
# As the API server writes pods: by the name of the node, or by its label for its hostname.
_NAMED: Final = re.compile(
    rb'"key":"metadata\.name"'
    + _IN
    + rb'|"key":"kubernetes\.io/hostname"'
    + _IN
    + rb'|"kubernetes\.io/hostname":'
    + _NAME
)
_BY_NAME: Final = 1  # the group of the name
_HINTS: Final = (b'"key":"metadata.name"', HOSTNAME.encode())


class NamedNode(NamedTuple):
    """A node that a raw pod names; by its label if that is one of the ways."""

    name: str
    by_label: bool


def find_named_node(raw: bytes, facts: Facts | None) -> NamedNode | None:
    """Return the only node that a raw pod names, if its claims depend on the node."""
    if facts is None or not facts.is_mixed or len(raw) > MAX_BYTES:
        return None
    if not any(each in raw for each in _HINTS):
        return None
    matches = [(each[each.lastindex or 0], each.lastindex) for each in _NAMED.finditer(raw)]
    if len({name for name, _ in matches}) != 1:
        return None
    return NamedNode(matches[0][0].decode(), any(group != _BY_NAME for _, group in matches))


def find_unread_node(raw: bytes, context: TranslationContext, nodes: RecentNodes) -> str:
    """Return the node that has to be read before a pod is answered; empty if none."""
    named = find_named_node(raw, context.facts)
    return named.name if named and nodes.node(named.name) is None else ""


async def read_node(name: str, nodes: RecentNodes, seconds: float | None) -> None:
    """Read a node, unless it takes too long."""
    most = MAX_SECONDS if seconds is None else min(MAX_SECONDS, seconds / 4)
    await nodes.read_node(name, most)


def find_kinds(
    raw: bytes, context: TranslationContext, nodes: RecentNodes
) -> tuple[NodeOffer, ...]:
    """Return what nodes offer that are like the one that a raw pod names, if it was read."""
    facts = context.facts
    named = find_named_node(raw, facts)
    seen = nodes.node(named.name) if named else None
    if named is None or seen is None or facts is None:
        return ()
    # A hostname can differ from the name.
    if named.by_label and seen.node.labels.get(HOSTNAME) != named.name:
        return ()
    return find_alike(seen, facts, context.configuration.legacy)
