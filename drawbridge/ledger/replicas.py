"""Places the equal pods of a workload one after the other, until one does not fit.

Equal pods share an answer: after one that does not fit, the others do not fit either.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from drawbridge.dra.taints import Toleration
from drawbridge.ledger import node_fit
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.placing import PodPlacement
from drawbridge.ledger.pods import Pod

# Shares of a device can be so small that nearly any number of pods fits.
MAX_PLACED: Final = 5_000
# What the pods of a DaemonSet tolerate by themselves.
_OF_DAEMONS: Final = (
    *(
        Toleration(f"node.kubernetes.io/{condition}", "Exists", effect="NoExecute")
        for condition in ("not-ready", "unreachable")
    ),
    *(
        Toleration(f"node.kubernetes.io/{condition}", "Exists", effect="NoSchedule")
        for condition in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
)


class PodPlacer(Protocol):
    """Places pods one after the other."""

    def place_pod(self, pod: Pod) -> PodPlacement:
        """Place a pod, or return the reasons why not."""


class ReplicaPlacement(msgspec.Struct, frozen=True):
    """How many of the `number` pods of a template fit, and the first one that does not.

    `placed` has one of the pods that take nothing, and all others. Pods that are neither placed nor
    refused were not tried.
    """

    number: int
    fits: int
    placed: tuple[PodPlacement, ...] = ()
    refused: PodPlacement | None = None

    @property
    def untried(self) -> int:
        """The number of pods whose answer is unknown."""
        return self.number - self.fits if self.refused is None else 0


def place_replicas(placer: PodPlacer, pod: Pod, number: int) -> ReplicaPlacement:
    """Place `number` pods; at most MAX_PLACED of those that take devices or resources."""
    placed: list[PodPlacement] = []
    for replica in _replicas(pod, range(min(number, MAX_PLACED))):
        answer = placer.place_pod(replica)
        if answer.node is None:
            # The others are equal, and nothing is released meanwhile.
            return ReplicaPlacement(number, len(placed), tuple(placed), answer)
        placed.append(answer)
        if answer.takes_nothing:
            return ReplicaPlacement(number, number, tuple(placed))
    return ReplicaPlacement(number, len(placed), tuple(placed))


def place_on_each_node(placer: PodPlacer, pod: Pod, cluster: ClusterNodes) -> ReplicaPlacement:
    """Place one pod on each node that the template selects, as for a DaemonSet."""
    spec = replace(pod.spec, tolerations=(*pod.spec.tolerations, *_OF_DAEMONS))
    pod = replace(pod, spec=spec)
    nodes, reasons = node_fit.selected_nodes(pod, cluster)
    if not nodes:
        nowhere = PodPlacement(pod.full_name, None, (), reasons)
        return ReplicaPlacement(0, 0, refused=nowhere)
    answers = [
        placer.place_pod(replica.with_node(node.name))
        for replica, node in zip(_replicas(pod, range(len(nodes))), nodes, strict=True)
    ]
    placed = tuple(each for each in answers if each.node is not None)
    refused = next((each for each in answers if each.node is None), None)
    return ReplicaPlacement(len(nodes), len(placed), placed, refused)


def number_pod(pod: Pod, number: int) -> Pod:
    """Return one of the equal pods of a template."""
    name = f"{pod.metadata.name}-{number}"
    return replace(pod, metadata=replace(pod.metadata, name=name))


def _replicas(pod: Pod, numbers: Iterable[int]) -> Iterator[Pod]:
    for number in numbers:
        yield number_pod(pod, number)
