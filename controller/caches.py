"""The caches of the controller, which every replica keeps in sync."""

from typing import Any, Final

import msgspec

from certs.watched_secret import WatchedAuthorities
from controller.device_users import (
    WatchedClaim,
    read_device_pod,
    read_watched_claim,
    reduce_device_pod,
    reduce_watched_claim,
)
from controller.protocols import ObjectCache, Unstructured
from controller.quota_mirror import reduce_quota
from controller.watched_objects import (
    PartialObject,
    WatchedNode,
    WatchedPod,
    WatchedQuota,
)
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.cache_set import CacheSet
from drawbridge.cluster.resources import (
    CLAIMS,
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
from drawbridge.cluster.store import Accounting
from drawbridge.dra.classes import class_reader
from drawbridge.dra.slices import Slice, find_slice_writer, slice_reader
from drawbridge.finding import Finding
from drawbridge.memory_shares import MemoryShares, ProcessShares
from drawbridge.names import JUDGE_CONFIGURATION, WEBHOOK_CONFIGURATION
from drawbridge.process.object_cache import watch_limits, watch_readings
from drawbridge.report.stuck.objects import HangingPod

# The reconcilers know a cache by this protocol.
_: type[ObjectCache[object]] = Cache[object]


# Who holds devices is known that much later, and which pod waits for a template. A pod has about a
# dozen events in these caches, and to read each by itself takes twice the CPU time.
GATHER_SECONDS: Final = 0.1
PENDING_GATHER_SECONDS: Final = 0.02


class ControllerCaches(CacheSet):
    """The caches of the controller."""

    def __init__(
        self,
        session: Session,
        secret: WatchedAuthorities | None = None,
        memory_limit: int | None = None,
    ) -> None:
        super().__init__()
        shares, of_nodes = ProcessShares.of(memory_limit)
        by_node: Accounting[Slice | tuple[Finding, ...]] = Accounting(
            of_nodes, find_slice_writer, by_text=True
        )
        self.slices = self.add(watch_readings(session, SLICES, slice_reader(), by_node))
        self.classes = self.add(watch_readings(session, CLASSES, class_reader()))
        self.nodes = self.add(Cache(session, NODES, WatchedNode))
        # The scheduler never binds a pod whose template is missing.
        pending = Cache(
            session,
            PODS,
            WatchedPod,
            fields="spec.nodeName=",
            accounting=Accounting(shares),
            gather_seconds=PENDING_GATHER_SECONDS,
        )
        self.pods = self.add(pending)
        claims, device_pods = _watch_device_users(session, shares)
        self.claims = self.add(claims)
        self.device_pods = self.add(device_pods, required=False, name="pods/with-devices")
        templates = Cache(session, TEMPLATES, PartialObject, accounting=Accounting(shares))
        self.templates = self.add(templates)
        quotas = watch_limits(session, RESOURCE_QUOTAS, WatchedQuota, shares, reduce_quota)
        self.quotas = self.add(quotas)
        self.namespaces = self.add(Cache(session, NAMESPACES, PartialObject))
        self.webhooks = self.add(Cache(session, MUTATING_WEBHOOKS, dict[str, Any]))
        self.validating = self.add(Cache(session, VALIDATING_WEBHOOKS, PartialObject))
        if secret is not None:
            self.add(secret.cache)

    def webhook_configurations(self) -> list[Unstructured]:
        """Return every mutating and validating webhook configuration."""
        raws = (
            *(each.raw for each in self.webhooks.all()),
            *(each.raw for each in self.validating.all()),
        )
        return [msgspec.json.decode(raw) for raw in raws]

    def read_pod_webhook(self) -> Unstructured | None:
        """Return Drawbridge's own mutating webhooks, decoded once. Callers do not change them.

        The scope of every pod depends on them.
        """
        cached = self.webhooks.get(WEBHOOK_CONFIGURATION)
        return None if cached is None else cached.value

    def injected_configurations(self) -> list[Unstructured]:
        """Return the webhook configurations whose webhooks need the bundle of the CA."""
        names = (WEBHOOK_CONFIGURATION, JUDGE_CONFIGURATION)
        configurations = (self.read_pod_webhook(), *map(self.read_validating, names))
        return [each for each in configurations if each is not None]

    def read_validating(self, name: str = WEBHOOK_CONFIGURATION) -> Unstructured | None:
        """Return validating webhooks of Drawbridge; None if they do not exist."""
        cached = self.validating.get(name)
        return None if cached is None else msgspec.json.decode(cached.raw)


def _watch_device_users(
    session: Session, shares: MemoryShares
) -> tuple[Cache[WatchedClaim], Cache[HangingPod]]:
    """Return the caches of claims and of pods with devices, without what nobody reads of them."""
    claims = Cache(
        session,
        CLAIMS,
        WatchedClaim,
        decode=read_watched_claim,
        keep_raw=False,
        accounting=Accounting(shares, reduce=reduce_watched_claim),
        gather_seconds=GATHER_SECONDS,
    )
    pods = Cache(
        session,
        PODS,
        HangingPod,
        decode=read_device_pod,
        keep_raw=False,
        accounting=Accounting(shares, reduce=reduce_device_pod),
        gather_seconds=GATHER_SECONDS,
    )
    return claims, pods
