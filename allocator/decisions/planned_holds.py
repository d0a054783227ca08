"""Holds devices of a node for a pod, as an administrator asks for on the node.

The annotation of the node says what is asked for, and preemption holds the devices. Both are
compared before each decision, so that a process that starts to decide holds the devices before it
answers anybody.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from allocator.decisions.basis import Basis
from allocator.decisions.pod_requests import (
    ReceivedClaim,
    check_claims,
    describe_pod,
)
from allocator.decisions.shortlist import NodeSearch, find_nodes
from allocator.state.expected import expected_by_others
from allocator.state.preemptors import MAX_PREEMPTORS
from allocator.state.records import DeviceVictims, PodRequest
from drawbridge.brief import USUAL_SECONDS
from drawbridge.dra.claim import Claim
from drawbridge.dra.taints import UNSCHEDULABLE, Toleration
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.node_holds import NodeHold
from drawbridge.ledger.pods import FINISHED, Pod

# The plan may cordon the node. The hold is for the time after that.
_ON_CORDONED: Final = Toleration(key=UNSCHEDULABLE.key, operator="Exists")


class PlannedHolds:
    """The holds of plans."""

    def __init__(self, basis: Basis) -> None:
        self._basis, self._state, self._preemptors = basis, basis.state, basis.preemptors
        # The change of the cluster after which the devices did not suffice, by node.
        self._failed: dict[str, tuple[NodeHold, int]] = {}

    def settle(self, now: float) -> None:
        """Begin the holds that are asked for and possible, and end the others."""
        asked = self._state.node_holds
        self._preemptors.end_holds(asked)
        for node in self._failed.keys() - asked.keys():
            del self._failed[node]
        server_time = self._basis.around.server_time()
        # Whoever asks is not charged for these searches, and does not limit their time.
        with self._state.planner.searching_aside(USUAL_SECONDS):
            for node, hold in asked.items():
                if self._preemptors.find(hold.uid) is None and hold.lasts(server_time):
                    self._begin(node, hold, now)

    def try_again(self, pod_uid: str) -> None:
        """Try the hold for a pod again, because more is known about its devices."""
        for node, (hold, _) in tuple(self._failed.items()):
            if hold.uid == pod_uid:
                del self._failed[node]

    def clear(self) -> None:
        """Forget what was tried, because another process decides now."""
        self._failed.clear()

    def _begin(self, node: str, hold: NodeHold, now: float) -> None:
        pod = self._basis.around.find_pod(*hold.pod.partition("/")[::2])
        if pod is None or pod.metadata.uid != hold.uid or not _waits(pod):
            return
        if self._basis.reserved.find(hold.uid) is not None or not self._has_changed(node, hold):
            return
        search = self._make_search(pod, node)
        if search is None or self._basis.quotas.find_reason(search) is not None:
            return
        others = expected_by_others(self._state, (hold.uid,), search.pod.priority)
        claims = self._find_claims(node, hold) - others.promised
        view = self._state.ledger.view_without(claims | others.keys, others.holds)
        fitting = find_nodes(search, self._state, view).fitting
        if not fitting or len(self._preemptors) >= MAX_PREEMPTORS:
            self._failed[node] = hold, self._state.epoch()
            return
        released = tuple(sorted(claims))
        own = fitting[0].by_claim(search.unallocated)
        devices = DeviceVictims(node, own, claims=released, holds=fitting[0].holds)
        until = now + hold.until.timestamp() - self._basis.around.server_time()
        self._preemptors.begin(search, devices, now, (hold, until))

    def _has_changed(self, node: str, hold: NodeHold) -> bool:
        """Whether a hold was not tried since the last change of its node."""
        failed, last = self._failed.get(node, (None, 0))
        self._state.epoch()
        changed = self._state.changes.changed_since(last)
        return failed != hold or changed is None or node in changed

    def _make_search(self, pod: Pod, node: str) -> NodeSearch | None:
        """Return the search for the devices of a pod; None if it lacks none, or cannot have any."""
        described = describe_pod(pod)
        tolerations = (*(described.tolerations or ()), _ON_CORDONED)
        described = replace(described, tolerations=tolerations)
        claims = self._state.claims_of(pod.metadata.uid)
        received = [ReceivedClaim(each, None) for each in claims]
        if not _has_all(pod, claims) or check_claims(described, received, self._state) is not None:
            return None
        request = PodRequest(described, tuple(map(uid_of, claims)))
        search = self._basis.requests.search(request, 1)
        search = replace(search, only=frozenset({node}))
        return search if search.unallocated else None

    def _find_claims(self, node: str, hold: NodeHold) -> frozenset[str]:
        """Return the claims with devices of the node that the pods to be evicted release.

        A kubelet can annotate its own node, and must not hold what pods have elsewhere.
        """
        evicted, pods = frozenset(hold.evicted), self._state.pods
        of_pods = {uid for each in evicted for uid in pods.claims_reserved_for(each)}
        released = (uid for uid in of_pods if evicted.issuperset(pods.consumers(uid)))
        return frozenset(uid for uid in released if self._is_on(node, uid))

    def _is_on(self, node: str, claim_uid: str) -> bool:
        holds = self._state.ledger.claims[claim_uid].holds
        return any(self._state.node_of(each.pool) == node for each in holds)


def _has_all(pod: Pod, claims: Sequence[Claim]) -> bool:
    """Whether all claims that a pod needs exist."""
    generated = pod.generated
    if any(
        each.resource_claim_name is None and each.name not in generated
        for each in pod.spec.resource_claims
    ):
        return False
    return {each.metadata.name for each in claims}.issuperset(pod.claim_names)


def _waits(pod: Pod) -> bool:
    """Whether a pod of this scheduler waits for devices alone."""
    is_alive = pod.metadata.deletion_timestamp is None and pod.status.phase not in FINISHED
    is_alone = pod.group is None or not pod.group.is_gang
    return pod.is_of_our_scheduler and is_alive and is_alone and not pod.spec.node_name
