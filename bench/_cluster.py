"""Admission for the benchmarks, with two namespaces in memory, of which one is opted in.

Created templates are visible at once.
"""

import time
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from drawbridge.brief import BriefRuns
from drawbridge.process.alarm import CutAlarm
from drawbridge.translate.context import TranslationContext
from tests.cluster.memory_store import MemoryStore
from tests.webhook.admission.harness import ENFORCE, FakeClusterView
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.templates import TemplateCache
from webhook.server.admissions import LEAST_SECONDS, Admissions
from webhook.server.template_store import (
    WatchedTemplate,
    WatchedTemplateStore,
    read_watched_template,
)

OUT: Final = "outside"
IN: Final = "inside"


class Admission(NamedTuple):
    """What handles reviews, as in the process of the webhook, and what it needs."""

    cluster: FakeClusterView
    templates: TemplateCache
    handler: Admissions


def make_admission(context: TranslationContext) -> Admission:
    """Return admissions that translate in a context."""
    name = "kubernetes.io/metadata.name"
    cluster = FakeClusterView(context, {OUT: {name: OUT}, IN: {name: IN, **ENFORCE}})
    # It stands for the watch and for the API server.
    store: Any = MemoryStore[WatchedTemplate](None, decode=read_watched_template)
    templates = TemplateCache(
        WatchedTemplateStore(store, store), lambda: datetime.now(UTC), time.monotonic
    )
    briefs = BriefRuns(CutAlarm(), time.monotonic, LEAST_SECONDS)
    return Admission(cluster, templates, Admissions(cluster, templates, AnswerCache(), briefs))
