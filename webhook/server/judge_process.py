"""Run `drawbridge serve judge`: connect its parts, judge objects, and shut down gracefully."""

from typing import Final

from drawbridge.names import JUDGE_SERVICE
from drawbridge.process import metrics
from drawbridge.process.alarm import CutAlarm
from drawbridge.process.memory_limit import read_memory_limit
from drawbridge.process.run import StartedProcess
from webhook.judging.handler import Judge, JudgeHandler
from webhook.judging.judged_cluster import JudgedCluster
from webhook.server.http_handler import MIB, Endpoint, RequestLimits
from webhook.server.judge_view import WatchedJudgeView
from webhook.server.judgements import JudgedView, Judgements
from webhook.server.serving import ReviewOptions, ReviewService, run_reviews

# The paths, one for each webhook, so that their metrics are apart.
KINDS: Final = ("claims", "classes", "pods", "workloads")
_LIMITS: Final = RequestLimits(in_flight=128, total_bytes=32 * MIB)


async def run(options: ReviewOptions) -> int:
    """Serve until a stop signal. Return 0 after a graceful stop, 2 if serving is impossible."""
    return await run_reviews(options, JUDGE_SERVICE, _make_service)


def _make_service(options: ReviewOptions, process: StartedProcess) -> ReviewService:
    session, settings = process.session, process.settings
    view = WatchedJudgeView(session, lambda: settings.current, options.settle, read_memory_limit())
    cluster = JudgedCluster(view.settings(), options.settle)
    judgements = Judgements(cluster, view, CutAlarm())
    handler = JudgeHandler(view.namespaces, lambda: settings.current, judgements)
    return ReviewService(
        {f"/judge/{kind}": Endpoint(f"judge-{kind}", handler.review_object) for kind in KINDS},
        view.find_missing,
        lambda: (judgements.run(), *view.caches.run()),
        (lambda: metrics.collect_caches(view.caches.by_resource, settings.caches),),
        _LIMITS,
    )


_: tuple[type[Judge], type[JudgedView]] = (Judgements, WatchedJudgeView)
