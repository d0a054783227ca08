"""What the scheduler asks for pods: each pod and its claims, checked before any search."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from allocator.decisions.quota import QuotaChecks
from allocator.decisions.shortlist import NodeSearch
from allocator.scheduler.protocol import ErrorCode, ProtocolError, SchedulingPod
from allocator.state.cluster_state import AllocatorState
from allocator.state.record_states import RecordEvent
from allocator.state.records import PodRequest, consumer_of
from drawbridge.agreement import allocator_codes as codes
from drawbridge.dra.allocation import MAX_CONSUMERS
from drawbridge.dra.claim import Claim, Owner, claim_reader
from drawbridge.dra.rules import read_claim_rules
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder
from drawbridge.ledger.ledger import name_of, uid_of
from drawbridge.ledger.node_fit import make_reason
from drawbridge.ledger.pods import Pod
from drawbridge.solver.codes import CLAIM_REFUSED
from drawbridge.solver.reasons import Reason

_STAGE: Final = "claims"
_PARTIAL_KIND: Final = "PartialObjectMetadata"
# Of what selects nodes for a pod, in JSON. It is compared with each node, and kept as a part of the
# watched pod, which counts in the share of its namespace.
MOST_SELECTION: Final = 128 << 10
MOST_NOT_WATCHED: Final = 64 << 10
MOST_BESIDE_WATCHED: Final = 4 << 10


def describe_pod(pod: Pod) -> SchedulingPod:
    """Return a pod of the cluster as the scheduler describes it."""
    return SchedulingPod(
        namespace=pod.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        priority=pod.spec.priority or 0,
        node_selector=pod.spec.node_selector,
        node_affinity=pod.spec.affinity.node_affinity if pod.spec.affinity else None,
        tolerations=pod.spec.tolerations,
        node_name=pod.spec.node_name,
    )


def with_at_most(pod: SchedulingPod, priority: int) -> SchedulingPod:
    """Return a pod with a priority that is not above another one."""
    return replace(pod, priority=min(pod.priority, priority))


class _Identity(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: tuple[Owner, ...] = ()


class _SentClaim(msgspec.Struct, frozen=True):
    kind: str = ""
    metadata: _Identity = _Identity()


class UnseenClaimError(ProtocolError):
    """A claim of which only the metadata was sent is not known yet."""

    def __init__(self, name: str) -> None:
        message = f"the allocator has not seen ResourceClaim {name} yet; the pod is tried again"
        super().__init__(ErrorCode.NOT_READY, message)


class ReceivedClaim(NamedTuple):
    """A claim of a request, and the pod for which it was generated."""

    claim: Claim
    generated_for: Owner | None


_READER: Final = claim_reader()
_SENT: Final[ForeignDecoder[_SentClaim]] = ForeignDecoder(_SentClaim)


def read_claims(
    claims: tuple[msgspec.Raw, ...] | None, watched: Mapping[str, Claim]
) -> tuple[ReceivedClaim, ...]:
    """Decode the claims of a request, but not those that are known; raises ProtocolError.

    A gang sends up to 4 MiB of claims again for each member.
    """
    return tuple(_read_claim(number, raw, watched) for number, raw in enumerate(claims or ()))


def _read_claim(number: int, raw: msgspec.Raw, watched: Mapping[str, Claim]) -> ReceivedClaim:
    try:
        received = _SENT.decode(raw)
    except UNDECODABLE as error:
        raise ProtocolError(ErrorCode.BAD_REQUEST, f"claims[{number}]: {error}") from None
    sent, claim = received.metadata, watched.get(received.metadata.uid)
    if received.kind == _PARTIAL_KIND:
        if claim is None:
            raise UnseenClaimError(sent.name)
    elif claim is None or claim.metadata.resource_version != sent.resource_version:
        read = _READER.read(raw)
        if isinstance(read, tuple):
            raise ProtocolError(ErrorCode.BAD_REQUEST, f"claims[{number}]: {read[0].message}")
        claim = read
    pods = (each for each in sent.owner_references if each.controller and each.kind == "Pod")
    return ReceivedClaim(claim, next(pods, None))


def check_claims(
    pod: SchedulingPod, received: Iterable[ReceivedClaim], state: AllocatorState
) -> Reason | None:
    """Return why a pod cannot use its claims on any node."""
    if state.pods.is_gone(pod.uid):
        return make_reason(codes.POD_DELETED, _STAGE, "the pod was deleted")
    for claim, owner in received:
        reason = check_claim(pod, claim, state)
        if reason is not None:
            return reason
        if owner is not None and owner.name == pod.name and owner.uid != pod.uid:
            message = f"ResourceClaim {name_of(claim)} belongs to an earlier pod {pod.name}"
            return make_reason(codes.CLAIM_OF_ANOTHER_POD, _STAGE, message)
        # The pod is told even if no node has devices yet.
        rules = read_claim_rules(claim)
        if isinstance(rules, tuple):
            message = f"ResourceClaim {name_of(claim)}: {rules[0].path}: {rules[0].message}"
            return make_reason(CLAIM_REFUSED, _STAGE, message)
    return None


def check_claim(pod: SchedulingPod, claim: Claim, state: AllocatorState) -> Reason | None:
    """Return why a pod cannot use a claim, as it is now."""
    name = f"ResourceClaim {name_of(claim)}"
    current = state.claims.get(uid_of(claim))
    if current is None:
        return make_reason(codes.CLAIM_DELETED, _STAGE, f"{name} was deleted")
    if current.metadata.deletion_timestamp is not None:
        return make_reason(codes.CLAIM_BEING_DELETED, _STAGE, f"{name} is being deleted")
    if current.reduced and current.status.allocation is None:
        return _too_large(name, claim.metadata.namespace)
    consumers = current.status.reserved_for
    own = consumer_of(pod, uid_of(claim)).uid
    if len(consumers) >= MAX_CONSUMERS and all(each.uid != own for each in consumers):
        message = f"{name} is reserved for {len(consumers)} pods, which is the maximum"
        return make_reason(codes.CLAIM_HAS_MAX_CONSUMERS, _STAGE, message)
    return None


def _too_large(what: str, namespace: str) -> Reason:
    text = f"{what} is too large: namespace {namespace} has more than its share of the allocator's "
    return make_reason(codes.CLAIM_TOO_LARGE, _STAGE, f"{text}memory")


def _selection(pod: SchedulingPod) -> tuple[object, ...]:
    """Return what selects nodes for a pod."""
    return pod.node_selector or None, pod.node_affinity, pod.tolerations or None


def share_memory(pod: SchedulingPod, watched: Pod | None) -> SchedulingPod | Reason:
    """Return a pod that refers to the same objects as the watched one, or that it is too large.

    Raises ProtocolError for a large pod that is not watched yet.
    """
    size = len(msgspec.json.encode(_selection(pod)))
    if size > MOST_SELECTION:
        message = (
            f"node selector, node affinity and tolerations of the pod have {size:,} bytes, at most "
            f"{MOST_SELECTION:,}"
        )
        return make_reason(codes.NODE_REFUSED, _STAGE, message)
    is_watched = watched is not None and watched.metadata.uid == pod.uid
    own = describe_pod(watched) if watched is not None and is_watched else None
    if own is not None and _selection(own) == _selection(pod):
        return replace(
            pod,
            node_selector=own.node_selector,
            node_affinity=own.node_affinity,
            tolerations=own.tolerations,
        )
    # Of a pod without claims, the watch keeps nothing that selects nodes.
    waits = watched is not None and watched.spec.resource_claims and not watched.spec.node_name
    if size <= (MOST_BESIDE_WATCHED if own is not None and waits else MOST_NOT_WATCHED):
        return pod
    if own is not None:
        return _too_large(f"pod {pod.namespace}/{pod.name}", pod.namespace)
    raise ProtocolError(ErrorCode.NOT_READY, "the pod is not watched yet")


class ReceivedRequests:
    """What was asked for each pod, and the searches for it with its claims as they are now.

    `find_pod` returns a watched pod.
    """

    def __init__(
        self,
        state: AllocatorState,
        quotas: QuotaChecks,
        find_pod: Callable[[str, str], Pod | None],
    ) -> None:
        self._state, self._quotas, self._find_pod = state, quotas, find_pod

    def receive(
        self, pod: SchedulingPod, claims: tuple[msgspec.Raw, ...] | None
    ) -> PodRequest | Reason:
        """Remember what is asked for a pod; return why the pod cannot use its claims.

        Raises ProtocolError.
        """
        received = read_claims(claims, self._state.claims)
        for claim, _ in received:
            self._state.observe_claim(claim, told=True)
        if (reason := check_claims(pod, received, self._state)) is not None:
            return reason
        pod_or_reason = share_memory(pod, self._find_pod(pod.namespace, pod.name))
        if isinstance(pod_or_reason, Reason):
            return pod_or_reason
        request = PodRequest(
            pod_or_reason, tuple(dict.fromkeys(uid_of(claim) for claim, _ in received))
        )
        records = self._state.records
        records.change(pod.uid, RecordEvent.ASKED, namespace=pod.namespace, request=request)
        return request

    def level_priority(self, members: Collection[PodRequest]) -> Generator[None, None, int]:
        """Give the members of a group one priority, that of the least important ones; return it.

        Members that need no devices do not count. Each that gets another priority is a step.
        """
        needing = [each for each in members if self._needs_devices(each)]
        priority = min(each.pod.priority for each in needing or members)
        change = self._state.records.change
        for received in members:
            # The pod may have ended meanwhile.
            member = self.find(received.pod.uid)
            if member is not None and member.pod.priority > priority:
                leveled = member._replace(pod=with_at_most(member.pod, priority))
                pod = leveled.pod
                change(pod.uid, RecordEvent.ASKED, namespace=pod.namespace, request=leveled)
                yield
        return priority

    def _needs_devices(self, request: PodRequest) -> bool:
        claims = (self._state.claims.get(uid) for uid in request.claims)
        return any(each is not None and each.status.allocation is None for each in claims)

    def find(self, pod_uid: str) -> PodRequest | None:
        """Return what was last asked for a pod."""
        return self._state.records.get(pod_uid).request

    def has_forgotten(self, uids: Iterable[str]) -> bool:
        """Whether nothing is known of what one of these pods asks for, which can still wait."""
        pods, unknown = self._state.pods, (uid for uid in uids if self.find(uid) is None)
        return any(not (pods.get(uid).node or pods.is_leaving(uid)) for uid in unknown)

    def is_watched(self, pod_uid: str) -> bool:
        """Whether the watch shows a pod that was asked about."""
        request = self.find(pod_uid)
        pod = self._find_pod(request.pod.namespace, request.pod.name) if request else None
        return pod is not None and pod.metadata.uid == pod_uid

    def find_problem(self, request: PodRequest) -> str:
        """Return why a pod cannot use its claims any more, or ""."""
        for uid in request.claims:
            claim = self._state.claims.get(uid)
            if claim is None:
                return "a claim of the pod was deleted"
            if (reason := check_claim(request.pod, claim, self._state)) is not None:
                return reason.message
        return ""

    def search(self, request: PodRequest, limit: int = 0) -> NodeSearch:
        """Return the search for nodes of a pod; a claim that was reserved is allocated."""
        state = self._state
        claims = tuple(state.with_reservation(state.claims[uid]) for uid in request.claims)
        return self._quotas.narrow(NodeSearch(pod=request.pod, claims=claims, limit=limit))

    def claims_of(self, pod_uid: str) -> tuple[Claim, ...]:
        """Return the claims of a pod, as last seen, also those that it does not name any more."""
        request, claims = self.find(pod_uid), self._state.claims
        asked = [claims[uid] for uid in request.claims if uid in claims] if request else []
        by_uid = {uid_of(each): each for each in (*asked, *self._state.claims_of(pod_uid))}
        return tuple(by_uid.values())
