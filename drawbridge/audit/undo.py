"""The undo of a step: tried in the models after the step, as the step itself is.

While nodes go back nothing is translated, so that pods created again ask the plugin. Those that
waited before the step are created again, too, so that they stand behind the pods that had the
devices. A namespace gets its label back, and what the step restarted is restarted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from drawbridge.agreement.scope import Mode
from drawbridge.audit import created_again, typed
from drawbridge.audit.risks import find_failing_jobs
from drawbridge.audit.templates import Templates
from drawbridge.audit.trials import Typing
from drawbridge.audit.typed import Moving, Typed
from drawbridge.models.cluster import BLOCKED, ModelCluster
from drawbridge.models.pods import PodKind
from drawbridge.models.undecided import find_undecided


class Moved(NamedTuple):
    """What a step did: the cluster before and after it, its nodes, and what else it set.

    `modes` are those that namespaces get back.
    """

    before: ModelCluster
    after: ModelCluster
    moving: Moving
    modes: Mapping[str, str]
    jobs: Sequence[tuple[str, str]]


def find_namespaces(before: ModelCluster, nodes: Sequence[str]) -> set[str]:
    """Return the namespaces whose pods on nodes could be translated when they go back."""
    kinds = (before.kinds[pod.kind] for name in nodes for pod in before.on_node(name))
    return {each.namespace for each in kinds if each.translated}


def move_back(
    moved: Moved, others: Sequence[ModelCluster], templates: Templates
) -> tuple[str, ...]:
    """Return the commands that give nodes back to their plugin, with the pods as they were.

    The drain asks no budgets where one would stop it, also as another scheduler could choose.
    """
    plain = _type(moved, others, templates, obeys_budgets=True)
    played = [each.copy() for each in others if each.budgets]
    for command in plain.typed:
        for each in played:
            command.play(each)
    ends = all(c.what != BLOCKED for each in (plain.cluster, *played) for c in each.changes)
    chosen = plain if ends else _type(moved, others, templates, obeys_budgets=False)
    return tuple(each.command for each in chosen.typed)


def _type(
    moved: Moved, others: Sequence[ModelCluster], templates: Templates, *, obeys_budgets: bool
) -> Typing:
    play = Typing(moved.after.copy())
    plays = play.cluster, *others
    play.type(_move_back(moved, plays, templates, obeys_budgets=obeys_budgets))
    return play


def _move_back(
    moved: Moved, plays: Sequence[ModelCluster], templates: Templates, *, obeys_budgets: bool
) -> Iterator[Typed]:
    """Yield the commands, while they are typed on the first cluster."""
    moving, cluster = moved.moving, plays[0]
    yield from created_again.set_modes(moved.after, dict.fromkeys(moved.modes, Mode.OFF))
    if jobs := find_failing_jobs(plays, templates, moving.nodes, obeys_budgets=obeys_budgets):
        yield typed.cordon(moving.nodes)
        yield from typed.suspend(jobs)
    yield typed.drain(moving.nodes, obeys_budgets=obeys_budgets)
    yield from typed.swap_back(moving)
    yield from typed.delete_all_waiting(_find_behind(moved, plays[1:]), templates.find_selector)
    yield from _reopen(moved, cluster, templates)
    yield from typed.end(moving)
    # Those that the step has suspended are, if it was interrupted.
    yield from typed.resume(sorted({*jobs, *moved.jobs}))
    yield from created_again.wait_for_jobs(moved.after, cluster, moving.nodes, moved.modes)
    yield from typed.set_modes(moved.modes)


def _find_behind(moved: Moved, others: Sequence[ModelCluster]) -> Iterator[PodKind]:
    """Yield the kinds that wait for others, or would if a scheduler chose otherwise.

    Those that wait with claims since the step would not see the devices of the plugin.
    """
    before, after = moved.before.waiting_kinds(), moved.after
    since = Counter[tuple[int, bool]]()
    for play in (after, *others):
        since |= play.waiting_kinds() - before
    undecided = (after.pods[key] for key in find_undecided(after))
    since.update((each.kind, each.is_translated) for each in undecided)
    for (number, is_translated), pods in sorted(since.items()):
        kind = after.kinds[number]
        # For a Job, a pod that is deleted is one that failed.
        survives = all(e.survives(kind, pods, evicted=False) for e in (after, *others))
        if is_translated and kind.namespace in moved.modes and survives:
            yield kind
    for kind, _, is_translated in moved.before.describe_waiting():
        stands = kind.job is None and not is_translated
        if stands and not kind.asked.nodes.isdisjoint(moved.moving.nodes):
            yield kind


def _reopen(moved: Moved, cluster: ModelCluster, templates: Templates) -> Iterator[Typed]:
    """Yield the commands that let pods come back to nodes that were cordoned around them."""
    closed = [e for e in moved.moving.cordoned if any(_find_ended(moved, e))]
    if not closed:
        return
    yield typed.uncordon(closed)
    # Who may wait is not waited for.
    waiting = {kind.full_owner for kind, *_ in cluster.describe_waiting()}
    undecided = (cluster.pods[key].kind for key in find_undecided(cluster))
    waiting.update(cluster.kinds[each].full_owner for each in undecided)
    ended = dict.fromkeys(
        (each.namespace, templates.find_selector(each))
        for node in closed
        for each in _find_ended(moved, node)
        if each.full_owner not in waiting
    )
    yield from (typed.wait_for_nodes(*each) for each in ended if each[1])
    yield typed.cordon(closed)


def _find_ended(moved: Moved, node: str) -> Iterator[PodKind]:
    """Yield the kinds of the pods that the drain of a node ended, and that can come back."""
    for pod in moved.before.on_node(node):
        kind = moved.before.kinds[pod.kind]
        if kind.owner_kind != "DaemonSet" and not kind.is_bare and kind.needs_devices:
            yield kind


def restore_mode(
    before: ModelCluster, plays: Sequence[ModelCluster], namespace: str, modes: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that undo the translation of a namespace, and whose pods keep claims.

    A restart that would not end for any of the plays is left out.
    """
    owners = [*_find_translated(before, plays[0], namespace)] if modes else []
    restarted = [each for each, can_restart in owners if can_restart]
    while True:
        chosen = [*created_again.set_modes(before, modes), *typed.restart(namespace, restarted)]
        blocked = {e for play in plays for e in _find_stuck(play, chosen)}
        stuck = blocked.intersection(restarted)
        if not stuck:
            break
        restarted = [each for each in restarted if each not in stuck]
    kept = tuple(each for each, _ in owners if each not in restarted)
    return tuple(each.command for each in chosen), kept


def _find_stuck(play: ModelCluster, chosen: Sequence[Typed]) -> Iterator[str]:
    """Yield the owners whose restart does not end."""
    trial = Typing(play.copy())
    trial.type(chosen)
    return (play.kinds[e.kind].owner for e in trial.cluster.changes if e.what == BLOCKED)


def _find_translated(
    before: ModelCluster, after: ModelCluster, namespace: str
) -> Iterator[tuple[str, bool]]:
    """Yield the owners whose running pods got claims, and whether they can be restarted."""
    then, now = (
        Counter(each.kind for each in play.pods.values() if each.is_translated)
        for play in (before, after)
    )
    waited = {kind.full_owner for kind, *_ in before.describe_waiting()}
    restartable = dict[str, bool]()
    for number in sorted(now):
        kind = after.kinds[number]
        if kind.namespace == namespace and now[number] > then[number]:
            restartable[kind.owner] = kind.can_restart and kind.full_owner not in waited
    yield from restartable.items()
