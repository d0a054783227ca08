"""How long groups pause after something was in vain, and all groups of a namespace after several.

A pause grows with each failure of a group. A tenant can make groups without an end, so that those
of its namespace pause as well when several of them have failed and did not succeed since. What
another group does well forgives nothing.
"""

from typing import Final

import msgspec

from drawbridge.bounded_cache import BoundedCache

# So many groups of a namespace may fail before all of its groups pause.
FREE_FAILURES: Final = 4
# A group that did not fail for this time counts no longer for its namespace.
FAILING_SECONDS: Final = 900.0
# More groups make no pause longer.
MAX_FAILING: Final = 32
# Groups beyond are answered as if none had failed.
MAX_GROUPS: Final = 4096


class _Pause(msgspec.Struct, frozen=True):
    failures: int = 0
    until: float = 0.0


class _Namespace(msgspec.Struct, frozen=True):
    """When each group failed last, and until when all of them pause."""

    failed: dict[str, float] = {}
    until: float = 0.0


_NO_PAUSE: Final = _Pause()
_NO_FAILURES: Final = _Namespace()


class GroupPauses:
    """The pauses of groups, from `first` seconds to `longest`, by keys that name the namespace."""

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        # Failures and pauses of groups, once for holds and once for evictions.
        self._groups: BoundedCache[str, _Pause] = BoundedCache(MAX_GROUPS)
        # The same of all groups of a namespace.
        self._namespaces: BoundedCache[str, _Namespace] = BoundedCache(MAX_GROUPS)

    def until(self, key: str) -> float:
        """Return when the pause of a group ends; 0 if there was none."""
        namespace = self._namespaces.get(namespace_of_group(key)) or _NO_FAILURES
        return max((self._groups.get(key) or _NO_PAUSE).until, namespace.until)

    def fail(self, key: str, now: float, factor: float = 1.0) -> None:
        """Begin a pause, `factor` times as long as usual."""
        failures = (self._groups.get(key) or _NO_PAUSE).failures + 1
        self._groups.put(key, _Pause(failures, now + factor * self._seconds(failures)))
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
        if self._groups.pop(key) is None:
            return
        name = namespace_of_group(key)
        before = self._namespaces.get(name) or _NO_FAILURES
        failed = {each: at for each, at in before.failed.items() if each != key}
        until = before.until if len(failed) > FREE_FAILURES else 0.0
        self._namespaces.put(name, _Namespace(failed, until))

    def clear(self) -> None:
        """Forget all failures."""
        self._groups.clear()
        self._namespaces.clear()


def namespace_of_group(key: str) -> str:
    """Return the namespace that the key of a group begins with."""
    return key.partition("/")[0]
