"""How long pods, groups and all groups of a namespace pause after something was in vain.

A pause grows with each failure. A tenant can make groups without an end, so that those of its
namespace pause as well when several of them have failed and did not succeed since. What another
group does well forgives nothing.
"""

from typing import Final, NamedTuple

import msgspec

# So many groups of a namespace may fail before all of its groups pause.
FREE_FAILURES: Final = 4
# A group that did not fail for this time counts no longer for its namespace.
FAILING_SECONDS: Final = 900.0
# More groups make no pause longer.
MAX_FAILING: Final = 32


class PauseLimits(NamedTuple):
    """The first pause and the longest one, in seconds."""

    first: float
    longest: float

    def seconds(self, failures: int) -> float:
        """Return how long the pause after so many failures is."""
        # A bounded exponent, because the number of failures is not.
        return min(self.first * 2.0 ** min(failures - 1, 20), self.longest)


# Of a pod that was woken in vain, or a group whose devices were held in vain.
WAKE_PAUSES: Final = PauseLimits(1.0, 60.0)


class Pause(NamedTuple):
    """How often something was in vain, and until when the next attempt pauses."""

    failures: int = 0
    until: float = 0.0

    def grown(self, now: float, limits: PauseLimits = WAKE_PAUSES, factor: float = 1.0) -> "Pause":
        """Return the next pause, `factor` times as long as usual."""
        failures = self.failures + 1
        return Pause(failures, now + factor * limits.seconds(failures))

    def extended(self, until: float) -> "Pause":
        """Return a pause that lasts at least until a time."""
        return self._replace(until=max(until, self.until))

    def shrunk(self, until: float) -> "Pause":
        """Return a pause that lasts at most until a time; the next one is short again."""
        return Pause(until=min(until, self.until))


NO_PAUSE: Final = Pause()


class NamespacePause(msgspec.Struct, frozen=True):
    """When each group failed last, and until when all groups of a namespace pause."""

    failed: dict[str, float] = {}
    until: float = 0.0

    def grown(self, key: str, now: float, limits: PauseLimits, factor: float) -> "NamespacePause":
        """Return the pause after a group has failed."""
        since, before = now - FAILING_SECONDS, self._without(key)
        recent = [(each, at) for each, at in before.items() if at > since]
        failed = {**dict(recent[-MAX_FAILING:]), key: now}
        if len(failed) <= FREE_FAILURES:
            return NamespacePause(failed, self.until)
        return NamespacePause(failed, now + factor * limits.seconds(len(failed) - FREE_FAILURES))

    def forgiven(self, key: str) -> "NamespacePause":
        """Return the pause after a group that had failed has succeeded."""
        failed = self._without(key)
        return NamespacePause(failed, self.until if len(failed) > FREE_FAILURES else 0.0)

    def _without(self, key: str) -> dict[str, float]:
        return {each: at for each, at in self.failed.items() if each != key}
