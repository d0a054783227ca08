"""The whole plan: what keeps plugins and drivers apart, the moves, and what is left at the end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.agreement.scope import Mode, find_root_owner, read_metadata
from drawbridge.audit import commands, preparation
from drawbridge.audit.interrupted import find_interrupted
from drawbridge.audit.kept import find_kept, find_stayed
from drawbridge.audit.model import Fate, MigrationStep, NamespaceAudit
from drawbridge.audit.node_groups import Group
from drawbridge.audit.objects import AuditedObjects, namespace_of, text_at
from drawbridge.audit.outcomes import Decider
from drawbridge.audit.plan import StepPlanner
from drawbridge.audit.trials import Namespaces
from drawbridge.audit.unable import find_unending, find_without_driver, note_unable
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.models.cluster import ClusterStart, ModelCluster
from drawbridge.models.nodes import find_request
from drawbridge.names import TRANSLATE_LABEL
from drawbridge.report.plugin_units import count_units

_UNOWNED: Final = (
    "has a device plugin of which no DaemonSet was read, so no command lets it go: give its"
    " DaemonSet or its pods"
)
_KEEPING: Final = "has a device plugin that can also serve NICs, which the plan does not move"


class Rehearsed(NamedTuple):
    """The steps, what to know of them, and the cluster before the first."""

    steps: tuple[MigrationStep, ...]
    notes: tuple[str, ...]
    start: ModelCluster
    kept: frozenset[str]  # the nodes that keep their plugin


def make_plan(
    namespaces: Sequence[NamespaceAudit],
    groups: Sequence[Group],
    decider: Decider,
    start: ClusterStart,
    *,
    rehearsing: Callable[[int, int], None],
) -> Rehearsed:
    """Return the steps from the cluster as it is to one without replaceable plugins.

    `rehearsing` is called with how many of how many nodes have been moved in the rehearsal.
    """
    objects = decider.objects
    unmovable = {**dict(_find_unowned(groups)), **find_unending(objects.pods)}
    as_read = ModelCluster(start)
    tied = find_kept(decider, as_read, groups)
    planner = StepPlanner(
        as_read,
        groups,
        _read_namespaces(objects, namespaces),
        decider.templates,
        tied.union(unmovable),
        find_interrupted(objects),
        rehearsing=rehearsing,
    )
    before = planner.cluster
    daemons = preparation.read_daemons(objects.workloads)
    modes = _find_unreported(planner.namespaces, namespaces)
    first = [*preparation.let_users_see(modes, planner.namespaces.managers)]
    planner.note_modes(dict.fromkeys(modes, str(Mode.REPORT)))
    planner.continue_moves()
    first += planner.steps
    planner.steps.clear()
    to_move = [each for each in groups if each.has_plugin and planner.movable(each)]
    if to_move:
        needed = {each.driver for each in to_move}
        publishing = frozenset(needed & {e.driver for e in objects.slices})
        installed = preparation.find_drivers(objects.pods, needed, daemons)
        first += preparation.keep_apart(groups, to_move, daemons, installed, publishing)
    planner.move_all()
    without = planner.translate_rest()
    last = [*_say_what_stays(planner, namespaces, without)]
    unable = {**unmovable, **find_without_driver(objects.nodes)}
    unmoved = [n.name for each in groups for n in each.nodes if n.name in unable and each.units]
    stay = bool(without or planner.kept or unmoved or any(each.is_broken for each in groups))
    if not stay and any(each.has_plugin for each in groups):
        needed_names = find_needed(planner.cluster, namespaces, decider.most)
        step = preparation.remove_plugins(groups, needed_names, daemons)
        if step is not None:
            last.append(replace(step, expected=planner.expected()))
    notes = *note_unable(unable, unmoved), *_note_tied(before, tied), *_note_uncounted(objects)
    kept = planner.kept.union(unmoved)
    return Rehearsed((*first, *planner.steps, *last), notes, as_read, kept)


def _find_unreported(
    labelled: Namespaces, namespaces: Sequence[NamespaceAudit]
) -> Mapping[str, str]:
    """Return the labels of namespaces with pods that go, and where nobody sees that yet."""
    return {
        each.namespace: labelled.modes.get(each.namespace, "")
        for each in namespaces
        if each.mode is Mode.OFF and _goes(each)
    }


def _goes(namespace: NamespaceAudit) -> bool:
    return any(e.fate is Fate.TO_TRANSLATE and not e.is_over for e in namespace.workloads)


def _read_namespaces(objects: AuditedObjects, namespaces: Sequence[NamespaceAudit]) -> Namespaces:
    modes = {each.name: each.labels.get(TRANSLATE_LABEL, "") for each in objects.namespaces}
    translatable = [each for each in namespaces if _goes(each)]
    idle = (e.namespace for e in translatable if not any(w.pods for w in e.workloads))
    managers = {each.name: each.manager for each in objects.namespaces}
    names = frozenset(each.namespace for each in translatable)
    return Namespaces(modes, names, frozenset(idle), managers)


def _find_unowned(groups: Sequence[Group]) -> Iterator[tuple[str, str]]:
    """Yield the nodes whose plugin no command lets go, and why."""
    keeping = preparation.find_keeping(groups)
    for group in groups:
        if group.has_plugin and not preparation.replaceable_plugins([group], keeping):
            why = _KEEPING if preparation.replaceable_plugins([group], ()) else _UNOWNED
            yield from ((node.name, why) for node in group.nodes)


# --- notes ---------------------------------------------------------------------------------------


def _note_tied(cluster: ModelCluster, kept: frozenset[str]) -> Iterator[str]:
    """Say which pods would have to leave a node that keeps its plugin, and cannot."""
    for name in sorted(kept):
        tied = dict[str, None]()
        for pod in cluster.on_node(name):
            kind = cluster.kinds[pod.kind]
            if kind.translated is not None and not kind.translated.moved_nodes - kept:
                tied[kind.full_owner] = None
        if tied:
            yield (
                f"Pods of {commands.enumerate_names([*tied])} cannot leave {name}, which keeps its"
                " plugin: their volumes, node selectors or taints allow no other node."
            )


def _note_uncounted(objects: AuditedObjects) -> Iterator[str]:
    """Say who uses GPUs that nobody counts. DaemonSets watch them, and are not meant."""
    names_by_order = dict[str, None]()
    for pod in objects.pods:
        if text_at(pod, "spec", "nodeName") and _sees_gpus(pod) and not count_units(pod):
            owner = find_root_owner(namespace_of(pod), read_metadata(pod))
            if "/DaemonSet/" not in owner:
                names_by_order[owner] = None
    if names_by_order:
        yield (
            "GPUs are used without a request, by NVIDIA_VISIBLE_DEVICES, so nobody counts them:"
            f" {commands.enumerate_names([*names_by_order])}."
        )


def _sees_gpus(pod: Value) -> bool:
    for container in as_list(get_value(pod, ("spec", "containers"))):
        for entry in map(as_mapping, as_list(get_value(container, ("env",)))):
            seen = entry.get("name") == "NVIDIA_VISIBLE_DEVICES" and entry.get("value")
            if seen and seen not in ("none", "void"):
                return not as_list(get_value(pod, ("spec", "resourceClaims")))
    return False


# --- the last steps ------------------------------------------------------------------------------


def _say_what_stays(
    planner: StepPlanner, namespaces: Sequence[NamespaceAudit], without: Sequence[str]
) -> Iterator[MigrationStep]:
    if without:
        yield MigrationStep(
            f"Do not translate yet: {commands.enumerate_names(without)}",
            "No driver is expected to have devices for these pods, so new pods with claims would"
            " wait.",
            ("drawbridge audit",),
            (
                "A node group offers nothing, or keeps its plugin for pods that stay.",
                "When that has changed, audit again.",
            ),
            planner.expected(),
        )
    stays = dict.fromkeys(
        f"{each.namespace}/{entry.owner}"
        for each in namespaces
        for entry in each.workloads
        if entry.fate is Fate.STAYS and not entry.is_over
    )
    if stays:
        nodes = commands.enumerate_names(sorted(planner.kept))
        yield MigrationStep(
            "Decide about what stays",
            f"{count_noun(len(stays), 'workload')} cannot go unchanged:"
            f" {commands.enumerate_names([*stays])}."
            + (f" These nodes keep the plugin: {nodes}." if nodes else ""),
            (),
            ("The reason of each workload is listed with it.",),
            planner.expected(),
        )


def find_needed(
    cluster: ModelCluster, namespaces: Sequence[NamespaceAudit], most: Mapping[str, int]
) -> frozenset[str]:
    """Return the names of plugins that pods ask for at the end, also those that wait.

    So do workloads without pods that stay with a plugin.

    `most` is what the plugin of one node can give one pod: what asks for more keeps no plugin.
    """
    needed = set[str]()
    for pod in cluster.pods.values():
        kind = cluster.kinds[pod.kind]
        amounts = find_request(kind, translated=pod.is_translated).amounts
        by_class = kind.units.keys() if kind.by_class else frozenset[str]()
        names = {e for e in amounts if "/" in e and e not in by_class}
        if pod.node or all(amounts[each] <= most.get(each, 0) for each in names):
            needed |= names
    return find_stayed(namespaces, most).union(needed)
