"""How long groups pause after something was in vain, and all groups of a namespace after several.

A pause grows with each failure of a group. A tenant can make groups without an end, so that those
of its namespace pause as well when several of them have failed and did not succeed since. What
another group does well forgives nothing.
"""

from typing import Final, Literal, TypeAlias

from allocator.state.group_records import NO_PAUSE, GroupPause, GroupTable, NamespacePause

# So many groups of a namespace may fail before all of its groups pause.
FREE_FAILURES: Final = 4
# A group that did not fail for this time counts no longer for its namespace.
FAILING_SECONDS: Final = 900.0
# More groups make no pause longer.
MAX_FAILING: Final = 32
PauseKind: TypeAlias = Literal["pause", "eviction_pause"]


class GroupPauses:
    """The pauses of one kind, a part of the records, from `first` seconds to `longest`."""

    def __init__(self, groups: GroupTable, kind: PauseKind, first: float, longest: float) -> None:
        self._groups, self._kind = groups, kind
        self._first, self._longest = first, longest

    def until(self, key: str) -> float:
        """Return when the pause of a group ends; 0 if there was none."""
        return max(self._of_group(key).until, self._of_namespace(key).until)

    def fail(self, key: str, now: float, factor: float = 1.0) -> None:
        """Begin a pause, `factor` times as long as usual."""
        failures, before = self._of_group(key).failures + 1, self._of_namespace(key)
        pause = GroupPause(failures, now + factor * self._seconds(failures))
        since = now - FAILING_SECONDS
        failed = {each: at for each, at in before.failed.items() if at > since and each != key}
        failed = {**dict(tuple(failed.items())[-MAX_FAILING:]), key: now}
        until = before.until
        if len(failed) > FREE_FAILURES:
            until = now + factor * self._seconds(len(failed) - FREE_FAILURES)
        self._change(key, pause, NamespacePause(failed, until))

    def succeed(self, key: str) -> None:
        """Forget that a group failed."""
        if self._of_group(key).failures:
            before = self._of_namespace(key)
            failed = {each: at for each, at in before.failed.items() if each != key}
            until = before.until if len(failed) > FREE_FAILURES else 0.0
            self._change(key, NO_PAUSE, NamespacePause(failed, until))

    def _seconds(self, failures: int) -> float:
        return min(self._first * 2.0 ** min(failures - 1, 20), self._longest)

    def _of_group(self, key: str) -> GroupPause:
        pause: GroupPause = getattr(self._groups.get(key), self._kind)
        return pause

    def _of_namespace(self, key: str) -> NamespacePause:
        pause: NamespacePause = getattr(self._groups.of_namespace(key), self._kind)
        return pause

    def _change(self, key: str, own: GroupPause, of_namespace: NamespacePause) -> None:
        self._groups.change(key, **{self._kind: own})
        self._groups.change_namespace(key, **{self._kind: of_namespace})
