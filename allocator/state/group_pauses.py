"""How long groups pause after something was in vain, and all groups of a namespace after several.

A pause grows with each failure of a group. A tenant can make groups without an end, so that those
of its namespace pause as well when several of them have failed and did not succeed since. What
another group does well forgives nothing.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from allocator.state.group_records import NO_PAUSE, GroupPause, GroupTable
from drawbridge.bounded_cache import BoundedCache

# So many groups of a namespace may fail before all of its groups pause.
FREE_FAILURES: Final = 4
# A group that did not fail for this time counts no longer for its namespace.
FAILING_SECONDS: Final = 900.0
# More groups make no pause longer.
MAX_FAILING: Final = 32
# Groups beyond are answered as if none had failed.
MAX_GROUPS: Final = 4096


PauseKind: TypeAlias = Literal["pause", "eviction_pause"]


class _Namespace(msgspec.Struct, frozen=True):
    """When each group failed last, and until when all of them pause."""

    failed: dict[str, float] = {}
    until: float = 0.0


_NO_FAILURES: Final = _Namespace()


class GroupPauses:
    """The pauses of groups, from `first` seconds to `longest`; a `kind` is a part of the record."""

    def __init__(self, groups: GroupTable, kind: PauseKind, first: float, longest: float) -> None:
        self._groups, self._kind = groups, kind
        self._first, self._longest = first, longest
        # Failures of the groups of a namespace, once for holds and once for evictions.
        self._namespaces: BoundedCache[str, _Namespace] = BoundedCache(MAX_GROUPS)

    def until(self, key: str) -> float:
        """Return when the pause of a group ends; 0 if there was none."""
        namespace = self._namespaces.get(namespace_of_group(key)) or _NO_FAILURES
        return max(self._find(key).until, namespace.until)

    def _find(self, key: str) -> GroupPause:
        record = self._groups.get(key)
        return record.pause if self._kind == "pause" else record.eviction_pause

    def fail(self, key: str, now: float, factor: float = 1.0) -> None:
        """Begin a pause, `factor` times as long as usual."""
        failures = self._find(key).failures + 1
        pause = GroupPause(failures, now + factor * self._seconds(failures))
        self._groups.change(key, **{self._kind: pause})
        name = namespace_of_group(key)
        before = self._namespaces.get(name) or _NO_FAILURES
        since = now - FAILING_SECONDS
        failed = {each: at for each, at in before.failed.items() if at > since and each != key}
        failed = {**dict(tuple(failed.items())[-MAX_FAILING:]), key: now}
        until = before.until
        if len(failed) > FREE_FAILURES:
            until = now + factor * self._seconds(len(failed) - FREE_FAILURES)
        self._namespaces.put(name, _Namespace(failed, until))

    def _seconds(self, failures: int) -> float:
        return min(self._first * 2.0 ** min(failures - 1, 20), self._longest)

    def succeed(self, key: str) -> None:
        """Forget that a group failed."""
        if not self._find(key).failures:
            return
        self._groups.change(key, **{self._kind: NO_PAUSE})
        name = namespace_of_group(key)
        before = self._namespaces.get(name) or _NO_FAILURES
        failed = {each: at for each, at in before.failed.items() if each != key}
        until = before.until if len(failed) > FREE_FAILURES else 0.0
        self._namespaces.put(name, _Namespace(failed, until))

    def clear(self) -> None:
        """Forget the failures of namespaces; those of groups go with their records."""
        self._namespaces.clear()


def namespace_of_group(key: str) -> str:
    """Return the namespace that the key of a group begins with."""
    return key.partition("/")[0]
