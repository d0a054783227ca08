"""Keeps the fences in step with the caches, and has pools decided again whose fence changed."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from allocator.state.caches import AllocatorCaches
from allocator.state.cluster_state import OwnsPool
from allocator.state.fences import Fenced, Fences
from allocator.state.pool_filter import make_pool_filter
from allocator.state.turns import KeyTurns
from drawbridge.agreement.owned_pools import report_all_unfenced
from drawbridge.cluster.store import CachedObject
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.facts.model import Facts

# About 2 ms.
_OWNERS_PER_TURN: Final = 50


class FollowedFences:
    """The fences of nodes and of pools, as the caches show them.

    `elapsed` is a clock that is never set. `lacks_policy` is whether the Lease requires a newer
    policy than the caches have. `decide_owners` decides who owns pools, and those of nodes.
    """

    def __init__(
        self,
        caches: AllocatorCaches,
        *,
        elapsed: Callable[[], float],
        lacks_policy: Callable[[], bool],
        decide_owners: Callable[[Sequence[Fenced]], None],
    ) -> None:
        self._caches, self._elapsed, self._lacks_policy = caches, elapsed, lacks_policy
        # No allocation is decided before the recovery, which looks at all claims.
        self._fences = Fences(caches.namespace)
        self._owner_turns: KeyTurns[Fenced] = KeyTurns(decide_owners, _OWNERS_PER_TURN)
        self._lacking: tuple[tuple[int, bool], Configuration, list[str]] | None = None
        self._was_fenced = False
        caches.subscribe_fence(self._follow_parts)

    @property
    def unfenced(self) -> dict[PoolID, str]:
        """The nodes of owned pools that wait for their fence."""
        return self._fences.unfenced

    def find_missing(self, configuration: Configuration) -> list[str]:
        """Return which nodes lack the fence, until one owned node had it since the start.

        A node without the taint does not stop the others: its pools are not used. Computed once for
        each state of the nodes.
        """
        if self._was_fenced:
            return []
        rules_hold = self._fences.holds
        state = (self._caches.nodes.revision, rules_hold)
        computed = self._lacking
        if computed is None or computed[0] != state or computed[1] is not configuration:
            nodes = (each.value for each in self._caches.nodes.all())
            owned = owned_pools(configuration)
            missing = report_all_unfenced(owned, nodes, rules_hold=rules_hold)
            computed = self._lacking = (state, configuration, [missing.message] if missing else [])
            self._was_fenced = missing is None
        return computed[2]

    def make_filter(self, configuration: Configuration, facts: Facts) -> OwnsPool:
        """Return the function that decides whether the allocator uses a pool now."""
        fences = self._fences
        return make_pool_filter(
            configuration, facts, fences.is_settled, fences.is_guarded, fences.unfenced
        )

    def follow_configuration(self, before: Configuration, after: Configuration) -> None:
        """Follow a change of the configuration, of which nodes become ours."""
        nodes = (each.value for each in self._caches.nodes.all())
        self._fences.follow_configuration(before, after, nodes, self._elapsed())

    def follow_node(
        self, before: CachedObject[Node] | None, after: CachedObject[Node] | None
    ) -> None:
        """Follow a change of a node, before anything is decided about its pools."""
        if (node := after or before) is not None:
            self._fences.follow_node(
                node.name,
                after.value if after else None,
                self._elapsed(),
                is_first=before is None,
                created=node.created,
            )

    def _follow_parts(self, *_: object) -> None:
        """Stop where the fence around devices ends, soon: other schedulers learn it as late."""
        ended = self._fences.follow_parts(self._caches.fence_parts(), self._elapsed())
        self._owner_turns.add(ended)

    def follow_lease(self) -> None:
        """Use what the policy allows only while it is as new as the Lease requires."""
        self._owner_turns.add(self._fences.follow_lease(is_behind=self._lacks_policy()))

    def begin_look(self) -> float | None:
        """Return when a look at all claims begins that makes a node or a pool usable."""
        now = self._elapsed()
        return now if self._fences.need_look(now) else None

    def list_taken_over(self, began: float) -> list[str]:
        """Return the nodes of others whose pods a look that began then has to show."""
        return self._fences.list_taken_over(began)

    def note_look(self, began: float, behind: Collection[str] = ()) -> None:
        """Use what has settled before a look at all claims, but not the nodes `behind`."""
        seconds = self._elapsed() - began
        self._owner_turns.add(self._fences.note_look(began, behind, seconds=seconds))
