"""The commands of a plan, as an administrator types them.

Tenants write the names of owners, so every name is quoted for the shell.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from drawbridge.agreement.gpu_operator import PLUGIN, RIVALS, find_rivals, set_operands
from drawbridge.agreement.scope import Mode
from drawbridge.audit.model import NamespaceAudit, WorkloadAudit
from drawbridge.audit.node_groups import HOST_LABEL, Group
from drawbridge.audit.servers import Plugin
from drawbridge.names import DEVICES_LABEL, TRANSLATE_LABEL

_RESTARTED: Final = ("Deployment", "StatefulSet")
# No driver has this name: plugins leave nodes with it, and no driver comes.
_NO_DRIVER: Final = "none"
_PLUGIN_GONE: Final = "10m"
_DRAIN: Final = "--ignore-daemonsets --delete-emptydir-data"
_VALUE: Final = DEVICES_LABEL.replace(".", "\\.")
MAX_NAMES: Final = 20
# DaemonSets with their namespace.
Daemons = Sequence[tuple[str, WorkloadAudit]]


def set_mode(namespaces: Iterable[str], mode: str) -> str:
    """Return the command that opts namespaces in or out; an empty mode removes the label."""
    change = f"{TRANSLATE_LABEL}={mode} --overwrite" if mode else f"{TRANSLATE_LABEL}-"
    return f"kubectl label namespace {shlex.join(namespaces)} {change}"


def install_driver(driver: str) -> str:
    """Return the command that installs a driver only on nodes that moved."""
    selector = f"kubeletPlugin.nodeSelector.{_VALUE}={driver}"
    release = _release(driver)
    return f"helm upgrade --install {release} <chart of {driver}> --set '{selector}'"


def remove_driver(driver: str) -> str:
    """Return the command that removes a driver again."""
    return f"helm uninstall {_release(driver)}"


def _release(driver: str) -> str:
    return shlex.quote(f"dra-{driver.replace('.', '-')}")


def label_served(group: Group, drivers: Iterable[str]) -> str:
    """Return the command that labels nodes where one of the drivers runs already."""
    driver = next(each for each in drivers if each in group.now.drivers)
    nodes = [each.name for each in group.nodes]
    return f"kubectl label nodes {_select(group, nodes)} {DEVICES_LABEL}={driver} --overwrite"


def find_operands(group: Group) -> list[str]:
    """Return the operands of GPU Operator that must leave the nodes of a group."""
    running = {each for node in group.nodes for each in find_rivals(node.labels)}
    return [each for each in RIVALS if each in running]


def is_operators(plugin: Plugin, group: Group) -> bool:
    """Whether GPU Operator runs the plugin, and a label of the node keeps it off."""
    return plugin.owner == PLUGIN and RIVALS[0] in find_operands(group)


def keep_off(plugin: Plugin) -> str:
    """Return the command that keeps a plugin off nodes that moved."""
    requirement = {"key": DEVICES_LABEL, "operator": "DoesNotExist"}
    required = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    patch = {"spec": {"template": {"spec": {"affinity": affinity}}}}
    text = json.dumps(patch, separators=(",", ":"))
    return f"kubectl -n {shlex.quote(plugin.namespace)} patch {_typed(plugin.owner)} -p '{text}'"


def remove_plugin(plugin: Plugin) -> str:
    """Return the command that deletes a plugin."""
    return f"kubectl -n {shlex.quote(plugin.namespace)} delete {_typed(plugin.owner)}"


def move_nodes(group: Group, nodes: Sequence[str], daemons: Daemons) -> tuple[str, ...]:
    """Return the commands that move nodes of a group from their plugin to the driver.

    Drain leaves pods of DaemonSets, with devices of the plugin. Deleted while the plugin runs, they
    get others from it; while the driver runs, it can give away devices of those not deleted yet. So
    they are deleted between the two.
    """
    named = _select(group, nodes)
    label = f"{DEVICES_LABEL}={group.driver}"
    operators = "".join([" " + set_operands([each], "false") for each in find_operands(group)])
    between: list[str] = []
    if daemons:
        between = [
            f"kubectl label nodes {named} {DEVICES_LABEL}={_NO_DRIVER}{operators} --overwrite",
            *_wait_for_plugin(group, named),
            *_delete_daemons(group, nodes, daemons),
        ]
    else:
        label += operators
    return (
        f"kubectl drain {named} {_DRAIN}",
        *between,
        f"kubectl label nodes {named} {label} --overwrite",
        *_uncordon(group, nodes),
        "drawbridge audit",
    )


def _wait_for_plugin(group: Group, named: str) -> Iterator[str]:
    for name in sorted(group.replaced):
        path = "{.status.allocatable." + name.replace(".", "\\.") + "}"
        yield f"kubectl wait nodes {named} --for=jsonpath='{path}'=0 --timeout={_PLUGIN_GONE}"


def _delete_daemons(group: Group, nodes: Sequence[str], daemons: Daemons) -> Iterator[str]:
    """Yield the commands that delete the pods of DaemonSets on nodes of a group."""
    listed = f"printf '%s\\n' {shlex.join(nodes)}"
    if (named := _select(group, nodes)).startswith("-l "):
        listed = f"kubectl get nodes {named} -o name | cut -d/ -f2"
    for namespace, daemon in daemons:
        if not daemon.pod_selector:
            continue
        delete = f"{_delete_pods(namespace, daemon)} --field-selector spec.nodeName"
        if len(nodes) == 1:
            yield f"{delete}={shlex.quote(nodes[0])}"
        else:
            yield f"{listed} | xargs -I{{}} {delete}={{}}"


def _delete_pods(namespace: str, daemon: WorkloadAudit) -> str:
    return f"kubectl -n {shlex.quote(namespace)} delete pods -l {shlex.quote(daemon.pod_selector)}"


def move_back(group: Group, nodes: Sequence[str], daemons: Daemons) -> tuple[str, ...]:
    """Return the commands that give the nodes back to their plugin.

    The pods of DaemonSets go while the driver runs, which they need to end, and ask the plugin.
    """
    namespaces = dict.fromkeys(where for where, _ in daemons)
    named, operands = _select(group, nodes), find_operands(group)
    label = f"{DEVICES_LABEL}-"
    if operands:
        label += f" {set_operands(operands, 'true')} --overwrite"
    return (
        *(set_mode([each], Mode.OFF) for each in namespaces),
        f"kubectl drain {named} {_DRAIN}",
        *_delete_daemons(group, nodes, daemons),
        f"kubectl label nodes {named} {label}",
        *_uncordon(group, nodes),
    )


def _uncordon(group: Group, nodes: Sequence[str]) -> Iterator[str]:
    """Yield the command that lets pods on the nodes that were not cordoned before."""
    closed = [each for each in group.nodes if each.unschedulable and each.name in nodes]
    hosts = [each.labels.get(HOST_LABEL, "") for each in closed]
    if not closed:
        yield f"kubectl uncordon {_select(group, nodes)}"
    elif len(nodes) == len(group.nodes) and group.selector and all(hosts):
        apart = f"{group.selector},{HOST_LABEL} notin ({','.join(hosts)})"
        yield f"kubectl uncordon -l {shlex.quote(apart)}"
    elif opened := [each for each in nodes if each not in {node.name for node in closed}]:
        yield f"kubectl uncordon {shlex.join(opened)}"


def _select(group: Group, nodes: Sequence[str]) -> str:
    if len(nodes) == len(group.nodes) and group.selector:
        is_host = group.selector.startswith(f"{HOST_LABEL}=")
        if not (is_host and len(nodes) == 1):
            return f"-l {shlex.quote(group.selector)}"
    return shlex.join(nodes)


def restart(namespace: str, again: Iterable[WorkloadAudit]) -> Iterator[str]:
    """Yield the commands that create the pods of workloads again."""
    for workload in again:
        if workload.is_daemon and workload.pod_selector:
            # The others have claims, or are on nodes that have not moved.
            yield f"{_delete_pods(namespace, workload)} --field-selector status.phase=Pending"
        elif _is_restarted(workload):
            yield f"kubectl -n {shlex.quote(namespace)} rollout restart {_typed(workload.owner)}"


def _is_restarted(workload: WorkloadAudit) -> bool:
    """Whether a command restarts it. Pods name their owners, so only one that was read counts."""
    is_named = workload.owner.startswith(_KINDS) and workload.wanted is not None
    return is_named or bool(workload.pod_selector)


_KINDS: Final = tuple(f"{kind}/" for kind in _RESTARTED)


def _typed(owner: str) -> str:
    kind, _, name = owner.partition("/")
    return shlex.quote(f"{kind.lower()}/{name}")


def by_hand(namespace: NamespaceAudit, again: Sequence[WorkloadAudit]) -> Iterator[str]:
    """Yield what no command restarts."""
    bare = [each.owner for each in again if each.owner.startswith("Pod/")]
    others = [e.owner for e in again if e.owner not in bare and not _is_restarted(e)]
    if bare:
        yield f"Nobody creates these pods again, so their owners must: {enumerate_names(bare)}."
    if others:
        named = enumerate_names(others)
        yield f"Let these finish, or delete their pods one after the other: {named}."
    if stays := [each.owner for each in namespace.workloads if not each.fate.goes]:
        yield f"These are not translated: {enumerate_names([*dict.fromkeys(stays)])}."


def enumerate_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = len(names) - MAX_NAMES
    listed = ", ".join(names[:MAX_NAMES])
    return f"{listed} and {more:,} more" if more > 0 else listed
