"""Devices that are being released, and the pods that wait for them.

A pod that ends or is deleted holds its devices for some milliseconds, or as long as it terminates.
Each such claim is kept for one pod that was told to wait, so that the next pod is not told the
same, and nothing is preempted for the first one.
"""

from collections.abc import Callable, Collection

from msgspec.structs import replace

from allocator.shortlist import NodeSearch, find_nodes
from allocator.state import AllocatorState
from dra.inventory import PoolID
from ledger.ledger import DeviceID
from ledger.node_fit import make_reason
from registration import allocator_codes as codes
from solver.answers import Solution
from solver.reasons import Reason


class Releases:
    """The pods that wait for devices of claims that are being released."""

    def __init__(self, state: AllocatorState) -> None:
        self._state = state
        self._claims_for: dict[str, frozenset[str]] = {}

    def forget(self, pod_uid: str) -> None:
        """Keep no devices for a pod any more."""
        self._claims_for.pop(pod_uid, None)

    def pair(self, pod_uid: str, search: NodeSearch, ids: Callable[[], str]) -> Reason | None:
        """Find devices that are being released and that nobody waits for; return the reason."""
        self.forget(pod_uid)
        releasing = self._unpaired()
        if not releasing:
            return None
        nodes = self._nodes_of(releasing)
        view = self._state.ledger.view_without(releasing)
        found = find_nodes(replace(search, limit=1, only=nodes), self._state, view, ids)
        for each in found.fitting[:1]:
            if each.solution is not None:
                claims = self._claims_in_use(each.solution, releasing)
                self._claims_for[pod_uid] = claims
                return _waits(sum(len(self._devices_of(uid)) for uid in claims), each.name)
        return None

    def _unpaired(self) -> Collection[str]:
        releasing = frozenset(self._state.pods.releasing)
        kept = {pod: uids & releasing for pod, uids in self._claims_for.items()}
        self._claims_for = {pod: uids for pod, uids in kept.items() if uids}
        return releasing.difference(*self._claims_for.values())

    def _devices_of(self, claim_uid: str) -> Collection[DeviceID]:
        record = self._state.ledger.claims.get(claim_uid)
        return {DeviceID(each.pool, each.device) for each in record.holds} if record else ()

    def _nodes_of(self, claim_uids: Collection[str]) -> frozenset[str]:
        pools = {device.pool for uid in claim_uids for device in self._devices_of(uid)}
        nodes = (self._state.node_of(pool) for pool in pools)
        return frozenset(node for node in nodes if node is not None)

    def _claims_in_use(self, solution: Solution, releasing: Collection[str]) -> frozenset[str]:
        """Return the claims whose devices a solution uses.

        If it uses none of them, it needs their counters: all claims on the node count.
        """
        used = {
            DeviceID(PoolID(result["driver"], result["pool"]), result["device"])
            for allocation in solution.allocations
            for result in allocation["devices"].get("results", ())
        }
        holders = frozenset(
            uid for device in used for uid in self._state.ledger.holders(device) if uid in releasing
        )
        return holders or frozenset(
            uid for uid in releasing if solution.node in self._nodes_of((uid,))
        )


def _waits(devices: int, node: str) -> Reason:
    count = "1 device that is" if devices == 1 else f"{devices} devices that are"
    text = f"waits for {count} being released on node {node}"
    return make_reason(codes.DEVICES_BEING_RELEASED, "devices", text, nodes=1)
