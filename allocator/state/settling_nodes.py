"""The nodes whose fence is so new that other schedulers may still allocate on them.

Their pools are used after the settle time, and after a look at all claims: the watch can be behind.
The time begins when this process sees the fence. That a fence says since when it is there does not
count: the clock of whoever wrote it, and that of an API server, can be ahead or behind. Of a fence
that was there before this process, the node says whether the controller has watched it for as long
by a clock of its own; a node that lies is the only one that it concerns.
"""

from drawbridge.agreement.owned_pools import SETTLE_SECONDS, find_fence, has_settled
from drawbridge.dra.device import Taint
from drawbridge.dra.nodes import Node


class SettlingNodes:
    """The nodes with a fence; all times are of one clock that is never set."""

    def __init__(self) -> None:
        self._fences: dict[str, Taint] = {}
        self._times: dict[str, float] = {}  # when nodes settle that have not

    def follow(
        self,
        node: str,
        after: Node | None,
        now: float,
        *,
        is_first: bool = False,
        created: bool = False,
    ) -> None:
        """Follow a change of a node; a fence that replaces another one is new.

        With `is_first`, this process has never seen the node before. With `created`, nobody has.
        """
        fence = find_fence(after.taints) if after is not None else None
        if fence is None:
            self._fences.pop(node, None)
            self._times.pop(node, None)
        elif self._fences.get(node) != fence:
            self._fences[node] = fence
            is_known = is_first and after is not None and has_settled(after, fence)
            is_known = is_known or created  # no scheduler has seen the node without its fence
            self._times[node] = now + (0.0 if is_known else SETTLE_SECONDS)

    def is_settled(self, node: Node) -> bool:
        """Whether other schedulers allocate nothing on a node that a look has not seen."""
        if find_fence(node.taints) is None:
            return True  # it needs none
        return node.name in self._fences and node.name not in self._times

    def need_look(self, now: float) -> bool:
        """Whether a look at the claims makes a node usable."""
        return any(time <= now for time in self._times.values())

    def note_look(self, began: float) -> list[str]:
        """Return the nodes that are settled by a look which began at a time."""
        settled = [name for name, time in self._times.items() if time <= began]
        for name in settled:
            del self._times[name]
        return settled
