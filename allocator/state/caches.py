"""The caches of the allocator: what can be allocated, what is allocated, and to whom."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Final

import msgspec

from allocator.writes.prepare_failures import REASON, PrepareEvent
from drawbridge.cluster.cache import Cache, CachedObject
from drawbridge.cluster.discovery import find_served
from drawbridge.cluster.resources import CLAIMS, CLASSES, EVENTS, NODES, PODS, SLICES, TAINT_RULES
from drawbridge.cluster.session import Session
from drawbridge.dra.claim import Claim, claim_reader
from drawbridge.dra.classes import class_reader
from drawbridge.dra.nodes import node_reader
from drawbridge.dra.slices import slice_reader
from drawbridge.dra.taints import taint_rule_reader
from drawbridge.ledger.pods import Pod, PodSpec, pod_reader
from drawbridge.process.object_cache import watch_objects
from drawbridge.process.watched_facts import WatchedFacts

# The versions that serve DeviceTaintRules, newest first. Before 1.37 they are off by default.
_TAINT_RULE_VERSIONS: Final = ("v1", "v1beta2", "v1alpha3")


class AllocatorCaches:
    """All caches; implements `allocator.writes.claims.ClaimCache`."""

    def __init__(self, session: Session, namespace: str, *, taint_rules: str = "") -> None:
        """Create the caches; `taint_rules` is the served version of DeviceTaintRule, or empty."""
        self.facts = WatchedFacts(session, namespace)
        self.slices = watch_objects(session, SLICES, slice_reader())
        self.classes = watch_objects(session, CLASSES, class_reader())
        self.nodes = watch_objects(session, NODES, node_reader())
        self.claims = watch_objects(session, CLAIMS, claim_reader())
        self.pods = watch_objects(session, PODS, pod_reader(), keep=_without_unused_parts)
        self.taint_rules: Cache[Any] | None = None
        if taint_rules:
            resource = TAINT_RULES.at_version(taint_rules)
            self.taint_rules = watch_objects(session, resource, taint_rule_reader())
        # Not needed for decisions, so the allocator is ready without it.
        self.events = Cache(
            session, EVENTS, PrepareEvent, fields=f"reason={REASON}", keep_raw=False
        )
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.claims.subscribe(self._wake_waiting)

    @classmethod
    async def create(cls, session: Session, namespace: str) -> "AllocatorCaches":
        """Create the caches of the resources that the API server serves; raises ApiError."""
        found = await find_served(session, TAINT_RULES, _TAINT_RULE_VERSIONS)
        return cls(session, namespace, taint_rules=found.version if found else "")

    # --- claims, as the write path reads them ---

    def get(self, namespace: str, name: str) -> Claim | None:
        """Return a claim; None if the cache does not have it."""
        found = self.claims.get(name, namespace)
        return None if found is None else found.value

    async def wait_for_change(self, claim: Claim) -> None:
        """Return when the cache no longer has this version of a claim."""
        uid, version = claim.metadata.uid, claim.metadata.resource_version
        changed = asyncio.Event()
        waiting = self._waiting.setdefault(uid, set())
        waiting.add(changed)
        try:
            while True:
                current = self.get(claim.metadata.namespace, claim.metadata.name)
                if current is None or current.metadata.resource_version != version:
                    return
                await changed.wait()
                changed.clear()
        finally:
            waiting.discard(changed)
            if not waiting:
                self._waiting.pop(uid, None)

    def _wake_waiting(
        self, before: CachedObject[Claim] | None, after: CachedObject[Claim] | None
    ) -> None:
        changed = after or before
        for event in self._waiting.get(changed.uid, ()) if changed else ():
            event.set()

    # --- all caches ---

    @property
    def devices(self) -> tuple[Cache[Any], ...]:
        """The caches that decide what can be allocated."""
        rules = (self.taint_rules,) if self.taint_rules else ()
        return (self.slices, self.classes, self.nodes, *rules)

    @property
    def all(self) -> tuple[Cache[Any], ...]:
        """The caches without which nothing is decided."""
        return (*self.devices, self.claims, self.pods, self.facts.cache)

    def by_resource(self) -> Iterator[tuple[str, Cache[Any]]]:
        """Return all caches with their names in metrics."""
        return ((cache.resource.plural, cache) for cache in (*self.all, self.events))

    def run(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Return the watches of all caches."""
        return (each.run() for each in (*self.all, self.events))

    def describe_unsynced(self) -> list[str]:
        """Return one line for each cache that is not in step with the API server."""
        unsynced = (each for each in self.all if not each.synced)
        lines = [f"{each.resource.plural} are not synced: {each.problem}" for each in unsynced]
        return [*lines, *self.facts.find_missing()]


def _without_unused_parts(pod: Pod) -> Pod:
    """Return what is kept of a pod: only the identity of one without claims.

    What selects nodes is kept while the pod has none, and what preemption reads of every other.
    """
    old, waits = pod.spec, bool(pod.spec.resource_claims) and not pod.spec.node_name
    labels = pod.metadata.labels if old.resource_claims else {}
    metadata = msgspec.structs.replace(pod.metadata, labels=labels, annotations={})
    spec = PodSpec(
        scheduler_name=old.scheduler_name if old.resource_claims else "",
        node_name=old.node_name,
        priority=old.priority if old.resource_claims else None,
        node_selector=old.node_selector if waits else {},
        affinity=old.affinity if waits else None,
        tolerations=old.tolerations if waits else (),
        resource_claims=old.resource_claims,
    )
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)
