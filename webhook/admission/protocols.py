"""Protocols for what the admission handlers need from the cluster.

`webhook.server` says in code who implements them. Only `TemplateEnsurer` and `TemplateStore` call
the API server.
"""

import asyncio
import enum
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from drawbridge.config.model import Configuration
from drawbridge.documents.values import Value
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.context import TranslationContext
from webhook.admission.limit_ranges import LimitRange


class TemplateStatus(enum.StrEnum):
    """The status of a template that a pod refers to. The values are metric labels."""

    CREATED = "made"
    PRESENT = "there"
    CONFLICT = "taken"  # a template with this name has different content
    PENDING = "later"  # not created yet; the controller creates missing templates


# A Finding explains why the template cannot exist.
TemplateState: TypeAlias = TemplateStatus | Finding
PendingState: TypeAlias = Coroutine[Any, Any, TemplateState]


async def await_states(states: Sequence[TemplateState | PendingState]) -> list[TemplateState]:
    """Wait for the states that are not known yet, all at once."""
    pending = [each for each in states if not isinstance(each, TemplateStatus | Finding)]
    done = iter(await asyncio.gather(*pending) if pending else ())
    return [each if isinstance(each, TemplateStatus | Finding) else next(done) for each in states]


class RecentInputs(msgspec.Struct, frozen=True):
    """What any replica may have used for a pod a short time ago.

    `is_complete` is false while older values may exist that this process has not seen.
    """

    configurations: Sequence[Configuration] = ()
    facts: Sequence[Facts] = ()
    webhooks: Sequence[Mapping[str, Value] | None] = ()  # MutatingWebhookConfiguration drawbridge
    is_complete: bool = False


class NamespaceView(Protocol):
    """The labels of namespaces, from memory. Only the method that reads waits."""

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace: the same object until they change.

        Return None if the namespace is unknown.
        """

    async def read_namespace_labels(self, name: str, seconds: float) -> Mapping[str, str] | None:
        """Read the labels of an unknown namespace from the API server.

        Return None if it does not respond in time, or if the namespace does not exist.
        """


class ClusterView(NamespaceView, Protocol):
    """The state of the cluster, from memory."""

    def translation_context(self) -> TranslationContext | None:
        """Return configuration and facts: the same object until one of them changes.

        Return None until both have been loaded.
        """

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        """Return the LimitRanges of a namespace."""

    def resource_quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        """Return the ResourceQuotas of a namespace."""

    def default_queue(self, namespace: str) -> str:
        """Return the default queue of Kueue of a namespace; empty without one."""

    def other_webhooks(self) -> Sequence[Finding]:
        """Return findings about other webhooks that handle the same pods."""

    def inactive_conditions(self) -> Sequence[Finding]:
        """Return findings about pods that the API server may not send to the webhook."""

    def recent_inputs(self) -> RecentInputs:
        """Return what any replica may have used for a pod a short time ago."""


class TemplateEnsurer(Protocol):
    """Ensures the templates of translated pods."""

    def ensure(
        self, namespace: str, template: ClaimTemplate, seconds: float, *, dry_run: bool
    ) -> TemplateState | PendingState:
        """Return the state of a template at once if it is known. Otherwise, create the template.

        The result is PENDING after the given time, and for a missing template on dry run, which
        creates nothing. API errors do not raise.
        """


class CachedTemplate(NamedTuple):
    """A template in the watch cache, at a version.

    `content` is JSON with its spec and its own labels and annotations. It is None for a template
    that exists, but that the cache does not keep.
    """

    version: str
    content: bytes | None


class TemplateStore(Protocol):
    """Reads and writes ResourceClaimTemplates. Requests raise ApiError."""

    def get_cached(self, namespace: str, name: str) -> CachedTemplate | None:
        """Return the template in the watch cache, or None if it is not there."""

    def count_unused(self, namespace: str) -> int:
        """Count the templates of a namespace that no pod has used yet, from the watch cache."""

    async def create(
        self, namespace: str, value: Mapping[str, Value], *, dry_run: bool = False
    ) -> Mapping[str, Value] | None:
        """Create a template and return the stored object, or None if the name exists."""

    async def read(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """Read a template from the API server, or return None if it does not exist."""

    async def touch(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        """Merge annotations into a template. A missing template is not an error."""
