"""Run `drawbridge serve webhook`: connect its parts, serve requests, and shut down gracefully."""

import argparse
import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final

from cluster.session import Session
from cluster.write import Writer
from dra.finding import Finding
from registration.codes import CODES
from runtime import logs, metrics
from runtime.health import ReadinessCheck, serve_operations
from runtime.listener import TLSListener
from runtime.process import REFUSED, run_background, run_process
from runtime.settings import Settings
from runtime.shutdown import StopSignal
from runtime.tls import ServingCertificate
from translate.changes.template import ClaimTemplate
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.handler import AdmissionHandler
from webhook.admission.large_reviews import ReviewDispatcher
from webhook.admission.protocols import TemplateEnsurer, TemplateStatus
from webhook.admission.templates import TemplateCache
from webhook.server.cluster_view import WatchedClusterView
from webhook.server.http_handler import AdmissionHTTPHandler
from webhook.server.template_store import WatchedTemplateStore
from webhook.server.worker_process import WorkerProcess

_LOG: Final = logging.getLogger("runtime")
# Drain time and this timeout together are shorter than the default grace period of 30 s.
_CLOSE_TIMEOUT: Final = 5.0


class _CountedTemplates:
    """Ensures templates, and counts the results."""

    def __init__(self, templates: TemplateEnsurer) -> None:
        self._templates = templates

    async def ensure(
        self, namespace: str, template: ClaimTemplate, seconds: float
    ) -> TemplateStatus | Finding:
        return _count(await self._templates.ensure(namespace, template, seconds))

    async def preview(
        self, namespace: str, template: ClaimTemplate, seconds: float
    ) -> TemplateStatus | Finding:
        return await self._templates.preview(namespace, template, seconds)


def _count(result: TemplateStatus | Finding) -> TemplateStatus | Finding:
    label = result.value if isinstance(result, TemplateStatus) else "refused"
    metrics.TEMPLATES.labels(label).inc()
    return result


async def run(options: argparse.Namespace) -> int:
    """Serve until a stop signal. Return 0 after a graceful stop, 2 if serving is impossible."""
    logs.configure(options.log_level)
    settings = Settings(options.config, known=CODES)
    if settings.load():
        return REFUSED
    certificate = ServingCertificate(options.tls_cert, options.tls_key)
    certificate.refresh()

    async def serve(stop: StopSignal, session: Session) -> None:
        await _serve(options, settings, certificate, stop, session)

    code = await run_process(options, _LOG, serve)
    if not code:
        logs.log_event(_LOG, logging.INFO, "stopped")
    return code


class _Webhook:
    """The parts of the process that handle reviews."""

    def __init__(self, options: argparse.Namespace, settings: Settings, session: Session) -> None:
        namespace = options.namespace or session.namespace
        self.cluster = WatchedClusterView(session, namespace, settings.current, options.settle)
        settings.subscribe(self.cluster.configure)
        self.answers = AnswerCache()
        self.worker = WorkerProcess()
        store = WatchedTemplateStore(self.cluster.templates, Writer(session))
        templates = _CountedTemplates(TemplateCache(store, lambda: datetime.now(UTC)))
        handler = AdmissionHandler(self.cluster, templates, self.answers)
        self.reviews = ReviewDispatcher(handler, self.cluster, templates, self.worker)


async def _serve(
    options: argparse.Namespace,
    settings: Settings,
    certificate: ServingCertificate,
    stop: StopSignal,
    session: Session,
) -> None:
    webhook = _Webhook(options, settings, session)

    def check_ready() -> list[str]:
        return [*(["stopping"] if stop.is_requested else []), *find_missing()]

    def find_missing() -> list[str]:
        return [*webhook.cluster.find_missing(), *filter(None, (certificate.find_problem(),))]

    handler = AdmissionHTTPHandler(webhook.reviews, find_missing)
    listener = TLSListener(options.listen, certificate, handler.handle)
    async with _serve_health(options, check_ready, webhook.cluster, webhook.answers):
        await listener.open()
        watches = (each.run() for each in webhook.cluster.caches)
        background = (settings.run(), certificate.run(), webhook.worker.start(), *watches)
        async with contextlib.aclosing(webhook.worker), run_background(background):
            await stop.wait()
            # Keep serving until all clients use another replica.
            handler.closing = True
            await asyncio.sleep(options.drain)
            await listener.close(_CLOSE_TIMEOUT)


@contextlib.asynccontextmanager
async def _serve_health(
    options: argparse.Namespace,
    check_ready: ReadinessCheck,
    cluster: WatchedClusterView,
    answers: AnswerCache,
) -> AsyncIterator[None]:
    """Serve health and metrics, including the metrics of the caches."""
    collectors = (
        metrics.CacheCollector(cluster.named_caches),
        metrics.AnswerCacheCollector(answers),
    )
    for each in collectors:
        metrics.REGISTRY.register(each)
    try:
        async with serve_operations(options.health, options.metrics, check_ready):
            yield
    finally:
        for each in collectors:
            metrics.REGISTRY.unregister(each)
