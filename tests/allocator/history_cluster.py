"""The cluster around an allocator in a generated history: pods, claims and nodes that change."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec

from allocator.scheduler.protocol import SchedulingPod
from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.allocation import to_json
from drawbridge.dra.device import Taint
from drawbridge.dra.device_quotas import DeviceQuota, QuotaKey
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import from_json
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.node_holds import NodeHold, write_node_hold
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.quota_use import QuotaUse
from tests.allocator.clusters import (
    START,
    Plain,
    allocation_on,
    as_claim,
    claim,
    gpu_class,
    gpu_slice,
    owns_all,
    pod,
)

NAMESPACES = ("default", "blue", "red")
DELETED = "2026-01-01T00:00:00Z"


@dataclass
class Member:
    """A pod of a history; `group` is its key and its minimum."""

    uid: str
    namespace: str
    claims: tuple[str, ...]
    priority: int
    group: tuple[str, int] | None = None
    node: str = ""
    phase: str = ""
    nominated: str = ""
    gone: bool = False
    seen: Pod | None = None
    deletion: Plain = field(default_factory=dict)

    @property
    def described(self) -> SchedulingPod:
        """The pod as the scheduler describes it."""
        return SchedulingPod(
            namespace=self.namespace, name=self.uid, uid=self.uid, priority=self.priority
        )


class ChangingCluster:
    """The objects of a cluster, which an API server, its clients and its controllers change."""

    def __init__(self, seed: int) -> None:
        self.random = draw = random.Random(seed)
        self.sizes = {f"n{i}": draw.choice((1, 1, 2, 2, 3)) for i in range(draw.randint(2, 5))}
        self.now = 0.0
        self.versions = count(10)
        self.pods: dict[str, Member] = {}
        self.counts: dict[str, int] = {}
        quotas = QuotaUse(self._choose_quotas())
        vanished = draw.choice((None, None, 10.0))
        self.state = AllocatorState(Planner(), Ledger(quotas=quotas), owns_all, vanished)
        self.state.apply(None, gpu_class())
        for name, size in self.sizes.items():
            self.state.apply(None, Node(name, {"name": name}))
            self.state.apply(None, gpu_slice(name, size))

    def _choose_quotas(self) -> list[DeviceQuota]:
        if self.random.random() > 0.25:
            return []
        most = {QuotaKey("gpu", "devices"): from_json(f"{self.random.choice((2, 3, 5))}")}
        return [DeviceQuota("q", lambda _name, _labels: True, {}, most)]

    def create(self) -> Member:
        """Create a pod with its claims, which others can share."""
        draw, number = self.random, len(self.pods) + 1
        namespace, uid = draw.choice(NAMESPACES), f"p{number}"
        group, names = None, [f"of-{uid}"]
        if draw.random() < 0.35:
            others = [each.group for each in self.alive() if each.namespace == namespace]
            groups = [each for each in others if each is not None]
            group = (f"{namespace}/g{number}", draw.choice((0, 2, 2, 3)))
            group = draw.choice(groups) if groups and draw.random() < 0.75 else group
        elif draw.random() < 0.2:
            names = [f"shared-{namespace}-{number // 5}"]
        elif draw.random() < 0.15:
            names.append(f"more-{uid}")
        for name in names:
            if name not in self.counts:
                self.counts[name] = draw.choice((1, 1, 1, 2))
                self._put_claim(name, namespace)
        member = Member(uid, namespace, tuple(names), draw.choice((0, 0, 0, 5, 9)), group)
        self.pods[uid] = member
        if draw.random() < 0.9:
            self.show(member)
        return member

    def alive(self, *, bound: bool | None = None) -> list[Member]:
        """Return the pods that exist."""
        alive = (each for each in self.pods.values() if not each.gone)
        return [each for each in alive if bound in {None, bool(each.node)}]

    def show(self, member: Member) -> None:
        """Apply a pod as it is now."""
        spec: Plain = {"schedulerName": "drawbridge", "priority": member.priority}
        if member.group:
            spec["schedulingGroup"] = {"podGroupName": member.group[0].partition("/")[2]}
        metadata = {"namespace": member.namespace, **member.deletion}
        after = pod(
            member.uid,
            *member.claims,
            node=member.node,
            phase=member.phase,
            spec=spec,
            **metadata,
        )
        status = msgspec.structs.replace(after.status, nominated_node_name=member.nominated)
        after = msgspec.structs.replace(after, status=status)
        self.state.apply(member.seen, after)
        member.seen = after

    def _put_claim(
        self, name: str, namespace: str, allocation: Plain | None = None, pods: Sequence[str] = ()
    ) -> None:
        plain = claim(
            name,
            self.counts[name],
            version=next(self.versions),
            namespace=namespace,
            allocation=allocation,
            pods=pods,
        )
        self.state.apply(None, as_claim(plain))

    def allocate(self, name: str, allocation: Plain | None, pods: Sequence[str]) -> None:
        """Change the allocation and the consumers of a claim."""
        self._put_claim(name, self.state.claims[name].metadata.namespace, allocation, pods)

    def users(self, name: str) -> list[str]:
        """Return the consumers of a claim."""
        return [each.uid for each in self.state.claims[name].status.reserved_for]

    def allocation(self, name: str) -> Plain | None:
        """Return the allocation of a claim."""
        allocation = self.state.claims[name].status.allocation
        return to_json(allocation) if allocation else None

    def terminate(self, member: Member | None = None) -> None:
        """Delete a pod that takes its grace period."""
        member = member or self.choose(self.alive())
        if member is not None and not member.gone:
            seconds = self.random.choice((0, 5, 30, 3600))
            member.deletion = {
                "deletionTimestamp": DELETED,
                "deletionGracePeriodSeconds": seconds,
            }
            self.show(member)

    def end(self, member: Member | None = None) -> None:
        """Let a pod succeed or vanish."""
        member = member or self.choose(self.alive())
        if member is None or member.gone:
            return
        if member.node and self.random.random() < 0.5:
            member.phase = "Succeeded"
            self.show(member)
        else:
            if member.seen is not None:
                self.state.apply(member.seen, None)
            member.seen, member.gone = None, True
        if self.random.random() < 0.7:
            self.collect()

    def collect(self) -> None:
        """Release the claims of pods that have ended, as the claim controller does."""
        for name in sorted(self.counts.keys() & self.state.claims.keys()):
            allocation, users = self.allocation(name), self.users(name)
            left = [each for each in users if not self._has_ended(each)]
            if allocation is not None and left != users:
                self.allocate(name, allocation if left else None, left)

    def _has_ended(self, uid: str) -> bool:
        return self.pods[uid].gone or bool(self.pods[uid].phase)

    def change_claim(self) -> None:
        """Let another client change or delete a claim."""
        kept = [each.uid for each in self.state.records.having("kept")]
        of_kept = [name for uid in kept for name in self.pods[uid].claims]
        some = of_kept if of_kept and self.random.random() < 0.3 else sorted(self.counts)
        name = self.choose([each for each in some if each in self.state.claims])
        if name is None:
            return
        choice, node = self.random.random(), self.random.choice(sorted(self.sizes))
        if choice < 0.5:
            self.allocate(name, None, ())
        elif choice < 0.8:
            self.state.apply(self.state.claims[name], None)
        else:
            self.allocate(name, allocation_on(node, 0), ())

    def change_node(self) -> None:
        """Publish other devices of a node, or taint it."""
        name, before = self.random.choice(sorted(self.sizes.items()))
        if self.random.random() < 0.6:
            self.sizes[name] = self.random.choice((1, 2, 3))
            later = gpu_slice(name, self.sizes[name], generation=next(self.versions))
            self.state.apply(gpu_slice(name, before), later)
        else:
            taints = (Taint("t", "NoSchedule"),) if self.random.random() < 0.5 else ()
            self.state.apply(None, Node(name, {"name": name}, taints=taints))

    def plan(self) -> None:
        """Hold devices of a node for a pod, or nothing any more."""
        name, text = self.random.choice(sorted(self.sizes)), ""
        member = self.choose(self.alive(bound=False))
        if member is not None and self.random.random() < 0.7:
            on_node = [each.uid for each in self.alive(bound=True) if each.node == name]
            evicted = tuple(each for each in on_node if self.random.random() < 0.7)
            seconds = self.now + self.random.choice((5, 60, 600))
            until = datetime.fromtimestamp(START + seconds, UTC)
            full_name = f"{member.namespace}/{member.uid}"
            text = write_node_hold(NodeHold(full_name, member.uid, until, evicted))
        self.state.apply(None, Node(name, {"name": name}, hold=text))

    def choose(self, some: Sequence[Any]) -> Any:  # noqa: ANN401  # one of them
        """Return one of several, or None of none."""
        return self.random.choice(some) if some else None
