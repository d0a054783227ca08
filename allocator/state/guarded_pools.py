"""The pools whose devices no other client can allocate, because the API server refuses it.

They are used on nodes without the taint as well, after the settle time and a look at all claims.
The time begins when this process sees that the policy names a pool: no object tells since when. So
it is a time of this process, which a wrong clock of one of several API servers does not change.
"""

from typing import Final, NamedTuple

from drawbridge.agreement.device_fence import FencePart, FenceParts, find_fenced_pools
from drawbridge.agreement.owned_pools import SETTLE_SECONDS
from drawbridge.dra.inventory import PoolID

_NONE: Final[frozenset[PoolID]] = frozenset()


class _Version(NamedTuple):
    uid: str
    generation: int

    def continues(self, before: "_Version") -> bool:
        """Whether no version was in between that this process has not seen."""
        return self.uid == before.uid and 0 <= self.generation - before.generation <= 1


class GuardedPools:
    """The pools that the policy names; all times are of one clock that is never set."""

    def __init__(self, namespace: str, looked_at: float) -> None:
        self._namespace = namespace
        self._looked_at = looked_at
        self._versions: tuple[_Version | None, ...] = ()
        self._since: dict[PoolID, float] = {}
        self._settled = _NONE
        self.holds = False  # whether the API server keeps the fence, around no matter which pools

    def follow(self, parts: FenceParts, now: float) -> frozenset[PoolID]:
        """Follow a change of the fence; return the pools of which it decides anew."""
        versions = tuple(map(_version, parts))
        before, self._versions = self._versions, versions
        named = find_fenced_pools(parts, self._namespace)
        self.holds = named is not None
        since = self._since if _continue(before, versions) else {}
        self._since = {pool: since.get(pool, now) for pool in named or ()}
        return self._settle()

    def is_settled(self, pool: PoolID) -> bool:
        """Whether others have allocated nothing from a pool that a look has not seen."""
        return pool in self._settled

    def need_look(self, now: float) -> bool:
        """Whether a look at the claims makes a pool usable."""
        return any(
            self._looked_at < since + SETTLE_SECONDS <= now for since in self._since.values()
        )

    def note_look(self, began: float) -> frozenset[PoolID]:
        """Return the pools of which a look decides anew that began at a time."""
        self._looked_at = began
        return self._settle()

    def _settle(self) -> frozenset[PoolID]:
        before = self._settled
        self._settled = frozenset(
            pool for pool, since in self._since.items() if since + SETTLE_SECONDS <= self._looked_at
        )
        return before ^ self._settled


def _version(part: FencePart | None) -> _Version | None:
    return None if part is None else _Version(part.metadata.uid, part.metadata.generation)


def _continue(before: tuple[_Version | None, ...], after: tuple[_Version | None, ...]) -> bool:
    pairs = zip(before, after, strict=False)
    return all(old is not None and new is not None and new.continues(old) for old, new in pairs)
