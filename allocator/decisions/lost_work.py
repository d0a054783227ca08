"""The work that the eviction of a pod loses, from what the allocator has seen of it."""

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec.structs import replace

from allocator.scheduler.protocol import PotentialVictim
from allocator.state.cluster_state import AllocatorState
from drawbridge.ledger.lost_work import add_up, divide, lost_seconds
from drawbridge.ledger.victims import RunningPod


class LostWork:
    """Tells what evictions lose, by the time of the API server.

    What a claim and a gang lose is computed once while no pod or claim changes, in one second.
    """

    def __init__(self, state: AllocatorState, server_time: Callable[[], float]) -> None:
        self._state = state
        self._server_time = server_time
        self._valid = (-1, 0)
        self._of_claims: dict[str, dict[str, int]] = {}
        self._of_gangs: dict[str, int] = {}

    def running(self, pod: PotentialVictim, node: str) -> RunningPod:
        """Return a pod with what its eviction loses; the members of a gang are alike."""
        self._begin()
        running = RunningPod("", pod.uid, node, pod.priority, pod.start_time)
        records = self._state.pods
        claims = records.claims_reserved_for(pod.uid)
        if not claims:  # most pods of a node
            return running
        group = self._gang_of(pod.uid)
        if not group:
            return replace(running, lost=self._sum(pod.uid, claims))
        if group not in self._of_gangs:
            members = records.bound_members_with(pod.uid)
            of_gang = {uid for each in members for uid in records.claims_reserved_for(each)}
            self._of_gangs[group] = self._sum(group, of_gang)
        return replace(running, group=group, lost=self._of_gangs[group])

    def kept_first(self, pods: Sequence[PotentialVictim], node: str) -> list[PotentialVictim]:
        """Return pods in the order in which they are kept: budgets, priority, lost work, age.

        Those that are equal in all of that stay in the order of the scheduler.
        """
        lost = {pod.uid: self.running(pod, node).lost for pod in pods}
        return sorted(pods, key=lambda pod: (not pod.violates, -pod.priority, -lost[pod.uid]))

    def of(self, pods: Iterable[PotentialVictim]) -> int:
        """Return the device-seconds that the eviction of all these pods loses; a gang once."""
        running = [self.running(each, "") for each in pods]
        return sum({each.group or each.name: each.lost for each in running}.values())

    def _begin(self) -> None:
        """Forget what was computed if it may not hold any more."""
        valid = self._state.pods.version, int(self._server_time())
        if valid != self._valid:
            self._valid = valid
            self._of_claims.clear()
            self._of_gangs.clear()

    def _gang_of(self, uid: str) -> str:
        gang = self._state.pods.get(uid).gang
        return "" if gang is None else gang.key

    def _sum(self, holder: str, claims: Collection[str]) -> int:
        """Return what a pod or a gang loses with its claims."""
        records = self._state.ledger.claims
        return add_up(
            ((hold.device_id for hold in records[uid].holds), self._of_claim(uid)[holder])
            for uid in claims
            if uid in records
        )

    def _of_claim(self, claim: str) -> dict[str, int]:
        if claim not in self._of_claims:
            consumers = self._state.pods.consumers(claim)
            self._of_claims[claim] = divide(
                (self._gang_of(uid) or uid, self._seconds(uid)) for uid in consumers
            )
        return self._of_claims[claim]

    def _seconds(self, uid: str) -> int:
        pod = self._state.pods.get(uid)
        ran = 0 if pod.started is None else max(0, self._valid[1] - int(pod.started))
        return lost_seconds(ran, pod.checkpoint_interval)
