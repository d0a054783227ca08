"""Aliyun's GPU share: memory of one card for the whole pod, and nothing that enforces it."""

from decimal import Decimal
from typing import Final

from config.model import Legacy
from translate.legacy.asks import Ask, Bytes, Isolation, Kind, Percent, Reading, Role, Share
from translate.legacy.codes import (
    ALREADY_PLACED,
    AMOUNT_SUSPICIOUS,
    MEANING_CHANGES,
    REQUEST_INCOMPLETE,
)
from translate.legacy.dialects import vgpu
from translate.legacy.draft import Draft
from translate.legacy.pod_view import PodView, Resource, annotation_path

NAME: Final = "aliyun"
CALLED_BY: Final = frozenset({"aliyun.com"})
_MEMORY: Final = "aliyun.com/gpu-mem"
_CORES: Final = "aliyun.com/gpu-core.percentage"
_PLACED: Final = ("ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_ASSIGNED")
_GI: Final = 1 << 30
# No card has more GiB than this; a larger number is what a plugin with MiB as unit takes.
_MOST_GI: Final = 1024


def read(pod: PodView, legacy: Legacy) -> Reading:
    """Read what the pod asks for altogether, on one card."""
    draft = Draft(NAME, pod)
    found = [
        one for c in pod.containers for one in c.resources.values() if one.name in {_MEMORY, _CORES}
    ]
    if not found:
        return draft.reading()
    placed = next((key for key in _PLACED if key in pod.annotations), None)
    memory = _sum(pod, _MEMORY)
    if placed or not memory:
        draft.traces += [trace for one in found for trace in one.traces(removed=False)]
        draft.findings.append(
            ALREADY_PLACED.at(annotation_path(placed), "the pod's card is chosen already")
            if placed
            else REQUEST_INCOMPLETE.at(found[0].where, f"{_MEMORY} is missing")
        )
        return draft.reading()
    share = _share(pod, memory * _unit(draft, found, memory, legacy))
    holders = {one.holder for one in found}
    users = tuple(one.user for one in pod.containers if one.user.path in holders)
    draft.ask(Ask(kind=Kind.GPU, row="memory", vendor="nvidia", share=share, users=users), found)
    draft.findings.append(
        MEANING_CHANGES.at(
            found[0].where,
            "ALIYUN_COM_GPU_MEM_CONTAINER and its like are not set any more; a program that "
            "limits itself by them has to be told otherwise",
        )
    )
    return draft.reading()


def _share(pod: PodView, size: int) -> Share:
    cores = _sum(pod, _CORES)
    limit = Percent(Decimal(min(cores, 100))) if cores else None
    return Share(memory=Bytes(size), cores=limit, isolation=Isolation.NONE)


def _sum(pod: PodView, name: str) -> int:
    amounts = {role: [0] for role in Role}
    for container in pod.containers:
        if name in container.resources:
            amounts[container.user.role].append(container.resources[name].amount)
    inits, apps = max(amounts[Role.INIT]), sum(amounts[Role.APP])
    return max(inits, apps) + sum(amounts[Role.SIDECAR])


def _unit(draft: Draft, found: list[Resource], memory: int, legacy: Legacy) -> int:
    if _MEMORY in vgpu.units(legacy):
        return vgpu.amount(vgpu.units(legacy), _MEMORY, _GI)
    if memory <= _MOST_GI:
        return _GI
    draft.findings.append(
        AMOUNT_SUSPICIOUS.at(
            found[0].where,
            f"{_MEMORY}: {memory} is read as MiB, because no card has as many GiB",
            remedy=f"Say in legacy.units whether {_MEMORY} is 1Mi or 1Gi.",
        )
    )
    return vgpu.MI
