"""The pods that use claims, and the claims that are being released because their pods are gone.

A pod is gone when its deletion was seen, not while it is missing from a cache, which can be behind.
A pod that was deleted releases its claims after its grace period. If that is too long, or something
else keeps the pod, a finalizer for example, the pod lingers: nobody waits for it.
"""

from collections.abc import Collection
from heapq import heappop, heappush
from typing import Final, NamedTuple

from drawbridge.agreement.template_objects import parse_time
from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.claim import Claim
from drawbridge.ledger.lost_work import read_interval
from drawbridge.ledger.node_resources import Amounts, amounts_of
from drawbridge.ledger.pods import FINISHED, ContainerResources, Pod
from drawbridge.ledger.priorities import NEVER
from drawbridge.pod_groups import PodGroup

MAX_GONE_PODS: Final = 16384
# A tenant sets the grace period of its pods. While a pod terminates, others wait for its devices
# instead of preempting, so one that may take longer does not count as terminating.
MAX_GRACE_SECONDS: Final = 600
# How long a pod may take to end after its grace period.
TERMINATION_SECONDS: Final = 30.0
# What a pod has that does not say how long its containers may take to end.
DEFAULT_GRACE_SECONDS: Final = 30


class PodRecord(NamedTuple):
    """What the allocator keeps of a pod that uses claims."""

    name: str
    node: str
    ended: bool
    terminating: bool
    grace_seconds: int
    nominated_node: str
    claim_names: tuple[str, ...]
    group: PodGroup | None = None
    gated: bool = False
    # Whether another scheduler handles the pod.
    foreign: bool = False
    never_preempts: bool = False
    requests: ContainerResources | None = None
    unschedulable_since: float | None = None  # Unix time
    # How long its containers may take to end, whether it was deleted or not.
    container_seconds: int = DEFAULT_GRACE_SECONDS
    checkpoint_interval: int | None = None  # seconds
    started: float | None = None  # Unix time

    @property
    def is_bound_member(self) -> bool:
        """Whether the pod runs, or is to run, as a member of a gang."""
        gone = self.ended or self.terminating
        return bool(self.group and self.node) and not (gone or self.foreign)


