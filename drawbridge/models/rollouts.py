"""How Deployments and StatefulSets replace their pods when a person restarts them.

A Deployment creates some new pods before the old ones end, or ends some first; a StatefulSet
replaces one after the other. Neither ends another pod while a new one waits.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping

if TYPE_CHECKING:
    from drawbridge.models.cluster import ModelCluster

_DEFAULT: Final = "25%"
_HUNDRED: Final = 100


class PodRollout(NamedTuple):
    """How many new pods run beside the old ones, and how many may be missing meanwhile.

    Pods of owners that `can_restart` is False for are not replaced by a restart.
    """

    more: int = 0
    missing: int = 1
    ends_all: bool = False
    can_restart: bool = True


def read_rollout(value: Value, wanted: int) -> PodRollout:
    """Read how a Deployment or a StatefulSet replaces its pods."""
    spec = as_mapping(get_value(value, ("spec",)))
    if get_value(value, ("kind",)) != "Deployment":
        kind = get_value(spec.get("updateStrategy"), ("type",))
        return PodRollout(can_restart=kind != "OnDelete")
    strategy = as_mapping(spec.get("strategy"))
    can_restart = spec.get("paused") is not True
    if strategy.get("type") == "Recreate":
        return PodRollout(0, wanted, ends_all=True, can_restart=can_restart)
    rolling = as_mapping(strategy.get("rollingUpdate"))
    more = _count(rolling.get("maxSurge", _DEFAULT), wanted, rounds_up=True)
    missing = _count(rolling.get("maxUnavailable", _DEFAULT), wanted, rounds_up=False)
    return PodRollout(more, missing if more or missing else 1, can_restart=can_restart)


def _count(value: Value, wanted: int, *, rounds_up: bool) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, value)
    digits = f"{value}".removesuffix("%")
    share = int(digits) * wanted if digits.isdecimal() and len(digits) <= 9 else 0
    return -(-share // _HUNDRED) if rounds_up else share // _HUNDRED


def restart(cluster: "ModelCluster", owner: str, rollout: PodRollout) -> bool:
    """Replace the pods of an owner; False if a new pod waits, so that it never ends."""
    kinds = cluster.kinds_of(owner)
    old = cluster.of_kinds(kinds)
    if rollout.ends_all:
        for key in old:
            cluster.end_and_follow(key, counts=False)
        cluster.schedule()
    elif rollout.more:
        _replace_with_more(cluster, old, rollout)
    else:
        _replace_in_place(cluster, old, rollout.missing)
    waits = any(cluster.pods[key].kind in kinds for key in cluster.waiting)
    return not (waits or any(key in cluster.pods for key in old))


def _replace_in_place(cluster: "ModelCluster", old: list[int], missing: int) -> None:
    """End old pods, those that wait first, as long as all new ones run."""
    left = sorted(old, key=lambda key: bool(cluster.pods[key].node))
    while left:
        before = len(cluster.waiting)
        for key in left[:missing]:
            before -= not cluster.pods[key].node
            cluster.end_and_follow(key, counts=False)
        left = left[missing:]
        cluster.schedule()
        if len(cluster.waiting) > before:
            return


def _replace_with_more(cluster: "ModelCluster", old: list[int], rollout: PodRollout) -> None:
    """Create new pods beside the old ones, and end as many old ones as may be missing."""
    wanted, new = len(old), list[int]()
    pattern = cluster.pods[old[0]].kind if old else 0
    while old or len(new) < wanted:
        before = len(old), len(new)
        while len(new) < wanted and len(old) + len(new) < wanted + rollout.more:
            if (key := cluster.create_beside(pattern)) is None:
                break
            new.append(key)
        cluster.schedule()
        running = sum(bool(cluster.pods[key].node) for key in (*old, *new))
        old.sort(key=lambda key: bool(cluster.pods[key].node))
        while old and (not cluster.pods[old[0]].node or running > wanted - rollout.missing):
            running -= bool(cluster.pods[old[0]].node)
            cluster.end_replaced(old.pop(0))
        cluster.schedule()
        if (len(old), len(new)) == before:
            return
