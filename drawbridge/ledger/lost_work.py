"""The work that an eviction loses: all since the start, or since the last checkpoint.

A pod says how often it writes checkpoints. That only lowers what it loses: no pod can make its
eviction dearer than the time that its devices have run for it, and that of a gang than the time
that they have run for its members. Those that share a claim lose it once, whoever they are.
"""

import re
from collections.abc import Collection, Hashable, Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

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


class LostClaim(NamedTuple):
    """The devices of an allocated claim, and the names of all pods for which it is reserved."""

    devices: Collection[Hashable]
    pods: Collection[str]


def divide(seconds: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return what each pod or gang that holds a claim loses on each of its devices.

    `seconds` are what each pod loses by itself, with the name of its gang or its own.
    """
    most: dict[str, int] = {}
    for holder, each in seconds:
        most[holder] = max(each, most.get(holder, 0))
    return {holder: each // len(most) for holder, each in most.items()}


def add_up(claims: Iterable[tuple[Iterable[Hashable], int]]) -> int:
    """Return the device-seconds that one pod or gang loses with its claims; each device once."""
    most: dict[Hashable, int] = {}
    for devices, seconds in claims:
        for device in devices:
            most[device] = max(seconds, most.get(device, 0))
    return sum(most.values())


def with_lost_work(
    pods: Collection[RunningPod], claims: Iterable[LostClaim], now: float
) -> dict[str, RunningPod]:
    """Return pods by name with what their eviction loses, by the claims that they hold."""
    seconds = {
        pod.name: lost_seconds(seconds_since(pod.started, now), pod.interval) for pod in pods
    }
    holders = {pod.name: pod.group or pod.name for pod in pods}
    held: dict[str, list[tuple[Collection[Hashable], int]]] = {}
    for claim in claims:
        divided = divide((holders[name], seconds[name]) for name in claim.pods)
        for holder, each in divided.items():
            held.setdefault(holder, []).append((claim.devices, each))
    lost = {holder: add_up(each) for holder, each in held.items()}
    return {pod.name: replace(pod, lost=lost.get(holders[pod.name], 0)) for pod in pods}


def _parse(started: str) -> float | None:
    try:
        return datetime.fromisoformat(started).timestamp()
    except ValueError:
        return None
