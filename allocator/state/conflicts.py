"""The conflicts between allocations that exist now, and which allocations of ours have to yield.

Another allocator can write an allocation that contradicts one of ours, before or after ours. Each
change of a claim searches its own conflicts again, and those of the claims that it was in conflict
with. So the cost of a change does not depend on the rest of the cluster. What a driver publishes
decides which counters and capacities are exceeded, so when it has published a pool, claims of
others beside ours are searched again, and so is each conflict in it, which may have ended.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from allocator.state.seen_pods import SeenPods
from drawbridge.dra.inventory import PoolID
from drawbridge.index import Index
from drawbridge.ledger.audit import name_claims
from drawbridge.ledger.conflicts import (
    Conflict,
    ConflictLine,
    FindPool,
    describe_conflict,
    find_conflicts,
    find_rival,
)
from drawbridge.ledger.ledger import Ledger

MAX_CONFLICTS: Final = 1024
MAX_CONTESTS: Final = 256
# Of a claim with one GPU a search takes 0.1 ms, and with the worst claims 8 ms.
MAX_SEARCHES: Final = 4
_Key = tuple[str, str, str]


class ContestedClaim(NamedTuple):
    """A claim that our allocator allocated, and the claim of another one to which it yields."""

    ours: str
    theirs: str
    conflict: Conflict


class Conflicts:
    """The conflicts between allocated claims, up to a number of them.

    `find_pool` returns a pool as it is published, None while it is incomplete.
    """

    def __init__(self, ledger: Ledger, pods: SeenPods, find_pool: FindPool) -> None:
        self._ledger = ledger
        self._pods = pods
        self._find_pool = find_pool
        self._conflicts: dict[_Key, Conflict] = {}
        self._of_claim: Index[str, _Key] = Index()
        self._changed: dict[str, None] = {}
        self._published: dict[PoolID, None] = {}

    @property
    def has_changed(self) -> bool:
        """Whether claims or pools have changed whose conflicts are not searched yet."""
        return bool(self._changed or self._published)

    def note_change(self, uid: str) -> None:
        """Have the conflicts of a claim that changed searched."""
        self._changed[uid] = None

    def note_pool(self, pool: PoolID) -> None:
        """Have a pool that is published searched: its conflicts, and claims of others beside ours.

        A pool can have many slices, and many claims that are looked at: it is once for all slices.
        """
        self._published[pool] = None

    def _note_published(self, pool: PoolID) -> None:
        if self._find_pool(pool) is None:
            return
        conflicts = (each for each in self._conflicts.values() if each.pool == pool)
        self._changed |= dict.fromkeys(each.holders[0] for each in conflicts)
        allocated = [uid for uid in self._ledger.claims_in(pool) if uid in self._ledger.claims]
        theirs = [uid for uid in allocated if not self._is_ours(uid)]
        if len(theirs) < len(allocated):
            self._changed |= dict.fromkeys(theirs)

    def take_changed(self) -> Iterator[tuple[str, tuple[Conflict, ...]]]:
        """Search for the conflicts of claims that changed, of a few and one pool at a time.

        A claim is taken when its turn comes: a bug for one costs no other its search.
        """
        if self._published:
            pool = next(iter(self._published))
            del self._published[pool]
            self._note_published(pool)
        for uid in tuple(islice(self._changed, MAX_SEARCHES)):
            self._changed.pop(uid, None)
            yield uid, self.follow(uid)

    def start(self) -> None:
        """Find the conflicts of a state that was built as a whole, without a search for each claim.

        Claims of others in a pool in which ours have devices are searched.
        """
        self._changed = dict.fromkeys(self._find_missed())

    def follow(self, uid: str) -> tuple[Conflict, ...]:
        """Apply the change of a claim; return what its allocation contradicts now."""
        before = [self._remove(key) for key in tuple(self._of_claim.get(uid))]
        after = tuple(find_conflicts(self._ledger, self._find_pool, uid))
        for conflict in after:
            self._put(conflict)
        # The others can be in conflict without this claim.
        for conflict in before:
            rest = [each for each in conflict.holders if each != uid]
            if conflict.key not in self._conflicts and len(rest) > 1:
                for other in find_conflicts(self._ledger, self._find_pool, rest[0]):
                    self._put(other)
        return after

    def _find_missed(self) -> Iterator[str]:
        claims = self._ledger.claims
        ours = {hold.pool for each in claims.values() if each.ours for hold in each.holds}
        for uid, record in claims.items():
            if not self._is_ours(uid) and any(hold.pool in ours for hold in record.holds):
                yield uid

    def find_contest(self, uid: str) -> ContestedClaim | None:
        """Return why an allocation of ours has to yield, as everything is now."""
        if uid not in self._of_claim and not self.has_changed:
            return None
        self.follow(uid)  # the driver can have published other devices meanwhile
        return self._contest(uid)

    def describe(self, contest: ContestedClaim, *, unabridged: bool = False) -> str:
        """Say which device of our claim another claim holds as well.

        This names no claim of another namespace than ours, unless it is `unabridged`.
        """
        ours = self._ledger.claims[contest.ours]
        namespace = None if unabridged else ours.namespace
        theirs = name_claims(self._ledger, [contest.theirs], namespace)
        about = contest.conflict.finding.object
        return (
            f"the allocation of {theirs}, which another allocator wrote, contradicts claim "
            f"{ours.name}: {about}"
        )

    def list_contests(self) -> list[ContestedClaim]:
        """Return the allocations of ours that have to yield by the last searches, up to a number.

        Nothing is searched: this is asked several times a second.
        """
        contests = (self._contest(uid) for uid in self._of_claim)
        return list(islice(filter(None, contests), MAX_CONTESTS))

    def _contest(self, uid: str) -> ContestedClaim | None:
        for key in self._of_claim.get(uid):
            conflict = self._conflicts[key]
            rival = find_rival(conflict, self._ledger, uid, self._is_in_use, self._is_ours)
            if rival:
                return ContestedClaim(uid, rival, conflict)
        return None

    def list_lines(self) -> Iterator[ConflictLine]:
        """Yield each conflict with the names of two of its claims, ours first."""
        return (describe_conflict(each, self._ledger) for each in self._conflicts.values())

    def _is_ours(self, uid: str) -> bool:
        """Whether our allocator allocated a claim.

        A tenant can write the mark, but not for which pods the claim is reserved.
        """
        users = map(self._pods.get, self._pods.consumers(uid))
        return self._ledger.claims[uid].ours and not any(user.foreign for user in users)

    def _is_in_use(self, uid: str) -> bool:
        """Whether a pod that uses a claim has a node, or is not ours to try again."""
        pods = self._pods
        named = (user for _, user in pods.users_of(self._ledger.claims[uid].name))
        users = {*named, *pods.consumers(uid)}
        return any(pods.get(user).may_have_devices for user in users)

    def _put(self, conflict: Conflict) -> None:
        if not conflict.holders:
            return
        if conflict.key in self._conflicts:
            self._remove(conflict.key)
        if len(self._conflicts) >= MAX_CONFLICTS:
            self._remove(next(iter(self._conflicts)))
        self._conflicts[conflict.key] = conflict
        self._of_claim.move(conflict.key, (), conflict.holders)

    def _remove(self, key: _Key) -> Conflict:
        conflict = self._conflicts.pop(key)
        self._of_claim.move(key, conflict.holders, ())
        return conflict
