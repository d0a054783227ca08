"""The work that the eviction of a pod loses, from what the allocator has seen of it."""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from allocator.scheduler.protocol import PotentialVictim
from allocator.state.cluster_state import AllocatorState
from drawbridge.ledger.lost_work import lost_seconds, seconds_since
from drawbridge.ledger.victims import RunningPod


class LostWork:
    """Tells what evictions lose, by the time of the API server."""

    def __init__(self, state: AllocatorState, server_time: Callable[[], float]) -> None:
        self._state = state
        self._server_time = server_time

    def running(self, pod: PotentialVictim, node: str) -> RunningPod:
        """Return a pod with what its eviction loses; the members of a gang are alike."""
        records, devices = self._state.pods, self._devices(pod.uid)
        running = RunningPod("", pod.uid, node, pod.priority, pod.start_time)
        if not devices:  # most pods of a node
            return running
        group, members = records.gang_of(pod.uid)
        ran = seconds_since(pod.start_time, self._server_time())
        seconds = lost_seconds(ran, records.checkpoint_interval(pod.uid))
        name = f"{group}" if group is not None else ""
        return replace(running, group=name, lost=devices * max(1, members) * seconds)

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

    def _devices(self, uid: str) -> int:
        claims = self._state.ledger.claims
        records = (claims.get(each) for each in self._state.pods.claims_reserved_for(uid))
        return sum(len(each.holds) for each in records if each is not None)
