"""Aliyun's GPU sharing: memory of one GPU for the whole pod, without enforcement."""

from decimal import Decimal
from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.containers import most_at_once
from drawbridge.translate.legacy.asks import (
    Ask,
    Bytes,
    ContainerRole,
    DeviceShare,
    Isolation,
    Kind,
    Percent,
    PodRequests,
)
from drawbridge.translate.legacy.codes import (
    ALREADY_PLACED,
    AMOUNT_SUSPICIOUS,
    MEANING_CHANGES,
    REQUEST_INCOMPLETE,
)
from drawbridge.translate.legacy.dialects import vgpu
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import DeviceResource, PodView, annotation_path

NAME: Final = "aliyun"
PROJECT: Final = "Aliyun"
TRIGGERS: Final = frozenset({"aliyun.com"})
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = ()
_MEMORY: Final = "aliyun.com/gpu-mem"
_CORES: Final = "aliyun.com/gpu-core.percentage"
UNITS: Final = (_MEMORY,)
ALLOCATED: Final = ("ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_ASSIGNED")
_GI: Final = 1 << 30
# No GPU has more GiB. A larger number counts MiB, the other unit of the plugin.
_MAX_GI: Final = 1024


def read(pod: PodView, legacy: Legacy) -> PodRequests:
    """Read the requests of the whole pod, for one GPU."""
    builder = RequestBuilder(NAME, pod)
    resources = [
        one for c in pod.containers for one in c.resources.values() if one.name in {_MEMORY, _CORES}
    ]
    if not resources:
        return builder.build()
    allocated = next((key for key in ALLOCATED if key in pod.annotations), None)
    memory = _sum_amounts(pod, _MEMORY)
    if allocated or not memory:
        builder.keep_resources(resources)
        builder.findings.append(
            ALREADY_PLACED.at(annotation_path(allocated), "the GPU of the pod is already allocated")
            if allocated
            else REQUEST_INCOMPLETE.at(resources[0].where, f"{_CORES} requires {_MEMORY}")
        )
        return builder.build()
    share = _make_share(pod, memory * _find_unit(builder, resources, memory, legacy))
    holders = {one.container for one in resources}
    users = tuple(one.user for one in pod.containers if one.user.path in holders)
    ask = Ask(kind=Kind.GPU, row="memory", vendor="nvidia", share=share, users=users)
    builder.add_ask(ask, resources)
    builder.findings.append(
        MEANING_CHANGES.at(
            resources[0].where,
            "ALIYUN_COM_GPU_MEM_CONTAINER and similar environment variables are no longer set; "
            "programs that limit themselves by these variables need another setting",
        )
    )
    return builder.build()


def _make_share(pod: PodView, size: int) -> DeviceShare:
    cores = _sum_amounts(pod, _CORES)
    limit = Percent(Decimal(min(cores, 100))) if cores else None
    return DeviceShare(memory=Bytes(size), cores=limit, isolation=Isolation.NONE)


def _sum_amounts(pod: PodView, name: str) -> int:
    return most_at_once(
        (container.user.role is ContainerRole.INIT, container.resources[name].amount)
        for container in pod.containers
        if name in container.resources
    )


def _find_unit(
    builder: RequestBuilder, resources: list[DeviceResource], memory: int, legacy: Legacy
) -> int:
    if _MEMORY in vgpu.units(legacy):
        return vgpu.configured_amount(vgpu.units(legacy), _MEMORY, _GI)
    if memory <= _MAX_GI:
        return _GI
    builder.findings.append(
        AMOUNT_SUSPICIOUS.at(
            resources[0].where,
            f"{_MEMORY}: {memory} is interpreted as MiB, because no GPU has {memory} GiB",
            remedy=f"Set the unit of {_MEMORY} in `legacy.units` to 1Mi or 1Gi.",
        )
    )
    return vgpu.MI
