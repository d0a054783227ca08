"""The nodes and pools whose fence has settled, so that other schedulers allocate nothing there.

The fence of a node is a taint. The fence around devices names pools, and the API server refuses
their allocation to all others. What has a new fence is used after the settle time, and after a look
at all claims: the watch can be behind. The time begins when this process sees the fence. That an
object says since when the fence is there does not count: the clock of whoever wrote it, and that of
an API server, can be ahead or behind. Of the taint of a node that was there before this process,
the node says whether the controller has watched it for as long by a clock of its own; a node that
lies is the only one that it concerns. A node can also say that its fence leaves: then only the
policy counts.

A node that was there before its fence can have pods with devices of a plugin, which no claim shows.
It is used once the watch of pods has all of them.
"""

import math
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple, TypeAlias

from drawbridge.agreement.device_fence import FencePart, FenceParts, find_fenced_pools
from drawbridge.agreement.owned_pools import (
    SETTLE_SECONDS,
    decide_node,
    find_fence,
    has_settled,
    leaves,
)
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.dra.device import Taint
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node

# A look reads all claims, and whoever can change a node can ask for one by its annotation. Looks
# follow each other after a multiple of the time that the last one took, within these seconds.
LOOK_SECONDS: Final = 2.0
MAX_PAUSE_SECONDS: Final = SETTLE_SECONDS
_IDLE_RATIO: Final = 4
# A node by name, or a pool.
Fenced: TypeAlias = str | PoolID


class _Version(NamedTuple):
    uid: str
    generation: int

    def continues(self, before: "_Version") -> bool:
        """Whether no version was in between that this process has not seen."""
        return self.uid == before.uid and 0 <= self.generation - before.generation <= 1


class Fences:
    """What is fenced; all times are of one clock that is never set."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._taints: dict[str, Taint] = {}
        self._versions: tuple[_Version | None, ...] = ()
        self._pools: frozenset[PoolID] = frozenset()
        self._times: dict[Fenced, float] = {}  # when settles what has not
        self._settled: set[Fenced] = set()
        self._taken_over: set[str] = set()  # the nodes that were there before their fence
        self._looks_at = -math.inf  # when the next look can begin
        self._is_behind = False  # whether the Lease requires a newer policy than this process has
        self.unfenced: dict[PoolID, str] = {}  # the nodes of owned pools that wait for their fence
        self.holds = False  # whether the API server keeps the fence, around no matter which pools

    def follow_node(
        self,
        name: str,
        after: Node | None,
        now: float,
        *,
        is_first: bool = False,
        created: bool = False,
    ) -> None:
        """Follow a change of a node; a taint that replaces another one is new.

        With `is_first`, this process has never seen the node before. With `created`, nobody has.
        """
        fence = find_fence(after.taints) if after is not None and not leaves(after) else None
        if after is None or fence is None:
            self._taints.pop(name, None)
            self._taken_over.discard(name)
            self._end(name)
        elif self._taints.get(name) != fence:
            self._taints[name] = fence
            is_known = is_first and has_settled(after, fence)
            is_known = is_known or created  # no scheduler has seen the node without its fence
            (self._taken_over.discard if is_known else self._taken_over.add)(name)
            self._begin(name, now + (0.0 if is_known else SETTLE_SECONDS))

    def follow_configuration(
        self, before: Configuration, after: Configuration, nodes: Iterable[Node], now: float
    ) -> None:
        """Let the taint settle anew of nodes that become ours although they have not changed.

        What is seen of them can be older than the configuration: a node that was given back can
        have lost its taint meanwhile.
        """
        owned = [owned_pools(each) for each in (before, after)]
        for node in nodes:
            was_ours, is_ours = (bool(decide_node(each, node.labels).drivers) for each in owned)
            if is_ours and not was_ours and node.name in self._taints:
                self._taken_over.add(node.name)
                self._begin(node.name, now + SETTLE_SECONDS)

    def follow_parts(self, parts: FenceParts, now: float) -> frozenset[PoolID]:
        """Follow a change of the fence around devices; return the pools whose use ends."""
        versions = tuple(map(_version, parts))
        before, self._versions = self._versions, versions
        named = find_fenced_pools(parts, self._namespace)
        self.holds = named is not None
        pools, settled = frozenset(named or ()), self._pools & self._settled
        kept = pools & self._pools if _continue(before, versions) else frozenset()
        for pool in self._pools - kept:
            self._end(pool)
        for pool in pools - kept:
            self._begin(pool, now + SETTLE_SECONDS)
        self._pools = pools
        return settled - kept

    def follow_lease(self, *, is_behind: bool) -> frozenset[PoolID]:
        """Return the pools whose use ends while the policy is behind the Lease, or goes on."""
        before, self._is_behind = self._is_behind, is_behind
        return frozenset() if before == is_behind else self._pools & self._settled

    def _begin(self, fenced: Fenced, settles_at: float) -> None:
        self._settled.discard(fenced)
        self._times[fenced] = settles_at

    def _end(self, fenced: Fenced) -> None:
        self._settled.discard(fenced)
        self._times.pop(fenced, None)

    def is_settled(self, node: Node) -> bool:
        """Whether others allocate nothing on a node, behind its taint, that no look has seen."""
        return node.name in self._settled or find_fence(node.taints) is None  # it needs none

    def is_guarded(self, pool: PoolID) -> bool:
        """Whether others have allocated nothing from a pool that a look has not seen."""
        return pool in self._settled and not self._is_behind

    def need_look(self, now: float) -> bool:
        """Whether a look at the claims makes a node or a pool usable."""
        return now >= self._looks_at and any(time <= now for time in self._times.values())

    def list_taken_over(self, began: float) -> list[str]:
        """Return the nodes that a look at their pods settles which began at a time."""
        return [each for each in self._taken_over if self._times.get(each, math.inf) <= began]

    def note_look(
        self, began: float, behind: Collection[str] = (), *, seconds: float = 0.0
    ) -> list[Fenced]:
        """Return what is settled by a look which began at a time, but not the nodes `behind`.

        They are looked at again. `seconds` is how long the look took.
        """
        pause = min(max(_IDLE_RATIO * seconds, LOOK_SECONDS), MAX_PAUSE_SECONDS)
        self._looks_at = began + seconds + pause
        looked = [fenced for fenced, time in self._times.items() if time <= began]
        settled = [fenced for fenced in looked if fenced not in behind]
        for fenced in settled:
            del self._times[fenced]
        self._taken_over.difference_update(settled)
        self._settled.update(settled)
        return settled


def _version(part: FencePart | None) -> _Version | None:
    return None if part is None else _Version(part.metadata.uid, part.metadata.generation)


def _continue(before: tuple[_Version | None, ...], after: tuple[_Version | None, ...]) -> bool:
    pairs = zip(before, after, strict=False)
    return all(old is not None and new is not None and new.continues(old) for old, new in pairs)
