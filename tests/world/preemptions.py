"""What a scheduler asks an allocator about victims, with the budgets that it sees, and the answers.

Each answer with victims is kept, with what was held when it was asked for, until it is judged.
"""

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from allocator.decisions.shortlist import is_open
from allocator.process import _Parts
from allocator.scheduler.protocol import (
    PotentialVictim,
    PreemptionNode,
    PreemptReply,
    PreemptRequest,
)
from allocator.state.records import Paired, Preemptor, key_of
from drawbridge.ledger.holdings import Hold as LedgerHold
from tests.cluster.fake.kinds import JSON
from tests.world import clock
from tests.world.budgets import PLURAL, find_violating
from tests.world.evictions import Evictions
from tests.world.network import Network
from tests.world.nodes import PODS, Client, Device, Hold, make_hold, path_of
from tests.world.objects import ALL_NODES, NODES
from tests.world.watches import Follower, Front

_EVICTED: JSON = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
}
# The plugin waits no longer for a victim after its grace period.
_TERMINATION = dt.timedelta(seconds=30)


class Held(NamedTuple):
    """What one claim or promise holds in a ledger, and the pods that use or are to use it.

    A claim can be reserved in the API server for one pod, and promised to others beside that. What
    has no consumers is never released.
    """

    holds: frozenset[Hold]
    consumers: frozenset[str]


class Answered(NamedTuple):
    """A question about victims, and the answer.

    With what was held then, or is left to others that wait for it, and the devices that the
    allocator did not know, or that had a taint, as if they were held.
    """

    pod: JSON
    request: PreemptRequest
    held: Mapping[str, Held]
    unknown: frozenset[Hold]
    reply: PreemptReply
    # A search that is cut has not examined all nodes, and takes the best of the others.
    was_cut: bool = False

    @property
    def violating(self) -> set[str]:
        """The UIDs of the candidates whose eviction violates a budget."""
        nodes = self.request.nodes or ()
        return {each.uid for node in nodes for each in node.pods or () if each.violates}

    def find_unprotected(self, names: Collection[str]) -> set[str]:
        """Return the UIDs of the candidates of some nodes whose eviction violates no budget."""
        nodes = (node for node in self.request.nodes or () if node.node in names)
        return {each.uid for node in nodes for each in node.pods or () if not each.violates}


class Preemptions(Evictions):
    """The preemptions of one scheduler."""

    def __init__(self, network: Network, who: str, front: Front, delay: int) -> None:
        super().__init__(delay)
        self._network, self._client = network, Client(network, who)
        self._budgets = Follower(network, who, PLURAL, front=front)
        self.answered: list[Answered] = []

    async def run(self) -> None:
        """Follow the budgets until cancelled."""
        await self._budgets.run()

    def describe_node(self, name: str, running: Iterable[JSON], priority: int) -> PreemptionNode:
        """Return the pods of a node, and which of them a pod of a priority can preempt."""
        priorities = {pod["metadata"]["uid"]: pod["spec"].get("priority", 0) for pod in running}
        lower = [pod for pod in running if priorities[pod["metadata"]["uid"]] < priority]
        lower.sort(key=lambda pod: -priorities[pod["metadata"]["uid"]])
        violating = find_violating(lower, self._budgets.objects.values())
        lower.sort(key=lambda pod: pod["metadata"]["uid"] not in violating)
        pods = tuple(
            PotentialVictim(uid=uid, priority=priorities[uid], violates=uid in violating)
            for uid in (pod["metadata"]["uid"] for pod in lower)
        )
        return PreemptionNode(node=name, pods=pods, running=tuple(priorities))

    def ask(self, parts: _Parts, pod: JSON, nodes: Iterable[PreemptionNode]) -> PreemptReply:
        """Return which pods must go for a pod, and note the answer."""
        request = PreemptRequest(pod_uid=pod["metadata"]["uid"], nodes=tuple(nodes))
        held, unknown = read_available(parts, pod), _find_unknown(parts, pod)
        reply = parts.calls.preempt(request)
        if chosen := list_victims(reply):
            self._network.count("preemption")
            self.note(pod, chosen)
            was_cut = parts.state.decisions.state.planner.was_cut
            self.answered.append(Answered(pod, request, held, unknown, reply, was_cut))
        return reply

    async def evict(self, victim: JSON) -> None:
        """Delete a pod, and say before why."""
        uid = {"uid": victim["metadata"]["uid"]}
        change = {"metadata": uid, "status": {"conditions": [_EVICTED]}}
        await self._client.ask("PATCH", path_of(PODS, victim, "status"), change)
        await self._client.ask("DELETE", path_of(PODS, victim), {"preconditions": uid})

    async def nominate(self, pod: JSON, node: str) -> None:
        """Note at a pod for which node others are evicted, or that it is none."""
        change = {"metadata": {"uid": pod["metadata"]["uid"]}}
        status = {"status": {"nominatedNodeName": node or None}}
        await self._client.ask("PATCH", path_of(PODS, pod, "status"), change | status)


