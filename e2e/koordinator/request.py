"""What a pod of the comparison requests, and the pod."""

import json
from dataclasses import dataclass
from typing import Any

PREFIX = "scheduling.koordinator.sh/"


@dataclass(frozen=True)
class DeviceRequest:
    """GPUs and an amount of RDMA, with Koordinator's hints.

    `types` is the order of `deviceTypes`; empty means no joint allocation. `policy` is that of the
    partition annotation; empty means no annotation.
    """

    gpus: int
    rdma: int = 0
    types: tuple[str, ...] = ()
    same_pcie: bool = False
    functions: bool = False
    strategy: str = ""
    exclusive: bool = False
    scope: str = ""
    policy: str = ""

    @property
    def joined(self) -> tuple[str, ...]:
        """The types that are allocated together, the primary one first."""
        return self.types if self.rdma and self.strategy != "ApplyForAll" else ()

    @property
    def several_nics(self) -> bool:
        """Whether the amount is a number of whole NICs, which the strategy does not change."""
        return self.rdma > 100 and self.rdma % 100 == 0

    @property
    def takes_all_nics(self) -> bool:
        """Whether the pod requests every NIC of its node."""
        return self.strategy == "ApplyForAll" and not self.several_nics

    @property
    def nics(self) -> int:
        """The number of NICs that the pod names; one for an amount up to 100."""
        if self.several_nics:
            return self.rdma // 100
        if self.strategy == "RequestsAsCount":
            return self.rdma
        return 1 if self.rdma else 0

    def pod(self) -> dict[str, Any]:
        """Return the pod."""
        limits = {"koordinator.sh/gpu": f"{100 * self.gpus}", "koordinator.sh/rdma": f"{self.rdma}"}
        written = {name: amount for name, amount in limits.items() if amount != "0"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "worker", "annotations": self.annotations()},
            "spec": {
                "schedulerName": "koord-scheduler",
                "containers": [{"name": "main", "image": "none", "resources": {"limits": written}}],
            },
        }

    def annotations(self) -> dict[str, str]:
        """Return the annotations of the pod."""
        annotations: dict[str, Any] = {}
        if self.types:
            scope = {"requiredScope": "SamePCIe"} if self.same_pcie else {}
            annotations["device-joint-allocate"] = {"deviceTypes": list(self.types), **scope}
        if hints := self._hints():
            annotations["device-allocate-hint"] = hints
        if self.policy:
            annotations["gpu-partition-spec"] = {"allocatePolicy": self.policy}
        return {f"{PREFIX}{key}": json.dumps(value) for key, value in annotations.items()}

    def _hints(self) -> dict[str, Any]:
        rdma: dict[str, Any] = {"vfSelector": {}} if self.functions else {}
        if self.strategy:
            rdma["allocateStrategy"] = self.strategy
        if self.exclusive:
            rdma["exclusivePolicy"] = "DeviceLevel"
        gpu = {"requiredTopologyScope": self.scope} if self.scope else {}
        return {name: hint for name, hint in (("rdma", rdma), ("gpu", gpu)) if hint}
