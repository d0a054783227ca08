"""The metrics of all processes, with the names of controller-runtime where it has the same metric.

Label values are bounded: of what users write, only some names. `REGISTRY` has the metrics of every
process. The other registries are those of some processes, which open them with `registered`. So
no process exposes the 0 of a state that it does not have.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drawbridge.process.counters import UnlockedCounter, UnlockedHistogram

REGISTRY: Final = CollectorRegistry()
REVIEWS: Final = CollectorRegistry()  # what answers reviews
WEBHOOK: Final = CollectorRegistry()
CONTROLLER: Final = CollectorRegistry()
ALLOCATOR: Final = CollectorRegistry()
SERVING: Final = CollectorRegistry()  # what has a serving certificate
AUTHORITIES: Final = CollectorRegistry()  # what reads the Secret of the CA
FACTS: Final = CollectorRegistry()  # what reads the published facts
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

_RESULTS: Final = ("success", "error")

BUILD_INFO: Final = Gauge(
    "drawbridge_build_info",
    "1; the labels are the version, the commit and the version of Python.",
    ["version", "commit", "python"],
    registry=REGISTRY,
)
UNHANDLED_EXCEPTIONS: Final = Counter(
    "drawbridge_unhandled_exceptions",
    "Log lines about an unhandled exception. Each is a bug.",
    registry=REGISTRY,
)
REQUESTS: Final = UnlockedCounter(
    "controller_runtime_webhook_requests",
    "Admission requests by webhook and HTTP status.",
    ["webhook", "code"],
    REVIEWS,
    [("200", "429", "500", "503", "504")],
)
LATENCY: Final = UnlockedHistogram(
    "controller_runtime_webhook_latency_seconds",
    "Duration of admission requests that were reviewed, in seconds.",
    "webhook",
    (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    REVIEWS,
)
IN_FLIGHT: Final = Gauge(
    "controller_runtime_webhook_requests_in_flight",
    "Admission requests in progress.",
    ["webhook"],
    registry=REVIEWS,
)
PANICS: Final = Counter(
    "controller_runtime_webhook_panics",
    "Admission requests that ended in an unhandled exception.",
    registry=REVIEWS,
)
TRANSLATIONS: Final = UnlockedCounter(
    "drawbridge_translations",
    "Admission responses by webhook, operation and outcome; dry-run is an outcome of its own.",
    ["webhook", "operation", "outcome"],
    REVIEWS,
    [("", "CREATE", "UPDATE"), ("error",)],
)
FINDINGS: Final = UnlockedCounter(
    "drawbridge_findings", "Findings in admission responses, by code.", ["code"], REVIEWS
)
# The collectors of usage, quotas, conflicts and what is stuck have names of users in labels, too.
DECISIONS: Final = UnlockedCounter(
    "drawbridge_decisions",
    "Decisions about created pods that ask for devices, without dry runs. Of many namespaces,"
    " one that comes counts as other, unless another one had none for an hour.",
    ["namespace", "mode", "verdict"],
    WEBHOOK,
    [("enforce", "report"), ("translated", "left", "refused")],
)
DECISIONS.name_values(0)  # `serve webhook` sets it
TEMPLATES: Final = Counter(
    "drawbridge_templates_ensured",
    "ResourceClaimTemplates ensured for pods, by result.",
    ["result"],
    registry=WEBHOOK,
)
CERTIFICATE: Final = Gauge(
    "drawbridge_certificate_expiry_seconds",
    "Unix time at which the serving certificate expires.",
    registry=SERVING,
)
CERTIFICATE_RENEWAL: Final = Gauge(
    "drawbridge_certificate_renewal_seconds",
    "Unix time at which the renewal of the serving certificate is due.",
    registry=SERVING,
)
CERTIFICATE_READS: Final = UnlockedCounter(
    "drawbridge_certificate_reads",
    "Reads of the serving certificate, by result.",
    ["result"],
    SERVING,
    [_RESULTS],
)
AUTHORITY: Final = Gauge(
    "drawbridge_ca_expiry_seconds",
    "Unix time at which the CA that signs serving certificates expires.",
    registry=AUTHORITIES,
)
AUTHORITY_ROTATION: Final = Gauge(
    "drawbridge_ca_rotation_seconds",
    "Unix time at which the rotation of the CA is due.",
    registry=AUTHORITIES,
)
AUTHORITY_SECRET_VALID: Final = Gauge(
    "drawbridge_ca_secret_valid",
    "1 if the Secret of the CA is complete and was written by Drawbridge.",
    registry=AUTHORITIES,
)
AUTHORITY_STEPS: Final = Counter(
    "drawbridge_ca_steps",
    "Changes of the Secret of the CA by the leading controller, by step.",
    ["step"],
    registry=CONTROLLER,
)
INJECTIONS: Final = UnlockedCounter(
    "drawbridge_ca_injections",
    "Writes of caBundle into webhook configurations, by result.",
    ["result"],
    CONTROLLER,
    [_RESULTS],
)
BUNDLES_MISSING: Final = Gauge(
    "drawbridge_ca_bundles_missing",
    "Webhook configurations that lack a certificate of the CA; only in the leading controller.",
    registry=CONTROLLER,
)
CONFIGURATION_READS: Final = UnlockedCounter(
    "drawbridge_configuration_reads",
    "Reads of a changed configuration, by result.",
    ["result"],
    REGISTRY,
    [_RESULTS],
)
CONFIGURATION_GOOD: Final = Gauge(
    "drawbridge_configuration_good",
    "1 if the configuration in ConfigMap drawbridge-config is in use.",
    registry=REGISTRY,
)
CONFIGURATION_IN_USE: Final = Gauge(
    "drawbridge_configuration_in_use",
    "1 for the hash of the configuration in use.",
    ["hash"],
    registry=REGISTRY,
)
FACTS_READS: Final = UnlockedCounter(
    "drawbridge_facts_reads",
    "Reads of published facts, by result.",
    ["result"],
    FACTS,
    [_RESULTS],
)
FACTS_GOOD: Final = Gauge(
    "drawbridge_facts_good", "1 if the published facts are in use.", registry=FACTS
)
CONTROLLER_STEPS: Final = Counter(
    "drawbridge_controller_steps",
    "Reconciliations by reconciler and outcome.",
    ["reconciler", "outcome"],
    registry=CONTROLLER,
)
CONTROLLER_FAILING: Final = Gauge(
    "drawbridge_controller_failing",
    "1 if the last run of a reconciler failed; only in the leading controller.",
    ["reconciler"],
    registry=CONTROLLER,
)
CONTROLLER_PANICS: Final = Counter(
    "drawbridge_controller_panics",
    "Unhandled exceptions: of a run of a reconciler, or of its work on one object.",
    registry=CONTROLLER,
)
CONTROLLER_EVENTS: Final = Counter(
    "drawbridge_controller_events",
    "Changes and problems by reconciler.",
    ["reconciler", "what"],
    registry=CONTROLLER,
)
# Only the leading controller sets the gauges below; in other replicas they are 0.
CONTROLLER_LEADING: Final = Gauge(
    "drawbridge_controller_leading",
    "1 in the controller that holds the Lease.",
    registry=CONTROLLER,
)
PODS_WITHOUT_TEMPLATE: Final = Gauge(
    "drawbridge_pods_without_template",
    "Pending pods whose ResourceClaimTemplate the controller cannot create.",
    registry=CONTROLLER,
)
MATCH_CONDITIONS_INACTIVE: Final = Gauge(
    "drawbridge_match_conditions_inactive",
    "Reasons why the API server may not call all webhooks of Drawbridge.",
    registry=CONTROLLER,
)
DUAL_NODES: Final = Gauge(
    "drawbridge_dual_nodes",
    "Nodes where a device plugin and a DRA driver advertise the same devices.",
    registry=CONTROLLER,
)
DUAL_NODE_IDLE_DEVICES: Final = Gauge(
    "drawbridge_dual_node_idle_devices",
    "Idle DRA devices on nodes where a device plugin advertises the same devices.",
    registry=CONTROLLER,
)
OWNED_NODES: Final = Gauge(
    "drawbridge_owned_nodes",
    "Nodes with pools that only the allocator of Drawbridge allocates from.",
    registry=CONTROLLER,
)
UNFENCED_NODES: Final = Gauge(
    "drawbridge_unfenced_nodes",
    "Owned nodes that lack the taint that keeps pods of other schedulers away.",
    registry=CONTROLLER,
)
MOVING_NODES: Final = Gauge(
    "drawbridge_moving_nodes",
    "Nodes that a plan of `drawbridge audit` has begun to move to a driver, and not ended.",
    registry=CONTROLLER,
)
ALLOCATOR_LEADING: Final = Gauge(
    "drawbridge_allocator_leading",
    "1 in the allocator beside the kube-scheduler that leads, after its recovery.",
    registry=ALLOCATOR,
)
ALLOCATOR_READY: Final = Gauge(
    "drawbridge_allocator_ready",
    "1 if the allocator could decide and its scheduler plugin is connected, leading or not.",
    registry=ALLOCATOR,
)
ALLOCATOR_BINDS: Final = UnlockedCounter(
    "drawbridge_allocator_binds",
    "Attempts to bind a pod by outcome: bound, waits (its devices are not ready), or failed.",
    ["outcome"],
    ALLOCATOR,
    [("bound", "waits", "failed")],
)
ALLOCATOR_CALLS: Final = UnlockedCounter(
    "drawbridge_allocator_calls",
    "Calls of the scheduler plugin, by call and result.",
    ["call", "result"],
    ALLOCATOR,
    [("OK", "Bug")],
)
ALLOCATOR_LATENCY: Final = UnlockedHistogram(
    "drawbridge_allocator_call_seconds",
    "Duration of the calls of the scheduler plugin in seconds.",
    "call",
    (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 120),
    ALLOCATOR,
)
API_REQUESTS: Final = UnlockedCounter(
    "drawbridge_api_requests",
    "Requests to the API of the allocator, by call and HTTP status.",
    ["call", "code"],
    ALLOCATOR,
)
API_LATENCY: Final = UnlockedHistogram(
    "drawbridge_api_request_seconds",
    "Duration of requests to the API of the allocator in seconds.",
    "call",
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    ALLOCATOR,
)
ALLOCATOR_WAITING: Final = Gauge(
    "drawbridge_allocator_waiting_pods",
    "Pods that wait for devices, or for the scheduler after the allocator has found devices.",
    registry=ALLOCATOR,
)
ALLOCATOR_PREEMPTIONS: Final = UnlockedCounter(
    "drawbridge_allocator_preemptions",
    "Requests for victims by outcome: victims, waits for devices that are released, or none.",
    ["outcome"],
    ALLOCATOR,
    [("victims", "waits", "none")],
)
ALLOCATOR_VICTIMS: Final = Counter(
    "drawbridge_allocator_victims",
    "Pods that are evicted so that a pod with a higher priority gets their devices.",
    registry=ALLOCATOR,
)
ALLOCATOR_VIOLATIONS: Final = Counter(
    "drawbridge_allocator_budget_violations",
    "Victims of preemption for devices whose eviction violates a PodDisruptionBudget.",
    registry=ALLOCATOR,
)
ALLOCATOR_HOLDS_ENDED: Final = UnlockedCounter(
    "drawbridge_allocator_group_holds_ended",
    "Holds of devices for gangs that ended before all members were reserved, by cause.",
    ["cause"],
    ALLOCATOR,
)
ALLOCATOR_DOUBLES: Final = Counter(
    "drawbridge_allocator_double_allocations",
    "Devices that were found allocated to several claims although only one can have them.",
    registry=ALLOCATOR,
)
ALLOCATOR_TAKEN_BACK: Final = Counter(
    "drawbridge_allocator_allocations_taken_back",
    "Allocations of claims that were taken back because another allocator wrote one against them.",
    registry=ALLOCATOR,
)
ALLOCATOR_MARKS_REMOVED: Final = Counter(
    "drawbridge_allocator_marks_removed",
    "Marks without an allocation that were removed, because no process continued the write.",
    registry=ALLOCATOR,
)
ALLOCATOR_NOT_UNDONE: Final = Gauge(
    "drawbridge_allocator_writes_not_undone",
    "Unfinished writes that could not be undone yet: their devices can be held meanwhile.",
    registry=ALLOCATOR,
)
ALLOCATOR_UNEXPECTED: Final = Gauge(
    "drawbridge_allocator_unexpected_transitions",
    "Changes of the state of a pod in the allocator that cannot happen: each is a bug.",
    registry=ALLOCATOR,
)
ALLOCATOR_RECORDS: Final = Gauge(
    "drawbridge_allocator_records",
    "What the allocator keeps: of pods that wait or get devices, and claims of vanished pods.",
    ["of"],
    registry=ALLOCATOR,
)
ALLOCATOR_HELD: Final = Gauge(
    "drawbridge_allocator_held_devices",
    "Devices reserved for longer than 30 s for pods between Reserve and Bind.",
    registry=ALLOCATOR,
)
OTHER_WEBHOOKS: Final = Gauge(
    "drawbridge_other_webhooks",
    "Known webhooks of other projects that act on the same pods.",
    registry=CONTROLLER,
)


class CacheStatistics(Protocol):
    """The statistics of a watch cache."""

    @property
    def synced(self) -> bool:
        """Whether the first list is complete."""

    @property
    def restarts(self) -> int:
        """The number of restarts of the watch."""

    @property
    def too_large(self) -> int:
        """The number of objects that are not kept whole."""

    def age(self) -> float:
        """Return the seconds since the last data from the API server."""


class ReadCollector(Collector):
    """Has the metrics that a function reads at scrape time."""

    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Read the metrics."""
        return self._read()


