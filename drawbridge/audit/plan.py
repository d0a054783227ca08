"""The order of a migration: node groups and namespaces, with commands and what each step leaves.

The group whose pods find most room elsewhere moves first. A namespace is translated as soon as the
drivers have its devices, or when its pods would otherwise wait. Counts units and devices only: the
order within a node, CPU and memory are not looked at.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from drawbridge.agreement.scope import Mode
from drawbridge.audit import commands
from drawbridge.audit.model import Fate, MigrationStep, NamespaceAudit
from drawbridge.audit.node_groups import Group
from drawbridge.audit.planned_pods import Moved, PlannedPods
from drawbridge.audit.servers import Plugin
from drawbridge.dra.counted import count_noun
from drawbridge.names import DEVICES_LABEL


def make_plan(
    namespaces: Sequence[NamespaceAudit], groups: Sequence[Group]
) -> tuple[MigrationStep, ...]:
    """Return the steps from the cluster as it is to one without replaceable plugins."""
    namespaces = [*map(_without_finished, namespaces)]
    kept = frozenset(n for each in namespaces for entry in each.workloads for n in entry.kept)
    pods = PlannedPods(namespaces, groups, kept)
    to_move = [each for each in groups if each.has_plugin and pods.movable(each)]
    steps = [*_prepare(namespaces, groups, to_move)]
    while to_move:
        group = min(to_move, key=pods.cost)
        to_move.remove(group)
        waiting = _waiting_for_first_nodes(group, pods)
        steps.append(_move(group, pods, waiting))
        by_name = {each.namespace: each for each in namespaces}
        steps += [_enforce(by_name[each], pods, only_waiting=True) for each in waiting]
        pods.retry()
        steps += _enforce_what_fits(pods, namespaces)
    left = [each for each in namespaces if pods.remains(each)]
    without = [each.namespace for each in left if not pods.has_devices(each)]
    steps += [_enforce(each, pods) for each in left if each.namespace not in without]
    if without:
        steps.append(_hold_back(without, pods))
    steps += _finish(pods, namespaces, groups, without)
    return tuple(steps)


def _without_finished(namespace: NamespaceAudit) -> NamespaceAudit:
    live = tuple(each for each in namespace.workloads if not each.is_over)
    return replace(namespace, workloads=live)


# --- the first steps -----------------------------------------------------------------------------


def _prepare(
    namespaces: Sequence[NamespaceAudit], groups: Sequence[Group], to_move: Sequence[Group]
) -> Iterator[MigrationStep]:
    opted = [each.namespace for each in namespaces if each.mode is Mode.OFF and _goes(each)]
    if opted:
        yield MigrationStep(
            "Let users see what would change",
            "kubectl prints how each new pod would be translated. No pod changes.",
            (commands.set_mode(opted, Mode.REPORT),),
            ("Drawbridge must be installed: `drawbridge doctor` checks it.",),
            undo=(commands.set_mode(opted, ""),),
        )
    if not to_move:
        return
    plugins = _replaceable_plugins(to_move)
    apart = _without_operands(plugins, to_move)
    drivers = dict.fromkeys(group.driver for group in to_move)
    # A node selector would remove a driver from the nodes where it runs already.
    served = [e for e in groups if not e.has_plugin and e.now.drivers & drivers.keys()]
    notes = [
        "If a chart or an operator manages the plugin, set the node affinity there.",
        "The names of the values depend on the chart of the driver.",
    ]
    if not plugins:
        notes.insert(0, f"Keep the device plugins off nodes with the label {DEVICES_LABEL}.")
    yield MigrationStep(
        "Keep plugins and drivers apart",
        f"Plugins avoid nodes with the label {DEVICES_LABEL}, and a driver runs only on nodes"
        " whose label names it. No node with a plugin has the label yet, so no pod changes.",
        (
            *(commands.label_served(each, drivers) for each in served),
            *map(commands.keep_off, apart),
            *map(commands.install_driver, drivers),
        ),
        tuple(notes),
        undo=tuple(map(commands.remove_driver, drivers)),
    )


def _goes(namespace: NamespaceAudit) -> bool:
    return any(each.fate is Fate.TO_TRANSLATE for each in namespace.workloads)


# --- groups --------------------------------------------------------------------------------------


def _waiting_for_first_nodes(group: Group, pods: PlannedPods) -> list[str]:
    """Return the namespaces whose pods wait for the first nodes of a driver, without claims.

    Admission leaves requests as they are while no node offers the devices to claims.
    """
    if pods.is_running(group.driver):
        return []
    return [where for where, _ in pods.stranded(group)]


def _move(group: Group, pods: PlannedPods, waiting: Sequence[str]) -> MigrationStep:
    """Move the nodes of a group from their plugin to the driver."""
    nodes = pods.movable(group)
    first = [where for where, _ in pods.stranded(group) if where not in waiting]
    pods.enforced |= set(first)
    moved = pods.move(group)
    return MigrationStep(
        f"Move node group {group.name}: {count_noun(len(nodes), 'node')} to {group.driver}",
        _why(group, moved),
        (
            *(commands.set_mode([each], Mode.ENFORCE) for each in first),
            *commands.move_nodes(group, nodes, moved.daemons),
        ),
        (*_waits(waiting), *_notes(group, nodes, first, moved)),
        pods.expected(),
        commands.move_back(group, nodes, moved.daemons),
    )


def _waits(waiting: Sequence[str]) -> Iterator[str]:
    if waiting:
        yield (
            f"Pods of {commands.enumerate_names(waiting)} find no room with a plugin on other nodes"
            " of this kind. They wait for the next step."
        )


def _why(group: Group, moved: Moved) -> str:
    if group.now.dual:
        return f"A plugin and {group.driver} offer the same devices of these nodes."
    if not moved.pods:
        return "No pod runs there that needs a device."
    pods = count_noun(moved.pods, "pod")
    return f"{pods} with devices of these nodes must start again, there or on other nodes."


def _notes(group: Group, nodes: Sequence[str], first: Sequence[str], moved: Moved) -> Iterator[str]:
    if operands := commands.find_operands(group):
        yield (
            f"Labels let these operands of GPU Operator leave the nodes: {', '.join(operands)}."
            " They allocate the same GPUs, or change their partitions."
        )
    if first:
        yield (
            f"Pods of {commands.enumerate_names(first)} find no room with a plugin on other nodes"
            " of this kind. They are translated, and wait until the driver runs."
        )
    if daemons := [f"{where}/{entry.owner}" for where, entry in moved.daemons]:
        yield (
            f"Drain leaves the pods of {commands.enumerate_names(daemons)}, and they keep devices"
            " that the driver would give to others. They are deleted when the plugin has gone, and"
            " before the driver comes."
        )
    if by_hand := [f"{where}/{e.owner}" for where, e in moved.daemons if not e.pod_selector]:
        yield (
            f"Delete the pods of {commands.enumerate_names(by_hand)} on these nodes by hand before"
            " the label names the driver: what selects them was not read."
        )
    if bare := [entry.owner for entry, _ in moved.entries if entry.owner.startswith("Pod/")]:
        named = commands.enumerate_names(bare)
        yield f"Nobody creates these pods again, so drain stops until they are deleted: {named}."
    if len(nodes) > 1:
        yield "To keep more pods running, move one node after the other."
    if stay := len(group.nodes) - len(nodes):
        yield f"The plugin stays on {count_noun(stay, 'other node')} of the group."
    if cordoned := sum(each.unschedulable for each in group.nodes):
        yield f"{count_noun(cordoned, 'node')} cordoned before, and not uncordoned."
    if gone := sum(not each.ready for each in group.nodes):
        yield f"{count_noun(gone, 'node')} not ready."


# --- namespaces ----------------------------------------------------------------------------------


def _enforce_what_fits(
    pods: PlannedPods, namespaces: Sequence[NamespaceAudit]
) -> Iterator[MigrationStep]:
    """Translate the namespaces whose devices the drivers have, those with fewest pods first."""
    for audited in sorted(namespaces, key=lambda e: (pods.count_held(e), e.namespace)):
        if pods.remains(audited) and pods.has_room(audited):
            yield _enforce(audited, pods)


def _enforce(
    namespace: NamespaceAudit, pods: PlannedPods, *, only_waiting: bool = False
) -> MigrationStep:
    where = namespace.namespace
    already = where in pods.enforced
    moved = pods.enforce(namespace, only_waiting=only_waiting)
    again = [entry for entry, _ in moved.entries]
    change = () if already else (commands.set_mode([where], Mode.ENFORCE),)
    return MigrationStep(
        f"Start the pods of namespace {where} again" if already else f"Translate namespace {where}",
        "New pods get claims. Running pods keep their devices until they are created again.",
        (*change, *commands.restart(where, again)),
        tuple(commands.by_hand(namespace, again)),
        pods.expected(),
        (commands.set_mode([where], Mode.OFF),),
    )


def _hold_back(without: Sequence[str], pods: PlannedPods) -> MigrationStep:
    """Say which namespaces wait until somebody offers their devices."""
    return MigrationStep(
        f"Do not translate yet: {commands.enumerate_names(without)}",
        "No driver is expected to have devices for these pods, so new pods with claims would wait.",
        ("drawbridge audit",),
        (
            "A node group offers nothing, or keeps its plugin for pods that stay.",
            "When that has changed, audit again.",
        ),
        pods.expected(),
    )


# --- the last step -------------------------------------------------------------------------------


def _finish(
    pods: PlannedPods,
    namespaces: Sequence[NamespaceAudit],
    groups: Sequence[Group],
    without: Sequence[str],
) -> Iterator[MigrationStep]:
    names = dict.fromkeys(
        f"{each.namespace}/{entry.owner}"
        for each in namespaces
        for entry in each.workloads
        if entry.fate is Fate.STAYS
    )
    plugins = _replaceable_plugins(groups)
    if names:
        listed = commands.enumerate_names([*names])
        kept = {node for e in namespaces for entry in e.workloads for node in entry.kept}
        nodes = commands.enumerate_names(sorted(kept))
        yield MigrationStep(
            "Decide about what stays",
            f"{count_noun(len(names), 'workload')} cannot go unchanged: {listed}."
            + (f" These nodes keep the plugin: {nodes}." if nodes else ""),
            (),
            ("The reason of each workload is listed with it.",),
            pods.expected(),
        )
    elif not without and any(each.has_plugin for each in groups):
        yield MigrationStep(
            "Remove the device plugins",
            "No pod needs them.",
            tuple(map(commands.remove_plugin, _without_operands(plugins, groups))),
            ("If a chart or an operator manages a plugin, remove it there.",),
            pods.expected(),
        )


def _replaceable_plugins(groups: Iterable[Group]) -> list[Plugin]:
    """Return the plugins whose pods were found and whose names drivers replace."""
    serving = (p for g in groups for p in g.plugins if p.owner and p.serves(g.replaced))
    return [*dict.fromkeys(serving)]


def _without_operands(plugins: Iterable[Plugin], groups: Iterable[Group]) -> list[Plugin]:
    """Return the plugins that GPU Operator does not run."""
    operands = {p for g in groups for p in g.plugins if commands.is_operators(p, g)}
    return [each for each in plugins if each not in operands]
