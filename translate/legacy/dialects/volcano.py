"""Volcano's virtual GPUs, and its older GPU sharing; per container."""

from typing import Final

from config.model import Legacy
from translate.legacy.asks import Ask, Bytes, Isolation, Kind, Reading, Share
from translate.legacy.codes import HINT_LOST, NAME_OLD
from translate.legacy.dialects import vgpu
from translate.legacy.draft import Draft
from translate.legacy.pod_view import Container, PodView, Resource, annotation_path, text
from translate.legacy.selectors import Selector

NAME: Final = "volcano"
CALLED_BY: Final = frozenset({"volcano.sh"})
WORDS: Final = vgpu.Words(
    count="volcano.sh/vgpu-number",
    memory="volcano.sh/vgpu-memory",
    percent="volcano.sh/vgpu-memory-percentage",
    cores="volcano.sh/vgpu-cores",
    mode="volcano.sh/vgpu-mode",
    use_uuid="volcano.sh/vgpu-use-gpuuuid",
    nouse_uuid="volcano.sh/vgpu-nouse-gpuuuid",
)
_OLD_MEMORY: Final = "volcano.sh/gpu-memory"
_OLD_COUNT: Final = "volcano.sh/gpu-number"
_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"


def read(pod: PodView, legacy: Legacy) -> Reading:
    """Read what every container asks for, with the pod's annotations on all of it."""
    draft = Draft(NAME, pod)
    selectors, findings = vgpu.selectors(WORDS, pod)
    isolation, wrong = vgpu.isolation(WORDS, pod)
    for container in pod.containers:
        _container(draft, container, legacy, selectors, isolation)
        for name in (_OLD_MEMORY, _OLD_COUNT):
            if name in container.resources:
                _old(draft, container, container.resources[name], legacy)
    if not draft.asks:
        return draft.reading()
    draft.findings += [*findings, *wrong]
    if _POLICY in pod.annotations:
        draft.findings.append(
            HINT_LOST.at(
                annotation_path(_POLICY),
                f"{text(pod.annotations[_POLICY])} is a wish about all pods of a group",
            )
        )
    draft.annotations((*WORDS.annotations, _POLICY))
    draft.scheduler("volcano", kept=True)
    return draft.reading()


def _container(
    draft: Draft,
    container: Container,
    legacy: Legacy,
    selectors: tuple[Selector, ...],
    isolation: Isolation,
) -> None:
    have = container.resources
    used = [have[name] for name in WORDS.resources if name in have]
    if not used:
        return
    share, row, findings = vgpu.share(WORDS, container, legacy, isolation)
    count = have.get(WORDS.count)
    ask = Ask(
        kind=Kind.GPU,
        row=row,
        vendor="nvidia",
        count=draft.count(count) if count else 1,
        share=share,
        selectors=selectors,
        partition=isolation is Isolation.MIG,
        users=(container.user,),
    )
    draft.ask(ask, used)
    draft.findings += [*findings, *vgpu.too_few(WORDS, ask, container.where)]


def _old(draft: Draft, container: Container, one: Resource, legacy: Legacy) -> None:
    """Read the resources of the older plugin: megabytes of one card, or whole cards."""
    share = None
    if one.name == _OLD_MEMORY:
        size, findings = vgpu.memory(one, legacy)
        share = Share(Bytes(size.value), None, Isolation.NONE)
        draft.findings += findings
    count = 1 if share else draft.count(one)
    ask = Ask(
        kind=Kind.GPU,
        row="old-memory" if share else "whole",
        vendor="nvidia",
        count=count,
        share=share,
        users=(container.user,),
    )
    draft.ask(ask, (one,))
    draft.findings.append(
        NAME_OLD.at(one.where, f"{one.written} is of Volcano's older way of sharing GPUs")
    )
