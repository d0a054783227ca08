"""HAMi's dialect for NVIDIA: virtual GPUs with memory in MiB and cores in percent, per container.

`nvidia.com/gpu` is HAMi's where anything else of HAMi's stands in the pod: then a bare count is a
whole card to itself, and several are different cards. Other vendors' names stand elsewhere.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from config.model import Legacy
from dra.finding import Finding
from translate.legacy.asks import (
    NOTHING,
    Ask,
    Isolation,
    Kind,
    Reading,
    Scope,
    Together,
    Variable,
    Wish,
)
from translate.legacy.codes import ALREADY_PLACED, AMOUNT_REFUSED, HINT_LOST, POD_REFUSED
from translate.legacy.dialects import vgpu
from translate.legacy.draft import Draft
from translate.legacy.pod_view import Container, PodView, Resource, annotation_path, mapping, text
from translate.legacy.selectors import Selector

NAME: Final = "hami"
WORDS: Final = vgpu.Words(
    count="nvidia.com/gpu",
    memory="nvidia.com/gpumem",
    percent="nvidia.com/gpumem-percentage",
    cores="nvidia.com/gpucores",
    mode="nvidia.com/vgpu-mode",
    use_uuid="nvidia.com/use-gpuuuid",
    nouse_uuid="nvidia.com/nouse-gpuuuid",
)
_PRIORITY: Final = "nvidia.com/priority"
_NUMA: Final = "nvidia.com/numa-bind"
_SCHEDULER: Final = "hami-scheduler"
_PLACED: Final = ("hami.io/vgpu-devices-allocated", "hami.io/vgpu-node")
_WEIGHTS: Final = "hami.io/device-scoring-weights"
_BY_NUMBER: Final = "a GPU's number on its node is no attribute, so it is not looked at"
# What no claim can say, and why.
_UNSAID: Final = {
    "nvidia.com/use-gpuindexes": _BY_NUMBER,
    "nvidia.com/nouse-gpuindexes": _BY_NUMBER,
    "nvidia.com/mig-profile-preference": "the smallest profile that holds the memory is taken",
    "hami.io/vulkan": "how programs reach the GPU is up to its driver",
}
_POLICIES: Final = {
    "hami.io/node-scheduler-policy": ("binpack", "spread"),
    "hami.io/gpu-scheduler-policy": ("binpack", "spread", "topology-aware", "mutex", "numa"),
}
# What an allocator that knows of wishes can do as well.
_NODES, _DEVICES = _POLICIES
_WISHES: Final = {
    (_NODES, "binpack"): Wish("nodes", "packed", _NODES),
    (_NODES, "spread"): Wish("nodes", "spread", _NODES),
    (_DEVICES, "binpack"): Wish("devices", "packed", _DEVICES),
    (_DEVICES, "spread"): Wish("devices", "spread", _DEVICES),
}
_ANNOTATIONS: Final = (*WORDS.annotations, _NUMA, _WEIGHTS, *_UNSAID, *_POLICIES)
# With one of the annotations, or the scheduler, a bare GPU is HAMi's as well.
CALLED_BY: Final = frozenset(
    {WORDS.memory, WORDS.percent, WORDS.cores, _PRIORITY, *_ANNOTATIONS, *_PLACED, _SCHEDULER}
)
# As its language reads them.
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class _Said(NamedTuple):
    """What the pod's annotations say of all its devices."""

    selectors: tuple[Selector, ...] = ()
    isolation: Isolation = Isolation.MEMORY
    together: Together | None = None
    wishes: tuple[Wish, ...] = ()
    findings: Sequence[Finding] = ()
    wrong: Sequence[Finding] = ()  # told with the first of them


_NOTED: Final = frozenset(_ANNOTATIONS)
_NOTHING_SAID: Final = _Said()


def read(pod: PodView, legacy: Legacy) -> Reading:
    """Read what every container asks for, with the pod's annotations on all of it."""
    if not _speaks(pod):
        return NOTHING
    draft = Draft(NAME, pod)
    placed = next((key for key in _PLACED if key in pod.annotations), None)
    if placed:
        draft.findings.append(_placed(placed))
        draft.traces += [
            trace
            for container in pod.containers
            for name in (*WORDS.resources, _PRIORITY)
            if name in container.resources
            for trace in container.resources[name].traces(removed=False)
        ]
        return draft.reading()
    said = _said(pod)
    draft.findings += said.findings
    for container in pod.containers:
        _container(draft, container, legacy, said)
    if said is not _NOTHING_SAID:
        _hints(draft)
        draft.annotations(_ANNOTATIONS)
    draft.scheduler(_SCHEDULER)
    draft.findings += _refusals(pod)
    return draft.reading()


