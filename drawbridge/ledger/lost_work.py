"""The work that an eviction loses: all since the start, or since the last checkpoint.

A pod says how often it writes checkpoints. That only lowers what it loses: no pod can make its
eviction dearer than the time that it has run.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from drawbridge.ledger.victims import RunningPod
from drawbridge.names import CHECKPOINTS_ANNOTATION

# Until a pod works again after its eviction: seconds that count for each.
RESTART: Final = 300
_PARTS: Final = re.compile(r"(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,5})s)?")


def read_interval(annotations: Mapping[str, str]) -> int | None:
    """Return the seconds between two checkpoints, such as `1h30m`; None if a pod says nothing."""
    parts = _PARTS.fullmatch(annotations.get(CHECKPOINTS_ANNOTATION, ""))
    if parts is None:
        return None
    hours, minutes, seconds = (int(each or 0) for each in parts.groups())
    return (3600 * hours + 60 * minutes + seconds) or None


def lost_seconds(ran: int, interval: int | None) -> int:
    """Return the seconds that the end of a pod costs each of its devices, as can be expected.

    With checkpoints, half an interval has passed since the last one on average. Then the pod, or
    another one in its place, starts again.
    """
    return RESTART + (ran if interval is None or ran < interval else interval // 2)


def seconds_since(started: str, now: float) -> int:
    """Return how long a pod has run, by the time that the API server has; 0 if it has not."""
    moment = _parse(started)
    return 0 if moment is None else max(0, int(now - moment))


def newest_start(pods: Iterable[RunningPod]) -> float:
    """Return the latest start of pods: the time of a cluster that only its objects tell."""
    starts = (_parse(each.started) for each in pods)
    return max((each for each in starts if each is not None), default=0.0)


def with_lost_work(
    pods: Collection[RunningPod], devices: Mapping[str, int], now: float
) -> dict[str, RunningPod]:
    """Return pods by name with what their eviction loses, by how many devices each has."""
    lost = {
        pod.name: devices.get(pod.name, 0)
        * lost_seconds(seconds_since(pod.started, now), pod.interval)
        for pod in pods
    }
    of_groups = Counter[str]()
    for pod in pods:
        of_groups[pod.group or pod.name] += lost[pod.name]
    return {pod.name: replace(pod, lost=of_groups[pod.group or pod.name]) for pod in pods}


def _parse(started: str) -> float | None:
    try:
        return datetime.fromisoformat(started).timestamp()
    except ValueError:
        return None
