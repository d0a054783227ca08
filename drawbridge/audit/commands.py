"""The commands of a plan, as an administrator types them.

Tenants write the names of owners, so every name is quoted for the shell.
"""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from drawbridge.agreement.gpu_operator import PLUGIN, RIVALS, find_rivals
from drawbridge.audit.node_groups import Group
from drawbridge.audit.servers import Plugin
from drawbridge.documents.values import Value
from drawbridge.names import DEVICES_LABEL, TRANSLATE_LABEL

_VALUE: Final = DEVICES_LABEL.replace(".", "\\.")
MAX_NAMES: Final = 20


def set_mode(namespaces: Iterable[str], mode: str) -> str:
    """Return the command that opts namespaces in or out; an empty mode removes the label."""
    change = f"{TRANSLATE_LABEL}={shlex.quote(mode)} --overwrite" if mode else f"{TRANSLATE_LABEL}-"
    return f"kubectl label namespace {shlex.join(namespaces)} {change}"


def install_driver(driver: str, release: str) -> str:
    """Return the command that installs a driver only on nodes that moved, or changes a release."""
    selector = shlex.quote(f"kubeletPlugin.nodeSelector.{_VALUE}={driver}")
    named = shlex.quote(release) if release else _release(driver)
    reuse = " --reuse-values" if release else ""
    chart = f"<chart of {shlex.quote(driver)}>"
    return f"helm upgrade --install {named} {chart}{reuse} --set {selector}"


def remove_driver(driver: str) -> str:
    """Return the command that removes a driver again."""
    return f"helm uninstall {_release(driver)}"


def roll_back(driver: str, release: str) -> str:
    """Return the command that gives a release the values that it had before."""
    return f"helm rollback {shlex.quote(release) if release else _release(driver)}"


def _release(driver: str) -> str:
    return shlex.quote(f"dra-{driver.replace('.', '-')}")


def label_nodes(names: Iterable[str], driver: str | None) -> str:
    """Return the command that lets a driver run on nodes; None removes the label."""
    value = "" if driver is None else shlex.quote(driver)
    change = f"{DEVICES_LABEL}={value} --overwrite" if value else f"{DEVICES_LABEL}-"
    return f"kubectl label nodes {shlex.join(names)} {change}"


def patch_pods(namespace: str, owner: str, spec: Mapping[str, Value], kind: str = "") -> str:
    """Return the command that changes what an owner says of its pods."""
    text = shlex.quote(json.dumps({"spec": {"template": {"spec": spec}}}, separators=(",", ":")))
    named = f"{shlex.quote(namespace)} patch {typed_owner(owner)}"
    return f"kubectl -n {named}{f' --type={kind}' if kind else ''} -p {text}"


def find_operands(group: Group) -> list[str]:
    """Return the operands of GPU Operator that must leave the nodes of a group."""
    running = {each for node in group.nodes for each in find_rivals(node.labels)}
    return [each for each in RIVALS if each in running]


def is_operators(plugin: Plugin, group: Group) -> bool:
    """Whether GPU Operator runs the plugin, and a label of the node keeps it off."""
    return plugin.owner == PLUGIN and RIVALS[0] in find_operands(group)


def remove_plugin(plugin: Plugin) -> str:
    """Return the command that deletes a plugin."""
    return f"kubectl -n {shlex.quote(plugin.namespace)} delete {typed_owner(plugin.owner)}"


def typed_owner(owner: str) -> str:
    """Return an owner as kubectl takes it."""
    kind, _, name = owner.partition("/")
    return shlex.quote(f"{kind.lower()}/{name}")


def enumerate_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = len(names) - MAX_NAMES
    listed = ", ".join(names[:MAX_NAMES])
    return f"{listed} and {more:,} more" if more > 0 else listed
