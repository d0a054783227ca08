"""The first and the last steps of a migration: what keeps plugins and drivers apart, and goes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.agreement.scope import Mode
from drawbridge.audit import commands
from drawbridge.audit.managed import find_manager, note_namespaces
from drawbridge.audit.model import MigrationStep
from drawbridge.audit.node_groups import Group
from drawbridge.audit.objects import namespace_of, owners_of, text_at
from drawbridge.audit.servers import Plugin, name_serving
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.device import Taint
from drawbridge.names import DEVICES_LABEL

_AFFINITY: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PLUGINS: Final = "/var/lib/kubelet/plugins/"
_APART: Final[Value] = {"key": DEVICES_LABEL, "operator": "DoesNotExist"}


class Daemon(NamedTuple):
    """A DaemonSet: what its template says about nodes, and who manages it."""

    namespace: str
    name: str
    spec: Mapping[str, Value]
    manager: str
    release: str

    @property
    def text(self) -> str:
        """The DaemonSet as a person finds it."""
        return f"{self.namespace}/{self.name}"


def read_daemons(workloads: Iterable[Value]) -> Mapping[tuple[str, str], Daemon]:
    """Return the DaemonSets by namespace and name."""
    daemons = {}
    for workload in workloads:
        if text_at(workload, "kind") == "DaemonSet":
            name = text_at(workload, "metadata", "name")
            spec = as_mapping(get_value(workload, ("spec", "template", "spec")))
            manager = find_manager(workload)
            near = {key: spec.get(key) for key in ("affinity", "nodeSelector")}
            daemon = Daemon(namespace_of(workload), name, near, manager.text, manager.release)
            daemons[daemon.namespace, name] = daemon
    return daemons


def find_drivers(
    pods: Iterable[Value], drivers: Iterable[str], daemons: Mapping[tuple[str, str], Daemon]
) -> Mapping[str, Daemon]:
    """Return the DaemonSets that run drivers, by the folder of the driver that their pods mount."""
    paths = {f"{_PLUGINS}{each}": each for each in drivers}
    by_driver: dict[str, Daemon] = {}
    for pod in pods:
        for volume in as_list(get_value(pod, ("spec", "volumes"))):
            driver = paths.get(text_at(volume, "hostPath", "path").rstrip("/"))
            for owner in owners_of(pod) if driver else ():
                name = f"{owner.get('name')}"
                if daemon := daemons.get((namespace_of(pod), name)):
                    by_driver[driver or ""] = daemon
    return by_driver


def let_users_see(modes: Mapping[str, str], managers: Mapping[str, str]) -> Iterator[MigrationStep]:
    """Yield the step that reports in namespaces; `modes` are their labels before."""
    if not modes:
        return
    undo = [commands.set_mode([each], mode) for each, mode in modes.items() if mode]
    if without := [each for each, mode in modes.items() if not mode]:
        undo.append(commands.set_mode(without, ""))
    yield MigrationStep(
        "Let users see what would change",
        "kubectl prints how each new pod would be translated. No pod changes.",
        (commands.set_mode([*modes], Mode.REPORT),),
        (
            "Drawbridge must be installed: `drawbridge doctor` checks it.",
            *note_namespaces(modes, managers),
        ),
        undo=tuple(undo),
    )


def keep_apart(
    groups: Sequence[Group],
    to_move: Sequence[Group],
    daemons: Mapping[tuple[str, str], Daemon],
    drivers: Mapping[str, Daemon],
    publishing: frozenset[str],
) -> Iterator[MigrationStep]:
    """Yield the step that keeps plugins and drivers on different nodes, if it changes anything.

    `drivers` are the DaemonSets of drivers that are installed, `publishing` the drivers that run.
    """
    plugins = without_operands(replaceable_plugins(to_move, find_keeping(groups)), to_move)
    needed = dict.fromkeys(group.driver for group in to_move)
    labels = [*_label_served(groups, needed)]
    narrowed = {each: [*_narrow(each, daemons)] for each in plugins}
    limited = {each: [*_limit(each, drivers.get(each), publishing)] for each in needed}
    changes = [change for each in (*narrowed.values(), *limited.values()) for change in each]
    plugins_end = [*_find_ending_plugins(groups, [each for each in plugins if narrowed[each]])]
    drivers_end = [*_find_ending_drivers(groups, [each for each in needed if limited[each]])]
    ended = commands.enumerate_names([*plugins_end, *drivers_end])
    notes = [*_note_managers(plugins, daemons)]
    notes += _note_unread(plugins, daemons, "The patch replaces a node affinity that it has")
    notes += _note_drivers(needed, drivers, publishing)
    if drivers_end:
        notes.append(
            "Without its driver, a node prepares no claim, and no pod with one ends: end those of"
            " these nodes first."
        )
    taints = {each for group in to_move for node in group.nodes for each in node.taints}
    if tolerated := sorted({f"{each.key}:{each.effect}" for each in taints if _stays(each)}):
        notes.append(f"Nodes have taints that the driver must tolerate: {', '.join(tolerated)}.")
    notes.append("The names of the values depend on the chart of the driver.")
    step = MigrationStep(
        "Keep plugins and drivers apart",
        f"Plugins avoid nodes with the label {DEVICES_LABEL}, and a driver runs only on nodes whose"
        f" label names it. {f'These end: {ended}' if ended else 'All go on where they run'}.",
        tuple(each.command for each in (*labels, *changes)),
        tuple(notes),
        # Without its label, a node would lose the driver before the driver is set free.
        undo=tuple(each.undo for each in (*changes, *labels)),
    )
    if step.commands:
        yield step


def _find_ending_plugins(groups: Iterable[Group], narrowed: Collection[Plugin]) -> Iterator[str]:
    """Yield the plugins, with nodes, that end because their node has the label already."""
    for group in groups:
        for node in group.nodes if narrowed else ():
            if DEVICES_LABEL in node.labels:
                yield from (f"{e.text} on {node.name}" for e in group.plugins if e in narrowed)


def _find_ending_drivers(groups: Iterable[Group], limited: Collection[str]) -> Iterator[str]:
    """Yield the drivers, with nodes, that end because a plugin keeps the label off their node."""
    for group in groups:
        for driver in group.now.drivers.intersection(limited) if group.has_plugin else ():
            without = (e for e in group.nodes if e.labels.get(DEVICES_LABEL) != driver)
            yield from (f"{driver} on {each.name} until it moves" for each in without)


def _note_managers(
    plugins: Iterable[Plugin], daemons: Mapping[tuple[str, str], Daemon]
) -> Iterator[str]:
    """Yield which managers of DaemonSets of plugins can take a patch back."""
    for plugin in plugins:
        daemon = _find_daemon(plugin, daemons)
        if daemon is not None and daemon.manager:
            yield (
                f"{daemon.text} belongs to {daemon.manager}, which can take a patch back: set the"
                " node affinity there, too."
            )


def _note_drivers(
    needed: Iterable[str], drivers: Mapping[str, Daemon], publishing: Collection[str]
) -> Iterator[str]:
    """Yield which drivers are installed or run already."""
    for driver in needed:
        installed = drivers.get(driver)
        if installed is not None:
            by = f" by {installed.manager}" if installed.manager else ""
            yield f"{driver} is installed{by}: {installed.text}. Only its nodes change."
        elif driver in publishing:
            yield f"{driver} runs already: use the name of its release."


class _Change(NamedTuple):
    """A command that changes an object, and the one that puts back what was read."""

    command: str
    undo: str


def _stays(taint: Taint) -> bool:
    """Whether a taint is somebody's, and not one that the state of a node sets."""
    return taint.effect != "PreferNoSchedule" and not taint.key.startswith("node.kubernetes.io/")


