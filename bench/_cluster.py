"""An in-memory cluster view and template store for the benchmarks of admission.

There are two namespaces, and one of them is opted in. Created templates are visible at once.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.finding import Finding
from drawbridge.translate.pods import TranslationContext
from tests.cluster.memory_store import MemoryStore
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.protocols import RecentInputs
from webhook.server.template_store import WatchedTemplate, WatchedTemplateStore

OUT: Final = "outside"
IN: Final = "inside"


class SampleClusterView:
    """Two namespaces, one of them opted in, and a translation context."""

    def __init__(self, context: TranslationContext) -> None:
        self._context = context
        self._labels: dict[str, Mapping[str, str]] = {
            OUT: {"kubernetes.io/metadata.name": OUT},
            IN: {"kubernetes.io/metadata.name": IN, "drawbridge.dev/translate": "enforce"},
        }

    def translation_context(self) -> TranslationContext | None:
        """Return the translation context."""
        return self._context

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace."""
        return self._labels.get(name)

    async def read_namespace_labels(self, name: str, seconds: float) -> Mapping[str, str] | None:
        """Return nothing: unknown namespaces do not exist."""
        del name, seconds
        return None

    def recent_inputs(self) -> RecentInputs:
        """Return empty inputs: the guard is not measured."""
        return RecentInputs()

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        """Return no LimitRanges."""
        del namespace
        return ()

    def resource_quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        """Return no ResourceQuotas."""
        del namespace
        return ()

    def other_webhooks(self) -> Sequence[Finding]:
        """Return no findings."""
        return ()

    def inactive_conditions(self) -> Sequence[Finding]:
        """Return no findings."""
        return ()


def template_store() -> WatchedTemplateStore:
    """Return a store in memory; the watch shows what is created at once."""
    templates = MemoryStore(WatchedTemplate)
    return WatchedTemplateStore(templates, templates)
