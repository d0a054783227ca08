"""The nodes whose fence is so new that other schedulers may still allocate on them.

Their pools are used after the settle time, and after a look at all claims: the watch can be behind.
"""

from drawbridge.agreement.owned_pools import settle_time
from drawbridge.dra.nodes import Node


class SettlingNodes:
    """The nodes that settle later than the last look; all times are Unix times."""

    def __init__(self, looked_at: float) -> None:
        self._looked_at = looked_at
        self._times: dict[str, float] = {}

    def follow(self, before: Node | None, after: Node | None) -> None:
        """Follow the change of a node."""
        if before is not None:
            self._times.pop(before.name, None)
        if after is not None and not self.is_settled(after):
            self._times[after.name] = settle_time(after.taints)

    def is_settled(self, node: Node) -> bool:
        """Whether other schedulers allocate nothing on a node that a look has not seen."""
        return settle_time(node.taints) <= self._looked_at

    def need_look(self, now: float) -> bool:
        """Whether a look at the claims makes a node usable."""
        return any(time <= now for time in self._times.values())

    def note_look(self, began: float) -> list[str]:
        """Return the nodes that are settled by a look which began at a time."""
        self._looked_at = began
        settled = [name for name, time in self._times.items() if time <= began]
        for name in settled:
            del self._times[name]
        return settled
