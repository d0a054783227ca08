"""The commands that let pods be created again, with claims where that lets fewer pods wait."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from drawbridge.agreement.scope import Mode
from drawbridge.audit import typed
from drawbridge.audit.typed import Typed
from drawbridge.models.cluster import ModelCluster
from drawbridge.models.pods import PodKind
from drawbridge.models.undecided import find_possible


def enforce(cluster: ModelCluster, namespaces: Iterable[str]) -> Iterator[Typed]:
    """Yield the commands that let new pods of namespaces have claims, and wait for it."""
    return set_modes(cluster, dict.fromkeys(namespaces, Mode.ENFORCE))


def set_modes(cluster: ModelCluster, modes: Mapping[str, str]) -> Iterator[Typed]:
    """Yield the commands that set modes of namespaces, and wait until admission follows.

    A namespace without a mode has that of the installation, which is not known.
    """
    yield from typed.set_modes(modes)
    for namespace in (each for each, mode in modes.items() if mode):
        if units := _units_of(cluster, namespace):
            translates = modes[namespace] == Mode.ENFORCE
            yield typed.wait_for_admission(namespace, units, translates=translates)


def _units_of(cluster: ModelCluster, namespace: str) -> Mapping[str, int]:
    """Return what a pod of a namespace asks for that is translated: now, if there is one."""
    kinds = [each for each in cluster.kinds if each.namespace == namespace and each.translated]
    # Admission leaves the others as they are until a driver has devices for them.
    kinds.sort(key=lambda each: not _is_offered(cluster, each))
    return kinds[0].units if kinds else {}


def delete_bare(cluster: ModelCluster, nodes: Sequence[str]) -> Iterator[Typed]:
    """Yield the commands that delete what nobody creates again: drain refuses to."""
    for name in nodes:
        for pod in cluster.on_node(name):
            kind = cluster.kinds[pod.kind]
            if kind.is_bare and not pod.is_static:
                yield typed.delete_pod(kind.namespace, kind.owner.partition("/")[2])


def start_waiting(
    cluster: ModelCluster, find_selector: Callable[[PodKind], str]
) -> Sequence[Typed]:
    """Return the commands that create waiting pods again, with claims that a driver has."""
    waiting = [
        kind
        for kind, _, is_translated in cluster.describe_waiting()
        if not is_translated and _is_offered(cluster, kind)
    ]
    commands = [*enforce(cluster, sorted({e.namespace for e in waiting} - cluster.enforced))]
    # For a Job, a pod that is deleted is one that failed.
    deleted = (each for each in waiting if each.job is None)
    commands += typed.delete_all_waiting(deleted, find_selector)
    if not commands:
        return ()
    return commands if _count_after(cluster, commands) < cluster.count_waiting() else ()


def resume(cluster: ModelCluster, jobs: Sequence[tuple[str, str]]) -> Sequence[Typed]:
    """Return the commands that let suspended Jobs go on, and whose pods then run."""
    owners = {f"{namespace}/{owner}" for namespace, owner in jobs}
    kinds = [cluster.kinds[each] for each in cluster.suspended]
    spaces = {e.namespace for e in kinds if e.full_owner in owners and _is_offered(cluster, e)}
    as_is = [*typed.resume(jobs)]
    enforced = [*enforce(cluster, sorted(spaces - cluster.enforced))]
    if not enforced:
        return as_is
    return min(as_is, [*enforced, *as_is], key=lambda each: _count_after(cluster, each))


def wait_for_jobs(
    before: ModelCluster, after: ModelCluster, nodes: Sequence[str], namespaces: Collection[str]
) -> Iterator[Typed]:
    """Yield the checks that Jobs have created again the pods that were on drained nodes.

    They do so after a pause, and would create other pods when the namespace has another mode.
    """
    jobs = {
        number
        for number, kind in enumerate(before.kinds)
        if kind.job is not None and kind.translated is not None and kind.namespace in namespaces
    }
    near = {pod.kind for name in nodes for pod in before.on_node(name) if pod.kind in jobs}
    near.update(before.pods[key].kind for key in find_possible(before, nodes, jobs))
    for owner in dict.fromkeys(before.kinds[each].full_owner for each in sorted(near)):
        namespace, _, name = owner.partition("/")
        if number := len(after.of_kinds(after.kinds_of(owner))):
            yield typed.wait_for_job(namespace, name, number)


def _is_offered(cluster: ModelCluster, kind: PodKind) -> bool:
    """Whether drivers have devices of all classes that translated pods of a kind ask for."""
    return kind.translated is not None and kind.translated.devices.keys() <= cluster.offered()


def _count_after(cluster: ModelCluster, commands: Iterable[Typed]) -> int:
    """Return how many pods wait after commands."""
    trial = cluster.copy()
    for each in commands:
        each.play(trial)
    return trial.count_waiting()
