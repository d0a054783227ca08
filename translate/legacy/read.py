"""Reads a pod: every dialect in turn takes what it knows, and what nobody takes is reported.

The order says who owns a name that several dialects use: whoever comes first and speaks in this
pod. Knows nothing of clusters or of DRA.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Final

from msgspec.structs import replace

from config.model import Legacy
from documents.values import Value
from dra.finding import Finding
from translate.legacy import rdma_tokens
from translate.legacy.asks import NOTHING, Reading, Trace
from translate.legacy.codes import DEVICE_UNKNOWN, DIALECTS_MIXED
from translate.legacy.dialects import (
    aliyun,
    amd,
    hami,
    intel,
    kai,
    koordinator,
    nos,
    nvidia,
    rdma,
    sriov,
    tensor_fusion,
    vendors,
    volcano,
)
from translate.legacy.init_containers import Names, folded
from translate.legacy.node_labels import narrowed
from translate.legacy.pod_view import PodView, view

_ORDER: Final[tuple[ModuleType, ...]] = (
    koordinator,
    volcano,
    kai,
    aliyun,
    nos,
    tensor_fusion,
    hami,
    nvidia,
    amd,
    intel,
    rdma,
    vendors,
    sriov,
)
# The places in that order of those whom a word calls.
_CALLS: Final[Mapping[str, Sequence[int]]] = {
    word: [place for place, each in enumerate(_ORDER) if word in each.CALLED_BY]
    for dialect in _ORDER
    for word in dialect.CALLED_BY
}
# Each of these allocates GPUs by itself and knows nothing of the others.
_ALONE: Final[dict[str, str]] = {
    koordinator.NAME: "Koordinator",
    hami.NAME: "HAMi",
    volcano.NAME: "Volcano",
    kai.NAME: "KAI",
    aliyun.NAME: "Aliyun",
    nos.NAME: "nos",
    tensor_fusion.NAME: "tensor-fusion",
}


def read(pod: Value, legacy: Legacy | None = None) -> Reading:
    """Read a pod, or a pod template; any plain value will do."""
    legacy = legacy or Legacy()
    seen = view(pod, legacy)
    if not seen.readable:
        # A part that cannot be read must not be taken for a part that is not asked for.
        return Reading(findings=seen.findings)
    parts, rest = _spoken(seen, legacy)
    if not parts and not seen.findings and not any(one.resources for one in rest.containers):
        return NOTHING
    labelled = narrowed(seen, tuple([ask for part in parts for ask in part.asks]))
    parts.append(labelled)
    inits = seen.spec.get("initContainers")  # only these use what is another's later
    asks, went, about = folded(labelled.asks) if inits else (labelled.asks, {}, ())
    dialects = tuple([name for part in parts for name in part.dialects])
    return Reading(
        rdma_tokens.beside(asks),
        _pointed([trace for part in parts for trace in part.traces], went),
        (
            *seen.findings,
            *_mixed(dialects),
            *[finding for part in parts for finding in part.findings],
            *about,
            *_unknown(rest),
        ),
        dialects,
    )


def _spoken(seen: PodView, legacy: Legacy) -> tuple[list[Reading], PodView]:
    """Let the dialects take what they know; return what they read, and the pod without it."""
    rest = seen
    parts = []
    for dialect in _called(seen.words(), legacy):
        part: Reading = dialect.read(rest, legacy)
        if part is not NOTHING:
            parts.append(part)
            rest = rest.without(part.traces)
    return parts, rest


def _called(words: Iterable[str], legacy: Legacy) -> Iterable[ModuleType]:
    """Give the dialects that may have something to say, in their order."""
    numbers = {number for word in words if word in _CALLS for number in _CALLS[word]}
    if legacy.networks:
        numbers.add(_ORDER.index(sriov))
    return [_ORDER[number] for number in sorted(numbers)]


def _pointed(traces: Iterable[Trace], went: Names) -> tuple[Trace, ...]:
    """Let traces name the asks that theirs went into."""
    if not went:
        return tuple(traces)
    return tuple(
        replace(
            each,
            asks=tuple(dict.fromkeys(new for old in each.asks for new in went.get(old, (old,)))),
        )
        for each in traces
    )


def _mixed(dialects: tuple[str, ...]) -> tuple[Finding, ...]:
    alone = [_ALONE[name] for name in dialects if name in _ALONE]
    if len(alone) < 2:
        return ()
    names = f"{', '.join(alone[:-1])} and {alone[-1]}"
    return (DIALECTS_MIXED.at("spec", f"devices are asked for in the dialects of {names} at once"),)


def _unknown(rest: PodView) -> list[Finding]:
    return [
        DEVICE_UNKNOWN.at(
            one.where, f"{one.written}: {one.text} is asked for, and no dialect here knows it"
        )
        for container in rest.containers
        for one in container.resources.values()
    ]
