"""The watches of the judge, and why what they show may be outdated."""

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.cache_set import CacheSet
from drawbridge.cluster.resources import (
    CLAIMS,
    CLASSES,
    NAMESPACES,
    NODES,
    RESOURCE_QUOTAS,
    SLICES,
    TEMPLATES,
    Resource,
)
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import Accounting, CachedObject
from drawbridge.config.model import Configuration
from drawbridge.dra.claim import Claim, Template, claim_reader, template_reader
from drawbridge.dra.classes import DeviceClass, class_reader
from drawbridge.dra.decode import Reader
from drawbridge.dra.gates import DEFAULTS
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.dra.resource_quotas import ResourceQuota, quota_reader
from drawbridge.dra.slices import Slice, find_slice_writer, slice_reader
from drawbridge.facts.recent_pools import RESTART_SECONDS
from drawbridge.ledger.reduced_claim import reduce_claim, rescue_claim
from drawbridge.memory_shares import ProcessShares, find_limit_writer
from drawbridge.process.object_cache import watch_objects
from drawbridge.process.watched_facts import WatchedFacts
from webhook.judging.judged_cluster import (
    JudgeSettings,
    NamespaceLabels,
    ObjectChange,
    PendingChanges,
)
from webhook.server.watched_namespaces import NamespaceObject, WatchedNamespaces

T = TypeVar("T", Slice, DeviceClass, Node, Claim, Template, ResourceQuota)


class WatchedJudgeView:
    """The caches of everything that is judged with."""

    def __init__(
        self,
        session: Session,
        configuration: Callable[[], Configuration],
        settle_seconds: float = RESTART_SECONDS,
        memory_limit: int | None = None,
    ) -> None:
        shares, of_nodes = ProcessShares.of(memory_limit)
        by_node: Accounting[Slice] = Accounting(of_nodes, find_slice_writer, by_text=True)
        self.changes = PendingChanges()
        self.caches = CacheSet()
        self.namespaces = WatchedNamespaces(session)
        self.facts = WatchedFacts(session, session.namespace)
        self.caches.add(self.namespaces.cache)
        self.caches.add(self.facts.cache)
        self._devices: tuple[Cache[Any], ...] = (
            self._watch(session, SLICES, slice_reader(), by_node),
            self._watch(session, CLASSES, class_reader()),
            self._watch(session, NODES, node_reader()),
        )
        by_namespace: Accounting[Claim] = Accounting(
            shares, reduce=reduce_claim, rescue=rescue_claim
        )
        self._watch(session, CLAIMS, claim_reader(), by_namespace)
        self._watch(session, TEMPLATES, template_reader(), Accounting(shares))
        # The API server compares a quota that is left out, too.
        by_limiter: Accounting[ResourceQuota] = Accounting(shares, find_limit_writer)
        self._watch(session, RESOURCE_QUOTAS, quota_reader(), by_limiter)
        self.namespaces.cache.subscribe(self._on_namespace)
        self._configuration = configuration
        self._settings = JudgeSettings()
        self._settle_seconds = settle_seconds
        self._complete_since: float | None = None

    def _watch(
        self,
        session: Session,
        resource: Resource,
        reader: Reader[T],
        accounting: Accounting[T] | None = None,
    ) -> Cache[T]:
        cache = self.caches.add(watch_objects(session, resource, reader, accounting=accounting))
        cache.subscribe(lambda before, after: self._on_change(resource, before, after))
        return cache

    def _on_namespace(
        self,
        before: CachedObject[NamespaceObject] | None,
        after: CachedObject[NamespaceObject] | None,
    ) -> None:
        old, new = (_read_labels(each) for each in (before, after))
        changed = after or before
        if changed is not None and old != new:
            change = ObjectChange("", changed.name, changed.uid, changed.version, old, new)
            self.changes.put(NAMESPACES.plural, change)

    def _on_change(
        self,
        resource: Resource,
        before: CachedObject[T] | None,
        after: CachedObject[T] | None,
    ) -> None:
        changed = after or before
        if changed is not None:
            change = ObjectChange(
                changed.namespace,
                changed.name,
                changed.uid,
                changed.version,
                None if before is None else before.value,
                None if after is None else after.value,
            )
            self.changes.put(resource.plural, change)

    def settings(self) -> JudgeSettings:
        """Return the configuration and the feature gates: the same object until they change."""
        configuration, facts = self._configuration(), self.facts.facts
        gates = DEFAULTS if facts is None else facts.cluster.feature_gates
        if configuration is not self._settings.configuration or gates != self._settings.gates:
            self._settings = JudgeSettings(configuration, gates)
        return self._settings

    def find_missing(self) -> list[str]:
        """Return the reasons why objects cannot be judged yet."""
        if self._complete_since is not None:
            return []
        missing = [*self.caches.find_missing(), *self.facts.find_missing()]
        if not missing:
            self._complete_since = time.monotonic()
        return missing

    def find_doubts(self) -> Iterator[str]:
        """Yield the reasons why the devices may be others than the caches show."""
        for device in self._devices:
            name = device.resource.plural
            if not device.fresh:
                yield f"the {name} are {device.age():.0f} seconds old"
            if device.undecodable:
                yield f"{device.undecodable} of the {name} cannot be read"
        since = self._complete_since
        if since is None or time.monotonic() - since < self._settle_seconds:
            yield "the judge started a short time ago and knows no earlier devices"


def _read_labels(cached: CachedObject[NamespaceObject] | None) -> NamespaceLabels | None:
    return None if cached is None else NamespaceLabels(cached.value.metadata.labels or {})
