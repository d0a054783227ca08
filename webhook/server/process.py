"""Run `drawbridge serve webhook`: connect its parts, serve requests, and shut down gracefully."""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from drawbridge.brief import BriefRuns
from drawbridge.cluster.client import ResourceClient, decode_object
from drawbridge.cluster.resources import TEMPLATES
from drawbridge.cluster.server_clock import boot_time
from drawbridge.cluster.session import Session
from drawbridge.names import WEBHOOK_SERVICE
from drawbridge.process import metrics
from drawbridge.process.alarm import CutAlarm
from drawbridge.process.memory_limit import read_memory_limit
from drawbridge.process.run import StartedProcess
from drawbridge.process.settings import Settings
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.protocols import TemplateEnsurer, TemplateState, TemplateStatus
from webhook.admission.templates import TemplateCache
from webhook.server.admissions import LEAST_SECONDS, Admissions
from webhook.server.cluster_view import WatchedClusterView
from webhook.server.configuration_reviews import ConfigurationReviews
from webhook.server.http_handler import Endpoint, Reviewer
from webhook.server.serving import ReviewOptions, ReviewService, run_reviews
from webhook.server.template_store import WatchedTemplateStore


def list_endpoints(
    *, configuration: Reviewer, pods: Reviewer, workloads: Reviewer, guard: Reviewer
) -> Mapping[str, Endpoint]:
    """Return the endpoints of the webhook by path."""
    return {
        "/admit/configuration": Endpoint("configuration", configuration),
        "/admit/pods": Endpoint("pods", pods),
        "/admit/workloads": Endpoint("workloads", workloads),
        "/guard/pods": Endpoint("guard", guard),
    }


def collect_answer_cache(entries: int, hits: int, misses: int) -> Iterator[Metric]:
    """Return the number of cached responses, and of lookups that found one or none."""
    name = "drawbridge_remembered_answers"
    yield GaugeMetricFamily(name, "Cached responses for equal pods.", entries)
    lookups = CounterMetricFamily(
        "drawbridge_remembered_questions",
        "Lookups in the answer cache, by result.",
        labels=["result"],
    )
    lookups.add_metric(["hit"], hits)
    lookups.add_metric(["miss"], misses)
    yield lookups


def _count(state: TemplateState) -> None:
    label = state.value if isinstance(state, TemplateStatus) else "refused"
    metrics.TEMPLATES.labels(label).inc()


async def run(options: ReviewOptions) -> int:
    """Serve until a stop signal. Return 0 after a graceful stop, 2 if serving is impossible."""
    return await run_reviews(options, WEBHOOK_SERVICE, _make_service, metrics.WEBHOOK)


class _Webhook:
    """The parts of the process that handle reviews."""

    def __init__(self, options: ReviewOptions, settings: Settings, session: Session) -> None:
        self.cluster = WatchedClusterView(
            session, settings.current, options.settle, read_memory_limit()
        )
        settings.subscribe(self.cluster.configure)
        self.answers = AnswerCache()
        store = WatchedTemplateStore(
            self.cluster.templates, ResourceClient(session, TEMPLATES, decode_object)
        )
        templates = TemplateCache(store, lambda: datetime.now(UTC), boot_time, _count)
        briefs = BriefRuns(CutAlarm(), time.monotonic, LEAST_SECONDS)
        self.reviews = Admissions(self.cluster, templates, self.answers, briefs)


def _make_service(options: ReviewOptions, process: StartedProcess) -> ReviewService:
    webhook = _Webhook(options, process.settings, process.session)
    collectors = (
        lambda: metrics.collect_caches(
            webhook.cluster.caches.by_resource,
            webhook.cluster.queues.by_resource,
            process.settings.caches,
        ),
        lambda: collect_answer_cache(
            len(webhook.answers), webhook.answers.hits, webhook.answers.misses
        ),
    )
    metrics.DECISIONS.name_values(options.metric_namespaces)
    return ReviewService(
        list_endpoints(
            configuration=ConfigurationReviews().review,
            pods=webhook.reviews.review_pod,
            workloads=webhook.reviews.review_workload,
            guard=webhook.reviews.review_guarded_pod,
        ),
        webhook.cluster.find_missing,
        lambda: tuple(webhook.cluster.run()),
        collectors,
    )


_: type[TemplateEnsurer] = TemplateCache
