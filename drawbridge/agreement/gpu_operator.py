"""What NVIDIA's GPU Operator runs on the nodes of a DRA driver.

A ClusterPolicy runs the device plugin and its companions, a GPUCluster the DRA driver. Each node
has one label for each operand of a ClusterPolicy. Before the DRA driver comes to a node, the
operands that serve or change the same GPUs must leave it. Read in GPU Operator 25.10 to 26.7, which
removes the same labels from a node that it moves to the DRA driver itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.agreement.operation_codes import (
    OPERANDS_KEPT_OFF,
    OPERANDS_ON_DRIVER_NODES,
    TWO_GPU_MODELS,
)
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.finding import Finding
from drawbridge.names import OWNED_TAINT
from drawbridge.translate.changes.tolerations import is_tolerated

DRIVER: Final = "gpu.nvidia.com"
CLUSTER_POLICY, GPU_CLUSTER = "ClusterPolicy", "GPUCluster"
_DEPLOY: Final = "nvidia.com/gpu.deploy."
# The operands that allocate GPUs, or change their partitions, without asking who holds them.
RIVALS: Final = (
    "device-plugin",
    "mig-manager",
    "sandbox-device-plugin",
    "kata-sandbox-device-plugin",  # from 26.7
)
PLUGIN: Final = "DaemonSet/nvidia-device-plugin-daemonset"  # of the operand
_MAX_NODES: Final = 5


class OperatorObjects(NamedTuple):
    """The objects of GPU Operator, by what it calls them."""

    policies: Sequence[Value] = ()  # ClusterPolicy
    clusters: Sequence[Value] = ()  # GPUCluster
    version: str = ""


def find_rivals(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the operands of a node that must leave it before the DRA driver comes."""
    return tuple(each for each in RIVALS if labels.get(f"{_DEPLOY}{each}") == "true")


def set_operands(operands: Iterable[str], value: str) -> str:
    """Return the labels that let operands leave a node, or come back, as a command takes them."""
    return " ".join(f"{_DEPLOY}{each}={value}" for each in operands)


def report_operator(
    operator: OperatorObjects,
    node_labels: Mapping[str, Mapping[str, str]],
    driver_nodes: Iterable[str],
    class_name: str | None,
    *,
    is_fenced: bool = False,
) -> list[Finding | str]:
    """Report the operands that must leave or cannot come, or say what serves GPUs.

    `driver_nodes` are the nodes on which the DRA driver publishes devices, `class_name` is the
    resource name that the DeviceClass of the driver serves: empty without one, None without class.
    With `is_fenced`, nodes of the driver have the taint of owned nodes.
    """
    if not operator.policies and not operator.clusters:
        return []
    results: list[Finding | str] = []
    if operator.policies and operator.clusters:
        names = ", ".join(
            (*_names(CLUSTER_POLICY, operator.policies), *_names(GPU_CLUSTER, operator.clusters))
        )
        results.append(TWO_GPU_MODELS.at("", f"{names} exist together, and NVIDIA supports one"))
    if rivals := _group_rivals(node_labels, driver_nodes):
        results.append(_report_rivals(rivals))
    if is_fenced:
        results += _report_kept_off(operator)
    return results or [_describe(operator, class_name)]


def _names(kind: str, objects: Iterable[Value]) -> list[str]:
    return [f"{kind} {get_value(each, ('metadata', 'name'))}" for each in objects]


def _group_rivals(
    node_labels: Mapping[str, Mapping[str, str]], driver_nodes: Iterable[str]
) -> dict[str, list[str]]:
    """Return the nodes of the driver by the operands that must leave them."""
    rivals: dict[str, list[str]] = {}
    for node in sorted(driver_nodes):
        for operand in find_rivals(node_labels.get(node, {})):
            rivals.setdefault(operand, []).append(node)
    return rivals


def _report_rivals(rivals: Mapping[str, Sequence[str]]) -> Finding:
    nodes = sorted({node for each in rivals.values() for node in each})
    operands = ", ".join(f"{name} ({len(each)})" for name, each in rivals.items())
    noun, verb = ("operand", "runs") if len(rivals) == 1 else ("operands", "run")
    labels = set_operands(rivals, "false")
    listed = list_some(nodes, _MAX_NODES, "node")
    return OPERANDS_ON_DRIVER_NODES.at(
        "",
        f"{noun} {operands} of GPU Operator {verb} on {count_noun(len(nodes), 'node')} with "
        f"devices of {DRIVER}: {listed}",
        remedy=f"Drain each node, then: kubectl label nodes NODE {labels} --overwrite",
    )


def _report_kept_off(operator: OperatorObjects) -> Iterator[Finding]:
    """Report the objects whose operands do not tolerate the taint of owned nodes."""
    for kind, objects in (
        (CLUSTER_POLICY, operator.policies),
        (GPU_CLUSTER, operator.clusters),
    ):
        for model in objects:
            if not is_tolerated({"spec": get_value(model, ("spec", "daemonsets"))}, OWNED_TAINT):
                (name,) = _names(kind, [model])
                message = f"the operands of {name} do not tolerate {OWNED_TAINT}"
                yield OPERANDS_KEPT_OFF.at("", message)


def _describe(operator: OperatorObjects, class_name: str | None) -> str:
    name = f"GPU Operator {operator.version}".strip()
    if operator.policies:
        policy = _names(CLUSTER_POLICY, operator.policies)[0]
        return f"{name}: no operand of {policy} allocates devices on a node of {DRIVER}"
    whole = "there is no DeviceClass yet"
    if class_name is not None:
        whole = (
            f"its class serves {class_name}"
            if class_name
            else "its class serves no resource name, so whole GPUs are translated"
        )
    return f"{name}: {_names(GPU_CLUSTER, operator.clusters)[0]} runs {DRIVER}; {whole}"