def _said(pod: PodView) -> _Said:
    if _NOTED.isdisjoint(pod.annotations):
        return _NOTHING_SAID
    selectors, findings = vgpu.selectors(WORDS, pod)
    isolation, wrong = vgpu.isolation(WORDS, pod)
    return _Said(selectors, isolation, _bound(pod), _wishes(pod), findings, wrong)


def _speaks(pod: PodView) -> bool:
    own = (WORDS.memory, WORDS.percent, WORDS.cores, _PRIORITY)
    if any(name in container.resources for container in pod.containers for name in own):
        return True
    ignored = pod.labels.get("hami.io/webhook") == "ignore"
    if ignored and pod.scheduler != _SCHEDULER:
        return False
    asked = any(WORDS.count in container.resources for container in pod.containers)
    marks = pod.scheduler == _SCHEDULER or any(
        key in pod.annotations for key in (*_ANNOTATIONS, *_PLACED)
    )
    return asked and marks


def _container(draft: Draft, container: Container, legacy: Legacy, said: _Said) -> None:
    have = container.resources
    used = [have[name] for name in (*WORDS.resources, _PRIORITY) if name in have]
    if not any(name in have for name in WORDS.resources):
        _priority_alone(draft, used)
        return
    one = have.get(WORDS.count)
    count = draft.count(one) if one else vgpu.amount(vgpu.defaults(legacy), WORDS.count, 1)
    if not count:
        return  # configured so: memory alone is no GPU
    share, row, found = vgpu.share(WORDS, container, legacy, said.isolation)
    priority, about = _priority(container)
    about += said.wrong if not draft.asks else []
    ask = Ask(
        kind=Kind.GPU,
        row=row,
        vendor="nvidia",
        count=count,
        share=share,
        selectors=said.selectors,
        partition=said.isolation is Isolation.MIG,
        together=said.together,
        wishes=said.wishes,
        settings=priority,
        users=(container.user,),
    )
    draft.ask(ask, used)
    draft.findings += [*found, *about, *vgpu.too_few(WORDS, ask, container.where)]


def _wishes(pod: PodView) -> tuple[Wish, ...]:
    said = ((key, pod.annotations.get(key, "").strip()) for key in _POLICIES)
    return tuple(_WISHES[each] for each in said if each in _WISHES)


def _bound(pod: PodView) -> Together | None:
    return Together(Scope.NUMA) if pod.annotations.get(_NUMA) in _TRUE else None


def _priority_alone(draft: Draft, used: list[Resource]) -> None:
    draft.findings += [
        AMOUNT_REFUSED.at(one.where, f"{one.written} stands without a GPU") for one in used
    ]
    draft.traces += [trace for one in used for trace in one.traces(removed=False)]


def _priority(container: Container) -> tuple[tuple[Variable, ...], list[Finding]]:
    """Read the priority; 0 is the high one, and so not the same as none."""
    one = container.resources.get(_PRIORITY) or container.zeros.get(_PRIORITY)
    if one is None:
        return (), []
    if one.amount > 1:
        return (), [AMOUNT_REFUSED.at(one.where, f"{one.written}: {one.text} is neither 0 nor 1")]
    return (Variable("CUDA_TASK_PRIORITY", str(one.amount)),), []


def _hints(draft: Draft) -> None:
    said = draft.pod.annotations
    for key, allowed in _POLICIES.items():
        if key not in said:
            continue
        words = [word.strip() for word in said[key].split(",")]
        if all(word in allowed for word in words):
            draft.findings.append(_lost(key, said[key]))
        else:
            draft.findings.append(vgpu.unknown_word(key, said[key], allowed))
    if _WEIGHTS in said:
        draft.findings.append(_lost(_WEIGHTS, said[_WEIGHTS]))
    draft.findings += [
        HINT_LOST.at(annotation_path(key), f"{text(said[key])}: {why}")
        for key, why in _UNSAID.items()
        if key in said
    ]
    if said.get(_NUMA, "true") not in _TRUE | _FALSE:
        draft.findings.append(vgpu.unknown_word(_NUMA, said[_NUMA], ("true", "false")))


def _lost(key: str, value: str) -> Finding:
    return HINT_LOST.at(
        annotation_path(key), f"{text(value)} says how to choose among GPUs that all fit"
    )


def _placed(key: str) -> Finding:
    return ALREADY_PLACED.at(
        annotation_path(key), "HAMi has chosen the pod's devices already; it stays as it is"
    )


def _refusals(pod: PodView) -> list[Finding]:
    findings = [
        POD_REFUSED.at(
            container.where,
            f"container {container.user.name} is privileged, and HAMi gives no GPU to a pod with "
            "a privileged container",
        )
        for container in pod.containers
        if mapping(container.raw.get("securityContext")).get("privileged") is True
    ]
    if pod.spec.get("nodeName"):
        findings.append(
            POD_REFUSED.at(
                "spec.nodeName", "the pod has a node already, so no scheduler chooses its GPU"
            )
        )
    return findings