class PodRecords:
    """Pods by UID, and the claims reserved for them."""

    def __init__(self) -> None:
        self._records: dict[str, PodRecord] = {}
        # Deleted pods, with the seconds that their containers may still run.
        self._gone: BoundedCache[str, int | None] = BoundedCache(MAX_GONE_PODS)
        # The pods that this process has bound, which the watch may not show yet.
        self._bound: BoundedCache[str, None] = BoundedCache(MAX_GONE_PODS)
        self._users: dict[str, set[str]] = {}  # the pods that name a claim
        self._consumers: dict[str, tuple[str, ...]] = {}
        self._claims_of: dict[str, set[str]] = {}
        self._bound_members: dict[PodGroup, set[str]] = {}
        self.version = 0  # grows with each change of a pod or its claims
        self._releasing: set[str] = set()
        self._settled: list[str] = []
        # The pods that began to terminate since the last look at the clock, a heap of the times at
        # which they should have ended, and those that have not.
        self._terminating: list[str] = []
        self._expected: list[tuple[float, str]] = []
        self._lingering: set[str] = set()

    def apply(self, before: Pod | None, after: Pod | None) -> None:
        """Apply the change of a pod; a pod with another UID is another pod."""
        is_other = after is None or before is None or before.metadata.uid != after.metadata.uid
        if before is not None and is_other and before.spec.resource_claims:
            self._remove(before.metadata.uid)
        if after is not None and after.spec.resource_claims:
            uid = after.metadata.uid
            record = _read_record(after)
            if self._records.get(uid) != record:
                self._follow_termination(uid, self._records.get(uid), record)
                self._forget_record(uid)
                self._records[uid] = record
                if record.group is not None and record.is_bound_member:
                    self._bound_members.setdefault(record.group, set()).add(uid)
                for name in record.claim_names:
                    self._users.setdefault(name, set()).add(uid)
                self._update_claims_of(uid)
                if record.node or record.ended:
                    self._settled.append(uid)

    def _follow_termination(self, uid: str, before: PodRecord | None, after: PodRecord) -> None:
        """Expect the end of a pod that was deleted, also with another grace period than before."""
        if (
            before is not None
            and before.grace_seconds == after.grace_seconds
            and before.terminating
        ):
            return
        self._lingering.discard(uid)
        if after.terminating and after.grace_seconds > MAX_GRACE_SECONDS:
            self._lingering.add(uid)
        elif after.terminating:
            self._terminating.append(uid)

    def _forget_record(self, uid: str) -> None:
        """Remove what is derived from the record of a pod."""
        self.version += 1
        record = self._records.get(uid)
        if record is not None and record.group is not None and record.is_bound_member:
            self._bound_members[record.group].discard(uid)
            if not self._bound_members[record.group]:
                del self._bound_members[record.group]
        for name in self.claim_names(uid):
            self._users[name].discard(uid)
            if not self._users[name]:
                del self._users[name]

    def _remove(self, uid: str) -> None:
        unconfirmed = self.find_unconfirmed(uid)
        self._forget_record(uid)
        self._records.pop(uid, None)
        self._lingering.discard(uid)
        self._gone.put(uid, unconfirmed)
        self._bound.pop(uid)
        self._settled.append(uid)
        self._update_claims_of(uid)

    def note_bound(self, uid: str) -> None:
        """Remember that a pod has a node: it can vanish before a watch or a list shows that."""
        self._bound.put(uid, None)

    def observe_claim(self, uid: str, claim: Claim) -> None:
        """Apply the consumers of a claim."""
        self.forget_claim(uid)
        if claim.status.allocation is not None:
            consumers = claim.status.reserved_for
            self._consumers[uid] = tuple(
                # Only pods are known; another consumer keeps the claim.
                consumer.uid if consumer.is_pod else ""
                for consumer in consumers
            )
            for pod in self._consumers[uid]:
                self._claims_of.setdefault(pod, set()).add(uid)
        self._update_claim(uid)

    def forget_claim(self, uid: str) -> None:
        """Apply the deletion of a claim."""
        self.version += 1
        for pod in self._consumers.pop(uid, ()):
            claims = self._claims_of.get(pod, set())
            claims.discard(uid)
            if not claims:
                self._claims_of.pop(pod, None)
        self._releasing.discard(uid)

    def _update_claims_of(self, pod_uid: str) -> None:
        for uid in tuple(self._claims_of.get(pod_uid, ())):
            self._update_claim(uid)

    def _update_claim(self, uid: str) -> None:
        consumers = self._consumers.get(uid)
        if consumers is not None and all(map(self.is_leaving, consumers)):
            self._releasing.add(uid)
        else:
            self._releasing.discard(uid)

    def take_settled(self) -> Collection[str]:
        """Return the pods that were bound, ended or deleted since the last call."""
        settled, self._settled = self._settled, []
        return settled

    def observe_time(self, now: float) -> frozenset[str]:
        """Note which pods did not end in time; return the claims that they keep."""
        started, self._terminating = self._terminating, []
        for uid in started:
            if (record := self._records.get(uid)) is not None:
                heappush(self._expected, (now + record.grace_seconds + TERMINATION_SECONDS, uid))
        kept: set[str] = set()
        while self._expected and self._expected[0][0] <= now:
            _, uid = heappop(self._expected)
            record = self._records.get(uid)
            if record is not None and record.terminating and not record.ended:
                self._lingering.add(uid)
                self._update_claims_of(uid)
                kept.update(self._claims_of.get(uid, ()))
        return frozenset(kept)

    # --- questions ---

    @property
    def releasing(self) -> Collection[str]:
        """The UIDs of allocated claims whose pods are all gone, ended or terminating in time."""
        return self._releasing

    def is_gone(self, uid: str) -> bool:
        """Whether the deletion of a pod was seen."""
        return uid in self._gone

    def find_unconfirmed(self, uid: str) -> int | None:
        """Return the grace period of the containers of a pod that may still run; else None.

        The kubelet confirms that they have ended, and that the devices are unprepared, by the phase
        of the pod. A pod that is not known may have vanished without it.
        """
        record = self._records.get(uid)
        if record is None:
            return self._gone.get(uid) if uid in self._gone else DEFAULT_GRACE_SECONDS
        has_node = record.node or uid in self._bound
        return record.container_seconds if has_node and not record.ended else None

    def is_leaving(self, uid: str) -> bool:
        """Whether a pod is gone, ended or terminating in time."""
        record = self._records.get(uid)
        if record is None:
            return uid in self._gone
        return record.ended or (record.terminating and uid not in self._lingering)

    def is_lingering(self, uid: str) -> bool:
        """Whether a pod was deleted and needs longer than others wait for it."""
        record = self._records.get(uid)
        return uid in self._lingering and record is not None and not record.ended

    def is_bound(self, uid: str) -> bool:
        """Whether a pod is known to have a node."""
        record = self._records.get(uid)
        return record is not None and bool(record.node)

    def may_have_devices(self, uid: str) -> bool:
        """Whether a pod that has not ended has a node, or gets one from another scheduler."""
        record = self._records.get(uid)
        return record is not None and not record.ended and bool(record.node or record.foreign)

    def is_foreign(self, uid: str) -> bool:
        """Whether another scheduler handles a pod."""
        record = self._records.get(uid)
        return record is not None and record.foreign

    def nominated_node(self, uid: str) -> str:
        """Return the node on which others were evicted for a pod; empty if there is none."""
        record = self._records.get(uid)
        return record.nominated_node if record else ""

    def never_preempts(self, uid: str) -> bool:
        """Whether nobody may be evicted for a pod."""
        record = self._records.get(uid)
        return record is not None and record.never_preempts

    def name_of(self, uid: str) -> str:
        """Return the `namespace/name` of a pod; empty if it is not known."""
        record = self._records.get(uid)
        return record.name if record else ""

    def unschedulable_since(self, uid: str) -> float | None:
        """Return the Unix time from which no node is known to fit a pod; None if it is not told."""
        record = self._records.get(uid)
        return record.unschedulable_since if record else None

    def requested(self, uid: str) -> Amounts:
        """Return the CPU and the memory that a pod requests."""
        record = self._records.get(uid)
        return amounts_of(record.requests) if record and record.requests else {}

    def can_be_on(self, uid: str, node: str) -> bool:
        """Whether a pod is bound to a node, or not known; "" is not a pod."""
        record = self._records.get(uid)
        return bool(uid) and (record is None or record.node == node)

    def checkpoint_interval(self, uid: str) -> int | None:
        """Return the seconds between two checkpoints of a pod; None if it says nothing."""
        record = self._records.get(uid)
        return record.checkpoint_interval if record is not None else None

    def started(self, uid: str) -> float | None:
        """Return the Unix time at which a pod has started on its node; None if it has not."""
        record = self._records.get(uid)
        return record.started if record is not None else None

    def gang_of(self, uid: str) -> PodGroup | None:
        """Return the gang of a pod that has a node; None of a pod that counts alone."""
        record = self._records.get(uid)
        return record.group if record is not None and record.is_bound_member else None

    def bound_members_with(self, uid: str) -> Collection[str]:
        """Return the members with a node of the gang of a pod that has one."""
        group = self.gang_of(uid)
        return () if group is None else self._bound_members[group]

    def interrupted_groups(self) -> tuple[PodGroup, ...]:
        """Return the gangs of which some members have a node and some can be scheduled."""
        bound: set[PodGroup] = set()
        waiting: set[PodGroup] = set()
        for record in self._records.values():
            group = record.group
            if group is None or record.ended or record.terminating or record.gated:
                continue
            if not record.foreign:
                (bound if record.node else waiting).add(group)
        return tuple(sorted(bound & waiting))

    def has_bound_members(self, uid: str) -> bool:
        """Whether a member of the gang of a pod has a node."""
        record = self._records.get(uid)
        return record is not None and record.group in self._bound_members

    def claim_names(self, uid: str) -> tuple[str, ...]:
        """Return the claims that a pod names, as `namespace/name`."""
        record = self._records.get(uid)
        return record.claim_names if record else ()

    def users_of(self, claim_name: str) -> tuple[tuple[str, str], ...]:
        """Return the `namespace/name` and the UID of the pods that name a claim."""
        uids = sorted(self._users.get(claim_name, ()))
        return tuple((self._records[uid].name, uid) for uid in uids)

    def consumers(self, claim_uid: str) -> tuple[str, ...]:
        """Return the pods for which an allocated claim is reserved; "" is not a pod."""
        return self._consumers.get(claim_uid, ())

    def claims_reserved_for(self, uid: str) -> Collection[str]:
        """Return the UIDs of the allocated claims that are reserved for a pod."""
        return tuple(self._claims_of.get(uid, ()))


