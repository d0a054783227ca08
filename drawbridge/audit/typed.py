"""The commands that move nodes: each with what it does in the models, so that both are the same.

Every command can be typed again, so that a move that was interrupted is typed from its start. Nodes
that move have an annotation which says so, and whether they were cordoned before.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from drawbridge.agreement.gpu_operator import set_operands
from drawbridge.agreement.scope import Mode
from drawbridge.audit import commands
from drawbridge.audit.interrupted import CORDONED, OPEN
from drawbridge.models.cluster import ModelCluster
from drawbridge.models.pods import ModelPod, PodKind
from drawbridge.names import DEVICES_LABEL, MOVING_ANNOTATION

NODE: Final = "$node"  # in a loop
# No driver has this name: plugins leave nodes with it, and no driver comes.
NO_DRIVER: Final = "none"
WITHOUT_BUDGETS: Final = "--disable-eviction"
_PATIENCE: Final = "10m"
_DRAIN: Final = "--ignore-daemonsets --delete-emptydir-data"
_WAITING: Final = "--field-selector status.phase=Pending,spec.nodeName="


def _nothing(_: ModelCluster) -> None:
    """Change nothing that the models know."""


class Typed(NamedTuple):
    """A command, and what it does. A check changes nothing, and ends when one can go on."""

    command: str
    play: Callable[[ModelCluster], None] = _nothing
    is_check: bool = False


class Moving(NamedTuple):
    """Nodes that move at once, and what must be done for them beside."""

    nodes: tuple[str, ...]
    driver: str
    replaced: tuple[str, ...]
    operands: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()  # before the move
    daemons: tuple[tuple[str, str], ...] = ()  # namespace and selector of DaemonSets with devices
    daemon_owners: frozenset[str] = frozenset()


def set_modes(modes: Mapping[str, str]) -> Iterator[Typed]:
    """Yield the commands that set modes of namespaces; an empty mode removes the label."""
    by_mode: dict[str, list[str]] = {}
    for namespace, mode in modes.items():
        by_mode.setdefault(mode, []).append(namespace)
    for mode, names in by_mode.items():
        yield Typed(commands.set_mode(names, mode), partial(_set_modes, names, mode))


def _set_modes(names: Iterable[str], mode: str, cluster: ModelCluster) -> None:
    for each in names:
        cluster.set_mode(each, enforced=mode == Mode.ENFORCE)


def begin(moving: Moving) -> Iterator[Typed]:
    """Yield the commands that mark the nodes as moving."""
    opened = [each for each in moving.nodes if each not in moving.cordoned]
    for names, state in ((opened, OPEN), (moving.cordoned, CORDONED)):
        if names:
            yield Typed(
                f"kubectl annotate nodes {join(names)} {MOVING_ANNOTATION}="
                f"{shlex.quote(moving.driver)},{state} --overwrite"
            )


def join(names: Iterable[str]) -> str:
    """Return names as a shell takes them; `$node` is the variable of a loop."""
    return " ".join(each if each == NODE else shlex.quote(each) for each in names)


def cordon(nodes: Sequence[str]) -> Typed:
    """Return the command that keeps new pods off nodes before the drain does."""
    return Typed(
        f"kubectl cordon {join(nodes)}", lambda cluster: cluster.cordon(nodes, cordoned=True)
    )


def uncordon(nodes: Sequence[str]) -> Typed:
    """Return the command that lets new pods come to nodes."""
    return Typed(
        f"kubectl uncordon {join(nodes)}", lambda cluster: cluster.cordon(nodes, cordoned=False)
    )


def drain(nodes: Sequence[str], *, obeys_budgets: bool = True) -> Typed:
    """Return the command that drains nodes. Without budgets, it deletes their pods."""
    more = "" if obeys_budgets else f" {WITHOUT_BUDGETS}"
    text = f"kubectl drain {join(nodes)} {_DRAIN}{more}"
    return Typed(text, lambda cluster: cluster.drain(nodes, obeys_budgets=obeys_budgets))


def swap(moving: Moving) -> Iterator[Typed]:
    """Yield the commands that let the plugin go and the driver come, and wait for both.

    Drain leaves pods of DaemonSets, with devices of the plugin. Deleted while the plugin runs, they
    get others from it; while the driver runs, it can give away devices of those not deleted yet. So
    they are deleted between the two.
    """
    named = join(moving.nodes)
    operands = f" {set_operands(moving.operands, 'false')}" if moving.operands else ""
    yield Typed(
        f"kubectl label nodes {named} {DEVICES_LABEL}={NO_DRIVER}{operands} --overwrite",
        lambda cluster: cluster.unplug(moving.nodes),
    )
    yield from _wait_for_plugin(moving, "-qv")
    yield from _delete_daemons(moving)
    yield Typed(
        f"kubectl label nodes {named} {DEVICES_LABEL}={shlex.quote(moving.driver)} --overwrite",
        lambda cluster: cluster.swap(moving.nodes),
    )
    yield Typed(wait_for_driver(moving.nodes, moving.driver), is_check=True)


def _wait_for_plugin(moving: Moving, how: str) -> Iterator[Typed]:
    """Yield the commands that wait until `grep` finds what the plugin offers, or does not."""
    names = "|".join(map(_match_name, moving.replaced))
    for node in moving.nodes if names else ():
        read = f'kubectl get node {join([node])} -o jsonpath="{{.status.allocatable}}"'
        yield Typed(_until(f'{read} | grep {how}E "({names}).:.[1-9]"'), is_check=True)


def _match_name(name: str) -> str:
    """Return a pattern of a resource name without characters that mean something to a shell."""
    return re.sub(r"[^\w/-]", lambda odd: "[.]" if odd[0] == "." else ".", name)


def _delete_daemons(moving: Moving) -> Iterator[Typed]:
    plays = _delete_of(moving.daemon_owners, moving.nodes)
    for namespace, selector in moving.daemons:
        for node in moving.nodes:
            delete = f"kubectl -n {shlex.quote(namespace)} delete pods -l {shlex.quote(selector)}"
            yield Typed(f"{delete} --field-selector spec.nodeName={join([node])}", plays)


def _delete_of(owners: frozenset[str], nodes: Sequence[str]) -> Callable[[ModelCluster], None]:
    def play(cluster: ModelCluster) -> None:
        def is_chosen(pod: ModelPod) -> bool:
            return pod.node in nodes and cluster.kinds[pod.kind].full_owner in owners

        cluster.delete(is_chosen)

    return play


def swap_back(moving: Moving) -> Iterator[Typed]:
    """Yield the commands that let the driver go and the plugin come, on nodes that were drained.

    The pods of DaemonSets go while the driver runs, which they need to end. The plugin comes when
    the slices are gone: as long as they stay, the scheduler gives their devices to claims.
    """
    yield from _delete_daemons(moving)
    named = join(moving.nodes)
    yield Typed(f"kubectl label nodes {named} {DEVICES_LABEL}={NO_DRIVER} --overwrite")
    yield Typed(_until(_find_slices(moving.nodes, moving.driver, "! ")), is_check=True)
    label = f"{DEVICES_LABEL}-"
    if moving.operands:
        label += f" {set_operands(moving.operands, 'true')} --overwrite"
    yield Typed(
        f"kubectl label nodes {named} {label}",
        lambda cluster: cluster.swap_back(moving.nodes),
    )
    yield from _wait_for_plugin(moving, "-q")


def wait_for_driver(nodes: Sequence[str], driver: str) -> str:
    """Return the command that waits until a driver publishes devices of each of the nodes."""
    return _until(_find_slices(nodes, driver))


def _find_slices(nodes: Sequence[str], driver: str, no: str = "") -> str:
    return " && ".join(
        f"{no}kubectl get resourceslices --field-selector spec.nodeName={join([node])},"
        f"spec.driver={shlex.quote(driver)} -o name | grep -q ."
        for node in nodes
    )


def _until(condition: str) -> str:
    """Return a command that waits for a condition, and fails after ten minutes."""
    script = shlex.quote(f"until {condition}; do sleep 2; done")
    return f"timeout {_PATIENCE} sh -c {script}"


def end(moving: Moving) -> Iterator[Typed]:
    """Yield the commands that let pods come to the nodes, but to those that were cordoned."""
    if opened := [each for each in moving.nodes if each not in moving.cordoned]:
        yield uncordon(opened)
    yield Typed(f"kubectl annotate nodes {join(moving.nodes)} {MOVING_ANNOTATION}-")


def move_in_turn(moving: Moving) -> str:
    """Return one command that moves one node after the other, until a command fails."""
    turn = Moving((NODE,), moving.driver, moving.replaced, moving.operands)
    inside = (*begin(turn), drain(turn.nodes), *swap(turn), *end(turn))
    body = " && ".join(each.command for each in inside)
    return f"for node in {join(moving.nodes)}; do export node; {body} || break; done"


# --- workloads -----------------------------------------------------------------------------------


def suspend(jobs: Sequence[tuple[str, str]]) -> Iterator[Typed]:
    """Yield the commands that suspend Jobs, so that the end of their pods is no failure."""
    yield from _patch_jobs(jobs, suspended=True)


def resume(jobs: Sequence[tuple[str, str]]) -> Iterator[Typed]:
    """Yield the commands that let suspended Jobs go on."""
    yield from _patch_jobs(jobs, suspended=False)


def _patch_jobs(jobs: Sequence[tuple[str, str]], *, suspended: bool) -> Iterator[Typed]:
    mark = {MOVING_ANNOTATION: "suspended" if suspended else None}
    patch = {"metadata": {"annotations": mark}, "spec": {"suspend": suspended}}
    text = shlex.quote(json.dumps(patch, separators=(",", ":")))
    for namespace, owner in jobs:
        names = {f"{namespace}/{owner}"}
        play = ModelCluster.suspend if suspended else ModelCluster.resume
        named = f"{shlex.quote(namespace)} patch {commands.typed_owner(owner)}"
        yield Typed(f"kubectl -n {named} --type=merge -p {text}", partial(play, owners=names))


def delete_pod(namespace: str, name: str) -> Typed:
    """Return the command that deletes a pod that nobody creates again."""
    full = f"{namespace}/Pod/{name}"

    def play(cluster: ModelCluster) -> None:
        kinds = {e for e in cluster.kinds_of(full) if cluster.kinds[e].is_bare}
        cluster.delete(lambda pod: pod.kind in kinds)

    where = f"kubectl -n {shlex.quote(namespace)}"
    return Typed(f"{where} delete pod {shlex.quote(name)} --ignore-not-found", play)


def delete_waiting(namespace: str, owner: str, selector: str) -> Typed:
    """Return the command that deletes the pods of an owner that wait for a node."""
    full = f"{namespace}/{owner}"

    def play(cluster: ModelCluster) -> None:
        cluster.delete(lambda pod: not pod.node and cluster.kinds[pod.kind].full_owner == full)

    where = f"kubectl -n {shlex.quote(namespace)} delete pods"
    return Typed(f"{where} -l {shlex.quote(selector)} {_WAITING}", play)


def delete_all_waiting(
    kinds: Iterable[PodKind], find_selector: Callable[[PodKind], str]
) -> list[Typed]:
    """Return the commands that delete waiting pods which their owners create again."""
    owners = dict.fromkeys(
        (each.namespace, each.owner, find_selector(each))
        for each in kinds
        if not (each.is_bare or each.is_gated)
    )
    return [delete_waiting(*each) for each in owners if each[-1]]


def wait_for_nodes(namespace: str, selector: str) -> Typed:
    """Return the check that no selected pod waits for a node."""
    get = f"kubectl -n {shlex.quote(namespace)} get pods -l {shlex.quote(selector)} {_WAITING}"
    return Typed(_until(f"! {get} -o name | grep -q ."), is_check=True)


def wait_for_job(namespace: str, owner: str, pods: int) -> Typed:
    """Return the check that a Job has so many pods, or has ended."""
    named = f"{shlex.quote(namespace)} get {commands.typed_owner(owner)}"
    told = '-o jsonpath="{.status.active} {.status.conditions[*].type}"'
    shows = f'kubectl -n {named} {told} | grep -qE "^{pods} |Complete|Failed"'
    return Typed(_until(shows), is_check=True)


def restart(namespace: str, owners: Iterable[str]) -> Iterator[Typed]:
    """Yield the commands that restart workloads."""
    for owner in owners:
        names = {f"{namespace}/{owner}"}
        text = f"kubectl -n {shlex.quote(namespace)} rollout restart {commands.typed_owner(owner)}"
        yield Typed(text, partial(ModelCluster.restart, owners=names))
        yield Typed(
            text.replace(" restart ", " status ") + f" --timeout={_PATIENCE}", is_check=True
        )


def wait_for_admission(namespace: str, units: Mapping[str, int], *, translates: bool) -> Typed:
    """Return the check that new pods of a namespace get claims, or none: a dry run shows it."""
    limits = {name: f"{number}" for name, number in units.items()}
    container = {"name": "probe", "image": "probe", "resources": {"limits": limits}}
    overrides = json.dumps({"spec": {"containers": [container]}}, separators=(",", ":"))
    dry = "--restart=Never --dry-run=server -o yaml"
    made = f"kubectl -n {shlex.quote(namespace)} run probe --image=probe {dry}"
    probe = f"{made} --overrides={shlex.quote(overrides)}"
    if translates:
        shows = f'{probe} 2>&1 | grep -qE "resourceClaims|denied|forbidden"'
    else:
        shows = f"! {probe} 2>/dev/null | grep -q resourceClaims"
    return Typed(_until(shows), is_check=True)
