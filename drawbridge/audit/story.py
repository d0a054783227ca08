"""What a step did in the models, in words: who moved, who waits and why, and who is lost."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from drawbridge.audit import commands, typed
from drawbridge.audit.node_groups import Group
from drawbridge.audit.typed import Moving
from drawbridge.dra.counted import count_noun
from drawbridge.models.admission import is_translated
from drawbridge.models.cluster import (
    BLOCKED,
    ENDED,
    HELD,
    LOST,
    OVERRULED,
    STARTED,
    Change,
    ModelCluster,
)
from drawbridge.models.pods import Served
from drawbridge.names import TRANSLATE_LABEL

_WORDS = {Served.PLUGIN: "with a plugin", Served.DRIVER: "with a driver", Served.NOBODY: ""}


class StepStory(NamedTuple):
    """A step in words: its lines, and first what is lost, stops, or starts again."""

    lines: tuple[str, ...]
    lost: tuple[str, ...]
    stops: tuple[str, ...]
    ended: int  # pods of the nodes that move
    elsewhere: int  # those of Jobs that are suspended meanwhile


def tell(
    cluster: ModelCluster, changes: Sequence[Change], nodes: Collection[str] = ()
) -> StepStory:
    """Return the story of a step that moves nodes. Only pods that need devices are told."""
    ended, started, here = Counter[str](), Counter[tuple[str, str]](), 0
    lost, stops = dict[str, None](), dict[str, None]()
    for change in changes:
        kind = cluster.kinds[change.kind]
        owner = kind.full_owner
        if change.what == LOST:
            lost[f"{owner}: {change.why}"] = None
        elif change.what == HELD:
            lost[f"{owner} keeps devices that the driver offers to others"] = None
        elif change.what in (BLOCKED, OVERRULED):
            stops[f"{owner}: {change.why}"] = None
        elif kind.needs_devices and change.what == ENDED and change.node:
            ended[owner] += 1
            here += change.node in nodes
        elif kind.needs_devices and change.what == STARTED:
            started[owner, _WORDS[change.served]] += 1
    lines = [f"{owner}: {count_noun(number, 'pod')} ended" for owner, number in ended.items()]
    lines += [
        f"{owner}: {count_noun(number, 'pod')} started {where}".rstrip()
        for (owner, where), number in started.items()
    ]
    waiting = (
        f"{kind.full_owner}: {count_noun(number, 'pod')} {'wait' if number > 1 else 'waits'}"
        f" {'for a driver' if translated else 'for a plugin'}"
        for kind, number, translated in cluster.describe_waiting()
        if kind.needs_devices
    )
    told = (*lines, *waiting, *(f"lost: {each}" for each in lost))
    return StepStory(told, tuple(lost), tuple(stops), here, ended.total() - here)


def title(group: Group, nodes: Sequence[str], rounds: int) -> str:
    """Return what a step moves, and to which driver."""
    named = f" ({nodes[0]})" if len(nodes) == 1 < len(group.nodes) else ""
    turn = ", one after the other" if rounds > 1 else ""
    number = count_noun(len(nodes), "node")
    return f"Move node group {group.name}: {number}{named} to {group.driver}{turn}"


def why(told: StepStory, paused: int, nodes: Sequence[str], waiting: Sequence[str]) -> str:
    """Return the first line of a step: what is lost comes first, then what is `waiting` then."""
    parts = []
    if told.lost:
        parts.append(f"Loses {commands.enumerate_names(told.lost)}.")
    if waiting:
        parts.append(f"Leaves these without devices: {commands.enumerate_names(waiting)}.")
    if told.stops:
        parts.append(
            f"Deletes pods that a budget protects: {commands.enumerate_names(told.stops)}."
        )
    where = "this node" if len(nodes) == 1 else "these nodes"
    if not told.ended:
        parts.append("No pod runs there that needs a device.")
    else:
        parts.append(f"{count_noun(told.ended, 'pod')} with devices of {where} must start again.")
    if told.elsewhere:
        more = count_noun(told.elsewhere, "pod")
        parts.append(f"{more} of suspended Jobs on other nodes must, too.")
    if paused:
        verb = "waits" if paused == 1 else "wait"
        parts.append(f"{paused:,} of them {verb} until the driver runs there.")
    return " ".join(parts)


def notes(group: Group, moving: Moving, stay: int) -> Iterator[str]:
    """Yield what a person should know of a move."""
    if moving.operands:
        yield (
            "Labels let these operands of GPU Operator leave the nodes:"
            f" {', '.join(moving.operands)}. They allocate the same GPUs, or change their"
            " partitions."
        )
    if owners := sorted(moving.daemon_owners):
        yield (
            f"Drain leaves the pods of {commands.enumerate_names(owners)}, and they keep devices"
            " that the driver would give to others. They are deleted when the plugin has gone, and"
            " before the driver comes."
        )
    if by_hand := len(owners) - len(moving.daemons):
        yield (
            f"Delete the pods of {count_noun(by_hand, 'DaemonSet')} on these nodes by hand before"
            " the label names the driver: what selects them was not read."
        )
    if stay:
        yield f"The plugin stays on {count_noun(stay, 'other node')} of the group."
    if moving.cordoned:
        number = len(moving.cordoned)
        yield f"{count_noun(number, 'node')} cordoned before, and not uncordoned."
    if gone := sum(not e.ready and e.name in moving.nodes for e in group.nodes):
        yield f"{count_noun(gone, 'node')} not ready."


def note_forced(lines: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """Yield why a drain asks no budgets, if the first line of the step does not say it."""
    if not stops and any(typed.WITHOUT_BUDGETS in line for line in lines):
        yield (
            "The drain asks no budgets: pods that wait, or started meanwhile, may have come to the"
            " node, and their budgets allow no eviction."
        )


def note_untouched(cluster: ModelCluster, namespace: str) -> Iterator[str]:
    """Yield what no command of a plan creates again, in a namespace that is translated."""
    bare, later, others = (dict[str, None]() for _ in range(3))
    for pod in cluster.pods.values():
        kind = cluster.kinds[pod.kind]
        is_left = kind.translated is not None and not pod.is_translated
        if kind.namespace == namespace and is_left and kind.owner_kind != "DaemonSet":
            named_in = bare if kind.is_bare else later if kind.can_restart else others
            named_in[kind.owner] = None
    if bare:
        named = commands.enumerate_names([*bare])
        yield f"Nobody creates these pods again, so their owners must: {named}."
    if later:
        named = commands.enumerate_names([*later])
        yield (
            f"Not restarted, because new pods could wait for devices: {named}. These pods get"
            " claims when they are created again."
        )
    if others:
        named = commands.enumerate_names([*others])
        yield f"Let these finish, or delete their pods one after the other: {named}."


def note_daemons(cluster: ModelCluster) -> Iterator[str]:
    """Yield whose pods would wait after an update: they get claims on nodes with the plugin."""
    offered = cluster.offered()
    kinds = {e.kind for e in cluster.pods.values() if e.served is Served.PLUGIN}
    owners = {
        kind.full_owner
        for kind in map(cluster.kinds.__getitem__, kinds)
        if kind.owner_kind == "DaemonSet" and is_translated(kind, cluster.enforced, offered)
    }
    if owners:
        yield (
            "While nodes have the plugin, do not update"
            f" {commands.enumerate_names(sorted(owners))}: new pods there get claims, and wait. The"
            f' label {TRANSLATE_LABEL}: "off" in the pod template keeps pods and nodes with the'
            " plugin until you remove it; pods on nodes with the driver wait then."
        )


def note_kept(owners: Sequence[str]) -> Iterator[str]:
    """Yield which pods the undo of a translation leaves as they are."""
    if owners:
        yield (
            f"After the undo, pods of {commands.enumerate_names(owners)} keep their claims until"
            " they are created again."
        )
