"""What the parts of the search for stuck objects share: the objects by name, and how old is old."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from drawbridge.documents.values import Value
from drawbridge.dra.generations import current_parts, is_complete
from drawbridge.dra.slices import Slice
from drawbridge.report.events import subject_name
from drawbridge.report.stuck.found import MOST_PODS, format_since
from drawbridge.report.stuck.objects import (
    FINISHED,
    READY,
    HangingClaim,
    HangingNode,
    HangingObjects,
    HangingPod,
    HeldResult,
    find_condition,
    seconds_of,
)

# What takes longer than so many seconds is stuck. Controllers and kubelets act within a few.
PATIENCE: Final = 30.0


@dataclass(frozen=True)
class StuckSearch:
    """The objects by name."""

    objects: HangingObjects

    def knows(self, kind: str) -> bool:
        """Whether all objects of a kind are known."""
        return kind in self.objects.complete

    def is_old(self, text: str | None, patience: float = PATIENCE) -> bool:
        """Whether a time is so long ago that what began then is stuck."""
        time = seconds_of(text)
        return time is not None and self.objects.now - time >= patience

    @cached_property
    def pods(self) -> Mapping[tuple[str, str], HangingPod]:
        """The pods by namespace and name."""
        return {each.key: each for each in self.objects.pods}

    @cached_property
    def claims(self) -> Mapping[tuple[str, str], HangingClaim]:
        """The claims by namespace and name."""
        return {each.key: each for each in self.objects.claims}

    @cached_property
    def waiting(self) -> Mapping[tuple[str, str], "ClaimWaiters"]:
        """The pods that a claim without an allocation keeps waiting, by its namespace and name.

        A tenant can let each of many pods name each of many claims, so each pod is judged once.
        """
        waiting: dict[tuple[str, str], ClaimWaiters] = {}
        unallocated = {e.key for e in self.objects.claims if e.status.allocation is None}
        for pod in self.objects.pods:
            created, namespace = pod.metadata.creation_timestamp, pod.key[0]
            names = [name for name in pod.claim_names if (namespace, name) in unallocated]
            if (
                not names
                or pod.status.phase in FINISHED
                or pod.metadata.deletion_timestamp
                or pod.spec.scheduling_gates
                or (created and not self.is_old(created))
            ):
                continue
            is_bound, is_untried = bool(pod.spec.node_name), pod.condition("PodScheduled") is None
            for name in names:
                pods = waiting.get((namespace, name))
                if pods is None:
                    pods = waiting[namespace, name] = ClaimWaiters([])
                if len(pods.first) < MOST_PODS:
                    pods.first.append(pod)
                if is_bound and pods.bound is None:
                    pods.bound = pod
                if is_untried and pods.untried is None:
                    pods.untried = pod
        return waiting

    @cached_property
    def events(self) -> Mapping[tuple[str, str], Sequence[Value]]:
        """The events by namespace and name of what they are about."""
        events: dict[tuple[str, str], list[Value]] = {}
        for event in self.objects.events:
            events.setdefault(subject_name(event), []).append(event)
        return events

    @cached_property
    def nodes(self) -> Mapping[str, HangingNode]:
        """The nodes by name."""
        return {each.metadata.name: each for each in self.objects.nodes}

    @cached_property
    def published(self) -> Mapping[tuple[str, str], "_Pool"]:
        """The pools by driver and name."""
        by_pool: dict[tuple[str, str], list[Slice]] = {}
        for each in self.objects.slices:
            by_pool.setdefault((each.driver, each.pool), []).append(each)
        return {pool: _read_pool(slices) for pool, slices in by_pool.items()}

    @cached_property
    def publishing(self) -> frozenset[tuple[str, str]]:
        """The drivers and the nodes on which they publish; `""` is any node."""
        return frozenset((each.driver, each.node_name or "") for each in self.objects.slices)

    @cached_property
    def drivers(self) -> frozenset[str]:
        """The drivers that publish something."""
        return frozenset(each.driver for each in self.objects.slices)

    def has_pod(self, namespace: str, name: str, uid: str) -> bool:
        """Whether a pod exists, and not only another one with its name; True if not known."""
        if not self.knows("Pod"):
            return True
        pod = self.pods.get((namespace, name))
        return pod is not None and (not uid or pod.metadata.uid in ("", uid))

    def knows_slices_of(self, node: str) -> bool:
        """Whether all slices of a node are known."""
        return self.knows("ResourceSlice") or node == self.objects.only_node != ""

    def is_lost(self, result: HeldResult, node: str) -> bool:
        """Whether a device, of a node or of several, is not published; False if not known."""
        if not self.knows_slices_of(node):
            return False
        pool = self.published.get((result.driver, result.pool), _EMPTY_POOL)
        asked = {node, None} if node else pool.devices.keys()
        if not pool.replaced.isdisjoint(asked):
            return False
        return not any(result.device in pool.devices.get(each, ()) for each in asked)

    def name_kubelet(self, node: str) -> str:
        """Name the kubelet of a node, and since when the node is not ready."""
        named = self.nodes.get(node)
        if named is None and self.knows("Node"):
            return f"kubelet of node {node}, which does not exist"
        ready = find_condition(named.status.conditions, READY) if named else None
        if ready is None or ready.status == "True":
            return f"kubelet of node {node}"
        since = format_since(ready.last_transition_time or "")
        return f"kubelet of node {node}, which is not ready{f' since {since}' if since else ''}"

    def is_node_down(self, node: str) -> bool:
        """Whether a node is gone or not ready; False if not known."""
        named = self.nodes.get(node)
        if named is None:
            return self.knows("Node")
        ready = find_condition(named.status.conditions, READY)
        return ready is not None and ready.status != "True"


@dataclass(slots=True)
class ClaimWaiters:
    """Of the pods that wait for a claim: the first ones, one with a node, and one never tried."""

    first: list[HangingPod]
    bound: HangingPod | None = None
    untried: HangingPod | None = None


class _Pool(NamedTuple):
    """The devices of a pool by the node of their slices, None for those of any node.

    What a driver writes for its node says nothing of other nodes, whatever pool it names.
    `replaced` are the nodes whose driver replaces the slices.
    """

    devices: Mapping[str | None, set[str]]
    replaced: set[str | None]


_EMPTY_POOL: Final = _Pool({}, set())


def _read_pool(slices: Iterable[Slice]) -> _Pool:
    devices: dict[str | None, set[str]] = {}
    replaced = set[str | None]()
    for part in current_parts(slices):
        by_node: dict[str | None, list[Slice]] = {}
        for published in part:
            names = devices.setdefault(published.node_name, set())
            names.update(device.name for device in published.devices)
            by_node.setdefault(published.node_name, []).append(published)
        if not is_complete(part):
            replaced.update(node for node, written in by_node.items() if not is_complete(written))
    return _Pool(devices, replaced)
