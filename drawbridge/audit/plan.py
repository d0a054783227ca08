"""The order of a migration: nodes and namespaces, with commands and what each step leaves.

Every step is tried in the models before it is printed, and of several the one is taken that loses
nobody, waits for no budget, and lets fewest pods wait. The first node of a group moves alone; then
as many at once as lose nothing by it, else one after the other. A namespace is translated as soon
as the drivers have its devices, or when its pods would otherwise wait.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from drawbridge.agreement.scope import Mode
from drawbridge.audit import commands, created_again, story, typed, undo
from drawbridge.audit.interrupted import Interrupted
from drawbridge.audit.left import count_left, count_owners, describe_new_waits, find_changed
from drawbridge.audit.managed import note_jobs, note_namespaces
from drawbridge.audit.model import Expected, MigrationStep
from drawbridge.audit.namespaces import (
    count_pods_to_translate,
    find_restartable,
    find_room,
    has_room_for,
    is_served,
)
from drawbridge.audit.node_groups import Group
from drawbridge.audit.risks import find_failing_jobs
from drawbridge.audit.templates import Templates
from drawbridge.audit.trials import Namespaces, Trial, Typing
from drawbridge.audit.typed import Moving
from drawbridge.dra.counted import count_noun
from drawbridge.models.cluster import BLOCKED, ModelCluster
from drawbridge.models.pods import Served
from drawbridge.models.scheduler import SchedulerChoice

_TRIED: Final = 3  # nodes of a group
# The plan is made with the first, and says only what comes with each.
CHOICES: Final = (
    SchedulerChoice(),
    SchedulerChoice(-1, -1, 1, newest_first=True, drained=-1),
    SchedulerChoice(1, 1, 2, drained=1),
    SchedulerChoice(-1, 1, 3, drained=1),
    SchedulerChoice(1, -1, 4, newest_first=True, drained=-1),
    SchedulerChoice(0, 0, 5),
    SchedulerChoice(0, 0, 6, newest_first=True, drained=-1),
)


@dataclass
class StepPlanner:
    """Makes the steps, and keeps the cluster as they leave it."""

    as_read: ModelCluster
    groups: Sequence[Group]
    namespaces: Namespaces
    templates: Templates
    kept: frozenset[str]
    interrupted: Interrupted
    steps: list[MigrationStep] = field(default_factory=list)
    rehearsing: Callable[[int, int], None] = lambda _, __: None

    def __post_init__(self) -> None:
        """Begin with the cluster as it is, when the pods that fit have started."""
        self.cluster, *self.others = plays = [self.as_read.copy(e) for e in CHOICES]
        for play in plays:
            play.schedule()
            play.take_changes()
        self._modes = dict(self.namespaces.modes)
        closed = {n.name for each in self.groups for n in each.nodes if n.unschedulable}
        self._cordoned = self.interrupted.cordoned | closed - self.interrupted.nodes

        self._counted = count_owners(plays)
        # What is known of the cluster as it is now.
        self._tried: dict[object, Trial] = {}

    @property
    def _plays(self) -> tuple[ModelCluster, ...]:
        return self.cluster, *self.others

    def _go_on(self, trial: Trial) -> None:
        """Take the cluster as a trial left it."""
        self.cluster, self.others = trial.cluster, [*trial.others]
        self._tried = {}
        self._counted = count_owners(self._plays)

    def note_modes(self, modes: Mapping[str, str]) -> None:
        """Remember the labels that a step before sets."""
        self._modes.update(modes)

    # --- what was interrupted --------------------------------------------------------------------

    def continue_moves(self) -> None:
        """Make the steps that end moves whose plugin has gone already, and resume their Jobs."""
        for group in self.groups if self.interrupted.nodes else ():
            left = [e for e in group.nodes if e.name in self.interrupted.nodes]
            for done in (True, False):
                names = [e.name for e in left if group.is_served(e) is done]
                if names and not group.has_plugin:
                    self._continue(group, names, done=done)
        if jobs := self.interrupted.jobs:
            lines = [*typed.resume(jobs)]
            for each in lines:
                each.play(self.cluster)
            self.steps.append(
                MigrationStep(
                    f"Continue {count_noun(len(jobs), 'Job')} that a move suspended",
                    "The move was interrupted before it let them go on.",
                    tuple(each.command for each in lines),
                )
            )

    def _continue(self, group: Group, names: Sequence[str], *, done: bool) -> None:
        if done:
            play = Typing(self.cluster.copy())
            play.type(typed.end(self._moving(self.cluster, group, names)))
            trial = self._play_others(play.finish())
        else:
            trial = self._play_others(self._try_with(group, names, (), obeys_budgets=True))
            if trial.can_stop:
                trial = self._try_with(group, names, (), obeys_budgets=False)
                trial = self._play_others(trial)
        self._accept(
            group, [names], trial, f"Continue the move of {count_noun(len(names), 'node')}"
        )

    # --- the whole plan --------------------------------------------------------------------------

    def move_all(self) -> None:
        """Translate what can be now, then move the nodes, and translate what can be then."""
        self._translate_what_fits()
        left = {each.name: self.movable(each) for each in self.groups if each.has_plugin}
        total = sum(map(len, left.values()))
        while any(left.values()):
            self.rehearsing(total - sum(map(len, left.values())), total)
            names = sorted((n for n in left if left[n]), key=lambda n: self._weigh(n, left[n]))
            name = min(names[:_TRIED], key=lambda n: self._rank(n, left[n]))
            moved = self._move_some(self._by_name(name), left[name])
            left[name] = [each for each in left[name] if each not in moved]
            self._translate_what_fits()

    def _by_name(self, name: str) -> Group:
        return next(each for each in self.groups if each.name == name)

    def movable(self, group: Group) -> list[str]:
        """Return the nodes of a group that need not keep their plugin, the emptiest first."""
        names = [each.name for each in group.nodes if each.name not in self.kept]
        return sorted(names, key=self._load)

    def _load(self, node: str) -> tuple[object, ...]:
        held = [e for e in self.cluster.on_node(node) if self.cluster.kinds[e.kind].needs_devices]
        bare = sum(self.cluster.kinds[each.kind].is_bare for each in held)
        return node in self._cordoned, bare, len(held), node

    def _weigh(self, group: str, nodes: Sequence[str]) -> tuple[object, ...]:
        """Order groups without trying them: those with least to move first."""
        held = min(len(self.cluster.on_node(node)) for node in nodes)
        return not self._by_name(group).now.dual, held, len(nodes), group

    def _rank(self, group: str, nodes: Sequence[str]) -> tuple[object, ...]:
        """Order groups: those with devices offered twice, then what costs least, then by size."""
        alone = self._by_name(group)
        trial = self._try_move(alone, nodes[:1])
        held = sum(len(self.cluster.on_node(node)) for node in nodes)
        return not alone.now.dual, *trial.cost, held, len(nodes), group

    # --- nodes -----------------------------------------------------------------------------------

    def _move_some(self, group: Group, nodes: Sequence[str]) -> list[str]:
        """Make one step that moves nodes of a group, and return these."""
        nodes = sorted(nodes, key=self._load)
        is_first = not any(self.cluster.nodes[each.name].is_moved for each in group.nodes)
        if not is_first and (size := self._largest(group, nodes)) > 1:
            whole = self._play_others(self._try_move(group, nodes[:size]))
            if not whole.can_stop:
                return self._accept(group, [nodes[:size]], whole)
        tried = [self._try_move(group, [each]) for each in nodes[:_TRIED]]
        best = min(range(len(tried)), key=lambda each: (tried[each].cost, each))
        nodes.insert(0, nodes.pop(best))
        first = self._play_others(tried[best])
        if first.can_stop:
            first = self._play_others(self._try_move(group, nodes[:1], obeys_budgets=False))
        plain = not is_first and self._is_plain(first)
        return self._move_in_turn(group, nodes if plain else nodes[:1], first)

    def _largest(self, group: Group, nodes: Sequence[str]) -> int:
        """Return how many nodes can move at once so that no pod waits meanwhile."""
        size = len(nodes)
        while size > 1:
            if not has_room_for(self.cluster, nodes[:size]):
                size //= 2
                continue
            trial = self._try_move(group, nodes[:size])
            if not any(trial.cost[:2]) and not trial.paused and not self._new_waits(trial):
                return size
            size //= 2
        return size

    def _new_waits(self, trial: Trial) -> int:
        return max(0, trial.waits - self.cluster.count_waiting())

    def _play_others(self, trial: Trial) -> Trial:
        """Play the commands of a trial as other schedulers could choose."""
        others = tuple(each.copy() for each in self.others)
        for command in trial.commands:
            for other in others:
                command.play(other)
        stopped = {e.kind for other in others for e in other.take_changes() if e.what == BLOCKED}
        return trial._replace(others=others, stopped=trial.stopped | stopped)

    def _is_plain(self, trial: Trial) -> bool:
        """Whether the same commands can move other nodes: nothing is done for certain pods."""
        ignored = ("kubectl annotate", "kubectl drain", "kubectl label nodes", "kubectl uncordon")
        return not trial.loses and all(
            each.is_check
            or (each.command.startswith(ignored) and typed.WITHOUT_BUDGETS not in each.command)
            for each in trial.commands
        )

    def _move_in_turn(self, group: Group, nodes: Sequence[str], first: Trial) -> list[str]:
        """Move one node after the other, as long as the same commands do."""
        rounds, trials = [[nodes[0]]], [first]
        before, others = self.cluster, self.others
        for node in nodes[1:]:
            self.cluster, self.others = trials[-1].cluster, [*trials[-1].others]
            following = self._play_others(self._try_move(group, [node]))
            cordoned = node in self._cordoned
            if (
                following.can_stop
                or cordoned
                or not self._is_plain(following)
                or self._new_waits(following)
            ):
                break
            trials.append(following)
            rounds.append([node])
        self.cluster, self.others = before, others
        whole = trials[-1]._replace(
            changes=tuple(change for each in trials for change in each.changes),
            commands=tuple(command for each in trials for command in each.commands),
            paused=max(each.paused for each in trials),
        )
        return self._accept(group, rounds, whole)

    def _moving(self, cluster: ModelCluster, group: Group, nodes: Sequence[str]) -> Moving:
        """Return what must be done for nodes that move, with the pods of a cluster."""
        daemons = {
            kind.full_owner: (kind.namespace, self.templates.find_selector(kind))
            for name in nodes
            for pod in (*cluster.on_node(name), *cluster.tied_to(name))
            if (kind := cluster.kinds[pod.kind]).owner_kind == "DaemonSet"
            # One that waits can start during the drain.
            and (pod.served is Served.PLUGIN or not (pod.node or pod.is_translated))
            and group.leaving & kind.units.keys()
        }
        return Moving(
            tuple(nodes),
            group.driver,
            tuple(sorted(group.replaced)),
            tuple(commands.find_operands(group)),
            tuple(each for each in nodes if each in self._cordoned),
            tuple(each for each in daemons.values() if each[1]),
            frozenset(daemons),
        )

    def _try_move(self, group: Group, nodes: Sequence[str], *, obeys_budgets: bool = True) -> Trial:
        """Try the move of nodes at once. Namespaces are translated first if that helps."""
        key = self.cluster, *nodes, obeys_budgets
        if key not in self._tried:
            self._tried[key] = self._try_either(group, nodes, obeys_budgets=obeys_budgets)
        return self._tried[key]

    def _try_either(self, group: Group, nodes: Sequence[str], *, obeys_budgets: bool) -> Trial:
        trial = self._try_with(group, nodes, (), obeys_budgets=obeys_budgets)
        if not (first := self._translatable_on(nodes)):
            return trial
        translated = self._try_with(group, nodes, first, obeys_budgets=obeys_budgets)
        # Pods that get claims start again once; the others do for each node that they go to.
        return translated if translated.cost <= trial.cost else trial

    def _translatable_on(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Return the namespaces of pods on nodes that new pods can be translated in."""
        offered = self.cluster.offered()
        kinds = {pod.kind for name in nodes for pod in self.cluster.on_node(name)}
        moving = {
            each.namespace
            for each in (self.cluster.kinds[number] for number in kinds)
            if each.translated is not None and each.translated.devices.keys() <= offered
        }
        return tuple(sorted(moving - self.cluster.enforced))

    def _try_with(
        self, group: Group, nodes: Sequence[str], first: Sequence[str], *, obeys_budgets: bool
    ) -> Trial:
        cluster = self.cluster.copy()
        plain = Typing(cluster)
        jobs = find_failing_jobs(self._plays, self.templates, nodes, obeys_budgets=obeys_budgets)
        moving = self._moving(cluster, group, nodes)
        plain.type((*created_again.enforce(cluster, first), *typed.begin(moving)))
        bare = [*created_again.delete_bare(cluster, nodes)]
        # A pod that waits, and that drain refuses to delete, must not come to what these free.
        plain.type([typed.cordon(nodes)] if jobs or bare else ())
        plain.type((*typed.suspend(jobs), *bare))
        plain.type([typed.drain(nodes, obeys_budgets=obeys_budgets)])
        paused = max(0, cluster.count_waiting() - self.cluster.count_waiting())
        paused += sum(cluster.suspended.values())
        plain.type(typed.swap(moving))
        plain.type(typed.end(moving))
        plain.type(created_again.resume(cluster, jobs))
        plain.type(created_again.start_waiting(cluster, self.templates.find_selector))
        return plain.finish(paused)._replace(jobs=tuple(jobs))

    def _accept(
        self, group: Group, rounds: Sequence[Sequence[str]], trial: Trial, title: str = ""
    ) -> list[str]:
        """Make a step of what was tried, and go on from there."""
        nodes = [name for each in rounds for name in each]
        before, then = self.cluster, self._counted
        self._go_on(trial)
        moving = self._moving(before, group, nodes)
        modes = self._changed_modes(before, trial.cluster)
        lines = [each.command for each in trial.commands]
        if len(rounds) > 1:
            lines = [typed.move_in_turn(moving)]  # nothing else is typed for such nodes
        later = self.namespaces.translatable - trial.cluster.enforced
        waits = [*created_again.wait_for_jobs(before, trial.cluster, nodes, later)]
        lines += [each.command for each in waits]
        told = story.tell(trial.cluster, trial.changes, nodes)
        stay = sum(each.name in self.kept for each in group.nodes)
        self.steps.append(
            MigrationStep(
                title or story.title(group, nodes, len(rounds)),
                story.why(told, trial.paused, nodes, describe_new_waits(before, self.cluster)),
                (*lines, "drawbridge audit"),
                (
                    *story.notes(group, moving, stay),
                    *story.note_daemons(self.cluster),
                    *story.note_forced(lines, told.stops),
                    *note_namespaces(modes, self.namespaces.managers),
                    *note_jobs(
                        {f"{s}/{o}": self.templates.find(s, o).owned_by for s, o in trial.jobs}
                    ),
                ),
                self.expected(),
                self._move_back(before, moving, modes, trial.jobs),
                told.lost,
                told.lines,
                tuple(each.command for each in (*trial.commands, *waits) if each.is_check),
                tuple(find_changed(then, self._counted)),
            )
        )
        return nodes

    def _move_back(
        self,
        before: ModelCluster,
        moving: Moving,
        modes: Mapping[str, str],
        jobs: Sequence[tuple[str, str]],
    ) -> tuple[str, ...]:
        used = undo.find_namespaces(before, moving.nodes)
        again = {each: self._modes.get(each, "") for each in used} | dict(modes)
        enforced = {e: again[e] for e in sorted(again) if e in self.cluster.enforced}
        moved = undo.Moved(before, self.cluster, moving, enforced, jobs)
        return undo.move_back(moved, self.others, self.templates)

    def _changed_modes(self, before: ModelCluster, after: ModelCluster) -> dict[str, str]:
        """Return the labels that namespaces had before a step enforced them."""
        changed = after.enforced - before.enforced
        modes = {each: self._modes.get(each, "") for each in sorted(changed)}
        self._modes.update(dict.fromkeys(changed, str(Mode.ENFORCE)))
        return modes

    def expected(self) -> Expected:
        """Return the counts as they are now."""
        return count_left(self.cluster, self._counted, self.groups)

    # --- namespaces ------------------------------------------------------------------------------

    def _translate_what_fits(self) -> None:
        """Translate the namespaces whose pods all run then, those with fewest pods first."""
        while group := self._find_fitting():
            self._accept_namespace(*group)

    def _find_fitting(self) -> tuple[str, Trial] | None:
        held = count_pods_to_translate(self.cluster)
        waiting = {
            e.namespace
            for e, _, is_translated in self.cluster.describe_waiting()
            if not is_translated
        }
        order = sorted(held, key=lambda each: (each not in waiting, held[each], each))
        room = find_room(self.cluster)
        starts = bool(created_again.start_waiting(self.cluster, self.templates.find_selector))
        waited, plugin = self.cluster.count_waiting(), self.cluster.count(Served.PLUGIN)
        for namespace in order:
            if not is_served(self.cluster, self.namespaces, namespace):
                continue
            if not (namespace in room and (starts or self._find_restartable(namespace))):
                continue
            trial = self._try_namespace(namespace)
            moves = trial.cluster.count(Served.PLUGIN) < plugin or trial.waits < waited
            if moves and trial.is_clean and trial.waits <= waited:
                return namespace, trial
        return None

    def _find_restartable(self, namespace: str) -> tuple[str, ...]:
        """Return the owners to restart: none while pods of others may have their devices."""
        is_decided = not any(each.either for each in self._counted.values())
        return find_restartable(self.cluster, namespace) if is_decided else ()

    def _try_namespace(self, namespace: str) -> Trial:
        """Try to translate a namespace; what a restart would not end for is not restarted."""
        owners = self._find_restartable(namespace)
        while True:
            trial = self._try_restarts(namespace, owners)
            # Others are played when the first ends.
            trial = trial if trial.can_stop else self._play_others(trial)
            stuck = {self.cluster.kinds[each].owner for each in trial.stopped}
            if not stuck:
                return trial
            owners = tuple(each for each in owners if each not in stuck)

    def _try_restarts(self, namespace: str, owners: Iterable[str]) -> Trial:
        cluster = self.cluster.copy()
        play = Typing(cluster)
        unset = () if namespace in cluster.enforced else (namespace,)
        play.type(created_again.enforce(cluster, unset))
        play.type(typed.restart(namespace, owners))
        play.type(created_again.start_waiting(cluster, self.templates.find_selector))
        return play.finish()

    def _accept_namespace(self, namespace: str, trial: Trial) -> None:
        before, then = self.cluster, self._counted
        self._go_on(trial)
        modes = self._changed_modes(before, trial.cluster)
        told = story.tell(trial.cluster, trial.changes)
        restored, kept = undo.restore_mode(before, self._plays, namespace, modes)
        title = f"Translate namespace {namespace}"
        if not modes:
            title = f"Start the pods of namespace {namespace} again"
        self.steps.append(
            MigrationStep(
                title,
                "New pods get claims. Running pods keep their devices until they are created"
                " again.",
                tuple(each.command for each in trial.commands),
                (
                    *story.note_untouched(self.cluster, namespace),
                    *story.note_daemons(self.cluster),
                    *story.note_kept(kept),
                    *note_namespaces(modes, self.namespaces.managers),
                ),
                self.expected(),
                restored,
                told.lost,
                told.lines,
                tuple(each.command for each in trial.commands if each.is_check),
                tuple(find_changed(then, self._counted)),
            )
        )

    def translate_rest(self) -> tuple[str, ...]:
        """Translate the other namespaces, and return those whose devices nobody offers."""
        without = []
        for namespace in sorted(self.namespaces.translatable - self.cluster.enforced):
            if not is_served(self.cluster, self.namespaces, namespace):
                without.append(namespace)
                continue
            self._accept_namespace(namespace, self._try_namespace(namespace))
        return tuple(without)
