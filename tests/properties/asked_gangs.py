"""Asks the allocator about a gang of a generated situation."""

from collections.abc import Callable, Sequence

import msgspec

from allocator.decisions.shortlist import never
from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PotentialVictim,
    PreemptionNode,
    PreemptReply,
    PreemptRequest,
    PreFilterGroupRequest,
    PreFilterReply,
)
from drawbridge.dra.device_quotas import DEVICES, DeviceQuota, QuotaKey
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.pods import Pod
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    Plain,
    allocation_on,
    as_slice,
    ask_group,
    claim,
    gpu_class,
    pod,
)
from tests.properties.generated_gangs import (
    MEMORY,
    Device,
    NodeOf,
    Requests,
    Running,
    Situation,
)

PRIORITY = 50
_LARGE = f'device.attributes["{DRIVER}"].large'


class AskedGang:
    """The cluster of a situation, and the decisions of its allocator."""

    def __init__(self, given: Situation) -> None:
        self.given = given
        self.cluster = Cluster(quotas=_quotas(given), **{each.name: 0 for each in given.nodes})
        self.cluster.add(gpu_class("large", _LARGE))
        for node in given.nodes:
            labels = dict.fromkeys(sorted(node.labels), "")
            self.cluster.add(Node(node.name, {"name": node.name} | labels))
            for plain in _slices(node):
                self.cluster.add(as_slice(plain))
        for running in given.running:
            name = f"of-{running.uid}"
            allocation = _allocation(running.node, running.devices)
            self.cluster.add_claim(
                claim(name, allocation=allocation, pods=[running.uid], namespace="o")
            )
            self.cluster.add(_describe(running))
        self._claims = {name: self._claim(name) for name in given.claims}
        for name in given.allocated:
            self.cluster.add_claim(self._claims[name])
        for member in given.members:
            if member.bound:
                self.cluster.add(pod(member.uid, *member.claims, node=member.bound))

    def _claim(self, name: str) -> Plain:
        at, requests = self.given.allocated.get(name), self.given.claims[name]
        allocation = None if at is None else _allocation(*at)
        names = [f"r{number}" for number, each in enumerate(requests) for _ in range(each.count)]
        results = allocation["devices"]["results"] if allocation else ()
        for result, request in zip(results, names, strict=bool(results)):
            result["request"] = request
        return claim(
            name,
            requests=_requests(requests),
            allocation=allocation,
            pods=[each.uid for each in self.given.members if each.bound and name in each.claims],
        )

    def ask(self) -> PreFilterReply:
        """Ask about the gang."""
        asking = self.given.asking
        scheduled = len(self.given.members) - len(asking)
        group = GroupReference(key="default/g", min_count=self.given.least, scheduled=scheduled)
        members = tuple(
            GroupMember(
                pod=self.cluster.pod(
                    each.uid,
                    priority=PRIORITY,
                    nodeSelector={each.label: ""} if each.label else {},
                ),
                claims=tuple(
                    msgspec.Raw(msgspec.json.encode(self._claims[name])) for name in each.claims
                ),
            )
            for each in asking
        )
        request = PreFilterGroupRequest(pod_uid=asking[0].uid, group=group, members=members)
        return ask_group(self.cluster.decisions, request, self.cluster.now)

    def promised(self) -> list[str]:
        """The members that are promised their claims, or need no promise."""
        reserved = self.cluster.decisions.reservations
        return [
            each.uid
            for each in self.given.asking
            if reserved.is_promised(each.uid)
            or all(name in self.given.allocated for name in each.claims)
        ]

    def preempt(self, out_of_time: Callable[[], bool] = never) -> PreemptReply:
        """Ask for victims."""
        nodes = []
        for node in self.given.nodes:
            here = [each for each in self.given.running if each.node == node.name]
            pods = tuple(
                PotentialVictim(uid=each.uid, priority=each.priority, violates=each.violates)
                for each in here
                if each.priority < PRIORITY
            )
            bound = [each for each in self.given.members if each.bound == node.name]
            running = tuple(each.uid for each in (*bound, *here))
            nodes.append(PreemptionNode(node=node.name, pods=pods, running=running))
        request = PreemptRequest(pod_uid=self.given.asking[0].uid, nodes=tuple(nodes))
        return self.cluster.decisions.preempt(request, self.cluster.now, out_of_time)

    def end(self, ended: Running) -> None:
        """Let a pod end that holds devices."""
        self.cluster.delete_claim(f"of-{ended.uid}")
        self.cluster.state.apply(_describe(ended), None)
        running = [each for each in self.given.running if each != ended]
        self.given = self.given._replace(running=running)


def _describe(running: Running) -> Pod:
    fields = {"node": running.node, "namespace": "o", "spec": {"priority": running.priority}}
    return pod(running.uid, f"of-{running.uid}", **fields)


def _quotas(given: Situation) -> Sequence[DeviceQuota]:
    if given.quota is None:
        return ()
    total = {QuotaKey("gpu", DEVICES): Quantity.of(given.quota)}
    return [DeviceQuota("q", lambda name, _: name == "default", {}, total)]


def _slices(node: NodeOf) -> Sequence[Plain]:
    """Return the slice with the devices of a node, and that with its counter."""
    pool = {"name": node.name, "generation": 2, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "nodeName": node.name, "pool": pool}
    counter = {"name": "set", "counters": {"units": {"value": f"{node.units}"}}}
    return [
        {
            "metadata": {"name": f"{node.name}-gpu"},
            "spec": {**common, "devices": [*map(_device, node.devices)]},
        },
        {
            "metadata": {"name": f"{node.name}-counters"},
            "spec": {**common, "sharedCounters": [counter]},
        },
    ]


def _device(given: Device) -> Plain:
    device: Plain = {"name": given.name, "attributes": {"large": {"bool": given.is_large}}}
    if given.units:
        counters = {"units": {"value": f"{given.units}"}}
        device["consumesCounters"] = [{"counterSet": "set", "counters": counters}]
    if given.is_shared:
        memory = {"memory": {"value": f"{MEMORY}Gi"}}
        device |= {"allowMultipleAllocations": True, "capacity": memory}
    return device


def _requests(given: Requests) -> list[Plain]:
    requests = []
    for number, (count, is_large, memory) in enumerate(given):
        exactly: Plain = {"deviceClassName": "large" if is_large else "gpu", "count": count}
        if memory:
            exactly["capacity"] = {"requests": {"memory": f"{memory}Gi"}}
        requests.append({"name": f"r{number}", "exactly": exactly})
    return requests


def _allocation(node: str, devices: Sequence[str]) -> Plain:
    return allocation_on(node, *(int(each.removeprefix("gpu-")) for each in devices))
