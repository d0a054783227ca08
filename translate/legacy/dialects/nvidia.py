"""NVIDIA's device plugin: whole GPUs, MIG devices, shared replicas, GPUs for virtual machines.

What the node labels of GPU feature discovery add is read for all dialects alike, elsewhere.
"""

import re
from typing import Final

from config.model import Legacy
from translate.legacy.asks import Ask, Isolation, Kind, Reading, Share, Trace, User
from translate.legacy.codes import REPLICAS_ARE_ONE
from translate.legacy.draft import Draft
from translate.legacy.pod_view import PodView, Resource, items, mapping
from translate.legacy.selectors import Profile

NAME: Final = "nvidia"
CALLED_BY: Final = frozenset({"nvidia.com"})
GPU: Final = "nvidia.com/gpu"

_INSTASLICE: Final = "org.instaslice/accelarator"  # spelt so
_SHARED: Final = ".shared"
# The size, what is added to it (`.me`), and what is missing from it (`-me`).
_MIG: Final = re.compile(
    r"nvidia\.com/mig-((?:\d+c\.)?\d+g\.\d+gb)((?:\.[a-z]+)*)(-[a-z]+(?:\.[a-z]+)*)?"
)
# `nvidia.com/GRID_T4-2Q`, `nvidia.com/NVIDIA_A10-4C`: a virtual GPU by its type.
_VGPU: Final = re.compile(r"nvidia\.com/[A-Z][A-Za-z0-9_]*-\d+[ABCQ]")
# `nvidia.com/GA102GL_A10`: a GPU handed through, by the name of its chip.
_CHIP: Final = re.compile(r"nvidia\.com/(?:pgpu|[A-Z]{2}\d{3}[A-Z0-9_]*)")


def read(pod: PodView, legacy: Legacy) -> Reading:  # noqa: ARG001  # every dialect's signature
    """Read what every container asks for by itself."""
    draft = Draft(NAME, pod)
    for container in pod.containers:
        for one in container.resources.values():
            _one(draft, one, container.user)
    _gate(draft)
    return draft.reading()


def profiles(name: str) -> tuple[str, ...]:
    """Return the profiles a MIG resource can stand for; the plugin writes `+` as a dot.

    Of `.me` it is certain that it was `+me`; other suffixes are given in every way they may have
    been written, of which at most one exists.
    """
    match = _MIG.fullmatch(name)
    if match is None:
        return ()
    size, suffix, without = match.groups(default="")
    if not suffix:
        return (size + without,)
    words = suffix[1:].split(".")
    ways = tuple(
        f"{'.'.join((size, *words[:i]))}+{'.'.join(words[i:])}{without}" for i in range(len(words))
    )
    return ways if words == ["me"] else (*ways, size + suffix + without)


def _one(draft: Draft, one: Resource, user: User) -> None:
    shared = one.name.endswith(_SHARED)
    bare = one.name.removesuffix(_SHARED)
    mig = profiles(bare)
    partition = bool(mig)
    if not (mig or bare == GPU or _VGPU.fullmatch(bare) or _CHIP.fullmatch(bare)):
        return
    ask = Ask(
        kind=Kind.GPU,
        row=_row(bare, shared=shared, partition=partition),
        vendor="nvidia",
        count=_shares(draft, one) if shared else draft.count(one),
        share=Share(isolation=Isolation.UNKNOWN, replica=True) if shared else None,
        selectors=(Profile(mig),) if partition else (),
        partition=partition,
        passthrough=not partition and bare != GPU,
        users=(user,),
    )
    draft.ask(ask, (one,))


def _gate(draft: Draft) -> None:
    """Take what an older Instaslice held the pod with: a gate and a finalizer, never one alone."""
    asks = tuple(ask.name for ask in draft.asks if ask.partition)
    gates = items(draft.pod.spec.get("schedulingGates"))
    finalizers = items(draft.pod.metadata.get("finalizers"))
    gated = [i for i, gate in enumerate(gates) if mapping(gate).get("name") == _INSTASLICE]
    if not asks or not gated:
        return
    held = [i for i, name in enumerate(finalizers) if name == _INSTASLICE]
    for path, listed, found in (
        (("spec", "schedulingGates"), gates, gated),
        (("metadata", "finalizers"), finalizers, held),
    ):
        draft.traces += [Trace(path, i, listed[i], asks=asks) for i in reversed(found)]


def _row(bare: str, *, shared: bool, partition: bool) -> str:
    if shared:
        return "mig-replica" if partition else "replica"
    if partition:
        return "mig"
    if bare == GPU:
        return "whole"
    return "vgpu" if _VGPU.fullmatch(bare) else "passthrough"


def _shares(draft: Draft, one: Resource) -> int:
    if one.amount > 1:
        draft.findings.append(
            REPLICAS_ARE_ONE.at(
                one.where,
                f"{one.written}: {one.amount} replicas are read as one share; they never were "
                f"{one.amount} GPUs",
            )
        )
    return 1