def _read_record(pod: Pod) -> PodRecord:
    generated = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    names = (
        resource_claim.resource_claim_name or generated.get(resource_claim.name)
        for resource_claim in pod.spec.resource_claims
    )
    since, started = parse_time(pod.unschedulable_since), parse_time(pod.status.start_time)
    return PodRecord(
        name=pod.full_name,
        node=pod.spec.node_name,
        ended=pod.status.phase in FINISHED,
        terminating=pod.metadata.deletion_timestamp is not None,
        grace_seconds=pod.metadata.deletion_grace_period_seconds or 0,
        nominated_node=pod.status.nominated_node_name,
        # A pod may name one claim twice.
        claim_names=tuple(dict.fromkeys(f"{pod.namespace}/{name}" for name in names if name)),
        group=pod.group if pod.group and pod.group.is_gang else None,
        gated=bool(pod.spec.scheduling_gates),
        foreign=not pod.is_of_our_scheduler,
        never_preempts=pod.spec.preemption_policy == NEVER,
        requests=pod.spec.resources,
        unschedulable_since=since.timestamp() if since else None,
        container_seconds=min(_container_seconds(pod), MAX_GRACE_SECONDS),
        checkpoint_interval=read_interval(pod.metadata.annotations),
        started=started.timestamp() if started else None,
    )


def _container_seconds(pod: Pod) -> int:
    """Return the grace period that the kubelet gives to the containers."""
    given = pod.metadata.deletion_grace_period_seconds
    given = pod.spec.termination_grace_period_seconds if given is None else given
    return DEFAULT_GRACE_SECONDS if given is None else given
