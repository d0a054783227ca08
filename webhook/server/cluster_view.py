"""A view of the cluster for admission, from watch caches.

An unreadable object does not replace the last readable one.
"""

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from drawbridge.agreement import match_conditions
from drawbridge.agreement.other_webhooks import find_other_webhooks
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.cache_set import CacheSet
from drawbridge.cluster.resources import (
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    RESOURCE_QUOTAS,
    TEMPLATES,
)
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import Accounting, CachedObject
from drawbridge.config.model import Configuration
from drawbridge.dra.resource_quotas import ResourceQuota, reduce_quota
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.memory_shares import MemoryShares
from drawbridge.names import MANAGED_SELECTOR, TRANSLATE_LABEL, WEBHOOK_CONFIGURATION
from drawbridge.process.object_cache import watch_limits
from drawbridge.process.watched_facts import WatchedFacts
from drawbridge.translate.context import TranslationContext, make_context
from webhook.admission.limit_ranges import LimitRange, reduce_range
from webhook.admission.protocols import ClusterView, RecentInputs
from webhook.server.recent_state import SETTLE_SECONDS, RecentState
from webhook.server.template_store import (
    WatchedTemplate,
    read_watched_template,
    reduce_template,
)
from webhook.server.watched_namespaces import NamespaceObject, WatchedNamespaces
from webhook.server.watched_queues import WatchedQueues


def watch_templates(session: Session, shares: MemoryShares) -> Cache[WatchedTemplate]:
    """Return a cache of the templates with our label, which any client can set."""
    return Cache(
        session,
        TEMPLATES,
        WatchedTemplate,
        labels=MANAGED_SELECTOR,
        decode=read_watched_template,
        keep_raw=False,
        accounting=Accounting(shares, reduce=reduce_template),
    )


class OpaqueObject(msgspec.Struct, frozen=True):
    """An object whose fields are not decoded. The cache keeps its raw bytes."""


