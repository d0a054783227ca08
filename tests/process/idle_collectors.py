"""All collectors of metrics, of processes that have nothing to tell."""

from typing import Any

from drawbridge.process import metrics
from drawbridge.process.conflict_metrics import ConflictCollector
from drawbridge.process.quota_metrics import QuotaCollector
from drawbridge.process.stuck_metrics import StuckCollector
from drawbridge.process.usage_metrics import Usage, UsageCollector


class _Idle:
    """An unused cache, recorder and session, and a cluster without devices."""

    hits = misses = failures = dropped = 0
    reachable = True

    def __len__(self) -> int:
        return 0

    async def read(self) -> Usage:
        """Return no device."""
        return Usage()

    def held(self) -> tuple[()]:
        """Return no account and no device."""
        return ()

    used = devices = held


def idle_collectors() -> tuple[Any, ...]:
    """Return one collector of each kind."""
    idle: Any = _Idle()
    return (
        metrics.CacheCollector(lambda: ()),
        metrics.AnswerCacheCollector(idle),
        metrics.ReachabilityCollector(idle),
        metrics.EventCollector(idle),
        UsageCollector(idle),
        ConflictCollector(tuple),
        QuotaCollector(tuple),
        StuckCollector(tuple, dict),
    )