def list_victims(reply: PreemptReply) -> list[str]:
    """Return the UIDs of the pods to evict."""
    return [*reply.victims, *(uid for each in reply.evictions for uid in each.victims)]


def nominated_node(pod: JSON) -> str:
    """Return the node for which others were evicted for a pod; empty if there is none."""
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def any_ends_for(pod: JSON, running: Iterable[JSON]) -> bool:
    """Whether one of the pods of the nominated node ends for a pod, and it waits for that."""
    priority = pod["spec"].get("priority", 0)
    return any(
        each["spec"].get("priority", 0) < priority
        and _EVICTED in (each.get("status") or {}).get("conditions", ())
        and "deletionTimestamp" in each["metadata"]
        and clock.now() < _ended_at(each) + _TERMINATION
        for each in running
    )


def _ended_at(pod: JSON) -> dt.datetime:
    return dt.datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])


def read_held(parts: _Parts) -> dict[str, Held]:
    """Return what is held in the ledger of an allocator, by the UID of a claim or another key."""
    decisions = parts.state.decisions
    state, users = decisions.state, decisions.reservations.users()
    holds: dict[str, set[Hold]] = {}
    for device in state.ledger.devices():
        for key, own in state.ledger.holders(device).items():
            holds.setdefault(key, set()).update(read_holds(own))
    return {
        key: Held(frozenset(own), frozenset({*state.pods.consumers(key), *users.get(key, ())}))
        for key, own in holds.items()
    }


def read_available(parts: _Parts, pod: JSON) -> dict[str, Held]:
    """Return what is held when all is released that is being released, or others wait for.

    They have what they get of it then, if their priority is at least that of a pod.
    """
    state, held = parts.state.decisions.state, read_held(parts)
    own, priority = pod["metadata"]["uid"], pod["spec"].get("priority", 0)
    released, expected = set(state.pods.releasing), dict[str, frozenset[Hold]]()
    for part in ("kept", "paired"):
        for record in state.records.having(part):
            waits: Preemptor | Paired | None = getattr(record, part)
            if waits is None or record.uid == own or waits.priority < priority:
                continue
            released |= waits.pending if isinstance(waits, Preemptor) else waits.claims
            key = key_of(record.uid)
            expected[key] = expected.get(key, frozenset()) | read_holds(waits.holds)
    left = {key: each for key, each in held.items() if key not in released}
    return left | {key: Held(holds, frozenset()) for key, holds in expected.items()}


def read_holds(holds: Iterable[LedgerHold]) -> frozenset[Hold]:
    """Return what an allocator counts as held."""
    return frozenset(
        make_hold(
            {
                "pool": hold.pool.name,
                "device": hold.device,
                "shareID": hold.share,
                "consumedCapacity": hold.consumed,
            }
        )
        for hold in holds
    )


def list_published(parts: _Parts, *, usable: bool = False) -> set[Device]:
    """Return the devices of the pools of which an allocator has all slices.

    Those are `usable` that have no taint, and of which it knows whether they are shared.
    """
    slices = [cached.value for cached in parts.caches.slices.all()]
    newest: dict[tuple[str, str], int] = {}
    for slice_ in slices:
        pool = slice_.driver, slice_.pool
        newest[pool] = max(slice_.generation, newest.get(pool, 0))
    counts = Counter((slice_.driver, slice_.pool, slice_.generation) for slice_ in slices)
    return {
        (slice_.pool, device.name)
        for slice_ in slices
        if slice_.generation == newest[slice_.driver, slice_.pool]
        and counts[slice_.driver, slice_.pool, slice_.generation] == slice_.slice_count
        for device in slice_.devices
        if not usable or not device.taints
        if not usable or device.allow_multiple_allocations == _is_shared(slice_.pool, device.name)
    }


def _is_shared(pool: str, device: str) -> bool:
    return pool in ALL_NODES and device in ALL_NODES[pool].shared


def _find_unknown(parts: _Parts, pod: JSON) -> frozenset[Hold]:
    """Return the devices that are not published as usable, as far as an allocator has heard.

    And all of a node that is not its own, because of a fence that was just opened, for example, or
    on which the pod cannot start, as far as it has heard.
    """
    decisions, published = parts.state.decisions, list_published(parts, usable=True)
    state, request = decisions.state, decisions.requests.find(pod["metadata"]["uid"])
    usable = {
        name
        for name in NODES
        if state.planner.pools_for(name) and request and is_open(name, request.pod, state)
    }
    return frozenset(
        Hold((name, device), "", shape.size(device))
        for name, shape in NODES.items()
        for device in shape.devices
        if (name, device) not in published or name not in usable
    )
