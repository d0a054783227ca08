"""A cluster whose devices are held by pods, and pods with a higher priority that want them."""

from collections.abc import Collection

from msgspec.structs import replace

from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import (
    PotentialVictim,
    PreemptionNode,
    PreemptReply,
    PreemptRequest,
)
from drawbridge.brief import Brief
from tests.allocator.clusters import Cluster, allocation_on, claim, gpu_slice, pod

HIGH, LOW = 100, 0


class Contest:
    """A cluster whose devices are held by pods, and pods that want them."""

    def __init__(
        self, brief: Brief | None = None, vanished_seconds: float | None = None, **gpus: int
    ) -> None:
        self.cluster = Cluster(brief=brief, vanished_seconds=vanished_seconds, **gpus)
        self.waiting = WaitingPods(self.cluster.decisions)
        self.running: dict[str, dict[str, PotentialVictim]] = {name: {} for name in gpus}
        self.versions: dict[str, int] = {}

    # --- what runs ---

    def run(
        self,
        uid: str,
        node: str,
        *devices: int,
        priority: int = LOW,
        start: str = "",
        **facts: bool,
    ) -> None:
        """Add a pod that has devices of a node, with a claim of its own."""
        self.share(f"of-{uid}", node, *devices, pods=[uid])
        self.cluster.add(pod(uid, f"of-{uid}", node=node))
        self.enlist(uid, node, priority, start, **facts)

    def enlist(
        self, uid: str, node: str, priority: int = LOW, start: str = "", **facts: bool
    ) -> None:
        """Add a pod to those that the scheduler lists on a node."""
        listed = PotentialVictim(uid=uid, priority=priority, start_time=start, **facts)
        self.running[node][uid] = listed

    def share(self, name: str, node: str, *devices: int, pods: Collection[str]) -> None:
        """Add an allocated claim."""
        self.versions[name] = 2
        allocation = allocation_on(node, *devices)
        self.cluster.add_claim(claim(name, len(devices), allocation=allocation, pods=pods))

    def evict(self, uid: str, grace: int = 30) -> None:
        """Delete a pod gracefully: it terminates, and keeps its devices until it ends."""
        times = {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": grace,
        }
        self.cluster.add(pod(uid, f"of-{uid}", node="any", **times))

    def end(self, uid: str) -> None:
        """End a pod: it is gone, and its claim is deallocated."""
        self.gone(uid)
        self.deallocate(f"of-{uid}")

    def gone(self, uid: str) -> None:
        """Delete a pod whose claim is still allocated."""
        self.cluster.state.apply(pod(uid, f"of-{uid}", node="any"), None)
        for pods in self.running.values():
            pods.pop(uid, None)

    def deallocate(self, name: str) -> None:
        """Deallocate a claim."""
        self.versions[name] = version = self.versions.get(name, 2) + 1
        self.cluster.add_claim(claim(name, version=version))

    # --- what the scheduler asks ---

    def ask(self, uid: str, count: int = 1, priority: int = HIGH) -> list[str]:
        """Ask for a pod; returns the nodes."""
        reply = self.cluster.prefilter(uid, claim(f"of-{uid}", count), priority=priority)
        nodes = [each.node for each in reply.fit]
        self.waiting.note_answer(uid, nodes, self.cluster.now)
        return nodes

    def is_preemptible(self, uid: str, count: int = 1, priority: int = HIGH) -> bool:
        """Whether the plugin may ask for victims."""
        reply = self.cluster.prefilter(uid, claim(f"of-{uid}", count), priority=priority)
        return reply.preemptible

    def preemption(self, uid: str) -> PreemptRequest:
        """Return the request for victims of a pod, with the listed pods of all nodes."""
        self._start_listed()
        nodes = tuple(
            PreemptionNode(node=name, pods=tuple(pods.values()), running=tuple(pods))
            for name, pods in self.running.items()
        )
        return PreemptRequest(pod_uid=uid, nodes=nodes)

    def _start_listed(self) -> None:
        """Let the API server tell the same starts of the listed pods as the scheduler."""
        for listed in (each for pods in self.running.values() for each in pods.values()):
            running = self.cluster.pods.get(("default", listed.uid))
            if running is not None and listed.start_time and running.status.start_time is None:
                status = replace(running.status, start_time=listed.start_time)
                self.cluster.add(replace(running, status=status))

    def preempt(self, uid: str, count: int = 1, priority: int = HIGH) -> PreemptReply:
        """Ask for a pod, and for victims; the listed pods are kept first in their order."""
        assert self.ask(uid, count, priority) == []
        reply = self.cluster.decisions.preempt(self.preemption(uid), self.cluster.now)
        self.waiting.note_preemption(uid, refused=not (reply.node or reply.waiting))
        return reply

    def victims(self, uid: str, count: int = 1, priority: int = HIGH) -> list[str]:
        """The victims of a pod."""
        return list(self.preempt(uid, count, priority).victims)

    def woken(self, at: float | None = None) -> list[str]:
        """The pods that are woken now."""
        self.cluster.now = self.cluster.now if at is None else at
        return list(self.waiting.wake(self.cluster.now).woken)


def full_node() -> Contest:
    """Return one node with two devices and two pods; `first` is kept first."""
    contest = Contest(n1=2)
    contest.run("first", "n1", 0)
    contest.run("second", "n1", 1)
    return contest


def shared_device(**shares: str) -> Contest:
    """Return a device of 4Gi with the shares of some pods; who asks for a device gets 1Gi."""
    contest = Contest(n1=0)
    memory = {"memory": {"value": "4Gi", "requestPolicy": {"default": "1Gi"}}}
    contest.cluster.add(
        gpu_slice("n1", 1, generation=2, capacity=memory, allowMultipleAllocations=True)
    )
    for uid, amount in shares.items():
        allocation = allocation_on("n1", 0)
        share = {"shareID": f"share-{uid}", "consumedCapacity": {"memory": amount}}
        allocation["devices"]["results"][0] |= share
        contest.cluster.add_claim(claim(f"of-{uid}", allocation=allocation, pods=[uid]))
        contest.cluster.add(pod(uid, f"of-{uid}", node="n1"))
        contest.enlist(uid, "n1")
    return contest
