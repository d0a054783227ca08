"""NVIDIA's device plugin: whole GPUs, MIG devices, shared replicas, GPUs for virtual machines.

`gpu_labels` reads the node labels of GPU Feature Discovery, for all dialects.
"""

import re
from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.documents.values import as_list, as_mapping
from drawbridge.translate.legacy.asks import (
    Ask,
    DeviceShare,
    DeviceUser,
    Isolation,
    Kind,
    PodRequests,
    SourceField,
)
from drawbridge.translate.legacy.codes import MEANING_CHANGES, REPLICAS_ARE_ONE
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import DeviceResource, PodView
from drawbridge.translate.legacy.selectors import PartitionProfile

NAME: Final = "nvidia"
PROJECT: Final = ""
TRIGGERS: Final = frozenset({"nvidia.com"})
READS: Final = frozenset({"metadata.finalizers", "spec.schedulingGates"})
STANDALONE_KEYS: Final = ()
ALLOCATED: Final = ()
GPU: Final = "nvidia.com/gpu"

_INSTASLICE: Final = "org.instaslice/accelarator"  # sic
_SHARED: Final = ".shared"
# The size, added features (`.me`), and missing features (`-me`).
_MIG: Final = re.compile(
    r"nvidia\.com/mig-((?:\d+c\.)?\d+g\.\d+gb)((?:\.[a-z]+)*)(-[a-z]+(?:\.[a-z]+)*)?"
)
# `nvidia.com/GRID_T4-2Q`, `nvidia.com/NVIDIA_A10-4C`: a type of virtual GPU.
_VGPU: Final = re.compile(r"nvidia\.com/[A-Z][A-Za-z0-9_]*-\d+[ABCQ]")
# `nvidia.com/GA102GL_A10`: a passthrough GPU, by the name of its chip.
_CHIP: Final = re.compile(r"nvidia\.com/(?:pgpu|[A-Z]{2}\d{3}[A-Z0-9_]*)")


def read(pod: PodView, legacy: Legacy) -> PodRequests:  # noqa: ARG001  # every dialect's signature
    """Read the requests of each container."""
    builder = RequestBuilder(NAME, pod)
    for container in pod.containers:
        for resource in container.resources.values():
            _read_resource(builder, resource, container.user)
    _remove_instaslice_gate(builder)
    return builder.build()


def mig_profiles(name: str) -> tuple[str, ...]:
    """Return the profiles that a MIG resource can mean. The plugin writes `+` as a dot.

    `.me` always means `+me`. Other suffixes give every possible spelling, at most one of which
    exists.
    """
    match = _MIG.fullmatch(name)
    if match is None:
        return ()
    size, suffix, without = match.groups(default="")
    if not suffix:
        return (size + without,)
    features = suffix[1:].split(".")
    spellings = tuple(
        f"{'.'.join((size, *features[:i]))}+{'.'.join(features[i:])}{without}"
        for i in range(len(features))
    )
    return spellings if features == ["me"] else (*spellings, size + suffix + without)


def _read_resource(builder: RequestBuilder, resource: DeviceResource, user: DeviceUser) -> None:
    shared = resource.name.endswith(_SHARED)
    bare = resource.name.removesuffix(_SHARED)
    mig = mig_profiles(bare)
    partition = bool(mig)
    if not (mig or bare == GPU or _VGPU.fullmatch(bare) or _CHIP.fullmatch(bare)):
        return
    ask = Ask(
        kind=Kind.GPU,
        row=_find_row(bare, shared=shared, partition=partition),
        vendor="nvidia",
        count=_count_replicas(builder, resource) if shared else builder.read_count(resource),
        share=DeviceShare(isolation=Isolation.UNKNOWN, replica=True) if shared else None,
        selectors=(PartitionProfile(mig),) if partition else (),
        partition=partition,
        passthrough=not partition and bare != GPU,
        users=(user,),
    )
    builder.add_ask(ask, (resource,))


def _remove_instaslice_gate(builder: RequestBuilder) -> None:
    """Remove the scheduling gate and the finalizer of an older Instaslice, only both together."""
    asks = tuple(ask.name for ask in builder.asks if ask.partition)
    gates = as_list(builder.pod.spec.get("schedulingGates"))
    finalizers = as_list(builder.pod.metadata.get("finalizers"))
    gated = [i for i, gate in enumerate(gates) if as_mapping(gate).get("name") == _INSTASLICE]
    if not asks or not gated:
        return
    builder.findings.append(
        MEANING_CHANGES.at(
            f"spec.schedulingGates[{gated[0]}]",
            f"removed the gate and the finalizer {_INSTASLICE}, because the DRA driver makes the "
            "partitions",
        )
    )
    held = [i for i, name in enumerate(finalizers) if name == _INSTASLICE]
    for path, listed, positions in (
        (("spec", "schedulingGates"), gates, gated),
        (("metadata", "finalizers"), finalizers, held),
    ):
        builder.source_fields += [
            SourceField(path, i, listed[i], asks=asks) for i in reversed(positions)
        ]


def _find_row(bare: str, *, shared: bool, partition: bool) -> str:
    if shared:
        return "mig-replica" if partition else "replica"
    if partition:
        return "mig"
    if bare == GPU:
        return "whole"
    return "vgpu" if _VGPU.fullmatch(bare) else "passthrough"


def _count_replicas(builder: RequestBuilder, resource: DeviceResource) -> int:
    if resource.amount > 1:
        builder.findings.append(
            REPLICAS_ARE_ONE.at(
                resource.where,
                f"{resource.original_name}: {resource.amount} replicas count as one share, because "
                f"they are not {resource.amount} different GPUs",
            )
        )
    return 1
