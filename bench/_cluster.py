"""A cluster from memory, as the benches of admission know one.

Two namespaces, one of them opted in; templates are kept as a watch would tell them, and nothing is
waited for.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from documents.values import Value
from dra.finding import Finding
from translate.pods import TranslationContext
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.protocols import RecentInputs
from webhook.admission.resource_quotas import ResourceQuota

OUT: Final = "outside"
IN: Final = "inside"


class SampleClusterView:
    """Two namespaces, one of them opted in, and what decides there."""

    def __init__(self, context: TranslationContext) -> None:
        self._context = context
        self._labels: dict[str, Mapping[str, str]] = {
            OUT: {"kubernetes.io/metadata.name": OUT},
            IN: {"kubernetes.io/metadata.name": IN, "drawbridge.dev/translate": "enforce"},
        }

    def translation_context(self) -> TranslationContext | None:
        """What decides."""
        return self._context

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """The labels of a namespace."""
        return self._labels.get(name)

    async def read_namespace_labels(self, name: str, seconds: float) -> Mapping[str, str] | None:
        """Unknown namespaces do not exist."""
        del name, seconds
        return None

    def recent_inputs(self) -> RecentInputs:
        """The guard is not measured."""
        return RecentInputs()

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        """None."""
        del namespace
        return ()

    def resource_quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        """None."""
        del namespace
        return ()

    def other_webhooks(self) -> Sequence[Finding]:
        """None."""
        return ()

    def inactive_conditions(self) -> Sequence[Finding]:
        """Nothing keeps pods away."""
        return ()


class MemoryTemplateStore:
    """Keeps what was created, as a watch would tell it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Mapping[str, Value]] = {}

    def get_cached(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """What a watch would have said."""
        return self._kept.get((namespace, name))

    def count_unused(self, namespace: str) -> int:
        """Every template counts as used."""
        del namespace
        return 0

    async def create(
        self, namespace: str, value: Mapping[str, Value], *, dry_run: bool = False
    ) -> Mapping[str, Value] | None:
        """Make one, with what an API server adds to it."""
        stored: dict[str, Value] = msgspec.json.decode(msgspec.json.encode(value))
        metadata = stored["metadata"]
        if isinstance(metadata, dict):
            now = datetime.now(UTC).isoformat(timespec="seconds")
            metadata |= {"namespace": namespace, "creationTimestamp": now, "uid": "u"}
            if not dry_run:
                self._kept[namespace, str(metadata["name"])] = stored
        return stored

    async def read(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """Read one."""
        return self.get_cached(namespace, name)

    async def touch(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        """Nothing to do."""
