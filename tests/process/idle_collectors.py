"""All collectors of metrics, of processes that have nothing to tell."""

from prometheus_client.registry import Collector

from allocator.metrics import collect_conflicts, collect_quotas
from drawbridge.process import metrics
from drawbridge.process.stuck_metrics import collect_stuck
from drawbridge.process.usage_metrics import Usage, UsageCollector
from webhook.server.process import collect_answer_cache


class _Idle:
    """A cluster without devices."""

    async def read(self) -> Usage:
        """Return no device."""
        return Usage()


def idle_collectors() -> tuple[Collector, ...]:
    """Return one collector of each kind."""
    return (
        UsageCollector(_Idle()),
        *map(
            metrics.ReadCollector,
            (
                metrics.collect_caches,
                lambda: collect_answer_cache(0, 0, 0),
                lambda: metrics.collect_readiness(ready=True),
                lambda: metrics.collect_reachability(0, reachable=True),
                lambda: metrics.collect_events(0),
                lambda: collect_conflicts(()),
                lambda: collect_quotas(()),
                lambda: collect_stuck((), {}),
            ),
        ),
    )