class WatchedClusterView:
    """The watch caches, and values derived from them."""

    def __init__(
        self,
        session: Session,
        configuration: Configuration,
        settle_seconds: float = SETTLE_SECONDS,
        memory_limit: int | None = None,
    ) -> None:
        shares = MemoryShares(memory_limit)
        self.caches = CacheSet()
        self._namespaces = WatchedNamespaces(session)
        self.namespaces = self.caches.add(self._namespaces.cache)
        ranges = watch_limits(session, LIMIT_RANGES, LimitRange, shares, reduce_range)
        self.ranges = self.caches.add(ranges)
        quotas = watch_limits(session, RESOURCE_QUOTAS, ResourceQuota, shares, reduce_quota)
        self.quotas = self.caches.add(quotas)
        self.webhooks = self.caches.add(Cache(session, MUTATING_WEBHOOKS, OpaqueObject))
        self._facts = WatchedFacts(session, session.namespace)
        self.facts = self.caches.add(self._facts.cache)
        # Missing templates are read from the API server.
        self.templates = self.caches.add(watch_templates(session, shares), required=False)
        self.queues = WatchedQueues(session, shares)
        self._configuration = configuration
        self._recent = RecentState(configuration, settle_seconds)
        self._context: TranslationContext | None = None
        self._is_complete = False
        self._ranges_by_namespace: dict[str, tuple[LimitRange, ...]] = {}
        self._quotas_by_namespace: dict[str, tuple[ResourceQuota, ...]] = {}
        self._other_webhooks: tuple[Finding, ...] | None = None
        self._inactive_conditions: tuple[Finding, ...] | None = None
        self._requires_label: bool | None = None
        self._subscribe()

    def _subscribe(self) -> None:
        self._facts.subscribe(self._on_facts)
        self.namespaces.subscribe(self._on_namespace)
        self.ranges.subscribe(lambda *both: _forget(self._ranges_by_namespace, *both))
        self.quotas.subscribe(lambda *both: _forget(self._quotas_by_namespace, *both))
        self.webhooks.subscribe(self._on_webhooks)

    def find_missing(self) -> list[str]:
        """Return the reasons why requests cannot be handled yet."""
        if self._is_complete:  # this runs for every request, and a synced cache stays synced
            return []
        missing = [
            *self.caches.find_missing(),
            *self._facts.find_missing(),
            *self.queues.find_missing(),
        ]
        self._is_complete = not missing
        if self._is_complete:
            self._recent.start()
        return missing

    def configure(self, configuration: Configuration) -> None:
        """Use a new configuration."""
        self._configuration, self._inactive_conditions = configuration, None
        self._recent.configurations.set(configuration)
        if self._context is not None:
            self._renew_context(self._context.facts, self._context.facts_digest)

    def translation_context(self) -> TranslationContext | None:
        """Return configuration and facts, or None until the facts have been loaded."""
        return self._context

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace, or None if it is unknown.

        A namespace without the translate label is also unknown if the API server sends only pods of
        labeled namespaces: a user has added the label since.
        """
        labels = self._namespaces.labels(name)
        if labels is None or (TRANSLATE_LABEL not in labels and self._requires_namespace_label()):
            return self._namespaces.recently_read(name)
        return labels

    async def read_namespace_labels(self, name: str, seconds: float) -> Mapping[str, str] | None:
        """Read the labels of an unknown namespace from the API server."""
        return await self._namespaces.read_namespace_labels(name, seconds)

    def _requires_namespace_label(self) -> bool:
        if self._requires_label is None:
            live = self._read_own_webhooks()
            self._requires_label = match_conditions.requires_namespace_label(live)
        return self._requires_label

    def _read_own_webhooks(self) -> Any:  # noqa: ANN401  # JSON
        cached = self.webhooks.get(WEBHOOK_CONFIGURATION)
        return None if cached is None else msgspec.json.decode(cached.raw)

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        """Return the LimitRanges of a namespace."""
        ranges = self._ranges_by_namespace.get(namespace)
        if ranges is None:
            ranges = tuple(cached.value for cached in self.ranges.all(namespace))
            self._ranges_by_namespace[namespace] = ranges
        return ranges

    def resource_quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        """Return the ResourceQuotas of a namespace."""
        quotas = self._quotas_by_namespace.get(namespace)
        if quotas is None:
            quotas = tuple(cached.value for cached in self.quotas.all(namespace))
            self._quotas_by_namespace[namespace] = quotas
        return quotas

    def default_queue(self, namespace: str) -> str:
        """Return the default queue of Kueue of a namespace; empty without one."""
        return self.queues.find(namespace)

    def run(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Return the watches of all caches."""
        yield from self.caches.run()
        yield self.queues.run()

    def other_webhooks(self) -> Sequence[Finding]:
        """Return findings about other webhooks that handle the same pods."""
        if self._other_webhooks is None:
            read = (msgspec.json.decode(cached.raw) for cached in self.webhooks.all())
            self._other_webhooks = tuple(find_other_webhooks(read))
        return self._other_webhooks

    def inactive_conditions(self) -> Sequence[Finding]:
        """Return findings about pods that the API server may not send to the webhook."""
        if self._inactive_conditions is None:
            self._inactive_conditions = match_conditions.find_inactive(
                self._read_own_webhooks(), self._configuration
            )
        return self._inactive_conditions

    def recent_inputs(self) -> RecentInputs:
        """Return what any replica may have used for a pod a short time ago."""
        return self._recent.read(self._facts.config_map)

    def _on_facts(self) -> None:
        self._renew_context(self._facts.facts, self._facts.digest)

    def _renew_context(self, facts: Facts | None, digest: str) -> None:
        self._context = make_context(self._configuration, facts, digest, caches_pods=False)

    def _on_namespace(
        self,
        before: CachedObject[NamespaceObject] | None,
        after: CachedObject[NamespaceObject] | None,
    ) -> None:
        """Forget the derived values of a deleted namespace, even if they are empty."""
        if before is not None and after is None:
            self._ranges_by_namespace.pop(before.name, None)
            self._quotas_by_namespace.pop(before.name, None)

    def _on_webhooks(self, *_: object) -> None:
        self._other_webhooks = self._inactive_conditions = self._requires_label = None
        live = self._read_own_webhooks()
        self._recent.webhooks.set(match_conditions.select_pod_webhook(live))


_: type[ClusterView] = WatchedClusterView


def _forget(
    by_namespace: dict[str, Any],
    before: CachedObject[Any] | None,
    after: CachedObject[Any] | None,
) -> None:
    """Forget the values derived from a changed object of a namespace."""
    for cached in (before, after):
        if cached is not None:
            by_namespace.pop(cached.namespace, None)
