"""A small cluster for the tests of the allocator, in few words.

`Cluster(n1=2, n2=1)` has two nodes with two GPUs and one, all owned. Claims and pods are objects of
the API, as plain values.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from allocator.decisions.basis import Surroundings
from allocator.decisions.group_searches import run_to_end
from allocator.decisions.pod_devices import PodDecisions
from allocator.decisions.shortlist import never
from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PreFilterGroupRequest,
    PreFilterReply,
    PreFilterRequest,
    SchedulingPod,
)
from allocator.state.cluster_state import AllocatorState, OwnsPool, WatchedObject
from allocator.state.reserved_pods import DEFAULT_LIMITS, HoldLimits
from drawbridge.brief import Brief
from drawbridge.choice.catalog import FIRST_FIT
from drawbridge.dra.allocation import to_json
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.ledger.chosen_strategies import StrategyNames
from drawbridge.ledger.holdings import DeviceID
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.ledger.quota_use import QuotaUse
from drawbridge.names import API_VERSION, RULES_ANNOTATION

Plain: TypeAlias = dict[str, Any]
DRIVER = "gpu.example.com"
# The members of a group.
FOUR = ("m0", "m1", "m2", "m3")
# The Unix time at the beginning of a test.
START = 1_767_225_600.0


def owns_all(*_: object) -> bool:
    return True


def gpu_slice(node: str, count: int, *, generation: int = 1, **device: object) -> Slice:
    """The slice of a node's GPUs `gpu-0`, `gpu-1` ...; further fields are those of each device."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{i}", **device} for i in range(count)]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return as_slice({"metadata": {"name": f"{node}-gpu"}, "spec": spec})


def as_slice(plain: Plain) -> Slice:
    read = read_slice(plain)
    assert isinstance(read, Slice)
    return read


def gpu_class(name: str = "gpu", expression: str = "true") -> DeviceClass:
    selectors = [{"cel": {"expression": expression}}]
    read = read_class({"metadata": {"name": name}, "spec": {"selectors": selectors}})
    assert isinstance(read, DeviceClass)
    return read


def device(node: str, number: int = 0) -> DeviceID:
    return DeviceID(PoolID(DRIVER, node), f"gpu-{number}")


def claim(  # what differs between claims
    uid: str,
    count: int = 1,
    *,
    version: int = 1,
    allocation: Plain | None = None,
    pods: Collection[str] = (),
    requests: list[Plain] | None = None,
    **metadata: object,
) -> Plain:
    """A claim; `allocation` is as the API has it, `pods` are the UIDs of its consumers."""
    exactly = {"deviceClassName": "gpu", "count": count}
    status: Plain = {"reservedFor": [{"resource": "pods", "name": p, "uid": p} for p in pods]}
    if allocation is not None:
        status["allocation"] = allocation
    named = {"name": uid, "namespace": "default", "uid": uid, "resourceVersion": f"{version}"}
    return {
        "metadata": {**named, **metadata},
        "spec": {"devices": {"requests": requests or [{"name": "r", "exactly": exactly}]}},
        "status": status,
    }


def codes(reply: PreFilterReply) -> list[str]:
    return [each.code for each in reply.reasons]


def rules(**parts: object) -> dict[str, str]:
    """The annotation with the rules of a claim."""
    text = json.dumps({"apiVersion": API_VERSION, "kind": "Rules", **parts})
    return {RULES_ANNOTATION: text}


def as_claim(plain: Plain) -> Claim:
    read = read_claim(plain)
    assert isinstance(read, Claim)
    return read


def allocation_on(node: str, *numbers: int) -> Plain:
    results = [
        {"request": "r", "driver": DRIVER, "pool": node, "device": f"gpu-{i}"} for i in numbers
    ]
    name = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [name]}]},
    }


