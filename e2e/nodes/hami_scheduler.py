"""Stands for HAMi's scheduler: it binds pods that name it to nodes that HAMi's plugin registered.

It counts memory and cores of each GPU by the annotations of pods, as HAMi does; the kubelet and the
plugin know only how many shares a node has.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from e2e.controlplane.client import JSON, ApiError, Client
from e2e.nodes.amounts import amount

NAME = "hami-scheduler"
REGISTER = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"
GPU, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
CONFLICT = 409


class Share(NamedTuple):
    """What a pod has of one GPU."""

    gpu: str
    memory: int
    cores: int


class HamiScheduler:
    """Binds each waiting pod when it is told to look."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def bind_waiting(self) -> None:
        """Bind the pods that name this scheduler, as far as there is room."""
        pods = self._client.get("/api/v1/pods")["items"]
        waiting = [each for each in pods if _waits(each)]
        if not waiting:
            return
        held = Counter[tuple[str, str]]()
        for pod in pods:
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                for share in _read(pod["metadata"].get("annotations", {}).get(ALLOCATED, "")):
                    held[share.gpu, MEMORY] += share.memory
                    held[share.gpu, CORES] += share.cores
        nodes = self._client.get("/api/v1/nodes")["items"]
        for pod in waiting:
            self._bind(pod, [each for each in nodes if _serves(each)], held)

    def _bind(self, pod: JSON, nodes: Iterable[JSON], held: Counter[tuple[str, str]]) -> None:
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        memory, cores = (int(amount(limits.get(name, "0"))) for name in (MEMORY, CORES))
        for node in nodes:
            for gpu in json.loads(node["metadata"]["annotations"][REGISTER]):
                name = gpu["id"]
                if (
                    held[name, MEMORY] + memory <= gpu["devmem"]
                    and held[name, CORES] + cores <= gpu["devcore"]
                ):
                    held[name, MEMORY] += memory
                    held[name, CORES] += cores
                    self._write(pod, node["metadata"]["name"], Share(name, memory, cores))
                    return

    def _write(self, pod: JSON, node: str, share: Share) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        text = f"{share.gpu},NVIDIA,{share.memory},{share.cores}:;"
        try:
            self._client.patch(path, {"metadata": {"annotations": {ALLOCATED: text}}})
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body = {"metadata": {"name": metadata["name"]}, "target": target}
            self._client.create(f"{path}/binding", body)
        except ApiError as problem:
            if problem.code not in (404, CONFLICT):  # deleted since it was listed
                raise


def _waits(pod: JSON) -> bool:
    return bool(
        pod["spec"].get("schedulerName") == NAME
        and not pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
    )


def _serves(node: JSON) -> bool:
    """Whether HAMi's plugin runs on a node, and pods may start there."""
    units = node["status"].get("allocatable", {}).get(GPU, "0")
    registered = REGISTER in node["metadata"].get("annotations", {})
    return registered and units != "0" and not node["spec"].get("unschedulable")


def _read(text: str) -> Iterator[Share]:
    for entry in text.replace(";", "").split(":"):
        fields = entry.split(",")
        if len(fields) == 4:
            yield Share(fields[0], int(fields[2]), int(fields[3]))
