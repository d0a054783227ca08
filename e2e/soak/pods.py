"""The nodes of a soak, and what its pods request. Data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from e2e.nodes.fleet import NodePlan
from e2e.scenarios.objects import JSON, claim_spec, request

GPU, NIC, PARTITION = "gpu.nvidia.com", "dra.net", "mig.nvidia.com"
ROOT = "resource.kubernetes.io/pcieRoot"
# Ten nodes in turn: shape, drivers with their modes, GPUs.
NODES: tuple[tuple[str, Mapping[str, str | None], int], ...] = (
    ("lab-2g2n", {GPU: "full", NIC: None}, 2),
    ("lab-2g2n", {GPU: "shares-unlimited"}, 2),
    ("lab-2g2n", {GPU: "full", NIC: None}, 2),
    ("lab-2g2n", {GPU: "dynamic-mig"}, 2),
    ("dgx-a100", {GPU: "full", NIC: None}, 8),
    ("lab-2g2n", {GPU: "full", NIC: None}, 2),
    ("lab-2g2n", {GPU: "shares-unlimited"}, 2),
    ("lab-2g2n", {GPU: "full"}, 2),
    ("lab-2g2n", {GPU: "dynamic-mig"}, 2),
    ("lab-2g2n", {GPU: "full", NIC: None}, 2),
)
# Names of PriorityClasses, their values, and how many of 100 pods have them.
PRIORITIES = (("low", 0, 70), ("middle", 500, 20), ("high", 1000, 10))


@dataclass(frozen=True)
class PodKind:
    """What some pods request; `weight` says how many of them there are.

    With `devices` each pod has a claim of its own, with `shared` it refers to one of a few claims.
    A `legacy` pod requests GPUs of a device plugin, in a namespace that is opted in.
    """

    name: str
    weight: int
    devices: JSON | None = None
    shared: bool = False
    volume: bool = False
    legacy: bool = False


def _profile(text: str) -> str:
    return f"device.attributes['{GPU}'].profile == '{text}'"


def _share(memory: str) -> JSON:
    capacity: Any = {"requests": {"memory": memory}}
    return claim_spec(request("gpu", GPU, capacity=capacity))


ONE = claim_spec(request("gpu", GPU))
PAIR = claim_spec(
    request("gpu", GPU),
    request("nic", NIC),
    constraints=[{"requests": ["gpu", "nic"], "matchAttribute": ROOT}],
)
EITHER: JSON = {
    "devices": {
        "requests": [
            {
                "name": "gpu",
                "firstAvailable": [
                    {
                        "name": "part",
                        "deviceClassName": PARTITION,
                        "selectors": [{"cel": {"expression": _profile("3g.20gb")}}],
                    },
                    {"name": "whole", "deviceClassName": GPU},
                ],
            }
        ]
    }
}
KINDS = (
    PodKind("one", 26, ONE),
    PodKind("two", 10, claim_spec(request("gpu", GPU, count=2))),
    PodKind("share", 14, _share("10Gi")),
    PodKind("half", 8, claim_spec(request("gpu", PARTITION, _profile("3g.20gb")))),
    PodKind("small", 10, claim_spec(request("gpu", PARTITION, _profile("1g.5gb")))),
    PodKind("pair", 10, PAIR),
    PodKind("either", 6, EITHER),
    PodKind("shared", 5, shared=True),
    PodKind("volume", 4, ONE, volume=True),
    PodKind("legacy", 4, legacy=True),
    PodKind("plain", 3),
)
# Of each namespace.
SHARED_CLAIMS = 2


def node_plans(names: Iterable[str], labels: Mapping[str, str]) -> list[NodePlan]:
    """Return the nodes, the kinds of nodes in turn."""
    return [
        NodePlan(name, *NODES[number % len(NODES)][:2], labels=labels)
        for number, name in enumerate(names)
    ]


def gpus(nodes: int) -> int:
    """Return how many GPUs so many nodes have."""
    return sum(NODES[number % len(NODES)][2] for number in range(nodes))