def pod_fields(
    uid: str,
    *claims: str,
    node: str = "",
    phase: str = "",
    spec: Mapping[str, object] = {},
    **metadata: object,
) -> Plain:
    """The JSON of a pod that names its claims."""
    return {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, **metadata},
        "spec": {
            "nodeName": node,
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
            **spec,
        },
        "status": {"phase": phase},
    }


def pod(uid: str, *claims: str, **fields: Any) -> Pod:  # noqa: ANN401  # those of `pod_fields`
    """A pod that names its claims."""
    read = pod_reader().read(pod_fields(uid, *claims, **fields))
    assert isinstance(read, Pod)
    return read


def members_of(cluster: "Cluster", uids: Sequence[str]) -> PreFilterGroupRequest:
    """Return what the scheduler asks for the group of some pods, of which all must run."""
    group = GroupReference(key="default/g", min_count=len(uids))
    members = tuple(
        GroupMember(
            pod=cluster.pod(uid), claims=(msgspec.Raw(msgspec.json.encode(claim(f"c-{uid}"))),)
        )
        for uid in uids
    )
    return PreFilterGroupRequest(pod_uid=uids[0], group=group, members=members)


def ask_group(
    decisions: PodDecisions,
    request: PreFilterGroupRequest,
    now: float,
    out_of_time: Callable[[], bool] = never,
) -> PreFilterReply:
    """Ask about a group, whose members are received without a pause."""
    received = run_to_end(decisions.receive_group(request, now))
    return decisions.prefilter_group(received, now, out_of_time)