Source = Collector | CollectorRegistry | Callable[[], Iterable[Metric]]


def collect_caches(
    *sources: Callable[[], Iterable[tuple[str, CacheStatistics]]],
) -> Iterator[Metric]:
    """Return age, state and restarts of the watch caches by resource."""
    age = GaugeMetricFamily(
        "drawbridge_cache_age_seconds",
        "Seconds since the last data from the API server for a cache.",
        labels=["resource"],
    )
    synced = GaugeMetricFamily(
        "drawbridge_cache_synced",
        "1 if the first list of a cache is complete.",
        labels=["resource"],
    )
    restarts = CounterMetricFamily(
        "drawbridge_watch_restarts", "Restarts of a watch.", labels=["resource"]
    )
    too_large = GaugeMetricFamily(
        "drawbridge_cache_too_large_objects",
        "Objects that are not kept whole: their namespace or node has more than its share.",
        labels=["resource"],
    )
    for name, cache in (named for source in sources for named in source()):
        age.add_metric([name], cache.age())
        synced.add_metric([name], float(cache.synced))
        restarts.add_metric([name], cache.restarts)
        too_large.add_metric([name], cache.too_large)
    yield from (age, synced, restarts, too_large)


def collect_readiness(*, ready: bool) -> Iterator[Metric]:
    """Return whether the process is ready."""
    yield GaugeMetricFamily("drawbridge_ready", "1 if /readyz has status 200.", float(ready))


