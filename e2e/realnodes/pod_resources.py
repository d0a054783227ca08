"""Reads what a real kubelet has given to whom: its podresources API and its checkpoints."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from e2e.nodes.messages import message_classes
from e2e.nodes.service import call
from e2e.realnodes.node import RealNode

PACKAGE = "v1"
SERVICE = f"{PACKAGE}.PodResourcesLister"
M = message_classes(
    PACKAGE,
    {
        "ListPodResourcesRequest": (),
        "ListPodResourcesResponse": ("*pod_resources:PodResources",),
        "PodResources": ("name", "namespace", "*containers:ContainerResources"),
        "ContainerResources": (
            "name",
            "*devices:ContainerDevices",
            "",
            "",
            "*dynamic_resources:DynamicResource",
        ),
        "ContainerDevices": ("resource_name", "*device_ids"),
        "DynamicResource": ("", "claim_name", "claim_namespace", "*claim_resources:ClaimResource"),
        "ClaimResource": (
            "*cdi_devices:CDIDevice",
            "driver_name",
            "pool_name",
            "device_name",
            "?share_id",
        ),
        "CDIDevice": ("name",),
    },
)


@dataclass(frozen=True, order=True)
class ClaimDevice:
    """A device that a container has of a claim (`namespace/name`)."""

    claim: str
    driver: str
    pool: str
    device: str
    share: str = ""

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True)
class ContainerShare:
    """What one container has: units of plugins by resource, and devices of claims."""

    namespace: str
    pod: str
    container: str
    units: Mapping[str, tuple[str, ...]]
    devices: tuple[ClaimDevice, ...]


def shares(node: RealNode) -> list[ContainerShare]:
    """List what the containers on a node have, by the kubelet's podresources API."""
    socket = node.path("kubelet", "pod-resources", "kubelet.sock")
    request, response = M["ListPodResourcesRequest"](), M["ListPodResourcesResponse"]
    answer = call(socket, f"/{SERVICE}/List", request, response)
    return [
        ContainerShare(pod.namespace, pod.name, one.name, _units(one), tuple(_devices(one)))
        for pod in answer.pod_resources
        for one in pod.containers
    ]


def _units(container: Any) -> dict[str, tuple[str, ...]]:  # noqa: ANN401  # protobuf
    units: dict[str, tuple[str, ...]] = {}
    for entry in container.devices:
        units[entry.resource_name] = (*units.get(entry.resource_name, ()), *entry.device_ids)
    return {name: tuple(sorted(ids)) for name, ids in units.items()}


def _devices(container: Any) -> Iterator[ClaimDevice]:  # noqa: ANN401  # protobuf
    for claim in container.dynamic_resources:
        name = f"{claim.claim_namespace}/{claim.claim_name}"
        for claim_resource in claim.claim_resources:
            share = claim_resource.share_id if claim_resource.HasField("share_id") else ""
            yield ClaimDevice(
                name,
                claim_resource.driver_name,
                claim_resource.pool_name,
                claim_resource.device_name,
                share,
            )


def checkpoint_units(node: RealNode) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the units of each pod UID by resource, by the device manager's checkpoint file."""
    path = node.path("kubelet", "device-plugins", "kubelet_internal_checkpoint")
    by_pod: dict[str, dict[str, tuple[str, ...]]] = {}
    for entry in json.loads(path.read_text(encoding="utf-8"))["Data"]["PodDeviceEntries"] or ():
        ids = [unit for units in entry["DeviceIDs"].values() for unit in units]
        mine = by_pod.setdefault(entry["PodUID"], {})
        mine[entry["ResourceName"]] = (*mine.get(entry["ResourceName"], ()), *ids)
    return by_pod
