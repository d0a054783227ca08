"""The caches of the controller, which every replica keeps in sync."""

from collections.abc import Iterator
from typing import Any

import msgspec

from certs.watched_secret import WatchedSecret
from controller.protocols import Unstructured
from controller.watched_objects import PartialObject, WatchedNode, WatchedPod, WatchedQuota
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.resources import (
    CLASSES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SLICES,
    TEMPLATES,
    VALIDATING_WEBHOOKS,
)
from drawbridge.cluster.session import Session
from drawbridge.names import JUDGE_CONFIGURATION, WEBHOOK_CONFIGURATION


class ControllerCaches:
    """The caches of the controller."""

    def __init__(self, session: Session, secret: WatchedSecret | None = None) -> None:
        self.slices = Cache(session, SLICES, PartialObject)
        self.classes = Cache(session, CLASSES, PartialObject)
        self.nodes = Cache(session, NODES, WatchedNode)
        # The scheduler never binds a pod whose template is missing.
        self.pods = Cache(session, PODS, WatchedPod, fields="spec.nodeName=")
        self.templates = Cache(session, TEMPLATES, PartialObject)
        self.quotas = Cache(session, RESOURCE_QUOTAS, WatchedQuota)
        self.namespaces = Cache(session, NAMESPACES, PartialObject)
        self.webhooks = Cache(session, MUTATING_WEBHOOKS, dict[str, Any])
        self.validating = Cache(session, VALIDATING_WEBHOOKS, PartialObject)
        if secret is not None:
            self.secrets = secret.cache

    def all(self) -> tuple[Cache[Any], ...]:
        """Return all caches."""
        return tuple(vars(self).values())

    def by_resource(self) -> Iterator[tuple[str, Cache[Any]]]:
        """Return all caches with the resource name that metrics use."""
        return ((cache.resource.plural, cache) for cache in self.all())

    def describe_unsynced(self) -> list[str]:
        """Return one line for each cache that is not synced."""
        unsynced = (cache for cache in self.all() if not cache.synced)
        return [f"{each.resource.plural} are not synced: {each.problem}" for each in unsynced]

    def webhook_configurations(self) -> list[Unstructured]:
        """Return every mutating and validating webhook configuration."""
        raws = (
            *(each.raw for each in self.webhooks.all()),
            *(each.raw for each in self.validating.all()),
        )
        return [msgspec.json.decode(raw) for raw in raws]

    def own_webhook_configuration(self) -> Unstructured | None:
        """Return Drawbridge's own mutating webhooks; None if they do not exist."""
        cached = self.webhooks.get(WEBHOOK_CONFIGURATION)
        return None if cached is None else msgspec.json.decode(cached.raw)

    def read_pod_webhook(self) -> Unstructured | None:
        """Return the same as `own_webhook_configuration`, decoded once. Callers do not change it.

        The scope of every pod depends on it.
        """
        cached = self.webhooks.get(WEBHOOK_CONFIGURATION)
        return None if cached is None else cached.value

    def own_validating_configuration(self) -> Unstructured | None:
        """Return Drawbridge's own validating webhooks; None if they do not exist."""
        cached = self.validating.get(WEBHOOK_CONFIGURATION)
        return None if cached is None else msgspec.json.decode(cached.raw)

    def injected_configurations(self) -> list[Unstructured]:
        """Return the webhook configurations whose webhooks need the bundle of the CA."""
        names = (WEBHOOK_CONFIGURATION, JUDGE_CONFIGURATION)
        found = (self.own_webhook_configuration(), *map(self._read_validating, names))
        return [each for each in found if each is not None]

    def _read_validating(self, name: str) -> Unstructured | None:
        cached = self.validating.get(name)
        return None if cached is None else msgspec.json.decode(cached.raw)
