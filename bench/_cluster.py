"""Admission for the benchmarks, with two namespaces in memory, of which one is opted in.

Created templates are visible at once.
"""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from drawbridge.translate.pods import TranslationContext
from tests.cluster.memory_store import MemoryStore
from tests.webhook.admission.harness import ENFORCE, FakeClusterView
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.handler import AdmissionHandler
from webhook.admission.templates import TemplateCache
from webhook.server.template_store import WatchedTemplate, WatchedTemplateStore

OUT: Final = "outside"
IN: Final = "inside"


class Admission(NamedTuple):
    """A handler and what it needs."""

    cluster: FakeClusterView
    templates: TemplateCache
    handler: AdmissionHandler


def make_admission(context: TranslationContext) -> Admission:
    """Return a handler that translates in a context."""
    name = "kubernetes.io/metadata.name"
    cluster = FakeClusterView(context, {OUT: {name: OUT}, IN: {name: IN, **ENFORCE}})
    store = MemoryStore(WatchedTemplate)
    templates = TemplateCache(WatchedTemplateStore(store, store), lambda: datetime.now(UTC))
    return Admission(cluster, templates, AdmissionHandler(cluster, templates, AnswerCache()))
