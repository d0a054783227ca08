"""The dialect of KAI and Run:ai: annotations request a fraction of a GPU for one container.

The annotations have no domain, so they apply only if the pod has the scheduler or a queue of KAI.
KAI does not enforce fractions.
"""

from decimal import Decimal, InvalidOperation
from typing import Final

from drawbridge.config.model import Legacy
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
_KEYS: Final = (_FRACTION, _MEMORY, _NUMBER, _CONTAINER, _MPS)
_SCHEDULERS: Final = ("kai-scheduler", "runai-scheduler")
_QUEUES: Final = ("kai.scheduler/queue", "runai/queue")
TRIGGERS: Final = frozenset({*_SCHEDULERS, *_QUEUES})
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = (_FRACTION, _MEMORY, _NUMBER, _MPS)
ALLOCATED: Final = ("received-resource-type",)
_MI: Final = 1 << 20


def read(pod: PodView, legacy: Legacy) -> PodRequests:  # noqa: ARG001  # every dialect's signature
    """Read the fraction that the pod requests."""
    builder = RequestBuilder(NAME, pod)
    if pod.scheduler not in _SCHEDULERS and not any(key in pod.labels for key in _QUEUES):
        return builder.build()
    requested = any(key in pod.annotations for key in (_FRACTION, _MEMORY, _NUMBER))
    if not requested and pod.annotations.get(_MPS) != "true":
        return _keep_scheduler(pod)
    problems = list(_check(pod))
    user, unknown = _find_container(pod)
    if problems or unknown or user is None:
        builder.findings += [*problems, *unknown]
        builder.add_annotations(_KEYS, removed=False)
        return builder.build()
    builder.add_ask(_ask(pod, user), ())
    if pod.annotations.get(_MPS) == "true":
        builder.findings.append(
            MEANING_CHANGES.at(
                annotation_path(_MPS),
                "the DRA driver decides how fractions are isolated, not MPS; hostIPC and mounts "
                "for MPS stay in the pod",
            )
        )
    builder.add_annotations(_KEYS)
    builder.handle_scheduler(pod.scheduler, kept=True)
    return builder.build()


def _ask(pod: PodView, user: DeviceUser) -> Ask:
    annotations = pod.annotations
    fraction = _FRACTION in annotations
    memory: Bytes | Percent = (
        Percent(_percent(annotations[_FRACTION]))
        if fraction
        else Bytes(int(annotations[_MEMORY]) * _MI)
    )
    mps = annotations.get(_MPS) == "true"
    return Ask(
        kind=Kind.GPU,
        row="fraction" if fraction else "memory",
        vendor="nvidia",
        count=int(annotations.get(_NUMBER, "1")),
        share=DeviceShare(memory=memory, isolation=Isolation.MPS if mps else Isolation.NONE),
        users=(user,),
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


def _check(pod: PodView) -> list[Finding]:
    annotations = pod.annotations
    findings: list[Finding] = []

    def refuse(key: str, why: str) -> None:
        findings.append(
            AMOUNT_REFUSED.at(annotation_path(key), f"{format_value(annotations[key])!r} is {why}")
        )

    whole = [r for c in pod.containers for r in c.resources.values() if r.name == "nvidia.com/gpu"]
    findings += [
        REQUESTS_CONTRADICT.at(
            annotation_path(key), f"{key} and {whole[0].original_name} exclude each other"
        )
        for key in (_FRACTION, _MEMORY)
        if key in annotations and whole
    ]
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
    return [*findings, *_incomplete(pod)]


def _incomplete(pod: PodView) -> list[Finding]:
    annotations = pod.annotations
    findings = []
    if _NUMBER in annotations and _FRACTION not in annotations and _MEMORY not in annotations:
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


def _find_container(pod: PodView) -> tuple[DeviceUser | None, list[Finding]]:
    """Return the container that gets the fraction: the named one, else the first app container."""
    name = pod.annotations.get(_CONTAINER)
    users = [one.user for one in pod.containers]
    if name is None:
        apps = (user for user in users if user.path[1] == "containers")
        return next(apps, None), []
    named = next((user for user in users if user.name == name), None)
    if named is not None:
        return named, []
    return None, [
        WORD_UNKNOWN.at(
            annotation_path(_CONTAINER), f"the pod has no container {format_value(name)!r}"
        )
    ]
