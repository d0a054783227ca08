"""Follows which resources of device plugins running pods hold, by node."""

from collections import Counter
from collections.abc import Collection

from drawbridge.ledger.plugin_holders import find_held_names
from drawbridge.ledger.pods import Pod


class PluginHolders:
    """The number of pods that hold each resource; nodes without such pods are left out."""

    def __init__(self) -> None:
        self._pods: dict[str, Counter[str]] = {}

    def follow(self, before: Pod | None, after: Pod | None) -> frozenset[str]:
        """Follow the change of a pod; return the nodes where other names are held than before."""
        had, has = _held(before), _held(after)
        if had == has:
            return frozenset()
        names = {node: self.names_on(node) for node, _ in (*had, *has)}
        for held, sign in ((had, -1), (has, 1)):
            for node, name in held:
                counts = self._pods.setdefault(node, Counter())
                counts[name] += sign
                if not counts[name]:
                    del counts[name]
        for node in names:
            if not self._pods[node]:
                del self._pods[node]
        return frozenset(node for node, held in names.items() if self.names_on(node) != held)

    def names_on(self, node: str) -> Collection[str]:
        """Return the names that pods hold on a node."""
        return frozenset(self._pods.get(node, ()))


def _held(pod: Pod | None) -> frozenset[tuple[str, str]]:
    if pod is None:
        return frozenset()
    return frozenset((pod.spec.node_name, name) for name in find_held_names(pod))