class Cluster:
    """The state and the decisions of an allocator, at a time that tests set; it owns all pools."""

    def __init__(
        self,
        *objects: WatchedObject,
        strategy: str | None = None,
        classes: Mapping[str, str] | None = None,
        nodes_per_call: int = 1000,
        limits: HoldLimits = DEFAULT_LIMITS,
        min_members: Mapping[tuple[str, str], int] = {},
        unread_groups: Callable[[], str] = str,
        quotas: Sequence[DeviceQuota] = (),
        brief: Brief | None = None,
        vanished_seconds: float | None = None,
        owns: OwnsPool = owns_all,
        **gpus: int,
    ) -> None:
        ledger = Ledger(quotas=QuotaUse(quotas))
        self.state = AllocatorState(Planner(brief=brief), ledger, owns, vanished_seconds)
        self.decisions = PodDecisions(
            self.state,
            Surroundings(
                strategy=StrategyNames(strategy or FIRST_FIT, classes or {}),
                nodes_per_call=nodes_per_call,
                limits=limits,
                min_member=lambda namespace, name: min_members.get((namespace, name), 0),
                unread_groups=unread_groups,
                find_pod=lambda namespace, name: self.pods.get((namespace, name)),
                server_time=lambda: START + self.now,
            ),
        )
        self.pods: dict[tuple[str, str], Pod] = {}
        self.now = 0.0
        self.add(gpu_class(), *(Node(name, {"name": name}) for name in gpus))
        self.add(*(gpu_slice(name, count) for name, count in gpus.items()))
        self.add(*objects)

    def add(self, *objects: WatchedObject) -> None:
        """Apply added objects, or changed ones whose earlier state is irrelevant."""
        for obj in objects:
            self.state.apply(None, obj)
            if isinstance(obj, Pod):
                self.pods[obj.namespace, obj.metadata.name] = obj

    def schedule_group(self, *uids: str) -> list[str]:
        """Ask about each member and reserve it, as the scheduler does; return the nodes."""
        nodes = []
        for uid in uids:
            reply = self.ask_group("default/g", *uids, asking=uid)
            nodes.append(reply.fit[0].node)
            assert not self.reserve(uid, nodes[-1])
        return nodes

    def add_claim(self, plain: Plain) -> None:
        """Apply a claim from a watch."""
        self.state.apply(None, as_claim(plain))

    def pod(self, uid: str, **fields: object) -> SchedulingPod:
        """A pod as the scheduler describes it; `fields` are those of the protocol."""
        body = {"namespace": "default", "name": uid, "uid": uid, **fields}
        assert body.keys() <= {*SchedulingPod.__struct_encode_fields__}
        return msgspec.convert(body, SchedulingPod)

    def request(
        self, uid: str, *claims: Plain, limit: int = 0, **fields: object
    ) -> PreFilterRequest:
        """What the scheduler asks for a pod."""
        return PreFilterRequest(
            pod=self.pod(uid, **fields),
            claims=tuple(msgspec.Raw(msgspec.json.encode(each)) for each in claims),
            max_nodes=limit,
        )

    def prefilter(
        self, uid: str, *claims: Plain, limit: int = 0, **fields: object
    ) -> PreFilterReply:
        """Ask for a pod; `fields` are those of the pod in the protocol."""
        return self.decisions.prefilter(self.request(uid, *claims, limit=limit, **fields), self.now)

    def ask_group(
        self,
        key: str,
        *uids: str,
        min_count: int = 0,
        scheduled: int = 0,
        asking: str = "",
        count: int = 1,
        priority: int | Mapping[str, int] = 0,
    ) -> PreFilterReply:
        """Ask for a group as the scheduler does; each member has a claim for `count` devices."""
        priorities = priority if isinstance(priority, Mapping) else dict.fromkeys(uids, priority)
        group = GroupReference(key=key, min_count=min_count, scheduled=scheduled)
        members = [
            GroupMember(
                pod=self.pod(uid, priority=priorities[uid]),
                claims=(msgspec.Raw(msgspec.json.encode(claim(f"c-{uid}", count))),),
            )
            for uid in uids
        ]
        asked = next(each for each in members if each.pod.uid == (asking or uids[0]))
        single = PreFilterRequest(pod=asked.pod, claims=asked.claims, group=group)
        reply = self.decisions.prefilter(single, self.now)
        if not reply.members_needed:
            return reply
        request = PreFilterGroupRequest(pod_uid=asked.pod.uid, group=group, members=tuple(members))
        return ask_group(self.decisions, request, self.now)

    def nodes(self, uid: str, *claims: Plain, limit: int = 0, **fields: object) -> list[str]:
        """The nodes that a reply to prefilter names, sorted."""
        reply = self.prefilter(uid, *claims, limit=limit, **fields)
        return sorted(each.node for each in reply.fit)

    def reserve(self, uid: str, node: str) -> str:
        """Reserve; returns the message of a refusal."""
        reply = self.decisions.reserve(uid, node, self.now)
        assert reply.reserved == (not reply.message)
        return reply.message

    def schedule(self, uid: str, *claims: Plain, limit: int = 0, **fields: object) -> str:
        """Reserve the first node that fits; returns it."""
        reply = self.prefilter(uid, *claims, limit=limit, **fields)
        assert reply.fit, reply.message
        node = reply.fit[0].node
        assert not self.reserve(uid, node)
        return node

    def write(self, uid: str, version: int = 2) -> None:
        """Write the reservation of a pod as the write path does."""
        reservation = self.decisions.reservations.find(uid)
        assert reservation is not None
        assert not self.decisions.reservations.begin_write(uid)
        for reserved in reservation.claims:
            before = self.state.claims[reserved.uid]
            pods = [*(p.uid for p in before.status.reserved_for), uid]
            allocation = reserved.allocation or before.status.allocation
            assert allocation is not None
            self.state.observe_claim(
                as_claim(
                    claim(reserved.uid, version=version, allocation=to_json(allocation), pods=pods)
                )
            )
        self.decisions.reservations.end_write(uid, written=True)

    def held(self) -> list[str]:
        """The held devices as `node/device`."""
        return [f"{each.pool.name}/{each.name}" for each in self.state.ledger.devices()]

    def delete_claim(self, uid: str) -> None:
        """Apply the deletion of a claim."""
        self.state.apply(self.state.claims[uid], None)
