"""KAI's and Run:ai's fractions: annotations on the pod, for one of its containers.

The annotations' names belong to nobody, so they are read only where the scheduler or the queue says
KAI. Nothing enforces a fraction there.
"""

from decimal import Decimal, InvalidOperation
from typing import Final

from config.model import Legacy
from dra.finding import Finding
from translate.legacy.asks import (
    NOTHING,
    Ask,
    Bytes,
    Isolation,
    Kind,
    Percent,
    Reading,
    Share,
    Trace,
    User,
)
from translate.legacy.codes import (
    AMOUNT_REFUSED,
    MEANING_CHANGES,
    REQUEST_INCOMPLETE,
    REQUESTS_CONTRADICT,
    SCHEDULER_KEPT,
    WORD_UNKNOWN,
)
from translate.legacy.draft import Draft
from translate.legacy.pod_view import PodView, annotation_path, text

NAME: Final = "kai"
_FRACTION: Final = "gpu-fraction"
_MEMORY: Final = "gpu-memory"
_NUMBER: Final = "gpu-fraction-num-devices"
_CONTAINER: Final = "gpu-fraction-container-name"
_MPS: Final = "mps"
_KEYS: Final = (_FRACTION, _MEMORY, _NUMBER, _CONTAINER, _MPS)
_SCHEDULERS: Final = ("kai-scheduler", "runai-scheduler")
_QUEUES: Final = ("kai.scheduler/queue", "runai/queue")
CALLED_BY: Final = frozenset({*_SCHEDULERS, *_QUEUES})
_MI: Final = 1 << 20


def read(pod: PodView, legacy: Legacy) -> Reading:  # noqa: ARG001  # every dialect's signature
    """Read the fraction the pod asks for."""
    draft = Draft(NAME, pod)
    if pod.scheduler not in _SCHEDULERS and not any(key in pod.labels for key in _QUEUES):
        return draft.reading()
    asked = any(key in pod.annotations for key in (_FRACTION, _MEMORY, _NUMBER))
    if not asked and pod.annotations.get(_MPS) != "true":
        return _whole(pod)
    problems = list(_refusals(pod))
    user, unknown = _user(pod)
    if problems or unknown or user is None:
        draft.findings += [*problems, *unknown]
        draft.annotations(_KEYS, removed=False)
        return draft.reading()
    draft.ask(_ask(pod, user), ())
    if pod.annotations.get(_MPS) == "true":
        draft.findings.append(
            MEANING_CHANGES.at(
                annotation_path(_MPS),
                "what keeps fractions apart now depends on the driver; hostIPC and mounts for MPS "
                "stay in the pod",
            )
        )
    draft.annotations(_KEYS)
    draft.scheduler(pod.scheduler, kept=True)
    return draft.reading()


def _ask(pod: PodView, user: User) -> Ask:
    said = pod.annotations
    fraction = _FRACTION in said
    memory: Bytes | Percent = (
        Percent(_percent(said[_FRACTION])) if fraction else Bytes(int(said[_MEMORY]) * _MI)
    )
    mps = said.get(_MPS) == "true"
    return Ask(
        kind=Kind.GPU,
        row="fraction" if fraction else "memory",
        vendor="nvidia",
        count=int(said.get(_NUMBER, "1")),
        share=Share(memory=memory, isolation=Isolation.MPS if mps else Isolation.NONE),
        users=(user,),
    )


def _whole(pod: PodView) -> Reading:
    """Say that the scheduler stays where the pod asks for whole devices, which others read."""
    if pod.scheduler not in _SCHEDULERS or not any(one.resources for one in pod.containers):
        return NOTHING
    kept = Trace(("spec",), "schedulerName", pod.scheduler, removed=False)
    said = SCHEDULER_KEPT.at("spec.schedulerName", f"{pod.scheduler} stays the pod's scheduler")
    return Reading(traces=(kept,), findings=(said,))


def _percent(text: str) -> Decimal:
    """Read a fraction in percent; one number is one text, so that equal asks say the same."""
    return (_decimal(text) * 100).normalize() + 0


def _decimal(text: str) -> Decimal:
    """Read a number; what is none counts as zero, which no rule allows."""
    try:
        value = Decimal(text.strip()) if len(text) < 40 else Decimal(0)
    except InvalidOperation:
        return Decimal(0)
    return value if value.is_finite() else Decimal(0)


def _positive(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0


def _refusals(pod: PodView) -> list[Finding]:
    said = pod.annotations
    found: list[Finding] = []

    def refuse(key: str, why: str) -> None:
        found.append(AMOUNT_REFUSED.at(annotation_path(key), f"{text(said[key])!r} is {why}"))

    whole = [r for c in pod.containers for r in c.resources.values() if r.name == "nvidia.com/gpu"]
    found += [
        REQUESTS_CONTRADICT.at(
            annotation_path(key), f"{whole[0].written} asks for a whole GPU as well"
        )
        for key in (_FRACTION, _MEMORY)
        if key in said and whole
    ]
    if _FRACTION in said and _MEMORY in said:
        found.append(
            REQUESTS_CONTRADICT.at(annotation_path(_MEMORY), f"{_FRACTION} says another amount")
        )
    if _FRACTION in said and not 0 < _decimal(said[_FRACTION]) < 1:
        refuse(_FRACTION, "not a positive number smaller than 1.0")
    if _MEMORY in said and not _positive(said[_MEMORY]):
        refuse(_MEMORY, "not a positive whole number of MiB")
    if _NUMBER in said and not _positive(said[_NUMBER]):
        refuse(_NUMBER, "not a positive whole number of devices")
    return [*found, *_incomplete(pod)]


def _incomplete(pod: PodView) -> list[Finding]:
    said = pod.annotations
    found = []
    if _NUMBER in said and _FRACTION not in said and _MEMORY not in said:
        found.append(
            REQUEST_INCOMPLETE.at(
                annotation_path(_NUMBER), f"how much of each is missing: {_FRACTION} or {_MEMORY}"
            )
        )
    if said.get(_MPS) == "true" and _FRACTION not in said:
        found.append(
            REQUEST_INCOMPLETE.at(annotation_path(_MPS), f"MPS goes with {_FRACTION} only")
        )
    return found


def _user(pod: PodView) -> tuple[User | None, list[Finding]]:
    """Find the container the fraction is for: the one named, else the first."""
    name = pod.annotations.get(_CONTAINER)
    users = [one.user for one in pod.containers]
    if name is None:
        apps = (user for user in users if user.path[1] == "containers")
        return next(apps, None), []
    found = next((user for user in users if user.name == name), None)
    if found is not None:
        return found, []
    return None, [
        WORD_UNKNOWN.at(annotation_path(_CONTAINER), f"no container is called {text(name)}")
    ]
