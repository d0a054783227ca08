"""The nodes that members of a gang can use.

Queues give each member a node selector of its own: the host, or the domain, that they have chosen
for it. Such a member is looked for only on the nodes with the label that fewest nodes have.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from msgspec.structs import replace

from allocator.decisions.shortlist import (
    NodeSearch,
    count_expressions,
    find_named,
    usable_nodes,
)
from allocator.state.cluster_state import AllocatorState

# What members ask for is looked for on each of their nodes, and a node has few: launchers, workers.
MAX_KINDS: Final = 16
MAX_EXPRESSIONS: Final = 64
# For each node that is looked at, a search keeps numbers of all kinds of members. They are as many
# as on so many nodes, or on all, that have MAX_KINDS.
_FEWEST_NODES: Final = 4096
# The nodes by the values of a label cost a look at all nodes.
_MAX_LABELS: Final = 16


class MemberNodes:
    """The nodes for members, as they are when first asked for."""

    def __init__(self, state: AllocatorState) -> None:
        self._state = state
        self._usable: dict[bytes, Collection[str]] = {}  # by the key of what a member asks for
        self._labelled: dict[str, dict[str, list[str]]] = {}

    def usable(self, key: bytes, search: NodeSearch) -> Collection[str]:
        """Return the nodes that a member can use; its search has this key."""
        if key not in self._usable:
            some = self._looked_at(search)
            narrow = search if some is None else replace(search, only=frozenset(some))
            self._usable[key] = usable_nodes(narrow, self._state)
        return self._usable[key]

    def find_problem(self, searches: Iterable[NodeSearch]) -> str:
        """Return why a look at the nodes for each search would take too long, if it would."""
        size, total, kinds, expressions = len(self._state.planner.nodes), 0, _Sums(), _Sums()
        for count, search in enumerate(searches, 1):
            nodes = self._looked_at(search)
            total += size if nodes is None else len(nodes)
            is_much = count * total > MAX_KINDS**2 * max(size, _FEWEST_NODES)
            if is_much or kinds.add(nodes, 1) > MAX_KINDS:
                what = "for too many different things, more than"
                return f"the members of the group ask {what} {MAX_KINDS} on one node"
            if expressions.add(nodes, count_expressions(search)) > MAX_EXPRESSIONS:
                what = "expressions of node affinity together for one node"
                return f"the members of the group have more than {MAX_EXPRESSIONS} {what}"
        return ""

    def _looked_at(self, search: NodeSearch) -> Collection[str] | None:
        """Return the nodes to look at, by their label or name; None if these are all."""
        named, selector = find_named(search), search.pod.node_selector or {}
        choices: list[Collection[str]] = [] if named is None else [named]
        choices += (
            self._labelled[key].get(selector[key], ())
            for key in sorted(selector)
            if key in self._labelled or self._read_label(key)
        )
        return min(choices, key=len, default=None)

    def _read_label(self, key: str) -> bool:
        """Find the nodes by the value of one more label; False if there were enough of these."""
        if len(self._labelled) == _MAX_LABELS:
            return False
        of_key = self._labelled[key] = defaultdict[str, list[str]](list)
        for node in self._state.planner.nodes.values():
            if key in node.labels:
                of_key[node.labels[key]].append(node.name)
        return True


class _Sums:
    """What is added up for each node."""

    def __init__(self) -> None:
        self._everywhere = self._most = 0
        self._on_node = Counter[str]()

    def add(self, nodes: Collection[str] | None, amount: int) -> int:
        """Add an amount for some nodes, or for all; return the largest sum."""
        if nodes is None:
            self._everywhere += amount
        for name in nodes or ():
            self._on_node[name] += amount
            self._most = max(self._most, self._on_node[name])
        return self._everywhere + self._most
