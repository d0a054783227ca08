"""The caches of the allocator: what can be allocated, what is allocated, and to whom."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec

from allocator.state.large_pods import PodReader
from allocator.state.node_amounts import summarized_requests
from allocator.state.prepare_failures import REASON, PrepareEvent
from drawbridge.agreement.device_fence import FencePart, FenceParts
from drawbridge.api_error import ApiError
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.cache_set import CacheSet
from drawbridge.cluster.discovery import find_served, find_taint_rules
from drawbridge.cluster.resources import (
    CLAIMS,
    CLASSES,
    COSCHEDULING_GROUPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    POLICIES,
    POLICY_BINDINGS,
    SLICES,
    TAINT_RULES,
    Resource,
)
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import Accounting, CachedObject
from drawbridge.dra.claim import Claim, claim_reader
from drawbridge.dra.classes import class_reader
from drawbridge.dra.decode import Metadata, Reader
from drawbridge.dra.nodes import node_reader
from drawbridge.dra.opaque_json import OpaqueJSON
from drawbridge.dra.slices import Slice, find_slice_writer, slice_reader
from drawbridge.dra.taints import taint_rule_reader
from drawbridge.ledger.lost_work import read_interval
from drawbridge.ledger.pods import SCHEDULED, Pod, PodCondition, PodSpec, PodStatus
from drawbridge.ledger.reduced_claim import reduce_claim, rescue_claim
from drawbridge.memory_shares import MemoryShares, ProcessShares, keep_whole
from drawbridge.names import CHECKPOINTS_ANNOTATION, FENCE_POLICY, RELEASED_CONDITION
from drawbridge.pod_groups import read_min_member
from drawbridge.process.object_cache import watch_objects
from drawbridge.process.watched_facts import WatchedFacts
from drawbridge.resource_version import parse_version

T = TypeVar("T")
_LOG: Final = logging.getLogger("allocator.caches")
_FENCE: Final = (POLICIES, POLICY_BINDINGS)
# Of a pod whose namespace has more than its share of the memory.
MAX_CLAIMS_OF_REDUCED: Final = 256
# What is kept of the conditions of a pod with a node.
_BOUND: Final = (PodCondition(SCHEDULED, "True"),)


class CoschedulingGroup(msgspec.Struct):
    """A PodGroup of the plugin Coscheduling; its spec is any JSON value, which stays undecoded."""

    spec: msgspec.Raw = msgspec.Raw()

    def min_member(self) -> int:
        """Return how many members must run together; 0 if the spec does not say it."""
        return read_min_member(OpaqueJSON(bytes(self.spec)).decode() if self.spec else None)


def read_coscheduling_group(raw: bytes) -> int:
    """Return how many members of a group must run together; raises DecodeError."""
    return _GROUPS.decode(raw).min_member()


class Namespace(msgspec.Struct, frozen=True):
    """A Namespace with its labels only."""

    metadata: Metadata


_GROUPS: Final = msgspec.json.Decoder(CoschedulingGroup)


class ServedResources(NamedTuple):
    """What not every API server serves: DeviceTaintRule at a version, or "", and `groups`."""

    taint_rules: str
    groups: bool


async def find_what_is_served(session: Session, *, expects_groups: bool = False) -> ServedResources:
    """Ask the API server; raises ApiError.

    With `expects_groups`, groups are served if an error says nothing about it, as while a server of
    their API group is away: then only the members of such groups wait.
    """
    rules = await find_taint_rules(session)
    groups: Resource | None = COSCHEDULING_GROUPS
    try:
        groups = await find_served(session, COSCHEDULING_GROUPS, (COSCHEDULING_GROUPS.version,))
    except ApiError as error:
        if not (expects_groups and error.code):
            raise
        _LOG.warning("cannot find out whether groups of Coscheduling are served: %s", error)
    return ServedResources(rules.version if rules else "", groups is not None)


class AllocatorCaches(CacheSet):
    """All caches."""

    def __init__(
        self,
        session: Session,
        namespace: str,
        *,
        taint_rules: str = "",
        groups: bool = False,
        memory_limit: int | None = None,
    ) -> None:
        """Create the caches; `taint_rules` is the served version of DeviceTaintRule, or empty.

        With `groups`, the API server serves the PodGroups of Coscheduling.
        """
        super().__init__()
        self.served = ServedResources(taint_rules, groups)
        self.shares, of_nodes = ProcessShares.of(memory_limit)
        shares = self.shares
        rules = TAINT_RULES.at_version(taint_rules)
        by_node: Accounting[Slice] = Accounting(of_nodes, find_slice_writer, by_text=True)
        self.slices = self._watch(session, SLICES, slice_reader(), by_node)
        self.classes = self._watch(session, CLASSES, class_reader())
        self.nodes = self._watch(session, NODES, node_reader())
        self.taint_rules = self._watch(session, rules, taint_rule_reader()) if taint_rules else None
        # The caches that decide what can be allocated.
        self.devices = self.required
        held: Accounting[Claim] = Accounting(shares, reduce=reduce_claim, rescue=rescue_claim)
        self.claims = self._watch(session, CLAIMS, claim_reader(), held)
        pods = watch_objects(
            session,
            PODS,
            PodReader(),
            keep=without_unused_parts,
            accounting=Accounting(shares, reduce=without_conditions),
        )
        self.pods = self.add(pods)
        self.facts = WatchedFacts(session, namespace)
        self.add(self.facts.cache)
        # Needed for quotas only, and a role of an earlier release may not read them.
        namespaces = Cache(session, NAMESPACES, Namespace, keep_raw=False)
        self.namespaces = self.add(namespaces, required=False)
        # Not needed for decisions, so the allocator is ready without it.
        self.events = self.add(_watch_events(session, shares), required=False)
        # A role of an earlier release may not read these groups, and their CRD can be broken. Only
        # the members of such groups wait until this is known.
        groups_of = _watch_groups(session, shares) if groups else None
        self._groups = self.add(groups_of, required=False) if groups_of else None
        # Needed for owned pools with a fence of rules only, and a role may not read them.
        self._fence = tuple(
            self.add(_watch_fence(session, resource), required=False) for resource in _FENCE
        )
        self.namespace = namespace
        # The next change of claims for which somebody waits; it goes with the change.
        self._changes: dict[str, asyncio.Future[None]] = {}
        self.claims.subscribe(self._end_waiting)

    @classmethod
    async def create(
        cls,
        session: Session,
        namespace: str,
        memory_limit: int | None = None,
        *,
        expects_groups: bool = False,
    ) -> "AllocatorCaches":
        """Create the caches of the resources that the API server serves; raises ApiError."""
        served = await find_what_is_served(session, expects_groups=expects_groups)
        return cls(session, namespace, **served._asdict(), memory_limit=memory_limit)

    def fence_parts(self) -> FenceParts:
        """Return what the fence around devices consists of, as last seen."""
        cached = [each.get(FENCE_POLICY) for each in self._fence]
        return FenceParts(*[each.value if each else None for each in cached])

    @property
    def fence_policy(self) -> Cache[FencePart]:
        """The policy that names pools."""
        return self._fence[0]

    def subscribe_fence(self, listener: Callable[..., None]) -> None:
        """Call `listener` after each change of a part of the fence."""
        for cache in self._fence:
            cache.subscribe(listener)

    def min_member(self, namespace: str, name: str) -> int:
        """Return how many members of a group of Coscheduling must run together; 0 if not known."""
        group = self._groups.get(name, namespace) if self._groups else None
        return 0 if group is None else group.value

    def find_unread_groups(self) -> str:
        """Return why the groups of Coscheduling are not known yet; empty if they are, or not read.

        Before that, a gang could get devices for a part of its members.
        """
        groups = self._groups
        return "" if groups is None or groups.synced or groups.refused else groups.problem

    def subscribe_groups(self, listener: Callable[..., None]) -> None:
        """Call `listener` after each change of a PodGroup of Coscheduling."""
        if self._groups is not None:
            self._groups.subscribe(listener)

    # --- claims, as the write path reads them ---

    def get(self, namespace: str, name: str) -> Claim | None:
        """Return a claim; None if the cache does not have it."""
        cached = self.claims.get(name, namespace)
        return None if cached is None else cached.value

    def shows(self, watched: Claim | Pod) -> bool:
        """Whether the cache has a claim, in any version, or a pod on its node."""
        name, namespace = watched.metadata.name, watched.metadata.namespace
        if isinstance(watched, Claim):
            cached = self.claims.get(name, namespace)
            return cached is not None and cached.uid == watched.metadata.uid
        pod = self.pods.get(name, namespace)
        if pod is None or pod.uid != watched.metadata.uid:
            return False
        return pod.value.spec.node_name == watched.spec.node_name

    def next_change(self, claim: Claim) -> "asyncio.Future[None]":
        """Return what is done when the cache has a newer version of a claim than this one.

        While its watch is behind a response, or has not told of the claim, that takes longer.
        Several may wait for it, so that nobody cancels it.
        """
        metadata, loop = claim.metadata, asyncio.get_running_loop()
        change = self._changes.setdefault(metadata.uid, loop.create_future())
        current = self.get(metadata.namespace, metadata.name)
        shown = parse_version(current.metadata.resource_version) if current else -1
        if shown > parse_version(metadata.resource_version):
            self.end_waiting(metadata.uid)
        return change

    def end_waiting(self, claim_uid: str) -> None:
        """Let those look again who wait for a change of a claim."""
        if (change := self._changes.pop(claim_uid, None)) is not None:
            change.set_result(None)

    def _end_waiting(
        self, before: CachedObject[Claim] | None, after: CachedObject[Claim] | None
    ) -> None:
        for each in filter(None, (before, after)):
            self.end_waiting(each.uid)

    # --- all caches ---

    def _watch(
        self,
        session: Session,
        resource: Resource,
        reader: Reader[T],
        accounting: Accounting[T] | None = None,
    ) -> Cache[T]:
        return self.add(watch_objects(session, resource, reader, accounting=accounting))

    def find_missing(self, *, needs_namespaces: bool = False) -> list[str]:
        """Return one line for each required cache that is not synced, and why facts are missing."""
        missing = [*super().find_missing(), *self.facts.find_missing()]
        if needs_namespaces and not self.namespaces.synced:
            missing.append(f"namespaces are not synced: {self.namespaces.problem}")
        return missing


def _watch_events(session: Session, shares: MemoryShares) -> Cache[PrepareEvent]:
    """Watch failures of drivers. After one that is left out, a pod can get its device again."""
    return Cache(
        session,
        EVENTS,
        PrepareEvent,
        fields=f"reason={REASON}",
        keep_raw=False,
        accounting=Accounting(shares),
    )


def _watch_groups(session: Session, shares: MemoryShares) -> Cache[int]:
    return Cache(
        session,
        COSCHEDULING_GROUPS,
        int,
        decode=read_coscheduling_group,
        keep_raw=False,
        accounting=Accounting(shares, reduce=keep_whole),
    )


def _watch_fence(session: Session, resource: Resource) -> Cache[FencePart]:
    fields = f"metadata.name={FENCE_POLICY}"
    return Cache(session, resource, FencePart, fields=fields, keep_raw=False)


def without_conditions(pod: Pod) -> Pod:
    """Return what must be known of a pod, whatever else it has: its first claims and resources.

    The claims that are reserved for it name it, too.
    """
    replaced = msgspec.structs.replace
    metadata = replaced(pod.metadata, labels={}, owner_references=())
    claims = pod.spec.resource_claims[:MAX_CLAIMS_OF_REDUCED]
    spec = replaced(
        pod.spec, node_selector={}, affinity=None, tolerations=(), resource_claims=claims
    )
    made = pod.status.resource_claim_statuses[:MAX_CLAIMS_OF_REDUCED]
    status = replaced(pod.status, resource_claim_statuses=made)
    return replaced(pod, metadata=metadata, spec=spec, status=status)


def without_unused_parts(pod: Pod) -> Pod:
    """Return what is kept of a pod: the identity, CPU and memory of one without claims.

    What selects nodes is kept while the pod has none, its group and what preemption reads always.
    """
    old, waits = pod.spec, bool(pod.spec.resource_claims) and not pod.spec.node_name
    replaced = msgspec.structs.replace
    metadata = replaced(pod.metadata, annotations=_kept_annotations(pod), finalizers=())
    spec = PodSpec(node_name=old.node_name, resources=summarized_requests(pod))
    if old.resource_claims:
        spec = replaced(
            spec,
            scheduler_name=old.scheduler_name,
            priority=old.priority,
            resource_claims=old.resource_claims,
            scheduling_group=old.scheduling_group,
            workload_ref=old.workload_ref,
            scheduling_gates=old.scheduling_gates[:1],
            termination_grace_period_seconds=old.termination_grace_period_seconds,
        )
    else:
        metadata = replaced(metadata, labels={}, owner_references=())
    if waits:
        spec = replaced(
            spec,
            preemption_policy=old.preemption_policy,
            node_selector=old.node_selector,
            affinity=old.affinity,
            tolerations=old.tolerations,
        )
    told = {each.type: each for each in pod.status.conditions}
    conditions = [replaced(told[SCHEDULED], message="")] if SCHEDULED in told else []
    if RELEASED_CONDITION in told:
        conditions.append(told[RELEASED_CONDITION])
    status = PodStatus(
        conditions=tuple(conditions) if waits else _BOUND if pod.is_bound else (),
        phase=pod.status.phase,
        start_time=pod.status.start_time,
        nominated_node_name=pod.status.nominated_node_name,
        resource_claim_statuses=pod.status.resource_claim_statuses,
    )
    return replaced(pod, metadata=metadata, spec=spec, status=status)


def _kept_annotations(pod: Pod) -> dict[str, str]:
    """Return the interval between checkpoints; a text that is none can have any length."""
    annotations = pod.metadata.annotations
    if not pod.spec.resource_claims or read_interval(annotations) is None:
        return {}
    return {CHECKPOINTS_ANNOTATION: annotations[CHECKPOINTS_ANNOTATION]}
