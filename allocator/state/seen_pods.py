"""The pods that use claims, and the claims that are being released because their pods are gone.

A pod is gone when its deletion was seen, not while it is missing from a cache, which can be behind.
A pod that was deleted releases its claims after its grace period. If that is too long, or something
else keeps the pod, a finalizer for example, the pod lingers: nobody waits for it.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from allocator.state.transitions import Due
from allocator.state.wheel import Wheel
from drawbridge.agreement.template_objects import parse_time
from drawbridge.bounded_cache import BoundedCache
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import PoolID
from drawbridge.index import Index
from drawbridge.ledger.ledger import name_of
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


class SeenPod(NamedTuple):
    """What the API server tells of a pod that uses claims, named as `namespace/name`."""

    name: str = ""
    node: str = ""
    ended: bool = False
    terminating: bool = False
    grace_seconds: int = 0
    # Whether it was deleted and needs longer than others wait for it.
    lingers: bool = False
    # The node on which others were evicted for the pod.
    nominated_node: str = ""
    claim_names: tuple[str, ...] = ()
    group: PodGroup | None = None
    gated: bool = False
    # Whether another scheduler handles the pod.
    foreign: bool = False
    never_preempts: bool = False
    priority: int = 0
    requests: ContainerResources | None = None
    unschedulable_since: float | None = None  # Unix time from which no node is known to fit
    # How long its containers may take to end, whether it was deleted or not.
    container_seconds: int = DEFAULT_GRACE_SECONDS
    checkpoint_interval: int | None = None  # seconds between two checkpoints
    started: float | None = None  # Unix time on its node
    release: str = ""  # which allocation of a claim was released for it last

    @property
    def amounts(self) -> Amounts:
        """The CPU and the memory that the pod requests."""
        return amounts_of(self.requests) if self.requests else {}

    @property
    def gang(self) -> PodGroup | None:
        """The gang of a pod that runs, or is to run; None of a pod that counts alone."""
        counts = self.node and not (self.ended or self.terminating or self.foreign)
        return self.group if counts else None

    @property
    def may_have_devices(self) -> bool:
        """Whether a pod that has not ended has a node, or gets one from another scheduler."""
        return not self.ended and bool(self.node or self.foreign)


UNSEEN: Final = SeenPod()
# kube-scheduler asks again about a pod that waits after 5 minutes
# (podMaxInUnschedulablePodsDuration). So one that no watch shows and nobody asks about has gone.
UNSEEN_SECONDS: Final = 600.0


class _Users(NamedTuple):
    """How many users of a claim stay, and how many are not seen; of one pod, 0 or 1."""

    staying: int = 0
    unseen: int = 0


class SeenPods:
    """Pods by UID, and which of the `claims`, as they are now, are reserved for them."""

    def __init__(self, times: Wheel[Due], claims: Mapping[str, Claim]) -> None:
        self._times, self._claims = times, claims
        self._pods: dict[str, SeenPod] = {}
        # Deleted pods, with the seconds that their containers may still run.
        self._gone: BoundedCache[str, int | None] = BoundedCache(MAX_GONE_PODS)
        # The pods that this process has bound, or may have, which the watch may not show yet.
        self._bound: BoundedCache[str, None] = BoundedCache(MAX_GONE_PODS)
        # The versions of claims that this process releases now, by UID: no pod has a node.
        self._unused: dict[str, str] = {}
        self._users: Index[str, str] = Index()  # the pods that name a claim
        self._claims_of: Index[str, str] = Index()
        self._counts: dict[str, _Users] = {}  # of the claims with consumers
        self._on_node: Index[str, str] = Index()
        # The claims of which a user is not seen, by the pools of their devices.
        self._with_unseen: Index[PoolID, str] = Index()
        self._pools_of: dict[str, Collection[PoolID]] = {}
        self._bound_members: Index[PodGroup, str] = Index()
        self.version = 0  # grows with each change of a pod or its claims
        # The UIDs of allocated claims whose pods are all gone, ended or terminating in time, and of
        # claims without pods that are deleted.
        self.releasing: Final[set[str]] = set()
        self._settled: list[str] = []
        # The pods that began to terminate since the last look at the clock.
        self._terminating: list[str] = []
        # Allocated claims, each with a consumer that it has got since somebody asked.
        self._joined: set[tuple[str, str]] = set()

    def apply(self, before: Pod | None, after: Pod | None) -> None:
        """Apply the change of a pod; a pod with another UID is another pod."""
        is_other = after is None or before is None or before.metadata.uid != after.metadata.uid
        if before is not None and is_other and before.spec.resource_claims:
            self._remove(before.metadata.uid)
        if after is not None and after.spec.resource_claims:
            uid = after.metadata.uid
            seen = self._follow_termination(uid, self.get(uid), _read_pod(after))
            if self._pods.get(uid) != seen:
                counted = self._count(uid)
                self._put(uid, seen)
                self._count_again(uid, counted)
                if seen.node or seen.ended:
                    self._settled.append(uid)

    def _follow_termination(self, uid: str, before: SeenPod, after: SeenPod) -> SeenPod:
        """Expect the end of a pod that was deleted, also with another grace period than before."""
        if before.terminating and before.grace_seconds == after.grace_seconds:
            return after._replace(lingers=before.lingers)
        lingers = after.terminating and after.grace_seconds > MAX_GRACE_SECONDS
        if after.terminating and not lingers:
            self._terminating.append(uid)
        return after._replace(lingers=lingers) if lingers else after

    def _put(self, uid: str, after: SeenPod) -> None:
        self.version += 1
        before = self.get(uid)
        gangs = ([each.gang] if each.gang else () for each in (before, after))
        self._bound_members.move(uid, *gangs)
        if before.claim_names != after.claim_names:
            self._users.move(uid, before.claim_names, after.claim_names)
        nodes = ([each.node] if each.node else () for each in (before, after))
        self._on_node.move(uid, *nodes)
        if after is UNSEEN:
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = after

    def _remove(self, uid: str) -> None:
        unconfirmed, counted = self._find_unconfirmed(uid, is_current=True), self._count(uid)
        self._put(uid, UNSEEN)
        self._gone.put(uid, unconfirmed)
        self._bound.pop(uid)
        self._settled.append(uid)
        self._count_again(uid, counted)

    def take_over(self, earlier: "SeenPods") -> None:
        """Keep which pods have gone, were bound or linger: no list tells that again."""
        self._unused = earlier._unused  # noqa: SLF001  # of this class; a release goes on
        for uid in dict(earlier._bound.items()):  # noqa: SLF001  # of this class
            self.note_bound(uid)
        for uid, unconfirmed in earlier._gone.items():  # noqa: SLF001  # of this class
            if uid not in self._pods:
                counted = self._count(uid)
                self._gone.put(uid, unconfirmed)
                self._count_again(uid, counted)
        for uid, seen in self._pods.items():
            if seen.terminating and earlier.get(uid).lingers:
                self._let_linger(uid, seen)

    def note_bound(self, uid: str) -> None:
        """Remember that a pod may have a node: it can vanish before a watch or a list shows it."""
        self._bound.put(uid, None)

    @contextlib.contextmanager
    def release(self, claim: Claim) -> Iterator[None]:
        """Expect the release of a claim by this process: of its pods none has a node."""
        self._unused[claim.metadata.uid] = claim.metadata.resource_version
        try:
            yield
        finally:
            self._unused.pop(claim.metadata.uid, None)

    def follow_claim(self, uid: str, before: Claim | None) -> None:
        """Follow the consumers of a claim that has changed or was deleted."""
        self.version += 1
        consumers, earlier = tuple(dict.fromkeys(self.consumers(uid))), _read_consumers(before)
        self._claims_of.move(uid, earlier, consumers)
        if before is not None and before.status.allocation is not None:
            self._joined.update((uid, each) for each in set(consumers).difference(earlier))
        self._counts.pop(uid, None)
        if consumers:
            self._counts[uid] = _Users(*map(sum, zip(*map(self._count, consumers), strict=True)))
        self._update_releasing(uid)
        self._update_unseen(uid)

    def _let_linger(self, uid: str, seen: SeenPod) -> None:
        counted = self._count(uid)
        self._pods[uid] = seen._replace(lingers=True)
        self._count_again(uid, counted)

    def _count(self, uid: str) -> _Users:
        """Return what a consumer counts; another one than a pod, "", stays."""
        return _Users(not self.is_leaving(uid), bool(uid) and uid not in self._pods)

    def _count_again(self, uid: str, counted: _Users) -> None:
        """Count a pod in its claims, where it counted that before.

        Most changes of a pod change nothing there. Its other users are not looked at: a pod may
        have thousands of claims, and each of them 256 users.
        """
        counts = self._count(uid)
        if counts == counted:
            return
        staying, unseen = counts.staying - counted.staying, counts.unseen - counted.unseen
        for claim in self._claims_of.get(uid):
            before = self._counts[claim]
            self._counts[claim] = _Users(before.staying + staying, before.unseen + unseen)
            self._update_releasing(claim)
            if (claim in self._pools_of) != bool(self._counts[claim].unseen):
                self._update_unseen(claim)

    def _update_releasing(self, uid: str) -> None:
        claim = self._claims.get(uid)
        # Nobody releases what another client has allocated for no pod, until it is deleted.
        is_deleted = claim is not None and claim.metadata.deletion_timestamp is not None
        is_allocated = claim is not None and claim.status.allocation is not None
        counts = self._counts.get(uid)
        if is_allocated and (counts or is_deleted) and not (counts and counts.staying):
            self.releasing.add(uid)
        else:
            self.releasing.discard(uid)

    def _update_unseen(self, uid: str) -> None:
        """Find a claim by the pools of its devices if one of its users is not seen."""
        claim, counts, pools = self._claims.get(uid), self._counts.get(uid), frozenset[PoolID]()
        if claim is not None and claim.status.allocation is not None and counts and counts.unseen:
            results = claim.status.allocation.devices.results
            pools = frozenset(PoolID(each.driver, each.pool) for each in results)
        self._with_unseen.move(uid, self._pools_of.pop(uid, ()), pools)
        if pools:
            self._pools_of[uid] = pools

    def take_settled(self) -> Collection[str]:
        """Return the pods that were bound, ended or deleted since the last call."""
        settled, self._settled = self._settled, []
        return settled

    def take_joined(self) -> Collection[tuple[str, str]]:
        """Return claims that stayed allocated and got a consumer that stays since the last call.

        Each is with the UID of the consumer; "" is not a pod.
        """
        joined, self._joined = self._joined, set()
        return [
            (claim, each)
            for claim, each in joined
            if each in self.consumers(claim) and not self.is_leaving(each)
        ]

    def observe_time(self, now: float) -> frozenset[str]:
        """Note which pods did not end in time; return the claims that they keep."""
        started, self._terminating = self._terminating, []
        for uid in started:
            if (seen := self._pods.get(uid)) is not None:
                self._times.set("end", uid, now + seen.grace_seconds + TERMINATION_SECONDS)
        kept: set[str] = set()
        for uid in self._times.take("end", now):
            seen = self.get(uid)
            if seen.terminating and not seen.ended:
                self._let_linger(uid, seen)
                kept.update(self._claims_of.get(uid))
        return frozenset(kept)

    # --- questions ---

    def get(self, uid: str) -> SeenPod:
        """Return what is known of a pod; nothing if it was not seen, or was deleted."""
        return self._pods.get(uid, UNSEEN)

    def is_gone(self, uid: str) -> bool:
        """Whether the deletion of a pod was seen."""
        return uid in self._gone

    def find_unconfirmed(self, uid: str, released: Claim | None = None) -> int | None:
        """Return the grace period of the containers of a pod that may still run; else None.

        The kubelet confirms that they have ended, and that the devices are unprepared, by the phase
        of the pod. A pod that is not known may have vanished without it. So may one that is seen
        without a node while others have `released` a claim of it: what is seen is behind then,
        unless it shows this release.
        """
        is_current = (
            released is None
            or self._unused.get(released.metadata.uid) == released.metadata.resource_version
            or self.get(uid).release == release_of(released)
        )
        return self._find_unconfirmed(uid, is_current=is_current)

    def _find_unconfirmed(self, uid: str, *, is_current: bool) -> int | None:
        seen = self._pods.get(uid)
        if seen is None:
            return self._gone.get(uid) if uid in self._gone else DEFAULT_GRACE_SECONDS
        # A pod that terminates gets no node any more.
        has_node = seen.node or uid in self._bound
        may_run = has_node or not (is_current or seen.terminating)
        return seen.container_seconds if may_run and not seen.ended else None

    def is_leaving(self, uid: str) -> bool:
        """Whether a pod is gone, ended or terminating in time."""
        seen = self._pods.get(uid)
        if seen is None:
            return uid in self._gone
        return seen.ended or (seen.terminating and not seen.lingers)

    def is_lingering(self, uid: str) -> bool:
        """Whether a pod that has not ended lingers."""
        seen = self.get(uid)
        return seen.lingers and not seen.ended

    def bound_members_with(self, uid: str) -> Collection[str]:
        """Return the members with a node of the gang of a pod that has one."""
        gang = self.get(uid).gang
        return () if gang is None else self._bound_members.get(gang)

    def interrupted_groups(self) -> tuple[PodGroup, ...]:
        """Return the gangs of which some members have a node and some can be scheduled."""
        bound: set[PodGroup] = set()
        waiting: set[PodGroup] = set()
        for seen in self._pods.values():
            group = seen.group
            if group is None or seen.ended or seen.terminating or seen.gated:
                continue
            if not seen.foreign:
                (bound if seen.node else waiting).add(group)
        return tuple(sorted(bound & waiting))

    def bound_members_beside(self, uid: str) -> Collection[str]:
        """Return the members with a node of the gang of a pod, which need not have one."""
        group = self.get(uid).group
        return () if group is None else self._bound_members.get(group)

    def users_of(self, claim_name: str) -> tuple[tuple[str, str], ...]:
        """Return the `namespace/name` and the UID of the pods that name a claim."""
        uids = sorted(self._users.get(claim_name))
        return tuple((self._pods[uid].name, uid) for uid in uids)

    def consumers(self, claim_uid: str) -> tuple[str, ...]:
        """Return the pods for which an allocated claim is reserved; "" is not a pod."""
        return _read_consumers(self._claims.get(claim_uid))

    def claims_unlisted(
        self, node: str, pools: Iterable[PoolID], listed: Collection[str]
    ) -> Iterator[str]:
        """Yield the claims of pods on a node that are not listed, and those with an unseen user.

        Of the latter, those with devices of these pools. A claim can come twice.
        """
        for uid in self._on_node.get(node):
            if uid not in listed:
                yield from self._claims_of.get(uid)
        for pool in pools:
            yield from self._with_unseen.get(pool)

    def claims_reserved_for(self, uid: str) -> Collection[str]:
        """Return the UIDs of the allocated claims that are reserved for a pod."""
        return tuple(self._claims_of.get(uid))


def release_of(claim: Claim) -> str:
    """Return the text of the release of a claim that is still allocated."""
    return describe_release(name_of(claim), claim.metadata.resource_version)


def describe_release(claim: str, version: str) -> str:
    """Return the text of the release of a claim, by name, in the condition of a pod.

    It names the version of the claim. Each binding of the pod follows a write of the claim, so the
    text is another one if a binding was sent since it was written.
    """
    return f"the allocation of claim {claim} at version {version} is being released"


def _read_consumers(claim: Claim | None) -> tuple[str, ...]:
    if claim is None or claim.status.allocation is None:
        return ()
    # Only pods are known; another consumer keeps the claim.
    return tuple(each.uid if each.is_pod else "" for each in claim.status.reserved_for)


def _read_pod(pod: Pod) -> SeenPod:
    since, started = parse_time(pod.unschedulable_since), parse_time(pod.status.start_time)
    return SeenPod(
        name=pod.full_name,
        node=pod.spec.node_name,
        ended=pod.status.phase in FINISHED,
        terminating=pod.metadata.deletion_timestamp is not None,
        grace_seconds=pod.metadata.deletion_grace_period_seconds or 0,
        nominated_node=pod.status.nominated_node_name,
        claim_names=tuple(f"{pod.namespace}/{name}" for name in pod.claim_names),
        group=pod.group if pod.group and pod.group.is_gang else None,
        gated=bool(pod.spec.scheduling_gates),
        foreign=not pod.is_of_our_scheduler,
        never_preempts=pod.spec.preemption_policy == NEVER,
        priority=pod.spec.priority or 0,
        requests=pod.spec.resources,
        unschedulable_since=since.timestamp() if since else None,
        container_seconds=min(_container_seconds(pod), MAX_GRACE_SECONDS),
        checkpoint_interval=read_interval(pod.metadata.annotations),
        started=started.timestamp() if started else None,
        release=pod.release,
    )


def _container_seconds(pod: Pod) -> int:
    """Return the grace period that the kubelet gives to the containers."""
    given = pod.metadata.deletion_grace_period_seconds
    given = pod.spec.termination_grace_period_seconds if given is None else given
    return DEFAULT_GRACE_SECONDS if given is None else given
