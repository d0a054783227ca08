"""An in-memory cluster view and template store for the benchmarks of admission.

There are two namespaces, and one of them is opted in. Created templates are visible immediately.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from drawbridge.documents.values import Value
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.finding import Finding
from drawbridge.translate.pods import TranslationContext
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.protocols import RecentInputs

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


class MemoryTemplateStore:
    """Keeps the created templates, like a synced watch."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], bytes] = {}

    def get_cached(self, namespace: str, name: str) -> bytes | None:
        """Return the JSON of a template if it was created."""
        return self._kept.get((namespace, name))

    def count_unused(self, namespace: str) -> int:
        """Return 0: every template counts as used."""
        del namespace
        return 0

    async def create(
        self, namespace: str, value: Mapping[str, Value], *, dry_run: bool = False
    ) -> Mapping[str, Value] | None:
        """Create a template with the fields that an API server adds."""
        stored: dict[str, Value] = msgspec.json.decode(msgspec.json.encode(value))
        metadata = stored["metadata"]
        if isinstance(metadata, dict):
            now = datetime.now(UTC).isoformat(timespec="seconds")
            metadata |= {"namespace": namespace, "creationTimestamp": now, "uid": "u"}
            if not dry_run:
                self._kept[namespace, str(metadata["name"])] = msgspec.json.encode(stored)
        return stored

    async def read(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """Read a template."""
        raw = self.get_cached(namespace, name)
        return None if raw is None else msgspec.json.decode(raw)

    async def touch(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        """Do nothing."""
