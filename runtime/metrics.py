"""What the processes count, under controller-runtime's names where it has one, else under ours.

Labels are bounded: names of ours, of the API and of outcomes, never what a tenant writes. One
registry a process. Knows nothing of who counts.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from runtime.counters import Tally, Times

REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

REQUESTS: Final = Tally(
    "controller_runtime_webhook_requests",
    "Admission requests by webhook and HTTP status.",
    ["webhook", "code"],
    REGISTRY,
)
LATENCY: Final = Times(
    "controller_runtime_webhook_latency_seconds",
    "How long an admission request took.",
    "webhook",
    (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    REGISTRY,
)
IN_FLIGHT: Final = Gauge(
    "controller_runtime_webhook_requests_in_flight",
    "Admission requests being answered.",
    ["webhook"],
    registry=REGISTRY,
)
PANICS: Final = Counter(
    "controller_runtime_webhook_panics",
    "Admission requests that met a bug of ours.",
    registry=REGISTRY,
)
TRANSLATIONS: Final = Tally(
    "drawbridge_translations",
    "Answers by webhook, operation and outcome.",
    ["webhook", "operation", "outcome"],
    REGISTRY,
)
FINDINGS: Final = Tally(
    "drawbridge_findings", "Findings told in answers, by code.", ["code"], REGISTRY
)
TEMPLATES: Final = Counter(
    "drawbridge_templates_ensured",
    "ResourceClaimTemplates ensured for pods, by result.",
    ["result"],
    registry=REGISTRY,
)
CERTIFICATE: Final = Gauge(
    "drawbridge_certificate_expiry_seconds",
    "Unix time at which the serving certificate expires.",
    registry=REGISTRY,
)
CERTIFICATE_READS: Final = Counter(
    "drawbridge_certificate_reads",
    "Times the serving certificate was read from its files, by result.",
    ["result"],
    registry=REGISTRY,
)
CONFIGURATION_READS: Final = Counter(
    "drawbridge_configuration_reads",
    "Times a changed configuration was read, by result.",
    ["result"],
    registry=REGISTRY,
)
CONFIGURATION_GOOD: Final = Gauge(
    "drawbridge_configuration_good",
    "1 while the configuration in use is the one in the file.",
    registry=REGISTRY,
)
FACTS_READS: Final = Counter(
    "drawbridge_facts_reads",
    "Times published facts were read, by result.",
    ["result"],
    registry=REGISTRY,
)
STEPS: Final = Counter(
    "drawbridge_controller_steps",
    "Steps of the controller's duties by outcome.",
    ["duty", "outcome"],
    registry=REGISTRY,
)
MET: Final = Counter(
    "drawbridge_controller_events",
    "What the controller's duties did and met.",
    ["duty", "what"],
    registry=REGISTRY,
)
LEVEL: Final = Gauge(
    "drawbridge_controller_level",
    "What the controller's duties see now, such as conditions that are inactive.",
    ["duty", "what"],
    registry=REGISTRY,
)


class Watched(Protocol):
    """What is told of a cache."""

    @property
    def synced(self) -> bool:
        """Whether it has seen everything once."""

    @property
    def restarts(self) -> int:
        """How often its watch began again."""

    def age(self) -> float:
        """Seconds since the server last said anything."""


class Caches(Collector):
    """Reads the caches when somebody looks, so that an age is never an old one."""

    def __init__(self, caches: Callable[[], Iterable[tuple[str, Watched]]]) -> None:
        self._caches = caches

    def collect(self) -> Iterator[Metric]:
        """Give age, state and restarts by resource."""
        age = GaugeMetricFamily(
            "drawbridge_cache_age_seconds",
            "Seconds since the API server last said anything about a cache.",
            labels=["resource"],
        )
        synced = GaugeMetricFamily(
            "drawbridge_cache_synced", "1 once a cache has seen everything.", labels=["resource"]
        )
        restarts = CounterMetricFamily(
            "drawbridge_watch_restarts", "Times a watch was begun again.", labels=["resource"]
        )
        for name, cache in self._caches():
            age.add_metric([name], cache.age())
            synced.add_metric([name], float(cache.synced))
            restarts.add_metric([name], cache.restarts)
        yield from (age, synced, restarts)


class Remembered(Protocol):
    """What is told of a memory of answers."""

    @property
    def hits(self) -> int:
        """Answers that were remembered."""

    @property
    def misses(self) -> int:
        """Answers that had to be found."""

    def __len__(self) -> int:
        """How many are kept."""


class Memories(Collector):
    """Reads the memory of answers when somebody looks."""

    def __init__(self, memory: Remembered) -> None:
        self._memory = memory

    def collect(self) -> Iterator[Metric]:
        """Give how many answers are kept and how often that helped."""
        kept = "drawbridge_remembered_answers"
        yield GaugeMetricFamily(kept, "Answers kept for equal pods.", len(self._memory))
        asked = CounterMetricFamily(
            "drawbridge_remembered_questions", "Pods looked up by result.", labels=["result"]
        )
        asked.add_metric(["hit"], self._memory.hits)
        asked.add_metric(["miss"], self._memory.misses)
        yield asked