def collect_reachability(failures: int, *, reachable: bool) -> Iterator[Metric]:
    """Return whether the API server responded last, and the number of requests without response."""
    yield GaugeMetricFamily(
        "drawbridge_api_server_reachable",
        "1 if the API server responded to the last request.",
        float(reachable),
    )
    yield CounterMetricFamily(
        "drawbridge_api_server_unreachable",
        "Requests to the API server that got no response.",
        failures,
    )


def collect_events(dropped: int) -> Iterator[Metric]:
    """Return the number of findings without an event."""
    yield CounterMetricFamily(
        "drawbridge_events_dropped",
        "Findings without an event: there were too many, or the API server rejected the event.",
        dropped,
    )


@runtime_checkable
class PreparedCollector(Protocol):
    """A collector that reads so much that others run meanwhile; then it has its metrics."""

    async def prepare(self) -> None:
        """Read what `collect` returns."""


_PREPARED: Final[list[PreparedCollector]] = []


@contextlib.contextmanager
def registered(*sources: Source) -> Iterator[None]:
    """Expose what registries, collectors and functions read while the context is open."""
    with contextlib.ExitStack() as stack:
        for source in sources:
            if isinstance(source, CollectorRegistry):
                source = source.collect  # noqa: PLW2901  # what it reads
            collector = ReadCollector(source) if callable(source) else source
            REGISTRY.register(collector)
            stack.callback(REGISTRY.unregister, collector)
            if isinstance(collector, PreparedCollector):
                _PREPARED.append(collector)
                stack.callback(_PREPARED.remove, collector)
        yield


class _Collected(NamedTuple):
    """Metrics as they were at one time."""

    metrics: tuple[Metric, ...]

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self.metrics


async def write_metrics() -> bytes:
    """Return all metrics as Prometheus reads them. Others run while they are written."""
    for collector in _PREPARED:
        await collector.prepare()
    collected = _Collected(tuple(REGISTRY.collect()))
    return await asyncio.to_thread(generate_latest, collected)


if TYPE_CHECKING:
    from drawbridge.cluster.cache import Cache

    _: type[CacheStatistics] = Cache
