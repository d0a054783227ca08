"""Changes the environment and tolerations of a translated pod, and reports related fields.

A container that gets devices from a claim must not select devices with an environment variable.
Fields that are only unnecessary stay as they are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.finding import Finding
from drawbridge.translate.changes.codes import (
    ALLOCATION_NOT_ENFORCED,
    DEVICES_BY_NAME,
    RDMA_BY_HOST_ACCESS,
    RUNTIME_CLASS_KEPT,
    TOLERATION_ADDED,
    VISIBLE_DEVICES_DROPPED,
    VISIBLE_WITHOUT_CLAIM,
)
from drawbridge.translate.changes.devices_of_node import list_host_paths, report_devices_of_node
from drawbridge.translate.changes.patch import Patch
from drawbridge.translate.changes.selecting_annotations import report_selecting
from drawbridge.translate.changes.tolerations import add_toleration
from drawbridge.translate.legacy.asks import Ask, EnvironmentVariable, Kind
from drawbridge.translate.legacy.pod_view import list_containers

_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
# What container runtimes of other vendors read, or the libraries in a container without a claim.
_SHOWN: Final = frozenset(
    {
        _VISIBLE,
        "AMD_VISIBLE_DEVICES",
        "ASCEND_VISIBLE_DEVICES",
        "CAMBRICON_VISIBLE_DEVICES",
        "HABANA_VISIBLE_DEVICES",
        "MTHREADS_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    }
)
_NONE_VISIBLE: Final = frozenset({"", "none", "void"})
# These name devices by index or name, but a claim may allocate other devices.
_NAMED: Final = frozenset(
    {
        "ASCEND_RT_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
        "HABANA_VISIBLE_MODULES",
        "HIP_VISIBLE_DEVICES",
        "NEURON_RT_VISIBLE_CORES",
        "NVSHMEM_HCA_PE_MAPPING",
        "ZE_AFFINITY_MASK",
        *(_SHOWN - {_VISIBLE}),
    }
)
_PREFIXED: Final = "NCCL_IB_HCA"  # a prefix such as mlx5 stays valid; lists and exclusions do not
_INFINIBAND: Final = "/dev/infiniband/"
# The variables whose values a translation reads.
DEVICE_VARIABLES: Final = _NAMED | {_VISIBLE, _PREFIXED}
_Variables = Sequence[tuple[int, Mapping[str, Value]]]


def change_environment(
    patch: Patch, asks: Collection[Ask], all_asks: Collection[Ask]
) -> list[Finding]:
    """Make the changes for the translated asks; `all_asks` are all asks of the pod."""
    users = dict.fromkeys([user.path for ask in asks for user in ask.users])
    removed = dict.fromkeys([ask.resources[0] for ask in asks if ask.resources])
    spec = as_mapping(as_mapping(patch.pod).get("spec"))
    containers = {path: container for path, container, _ in list_containers(spec)}
    chosen = {path: variables for path, one in containers.items() if (variables := _variables(one))}
    findings = _report_containers(containers, users, chosen)
    runtime = spec.get("runtimeClassName")
    if isinstance(runtime, str) and runtime.startswith("nvidia"):
        findings.insert(
            0,
            RUNTIME_CLASS_KEPT.at(
                "spec.runtimeClassName",
                f"runtime class {runtime} stays, although the claim does not need it",
            ),
        )
    findings += report_devices_of_node(patch.pod)
    findings += report_selecting(patch.pod, asks)
    if not any(ask.kind is Kind.NIC for ask in all_asks):
        findings += _report_host_rdma(patch.pod)
    for path in users:
        findings += _remove_visible(patch, path, chosen.get(path, ()))
    for ask in asks:
        for setting in ask.settings:
            if isinstance(setting, EnvironmentVariable):
                _add_variable(patch, ask, setting)
    return [*findings, *_add_tolerations(patch, removed)]


def report_visible(pod: Value, asks: Iterable[Ask]) -> Iterator[Finding]:
    """Report what shows devices to containers without a request or a claim."""
    users = {user.path for ask in asks for user in ask.users}
    for path, container, _ in list_containers(as_mapping(as_mapping(pod).get("spec"))):
        if path not in users and not as_mapping(container.get("resources")).get("claims"):
            yield from _report_visible(path, _variables(container))
    yield from report_devices_of_node(pod)


def _remove_visible(patch: Patch, path: Path, chosen: _Variables) -> list[Finding]:
    """Remove the variable, from the last one on, so that the indices stay valid."""
    findings = []
    for number, variable in reversed(chosen):
        if variable["name"] == _VISIBLE:
            at = (*path, "env", number)
            patch.remove(at)
            message = f"removed {_VISIBLE}, because the claim selects the devices"
            findings.append(VISIBLE_DEVICES_DROPPED.at(format_path(at), message))
    return findings


def _add_variable(patch: Patch, ask: Ask, setting: EnvironmentVariable) -> None:
    for user in ask.users:
        env = as_list(get_value(patch.pod, (*user.path, "env")))
        if not any(as_mapping(each).get("name") == setting.name for each in env):
            variable: Value = {"name": setting.name, "value": setting.value}
            patch.append((*user.path, "env"), variable)


def _add_tolerations(patch: Patch, names: Iterable[str]) -> Iterator[Finding]:
    """Tolerate the taints of resources that the pod no longer requests."""
    for name in names:
        if add_toleration(patch, name):
            what = "because the pod no longer requests that resource"
            message = f"added a toleration for {name}, {what}"
            yield TOLERATION_ADDED.at("spec.tolerations", message)


def _report_containers(
    containers: Mapping[Path, Mapping[str, Value]],
    users: Collection[Path],
    chosen: Mapping[Path, _Variables],
) -> list[Finding]:
    """Report fields of containers that stay but may lose their effect."""
    findings: list[Finding] = []
    for path, container in containers.items():
        if path in chosen:
            findings += (_report_named if path in users else _report_visible)(path, chosen[path])
        if path in users and as_mapping(container.get("securityContext")).get("privileged") is True:
            message = "the container is privileged, so it has access to every device of the node"
            findings.append(ALLOCATION_NOT_ENFORCED.at(format_path(path), message))
    return findings


def _report_named(path: Path, chosen: _Variables) -> Iterator[Finding]:
    for number, variable in chosen:
        text = f"{variable.get('value', '')}"
        exact = variable["name"] != _PREFIXED or text.startswith(("=", "^")) or ":" in text
        if exact and variable["name"] != _VISIBLE:
            yield DEVICES_BY_NAME.at(
                format_path((*path, "env", number)),
                f"{variable['name']} is {text or 'set'}, but the claim may allocate other devices",
            )


def _report_visible(path: Path, chosen: _Variables) -> Iterator[Finding]:
    for number, variable in chosen:
        text = f"{variable.get('value', '')}"
        if variable["name"] in _SHOWN and text not in _NONE_VISIBLE:
            yield VISIBLE_WITHOUT_CLAIM.at(
                format_path((*path, "env", number)),
                f"{variable['name']} is {text}, but the container requests no GPU",
            )


def _report_host_rdma(pod: Value) -> Iterator[Finding]:
    """Report RDMA devices that the pod accesses through hostPath volumes."""
    for where, path in list_host_paths(pod):
        if f"{path.rstrip('/')}/".startswith(_INFINIBAND):
            what = f"mounts {path} of the host, but the pod requests no network device"
            yield RDMA_BY_HOST_ACCESS.at(where, what)


def _variables(container: Mapping[str, Value]) -> _Variables:
    """Find the variables of a container that select devices, with their indices."""
    variables = []
    for number, variable in enumerate(as_list(container.get("env"))):
        if isinstance(variable, dict):
            name = variable.get("name")
            if isinstance(name, str) and name in DEVICE_VARIABLES:
                variables.append((number, variable))
    return variables
