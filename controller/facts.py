"""Gathers facts when the cluster changes and publishes them in one ConfigMap.

All replicas of the webhook read that ConfigMap, so they give equal responses. It keeps the last
few versions, because the annotation of a pod names the version that translated the pod.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from controller.field_probe import ServerSupport
from controller.new_findings import NewFindings
from controller.protocols import (
    ObjectCache,
    ObjectReference,
    ObjectStore,
    Reporter,
    Unstructured,
    WatchedObject,
)
from controller.readings import Readings
from controller.watched_objects import PartialObject
from drawbridge.agreement.owned_pools import report_shared_pools
from drawbridge.agreement.published_facts import CURRENT_KEY, build_data_key
from drawbridge.agreement.refused_writes import describe_refused_write
from drawbridge.agreement.slice_limits import report_crowded
from drawbridge.api_error import ApiError
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.inventory import group_by_pool
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.dra.slices import Slice
from drawbridge.facts import serialized
from drawbridge.facts.gather import FactsInput, GatheredFacts, gather_facts
from drawbridge.facts.model import Cluster, Facts
from drawbridge.facts.recent_pools import RecentPools
from drawbridge.facts.served_names import DualNode
from drawbridge.finding import Finding
from drawbridge.judge.slices.pools import find_foreign_slices
from drawbridge.names import FACTS_CONFIG_MAP, FACTS_ORDER_ANNOTATION
from drawbridge.translate.context import TranslationContext, make_context

# The annotation keeps the order, newest first, because the keys of a ConfigMap have no order.
VERSIONS: Final = 3
# The API server limits a ConfigMap to 1 MiB.
ROOM: Final = 900 * 1024
NAME: Final = "facts"
_MAX_UNREADABLE_REPORTED: Final = 20
_MAX_FOREIGN_SLICES: Final = 20

T = TypeVar("T")


def compose_config_map(facts: bytes, digest: str, live: Unstructured | None) -> Unstructured | None:
    """Compose the ConfigMap with these facts as current; None if it already has them."""
    metadata = {**((live or {}).get("metadata") or {})}
    data: Mapping[str, str] = (live or {}).get("data") or {}
    if data.get(CURRENT_KEY) == digest and data.get(build_data_key(digest)) == facts.decode():
        return None
    annotations = {**(metadata.get("annotations") or {})}
    order = _select_versions(facts, digest, data, annotations)
    older = {build_data_key(each): data[build_data_key(each)] for each in order[1:]}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            **metadata,
            "name": FACTS_CONFIG_MAP,
            "annotations": {**annotations, FACTS_ORDER_ANNOTATION: ",".join(order)},
        },
        "data": {CURRENT_KEY: digest, build_data_key(digest): facts.decode(), **older},
    }


def _select_versions(
    facts: bytes, digest: str, data: Mapping[str, str], annotations: Mapping[str, str]
) -> list[str]:
    """Return the hashes to keep, newest first, as many as fit in the ConfigMap."""
    earlier = [
        part
        for part in annotations.get(FACTS_ORDER_ANNOTATION, "").split(",")
        if build_data_key(part) in data
    ]
    order, room = [digest], ROOM - len(facts)
    for version in dict.fromkeys((data.get(CURRENT_KEY, ""), *earlier)):
        key = build_data_key(version)
        room -= len(data.get(key, "").encode())
        if version not in order and key in data and len(order) < VERSIONS and room >= 0:
            order.append(version)
    return order


def _parse_version(serialized_facts: str) -> tuple[frozenset[str], Facts] | None:
    """Return the accepted hashes of facts and the facts; None if they are invalid."""
    try:
        facts = serialized.read_facts(msgspec.json.decode(serialized_facts))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return (serialized.accepted_hashes(facts), facts) if isinstance(facts, Facts) else None


class ParsedVersions:
    """The published versions, each parsed once: every waiting pod may name one of them.

    Holds at most the versions of one ConfigMap.
    """

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[str, tuple[frozenset[str], Facts] | None]] = {}

    def find(self, data: Mapping[str, str], digest: str) -> Facts | None:
        """Return the facts with this hash; None if they are missing or have another hash."""
        key = build_data_key(digest)
        text = data.get(key)
        if text is None:
            return None
        entry = self._parsed.get(key)
        if entry is None or entry[0] != text:
            entry = (text, _parse_version(text))
            kept = {name: each for name, each in self._parsed.items() if name in data}
            self._parsed = {**kept, key: entry}
        version = entry[1]
        return version[1] if version is not None and digest in version[0] else None


class SchedulerMissing(Protocol):
    """Tells whether the scheduler is missing, and gets what was published of it before."""

    def __call__(self, *, was_missing: bool) -> Awaitable[bool]:
        """Return it."""


# An object as its reader reads it: decoded, or the findings about what cannot be read.
Reading: TypeAlias = T | tuple[Finding, ...]


class FactsSources(NamedTuple):
    """The caches that facts are gathered from. The cache of nodes has other readers as well."""

    slices: ObjectCache[Reading[Slice]]
    classes: ObjectCache[Reading[DeviceClass]]
    nodes: ObjectCache[PartialObject]
    # How many slices are not in the cache for want of memory.
    left_out: Callable[[], int] = lambda: 0


class _Objects(NamedTuple):
    """The objects of the sources at one moment."""

    slices: tuple[Reading[Slice], ...]
    classes: tuple[Reading[DeviceClass], ...]
    nodes: tuple[WatchedObject[PartialObject], ...]
    left_out: int


def _split(readings: Iterable[Reading[T]]) -> tuple[tuple[T, ...], tuple[Finding, ...]]:
    """Return the decoded objects, and the findings about the others."""
    objects: list[T] = []
    findings: list[Finding] = []
    for reading in readings:
        if isinstance(reading, tuple):
            findings += reading
        else:
            objects.append(reading)
    return tuple(objects), tuple(findings)


class FactsReconciler:
    """Gathers and publishes facts, and keeps the published versions.

    `context` and `dual_nodes` are None before the first run, and no node is `publishing`.
    The listeners are called when one of them changes.
    """

    name = NAME

    def __init__(  # noqa: PLR0913  # its sources, its store and its inputs
        self,
        sources: FactsSources,
        store: ObjectStore,
        namespace: str,
        *,
        configuration: Callable[[], Configuration],
        server_support: Callable[[], Awaitable[ServerSupport]],
        reporter: Reporter,
        scheduler_missing: SchedulerMissing,
        pause_collection: Callable[[], AbstractContextManager[None]] = nullcontext,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.context: TranslationContext | None = None
        self.dual_nodes: tuple[DualNode, ...] | None = None
        self.publishing: Mapping[str, frozenset[str]] = {}
        self.listeners: list[Callable[[], None]] = []
        self._sources = sources
        self._store = store
        self._namespace = namespace
        self._configuration = configuration
        self._server_support = server_support
        self._reporter = reporter
        self._scheduler_missing = scheduler_missing
        self._pause_collection = pause_collection
        self._data: Mapping[str, str] = {}
        self._versions = ParsedVersions()
        self._reference = ObjectReference("ConfigMap", FACTS_CONFIG_MAP, namespace)
        self._new_findings = NewFindings(reporter, "GatherFacts")
        self._nodes: Readings[Reading[Node]] = Readings(node_reader().read)
        self._pools = RecentPools()
        self._now = now

    async def reconcile(self) -> None:
        """Publish the current facts; waits until the first field probe is done."""
        support, configuration = await self._server_support(), self._configuration()
        live = await self._store.read(FACTS_CONFIG_MAP, self._namespace)
        self._data = (live or {}).get("data") or {}
        cached = _Objects(
            tuple(stored.value for stored in self._sources.slices.all()),
            tuple(stored.value for stored in self._sources.classes.all()),
            tuple(self._sources.nodes.all()),
            self._sources.left_out(),
        )
        # Thousands of slices take seconds; the event loop has to renew the Lease meanwhile.
        gathered, unreadable = await asyncio.to_thread(self._gather, cached, configuration, support)
        missing = await self._scheduler_missing(was_missing=await self._read_scheduler())
        facts = msgspec.structs.replace(gathered.facts, scheduler=not missing)
        context, encoded = await asyncio.to_thread(
            lambda: (make_context(configuration, facts), serialized.encode_facts(facts))
        )
        change = compose_config_map(encoded, context.facts_digest, live)
        published: TranslationContext | None = context
        findings, failure = (*gathered.findings, *unreadable[:_MAX_UNREADABLE_REPORTED]), None
        try:
            if change is not None:
                await self._write(change, live)
        except ApiError as error:
            failure = error
            findings += describe_refused_write("ConfigMap", error)
            # Admission keeps what is published; which nodes are dual does not depend on that.
            published = await asyncio.to_thread(self._find_published, configuration)
        self._new_findings.report(dict.fromkeys(findings, self._reference))
        self._publish(gathered, published)
        if failure is not None:
            raise failure

    def _find_published(self, configuration: Configuration) -> TranslationContext | None:
        """Return the context with the facts that are published now; None without any."""
        facts = self._versions.find(self._data, self._data.get(CURRENT_KEY, ""))
        return None if facts is None else make_context(configuration, facts)

    async def read_cluster(self) -> Cluster | None:
        """Return what the facts that are published now say of the API server; None without any."""
        live = await self._store.read(FACTS_CONFIG_MAP, self._namespace)
        data: Mapping[str, str] = (live or {}).get("data") or {}
        facts = await asyncio.to_thread(self._versions.find, data, data.get(CURRENT_KEY, ""))
        return None if facts is None else facts.cluster

    async def _read_scheduler(self) -> bool:
        """Return whether the facts that are published now say that the scheduler is missing."""
        if self.context is not None and self.context.facts is not None:
            return not self.context.facts.scheduler
        digest = self._data.get(CURRENT_KEY, "")
        published = await asyncio.to_thread(self._versions.find, self._data, digest)
        return published is not None and not published.scheduler

    def _publish(self, gathered: GatheredFacts, context: TranslationContext | None) -> None:
        """Update the dual nodes and a context; call the listeners if one of them changed."""
        same = context is None or (
            self.context is not None
            and self.context.facts_digest == context.facts_digest
            and self.context.configuration is context.configuration
        )
        before = self.dual_nodes, self.publishing
        self.dual_nodes, self.publishing = gathered.dual_nodes, gathered.publishing
        if not same:
            self.context = context
        if not same or before != (self.dual_nodes, self.publishing):
            for listener in self.listeners:
                listener()

    def find_version(self, digest: str) -> Facts | None:
        """Return the facts with this hash, if they are among the last few versions."""
        if self.context is not None and self.context.facts_digest == digest:
            return self.context.facts
        return self._versions.find(self._data, digest)

    async def _write(self, change: Unstructured, live: Unstructured | None) -> None:
        if live is None:
            await self._store.create(change, self._namespace)
        else:
            await self._store.replace(change, self._namespace)
        self._data = change["data"]
        self._reporter.count(NAME, "published")

    def _gather(
        self,
        cached: _Objects,
        configuration: Configuration,
        support: ServerSupport,
    ) -> tuple[GatheredFacts, tuple[Finding, ...]]:
        # A full garbage collection stops all threads: 0.9 s with the objects of 5,000 nodes.
        with self._pause_collection():
            slices, bad_slices = _split(cached.slices)
            classes, bad_classes = _split(cached.classes)
            nodes, bad_nodes = _split(self._nodes.read(cached.nodes))
            names = {each.name for each in cached.nodes}
            counting = self._pools.complete(slices, names, self._now())
            objects = FactsInput(
                counting, classes, nodes, away=self._pools.away, left_out=cached.left_out
            )
            gathered = gather_facts(objects, configuration, support.gates, support.stored_fields)
            owned = owned_pools(configuration)
            unused = (*report_shared_pools(owned, slices), *report_crowded(owned, slices))
            by_pool = group_by_pool(slices)
            foreign = tuple(islice(find_foreign_slices(by_pool), _MAX_FOREIGN_SLICES))
        return gathered, (*unused, *foreign, *bad_slices, *bad_classes, *bad_nodes)