def _label_served(groups: Iterable[Group], drivers: Iterable[str]) -> Iterator[_Change]:
    """Yield what labels the nodes where one of the drivers runs already, without a plugin.

    A node selector would remove the driver from them.
    """
    for group in groups:
        driver = next((each for each in drivers if each in group.now.drivers), "")
        by_label: dict[str | None, list[str]] = {}
        for node in group.nodes if driver and not group.has_plugin else ():
            by_label.setdefault(node.labels.get(DEVICES_LABEL), []).append(node.name)
        for label, names in by_label.items():
            if label != driver:
                undo = commands.label_nodes(names, label)
                yield _Change(commands.label_nodes(names, driver), undo)


def _apart(affinity: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return an affinity with the requirement that keeps a plugin off nodes that moved."""
    near = as_mapping(affinity.get("nodeAffinity"))
    terms = [*map(as_mapping, as_list(get_value(near.get(_AFFINITY), ("nodeSelectorTerms",))))]
    narrowed: list[Value] = []
    for term in terms or [{}]:
        rules = as_list(term.get("matchExpressions"))
        more = [] if _APART in rules else [_APART]
        narrowed.append({**term, "matchExpressions": [*rules, *more]})
    required: Value = {"nodeSelectorTerms": narrowed}
    whole: Value = {**near, _AFFINITY: required}
    return {**affinity, "nodeAffinity": whole}


def _find_daemon(plugin: Plugin, daemons: Mapping[tuple[str, str], Daemon]) -> Daemon | None:
    return daemons.get((plugin.namespace, plugin.owner.partition("/")[2]))


def _narrow(plugin: Plugin, daemons: Mapping[tuple[str, str], Daemon]) -> Iterator[_Change]:
    """Yield what keeps a plugin off nodes that moved."""
    daemon = _find_daemon(plugin, daemons)
    spec = daemon.spec if daemon is not None else {}
    apart: Value = {**_apart(as_mapping(spec.get("affinity")))}
    yield from _patch(plugin.namespace, plugin.owner, spec, {"affinity": apart})


def _limit(driver: str, installed: Daemon | None, publishing: Collection[str]) -> Iterator[_Change]:
    """Yield what lets a driver run only on nodes that moved."""
    near = as_mapping(installed.spec.get("nodeSelector")) if installed is not None else {}
    if installed is not None and not installed.release:
        selector: Value = {**dict.fromkeys(near), DEVICES_LABEL: driver}
        owner, change = f"DaemonSet/{installed.name}", {"nodeSelector": selector}
        yield from _patch(installed.namespace, owner, installed.spec, change, "merge")
    elif near.get(DEVICES_LABEL) != driver:
        release = installed.release if installed is not None else ""
        new = installed is None and driver not in publishing
        undo = commands.remove_driver(driver) if new else commands.roll_back(driver, release)
        yield _Change(commands.install_driver(driver, release), undo)


def _patch(
    namespace: str,
    owner: str,
    spec: Mapping[str, Value],
    change: Mapping[str, Value],
    kind: str = "",
) -> Iterator[_Change]:
    """Yield what changes the pods of a DaemonSet; nothing if their `spec` says so already."""
    before = _restore(spec, change)
    if before != change:
        command, undo = (
            commands.patch_pods(namespace, owner, *each)
            for each in ((change, kind), (before, "merge"))
        )
        yield _Change(command, undo)


def _restore(before: Mapping[str, Value], change: Mapping[str, Value]) -> dict[str, Value]:
    """Return the merge patch that takes another one back: null removes a field."""
    restored: dict[str, Value] = {}
    for key, new in change.items():
        then = before.get(key) or None
        both = isinstance(then, Mapping) and isinstance(new, Mapping)
        restored[key] = _restore(as_mapping(then), as_mapping(new)) if both else then
    return restored


# --- plugins -------------------------------------------------------------------------------------


def find_keeping(groups: Iterable[Group]) -> frozenset[Plugin]:
    """Return the plugins that serve on on any node: a DaemonSet changes on all nodes."""
    return frozenset(p for g in groups for p in name_serving(g.kept, g.plugins, g.units))


def replaceable_plugins(groups: Iterable[Group], keeping: Collection[Plugin]) -> list[Plugin]:
    """Return the plugins whose DaemonSets were found and whose names drivers replace."""
    serving = (p for g in groups for p in name_serving(g.replaced, g.plugins, g.units))
    owned = dict.fromkeys(e for e in serving if e.owner.startswith("DaemonSet/"))
    return [each for each in owned if each not in keeping]


def without_operands(plugins: Iterable[Plugin], groups: Iterable[Group]) -> list[Plugin]:
    """Return the plugins that GPU Operator does not run."""
    operands = {p for g in groups for p in g.plugins if commands.is_operators(p, g)}
    return [each for each in plugins if each not in operands]


def remove_plugins(
    groups: Sequence[Group], needed: frozenset[str], daemons: Mapping[tuple[str, str], Daemon]
) -> MigrationStep | None:
    """Return the step that removes the plugins of which no pod needs a name; None without any."""
    plugins = without_operands(replaceable_plugins(groups, find_keeping(groups)), groups)
    removed = [
        p for p in plugins if not p.serves(name for name in needed if _is_of(p, name, groups))
    ]
    if plugins and not removed:
        return None
    notes = []
    for plugin in removed:
        daemon = _find_daemon(plugin, daemons)
        if daemon is not None and daemon.manager:
            notes.append(f"{daemon.text} belongs to {daemon.manager}: remove it there.")
    if not notes:
        notes.append("If a chart or an operator manages a plugin, remove it there.")
    unread = [*_note_unread(removed, daemons, "A DaemonSet that asks for devices can need it")]
    return MigrationStep(
        "Remove the device plugins",
        "No pod that was read needs them." if unread else "No pod needs them.",
        tuple(map(commands.remove_plugin, removed)),
        (*notes, *unread),
    )


def _note_unread(
    plugins: Iterable[Plugin], daemons: Mapping[tuple[str, str], Daemon], why: str
) -> Iterator[str]:
    """Yield which DaemonSets of plugins were not read, and what that means."""
    for plugin in plugins:
        if _find_daemon(plugin, daemons) is None:
            name = plugin.owner.partition("/")[2]
            yield f"DaemonSet {plugin.namespace}/{name} was not read. {why}."


def _is_of(plugin: Plugin, name: str, groups: Iterable[Group]) -> bool:
    """Whether a plugin serves a name on any node."""
    return any(
        plugin in name_serving([name], each.plugins, each.units)
        for each in groups
        if plugin in each.plugins and name in each.units
    )
