"""Which pods another scheduler could have put elsewhere, so that others give them devices.

A pod that a scheduler has placed can be on any node that had room for it, if other pods that were
placed are elsewhere: a node without these is a loose one.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from drawbridge.models.admission import is_translated
from drawbridge.models.nodes import SLACK, ModelNode, find_request
from drawbridge.models.pods import ModelPod, PodKind, Served

if TYPE_CHECKING:
    from drawbridge.models.cluster import ModelCluster


_SOURCES: Final = (Served.PLUGIN, Served.DRIVER)
_Waiting: TypeAlias = dict[tuple[int, bool], list[int]]


def _loosen(
    cluster: "ModelCluster", names: Iterable[str], replaced: Collection[int] = ()
) -> dict[str, ModelNode]:
    """Return nodes without the pods of kinds that are `replaced` and those a scheduler has placed.

    These were placed in the play.
    """
    loose = {}
    for name in names:
        if name in cluster.nodes:
            loose[name] = cluster.nodes[name]
            on = cluster.on_node(name)
            if placed := [each for each in on if each.placed or each.kind in replaced]:
                node = loose[name] = loose[name].copy()
                for pod in placed:
                    node.hold(cluster.kinds[pod.kind], pod, -1)
    return loose


def _can_serve(
    kind: PodKind, nodes: Mapping[str, ModelNode], served: Served, *, translated: bool = False
) -> bool:
    """Whether any of the nodes that a pod may have would serve it in this way."""
    return any(node.serve(kind, translated=translated) is served for node in nodes.values())


def doubt_drained(cluster: "ModelCluster", drained: Collection[str], since: int) -> set[int]:
    """Return the pods that may not be on these nodes, although the play has them there.

    Of those elsewhere that may be there, it is not known who gives them devices afterwards.
    """
    changing = (number for number, kind in enumerate(cluster.kinds) if _changes(cluster, kind))
    placed = [
        (key, pod, cluster.kinds[pod.kind])
        for key in cluster.of_kinds(changing)
        if (pod := cluster.pods[key]).placed and not pod.name and not pod.is_translated
        if pod.served in _SOURCES
    ]
    if not placed:
        return set()
    loose: dict[bool, Mapping[str, ModelNode]] = {}
    answers: dict[tuple[int, bool], bool] = {}
    doubtful = set[int]()
    for key, pod, kind in placed:
        is_here = pod.node in drained
        if is_here not in loose:
            elsewhere = (
                e for e in cluster.nodes if e not in drained and cluster.nodes[e].has_plugin
            )
            loose[is_here] = _loosen(cluster, elsewhere if is_here else drained)
        if (pod.kind, is_here) not in answers:
            answers[pod.kind, is_here] = _can_serve(kind, loose[is_here], Served.PLUGIN)
        if not answers[pod.kind, is_here]:
            continue
        if pod.served is Served.PLUGIN:
            doubtful.add(key)
            cluster.pods[key] = pod._replace(has_other_source=True)
        elif not is_here:
            # It may come back with those that are drained.
            cluster.pods[key] = pod._replace(placed=since + 1)
    return doubtful


def find_possible(
    cluster: "ModelCluster", names: Collection[str], kinds: Iterable[int]
) -> Iterator[int]:
    """Yield a pod of each of the kinds that the play has elsewhere, and that may be on these nodes.

    A scheduler has placed it, or will.
    """
    alike = {
        (pod.kind, pod.is_translated): key
        for key in cluster.of_kinds(kinds)
        if not (pod := cluster.pods[key]).name and pod.node not in names
        if pod.placed or not pod.node
    }
    here = _loosen(cluster, names).values() if alike else ()
    for (number, translated), key in alike.items():
        kind = cluster.kinds[number]
        if not kind.is_gated and any(e.serve(kind, translated=translated) for e in here):
            yield key


def find_never_evicted(cluster: "ModelCluster", drained: Collection[str]) -> Iterator[int]:
    """Yield a pod of each kind that no budget ever lets go and that may be on these nodes.

    A drain that meets one never ends. No pod has come to a node that was cordoned from the start.
    """
    names = [e for e in drained if e not in cluster.closed_at_start]
    yield from find_possible(cluster, names, cluster.budgeted.bound_kinds)


def place_otherwise(cluster: "ModelCluster", drained: Collection[str]) -> None:
    """Let pods of which a scheduler chose the node be on drained nodes, or on others."""
    onto = cluster.choice.drained > 0
    others = sorted(e.name for e in cluster.nodes.values() if e.is_ready and not e.is_cordoned)
    places = [*drained] if onto else [each for each in others if each not in drained]
    without = set[tuple[int, bool]]()
    for key, pod in cluster.pods.items():
        alike = pod.kind, pod.is_translated
        is_fixed = not pod.placed or pod.name or cluster.kinds[pod.kind].rules
        if is_fixed or (pod.node in drained) is onto or alike in without:
            continue
        if not any(cluster.try_other(key, name) for name in places):
            without.add(alike)


def _changes(cluster: "ModelCluster", kind: PodKind) -> bool:
    """Whether pods of a kind can have another source when they are created again."""
    return kind.by_class or (kind.translated is not None and kind.namespace in cluster.enforced)


def find_undecided(cluster: "ModelCluster") -> set[int]:
    """Return the pods of which another scheduler can decide otherwise who gives them devices.

    They can have another source, or were placed before one that waited and could be there. Of alike
    pods, only as many as the nodes have room for with the other source.
    """
    placed = {key: pod for key, pod in cluster.pods.items() if pod.placed}
    if not placed:
        return set()
    open_kinds: dict[int, list[int]] = {}
    for key, pod in placed.items():
        if (cluster.kinds[pod.kind].by_class or pod.has_other_source) and not pod.name:
            open_kinds.setdefault(pod.kind, []).append(key)
    waiting = _find_waiting(cluster)
    loose = _find_room_of_others(cluster) if open_kinds or waiting else {}
    undecided = {*_find_fitting(cluster, waiting, loose)}
    most = max(map(len, open_kinds.values()), default=0)
    rooms, kinds = dict[int, Mapping[Served, int]](), cluster.alike
    for number, keys in open_kinds.items():
        kind = cluster.kinds[number]
        alike = kinds.find(number, translated=False)
        if alike not in rooms:
            rooms[alike] = {each: _count_room(kind, loose, each, most) for each in _SOURCES}
        room = dict(rooms[alike])
        if not kind.by_class:
            room[Served.DRIVER] = len(keys)
        for by, other in (_SOURCES, _SOURCES[::-1]):
            served = [key for key in keys if placed[key].served is by]
            # So many are served in this way, however a scheduler chooses.
            undecided.update(served[max(0, len(keys) - room[other]) :] if room[by] else ())
    return undecided.union(_find_contested(cluster, waiting, placed))


def _find_room_of_others(
    cluster: "ModelCluster", replaced: Collection[int] = ()
) -> dict[str, ModelNode]:
    """Return the nodes with room if pods that were placed there, and fit elsewhere, are there.

    Pods of kinds that are `replaced` are on none of them.
    """
    is_open = {name: e.is_ready and not e.is_cordoned for name, e in cluster.nodes.items()}
    empty = _loosen(cluster, (name for name in cluster.nodes if is_open[name]), replaced)
    kinds = cluster.alike
    homes: dict[int, frozenset[str]] = {}
    for name in empty:
        kept = []
        for pod in cluster.on_node(name):
            if not pod.placed or pod.kind in replaced:
                continue
            kind = cluster.kinds[pod.kind]
            alike = kinds.find(pod.kind, translated=pod.is_translated)
            if alike not in homes:
                serving = (
                    other
                    for other, node in empty.items()
                    if node.serve(kind, translated=pod.is_translated) is not None
                )
                homes[alike] = frozenset(islice(serving, 2))
            if not homes[alike] - {name}:
                kept.append(pod)
        for pod in kept:
            empty[name].hold(cluster.kinds[pod.kind], pod)
    return {name: each for name, each in empty.items() if each.offers_any}


def _count_room(kind: PodKind, nodes: Mapping[str, ModelNode], served: Served, most: int) -> int:
    """Return how many pods nodes would serve in this way, if they have nothing else."""
    number = 0
    pod = ModelPod(0, served=served)
    for open_node in nodes.values():
        if number >= most:
            break
        if open_node.serve(kind, translated=False) is not served:
            continue
        node = open_node.copy()
        while number < most and node.serve(kind, translated=False) is served:
            node.hold(kind, pod)
            number += 1
    return number


class AlikeKinds:
    """Numbers what decides which nodes serve a pod: kinds that ask for the same have one number."""

    def __init__(self, kinds: Sequence[PodKind]) -> None:
        self._kinds = kinds
        self._by_kind: dict[tuple[int, bool], int] = {}
        self._numbers: dict[object, int] = {}

    def find(self, number: int, *, translated: bool) -> int:
        """Return the number for a kind, in the form in which its pod was created."""
        key = number, translated
        if key not in self._by_kind:
            kind = self._kinds[number]
            asked = find_request(kind, translated=translated)
            parts = (frozenset(e.items()) for e in (asked.amounts, asked.devices, kind.units))
            same = (*parts, asked.nodes, asked.moved_nodes, kind.by_class, translated)
            self._by_kind[key] = self._numbers.setdefault(same, len(self._numbers))
        return self._by_kind[key]


def _find_waiting(cluster: "ModelCluster") -> _Waiting:
    """Return the pods that wait for devices, by kind and by whether they are translated."""
    waiting: _Waiting = {}
    for key in cluster.waiting:
        pod = cluster.pods[key]
        if cluster.kinds[pod.kind].needs_devices and not cluster.kinds[pod.kind].is_gated:
            waiting.setdefault((pod.kind, pod.is_translated), []).append(key)
    return waiting


def _find_fitting(
    cluster: "ModelCluster", waiting: _Waiting, loose: Mapping[str, ModelNode]
) -> Iterator[int]:
    """Yield the pods that wait, and fit on a node if others that were placed there are elsewhere.

    There are as many free devices, but on several nodes.
    """
    free = _count_free(cluster) if waiting else {}
    for (number, translated), keys in waiting.items():
        kind = cluster.kinds[number]
        for served, asked in _find_sources(kind, translated=translated):
            shares = (int(free.get(e, 0) / n + SLACK) for e, n in asked.items() if n)
            fitting = min(shares, default=0)
            if fitting and _can_serve(kind, loose, served, translated=translated):
                yield from keys[:fitting]


def _count_free(cluster: "ModelCluster") -> Counter[str]:
    """Return what all nodes together have free of each resource and of each class."""
    free = Counter[str]()
    for node in cluster.nodes.values():
        free.update(node.devices | node.free if node.is_ready and not node.is_cordoned else {})
    return free


def can_lose_devices(cluster: "ModelCluster", owner: str, missing: int) -> bool:
    """Whether pods of others that wait can have the devices that a restart of an owner frees.

    So many of its pods are `missing` at once: what these had comes to what is free. All of it can
    be on one node, wherever the pods of this owner and those that a scheduler has placed are.
    """
    kinds = cluster.kinds_of(owner)
    needed = {name for each in kinds for name in _find_needed(cluster, cluster.kinds[each])}
    rivals = [
        (cluster.kinds[number], translated, served, asked)
        for number, translated in _find_waiting(cluster)
        for served, asked in _find_sources(cluster.kinds[number], translated=translated)
        if number not in kinds and needed.intersection(asked)
    ]
    if not rivals:
        return False
    free, held = _count_free(cluster), _count_most_held(cluster, kinds, missing)
    most = {name: free[name] + held.get(name, 0) + SLACK for name in needed}
    rivals = [each for each in rivals if all(n <= most.get(e, n) for e, n in each[-1].items())]
    loose = _find_room_of_others(cluster, kinds) if rivals else {}
    return any(
        _can_serve(kind, loose, served, translated=translated)
        for kind, translated, served, _ in rivals
    )


def _count_most_held(
    cluster: "ModelCluster", kinds: Iterable[int], pods: int
) -> Mapping[str, float]:
    """Return at least what so many pods of kinds have of plugins and drivers."""
    held: dict[str, list[float]] = {}
    for key in cluster.of_kinds(kinds):
        pod = cluster.pods[key]
        asked = dict(_find_sources(cluster.kinds[pod.kind], translated=pod.is_translated))
        for name, amount in asked.get(pod.served, {}).items():
            held.setdefault(name, []).append(amount)
    return {name: max(each) * min(pods, len(each)) for name, each in held.items()}


def _find_sources(
    kind: PodKind, *, translated: bool
) -> tuple[tuple[Served, Mapping[str, float]], ...]:
    """Return what pods of a kind have of plugins, and what of drivers."""
    devices = find_request(kind, translated=translated).devices
    return (Served.PLUGIN, {} if translated else kind.units), (Served.DRIVER, devices)


def _find_needed(cluster: "ModelCluster", kind: PodKind) -> Iterator[str]:
    """Yield what new pods of a kind ask of plugins or drivers."""
    translated = is_translated(kind, cluster.enforced, cluster.offered())
    for _, asked in _find_sources(kind, translated=translated):
        yield from asked


def _find_contested(
    cluster: "ModelCluster", waiting: _Waiting, placed: Mapping[int, ModelPod]
) -> Iterator[int]:
    """Yield the pods that were placed where one that already waited would fit, and that one."""
    for (number, translated), keys in waiting.items():
        kind, since = cluster.kinds[number], min(cluster.pods[key].since for key in keys)
        rivals: dict[str, list[int]] = {}
        for key, rival in placed.items():
            owner = cluster.kinds[rival.kind].full_owner
            # Which pods of one owner wait changes no count.
            if rival.placed > since and owner != kind.full_owner and rival.served in _SOURCES:
                rivals.setdefault(rival.node, []).append(key)
        contested = [*_find_won(cluster, rivals, kind, translated=translated)]
        yield from contested
        yield from keys if contested else ()


def _find_won(
    cluster: "ModelCluster",
    rivals: Mapping[str, Sequence[int]],
    kind: PodKind,
    *,
    translated: bool,
) -> Iterator[int]:
    """Yield the rivals by node without which a pod of a kind would have devices there."""
    for name, keys in rivals.items():
        node = cluster.nodes[name].copy()
        for key in keys:
            rival = cluster.pods[key]
            node.hold(cluster.kinds[rival.kind], rival, -1)
        if node.serve(kind, translated=translated) in _SOURCES:
            yield from keys
