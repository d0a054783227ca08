"""Run `drawbridge serve judge`: connect its parts, judge objects, and shut down gracefully."""

import logging
from typing import Final

from certs.serving import list_metrics, make_certificate
from drawbridge.cluster.session import Session
from drawbridge.names import JUDGE_SERVICE
from drawbridge.process import metrics
from drawbridge.process.alarm import CutAlarm
from drawbridge.process.memory_limit import read_memory_limit
from drawbridge.process.run import StartedProcess, run_configured
from drawbridge.process.settings import Settings
from webhook.judging.handler import Judge, JudgeHandler
from webhook.judging.judged_cluster import JudgedCluster
from webhook.server.http_handler import MIB, Endpoint, RequestLimits
from webhook.server.judge_view import WatchedJudgeView
from webhook.server.judgements import JudgedView, Judgements
from webhook.server.serving import ReviewOptions, ReviewService, serve_reviews

_LOG: Final = logging.getLogger("drawbridge.process")
# The paths, one for each webhook, so that their metrics are apart.
KINDS: Final = ("claims", "classes", "pods", "workloads")
_LIMITS: Final = RequestLimits(in_flight=128, total_bytes=32 * MIB)


async def run(options: ReviewOptions) -> int:
    """Serve until a stop signal. Return 0 after a graceful stop, 2 if serving is impossible."""

    async def serve(process: StartedProcess) -> None:
        certificate = make_certificate(options.certificate, process.session, JUDGE_SERVICE)
        service = _make_service(options, process.settings, process.session)
        await serve_reviews(options, certificate, process, service)

    own = (metrics.REVIEWS, metrics.FACTS, *list_metrics(options.certificate))
    with metrics.registered(*own):
        return await run_configured(options.process, _LOG, serve)


def _make_service(options: ReviewOptions, settings: Settings, session: Session) -> ReviewService:
    view = WatchedJudgeView(
        session,
        session.namespace,
        lambda: settings.current,
        options.settle,
        read_memory_limit(),
    )
    cluster = JudgedCluster(view.settings(), options.settle)
    judgements = Judgements(cluster, view, CutAlarm())
    handler = JudgeHandler(view, judgements)
    return ReviewService(
        {f"/judge/{kind}": Endpoint(f"judge-{kind}", handler.review_object) for kind in KINDS},
        view.find_missing,
        lambda: (judgements.run(), *view.caches.run()),
        (lambda: metrics.collect_caches(view.caches.by_resource, settings.caches),),
        _LIMITS,
    )


_: tuple[type[Judge], type[JudgedView]] = (Judgements, WatchedJudgeView)
