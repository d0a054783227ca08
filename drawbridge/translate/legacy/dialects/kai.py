"""The dialect of KAI and Run:ai: annotations request a fraction of a GPU for one container.

The annotations have no domain, so they apply only if the pod has the scheduler or a queue of KAI.
KAI does not enforce fractions. With NvFractions, a container has memory by a key of its own, as a
Kubernetes quantity: what is requested is reserved, and it may use up to the limit.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from drawbridge.config.model import Legacy
from drawbridge.dra.quantity import valid_quantity
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import (
    NO_REQUESTS,
    Ask,
    Bytes,
    DeviceShare,
    DeviceUser,
    Isolation,
    Kind,
    Percent,
    PodRequests,
    SourceField,
)
from drawbridge.translate.legacy.codes import (
    AMOUNT_REFUSED,
    MEANING_CHANGES,
    REQUEST_INCOMPLETE,
    REQUESTS_CONTRADICT,
    SCHEDULER_KEPT,
    WORD_UNKNOWN,
)
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import PodView, annotation_path, format_value

NAME: Final = "kai"
PROJECT: Final = "KAI"
_FRACTION: Final = "gpu-fraction"
_MEMORY: Final = "gpu-memory"
_NUMBER: Final = "gpu-fraction-num-devices"
_CONTAINER: Final = "gpu-fraction-container-name"
_MPS: Final = "mps"
# A pod of KAI requests it for all fractions of one GPU.
_WHOLE: Final = "nvidia.com/gpu"
_COMPUTE: Final = "kai.scheduler/gpu-compute-sharing-mode"
_SHARES_CORES: Final = "sm-sharing"
_MODES: Final = ("time-slicing", _SHARES_CORES)
_KEYS: Final = (_FRACTION, _MEMORY, _NUMBER, _CONTAINER, _MPS, _COMPUTE)
# The keys of one container (NvFractions), as of KAI's main branch of August 2026. The binder writes
# the devices and the portion.
_OF_CONTAINER: Final = "nvidia.com/container."
_CONTAINER_KEY: Final = re.compile(
    r"nvidia\.com/container\.(?P<container>.+)"
    r"\.(?P<what>gpu-memory\.request|gpu-memory\.limit|gpu-compute\.mode|gpu-compute\.portion"
    r"|gpus\.devices)"
)
_REQUEST: Final = "gpu-memory.request"
_LIMIT: Final = "gpu-memory.limit"
_SCHEDULERS: Final = ("kai-scheduler", "runai-scheduler")
QUEUES: Final = ("kai.scheduler/queue", "runai/queue")
TRIGGERS: Final = frozenset({*_SCHEDULERS, *QUEUES})
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = (_FRACTION, _MEMORY, _NUMBER, _MPS, _OF_CONTAINER)
ALLOCATED: Final = ("received-resource-type",)
_MI: Final = 1 << 20


def read(pod: PodView, legacy: Legacy) -> PodRequests:  # noqa: ARG001  # every dialect's signature
    """Read the fraction that the pod requests."""
    builder = RequestBuilder(NAME, pod)
    if pod.scheduler not in _SCHEDULERS and not any(key in pod.labels for key in QUEUES):
        return builder.build()
    own = _read_container_keys(pod)
    requested = any(key in pod.annotations for key in (_FRACTION, _MEMORY, _NUMBER))
    if not requested and not own and pod.annotations.get(_MPS) != "true":
        return _keep_scheduler(pod)
    keys = (*_KEYS, *(each.key for each in own))
    problems = [*_check(pod, by_container=bool(own)), *_check_container_keys(pod, own)]
    user, unknown = _find_container(pod, own)
    if problems or unknown or user is None:
        builder.findings += [*problems, *unknown]
        builder.add_annotations(keys, removed=False)
        return builder.build()
    builder.add_ask(_make_ask(pod, user, own), ())
    builder.findings += _report_meaning(pod, own)
    builder.add_annotations(keys)
    builder.handle_scheduler(pod.scheduler, kept=True)
    return builder.build()


class _ContainerKey(NamedTuple):
    """An annotation of NvFractions: the container in its key, and what it is about."""

    key: str
    container: str
    what: str
    value: str


def _read_container_keys(pod: PodView) -> list[_ContainerKey]:
    matches = {
        key: match
        for key in pod.annotations
        if key.startswith(_OF_CONTAINER) and (match := _CONTAINER_KEY.fullmatch(key))
    }
    return [
        _ContainerKey(key, match["container"], match["what"], pod.annotations[key])
        for key, match in matches.items()
    ]


def _memory_of(own: Iterable[_ContainerKey]) -> dict[str, int | None]:
    """Return the bytes of the request and the limit; None for what is not a positive quantity."""
    return {each.what: _bytes(each.value) for each in own if each.what in {_REQUEST, _LIMIT}}


def _bytes(value: str) -> int | None:
    quantity = valid_quantity(value)
    amount = None if quantity is None else quantity.exact_int()
    return amount if amount is not None and 0 < amount < 1 << 63 else None


def _check_container_keys(pod: PodView, own: Sequence[_ContainerKey]) -> Iterator[Finding]:
    memory = _memory_of(own)
    for annotation in own:
        if annotation.what in memory and _bytes(annotation.value) is None:
            why = f"{format_value(annotation.value)!r} is not a positive quantity of memory"
            yield AMOUNT_REFUSED.at(annotation_path(annotation.key), why)
    request, limit = memory.get(_REQUEST), memory.get(_LIMIT)
    at = annotation_path(own[0].key) if own else ""
    if request is not None and limit is not None and request > limit:
        yield AMOUNT_REFUSED.at(at, "the requested memory is more than its limit")
    if len({annotation.container for annotation in own}) > 1:
        yield REQUESTS_CONTRADICT.at(at, "only one container of a pod can have a part of a GPU")
    if own and not memory and not {_FRACTION, _MEMORY} & pod.annotations.keys():
        yield REQUEST_INCOMPLETE.at(at, f"{own[0].what} requires {_REQUEST} or {_LIMIT}")
    if memory and {_FRACTION, _MEMORY} & pod.annotations.keys():
        yield REQUESTS_CONTRADICT.at(at, f"{own[0].key} excludes {_FRACTION} and {_MEMORY}")
    mode = pod.annotations.get(_COMPUTE, _MODES[0])
    if mode not in _MODES:
        why = f"{format_value(mode)!r} is neither {' nor '.join(_MODES)}"
        yield WORD_UNKNOWN.at(annotation_path(_COMPUTE), why)


def _report_meaning(pod: PodView, own: Sequence[_ContainerKey]) -> Iterator[Finding]:
    """Report what a claim does in another way than KAI."""
    if pod.annotations.get(_MPS) == "true":
        yield MEANING_CHANGES.at(
            annotation_path(_MPS),
            "the DRA driver decides how fractions are isolated, not MPS; hostIPC and mounts "
            "for MPS stay in the pod",
        )
    if pod.annotations.get(_COMPUTE) == _SHARES_CORES:
        yield MEANING_CHANGES.at(
            annotation_path(_COMPUTE),
            f"the DRA driver decides whether pods share the cores of a GPU at the same time, and "
            f"{_COMPUTE} no longer does",
        )
    memory = _memory_of(own)
    for annotation in own:
        if annotation.what == _LIMIT and memory.get(_REQUEST, memory[_LIMIT]) != memory[_LIMIT]:
            why = "the claim has what is requested, and nothing above it up to the limit"
            yield MEANING_CHANGES.at(annotation_path(annotation.key), f"{annotation.value}: {why}")
        if annotation.what not in memory:
            why = f"{annotation.what} is not read by the driver of the claim, and goes"
            yield MEANING_CHANGES.at(annotation_path(annotation.key), why)


def _make_ask(pod: PodView, user: DeviceUser, own: Iterable[_ContainerKey]) -> Ask:
    annotations = pod.annotations
    fraction = _FRACTION in annotations
    by_container = _memory_of(own)
    requested = by_container.get(_REQUEST) or by_container.get(_LIMIT)
    memory: Bytes | Percent
    if requested:
        memory = Bytes(requested)
    elif fraction:
        memory = Percent(_percent(annotations[_FRACTION]))
    else:
        memory = Bytes(int(annotations[_MEMORY]) * _MI)
    shares = annotations.get(_MPS) == "true" or annotations.get(_COMPUTE) == _SHARES_CORES
    return Ask(
        kind=Kind.GPU,
        row="fraction" if fraction else "memory",
        vendor="nvidia",
        count=int(annotations.get(_NUMBER, "1")),
        share=DeviceShare(memory=memory, isolation=Isolation.MPS if shares else Isolation.NONE),
        users=(user,),
        stands_on=_WHOLE,
    )


def _keep_scheduler(pod: PodView) -> PodRequests:
    """Keep the scheduler of a pod that requests whole devices, which other dialects read."""
    if pod.scheduler not in _SCHEDULERS or not any(one.resources for one in pod.containers):
        return NO_REQUESTS
    kept = SourceField(("spec",), "schedulerName", pod.scheduler, removed=False)
    finding = SCHEDULER_KEPT.at(
        "spec.schedulerName", f"the pod keeps the scheduler {pod.scheduler}"
    )
    return PodRequests(source_fields=(kept,), findings=(finding,))


def _percent(value: str) -> Decimal:
    """Return a fraction in percent. Equal numbers have equal representations."""
    return (_decimal(value) * 100).normalize() + 0


def _decimal(value: str) -> Decimal:
    """Parse a number. Invalid values are 0, which every check rejects."""
    try:
        number = Decimal(value.strip()) if len(value) < 40 else Decimal(0)
    except InvalidOperation:
        return Decimal(0)
    return number if number.is_finite() else Decimal(0)


def _is_positive(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) < 10 and int(value) > 0


def _check(pod: PodView, *, by_container: bool) -> list[Finding]:
    annotations = pod.annotations
    findings: list[Finding] = []

    def refuse(key: str, why: str) -> None:
        findings.append(
            AMOUNT_REFUSED.at(annotation_path(key), f"{format_value(annotations[key])!r} is {why}")
        )

    whole = [r for c in pod.containers for r in c.resources.values() if r.name == _WHOLE]
    findings += [
        REQUESTS_CONTRADICT.at(
            annotation_path(key), f"{key} and {whole[0].original_name} exclude each other"
        )
        for key in (_FRACTION, _MEMORY)
        if key in annotations and whole
    ]
    if by_container and whole:
        message = f"a part of a GPU and {whole[0].original_name} exclude each other"
        findings.append(REQUESTS_CONTRADICT.at(whole[0].where, message))
    if _FRACTION in annotations and _MEMORY in annotations:
        findings.append(
            REQUESTS_CONTRADICT.at(
                annotation_path(_MEMORY), f"{_MEMORY} and {_FRACTION} exclude each other"
            )
        )
    if _FRACTION in annotations and not 0 < _decimal(annotations[_FRACTION]) < 1:
        refuse(_FRACTION, "not a positive number smaller than 1.0")
    if _MEMORY in annotations and not _is_positive(annotations[_MEMORY]):
        refuse(_MEMORY, "not a positive integer of MiB")
    if _NUMBER in annotations and not _is_positive(annotations[_NUMBER]):
        refuse(_NUMBER, "not a positive integer of devices")
    return [*findings, *_incomplete(pod, by_container=by_container)]


def _incomplete(pod: PodView, *, by_container: bool) -> list[Finding]:
    annotations = pod.annotations
    findings = []
    amounts = by_container or not {_FRACTION, _MEMORY}.isdisjoint(annotations)
    if _NUMBER in annotations and not amounts:
        findings.append(
            REQUEST_INCOMPLETE.at(
                annotation_path(_NUMBER), f"{_NUMBER} requires {_FRACTION} or {_MEMORY}"
            )
        )
    if annotations.get(_MPS) == "true" and _FRACTION not in annotations:
        findings.append(
            REQUEST_INCOMPLETE.at(annotation_path(_MPS), f"{_MPS} requires {_FRACTION}")
        )
    return findings


def _find_container(
    pod: PodView, own: Sequence[_ContainerKey]
) -> tuple[DeviceUser | None, list[Finding]]:
    """Return the container that gets the fraction: the named one, else the first app container."""
    key, name = _CONTAINER, pod.annotations.get(_CONTAINER)
    if own and name not in {None, own[0].container}:
        why = f"{own[0].key} names another container than {format_value(name)!r}"
        return None, [REQUESTS_CONTRADICT.at(annotation_path(_CONTAINER), why)]
    if own:
        key, name = own[0].key, own[0].container
    users = [one.user for one in pod.containers]
    if name is None:
        apps = (user for user in users if user.path[1] == "containers")
        return next(apps, None), []
    named = next((user for user in users if user.name == name), None)
    if named is not None:
        return named, []
    return None, [
        WORD_UNKNOWN.at(annotation_path(key), f"the pod has no container {format_value(name)!r}")
    ]
