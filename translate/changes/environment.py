"""What changes in a pod beside its devices: environment, tolerations, and what is told of the rest.

A container that gets devices by a claim must not choose them by its environment as well. What
merely may be useless stays. Knows no dialect and no driver.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from documents.paths import Path, format_path, get_value
from documents.values import Value
from dra.finding import Finding
from translate.changes.codes import (
    HOST_RDMA,
    NAMED_DEVICES,
    NOT_ENFORCED,
    RUNTIME_CLASS_KEPT,
    TOLERATION_ADDED,
    VISIBLE_DROPPED,
    VISIBLE_WITHOUT_CLAIM,
)
from translate.changes.patch import Patch
from translate.legacy.asks import Ask, EnvironmentVariable, Kind
from translate.legacy.pod_view import as_list, as_mapping

_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_NONE_VISIBLE: Final = frozenset({"", "none", "void"})
# Devices by number or name: with a claim other ones are there.
_NAMED: Final = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "NVSHMEM_HCA_PE_MAPPING",
    }
)
_PREFIXED: Final = "NCCL_IB_HCA"  # a prefix such as mlx5 stays right; lists and exclusions do not
_INFINIBAND: Final = "/dev/infiniband/"
_CONTAINERS: Final = ("initContainers", "containers")
_READ: Final = _NAMED | {_VISIBLE, _PREFIXED}
_Variables = Sequence[tuple[int, Mapping[str, Value]]]
_Containers = Mapping[Path, Mapping[str, Value]]


def change_environment(
    patch: Patch, asks: Collection[Ask], every: Collection[Ask]
) -> list[Finding]:
    """Make the changes for the asks that are translated; `every` are those of the whole pod."""
    users = dict.fromkeys([user.path for ask in asks for user in ask.users])
    removed = dict.fromkeys([ask.resources[0] for ask in asks if ask.resources])
    spec = as_mapping(as_mapping(patch.pod).get("spec"))
    containers = _containers(spec)
    chosen = {path: each for path, one in containers.items() if (each := _variables(one))}
    findings = _told(containers, users, chosen)
    runtime = spec.get("runtimeClassName")
    if isinstance(runtime, str) and runtime.startswith("nvidia"):
        findings.insert(0, RUNTIME_CLASS_KEPT.at("spec.runtimeClassName", f"{runtime} stays"))
    if not any(ask.kind is Kind.NIC for ask in every):
        findings += _host_rdma(spec)
    for path in users:
        findings += _dropped(patch, path, chosen.get(path, ()))
    for ask in asks:
        for setting in ask.settings:
            if isinstance(setting, EnvironmentVariable):
                _variable(patch, ask, setting)
    for name in removed:
        findings += _tolerated(patch, name)
    return findings


def _dropped(patch: Patch, path: Path, chosen: _Variables) -> list[Finding]:
    """Take the variable out, from the end, so that numbers stay right."""
    findings = []
    for number, one in reversed(chosen):
        if one["name"] == _VISIBLE:
            at = (*path, "env", number)
            patch.remove(at)
            what = f"{_VISIBLE} is taken away, the claim decides"
            findings.append(VISIBLE_DROPPED.at(format_path(at), what))
    return findings


def _variable(patch: Patch, ask: Ask, setting: EnvironmentVariable) -> None:
    for user in ask.users:
        env = as_list(get_value(patch.pod, (*user.path, "env")))
        if not any(as_mapping(each).get("name") == setting.name for each in env):
            variable: Value = {"name": setting.name, "value": setting.value}
            patch.append((*user.path, "env"), variable)


def _tolerated(patch: Patch, name: str) -> list[Finding]:
    for each in as_list(as_mapping(as_mapping(patch.pod).get("spec")).get("tolerations")):
        if isinstance(each, dict) and _tolerates(each, name):
            return []
    patch.append(
        ("spec", "tolerations"), {"key": name, "operator": "Exists", "effect": "NoSchedule"}
    )
    what = f"{name} is tolerated, as it was while it was asked for"
    return [TOLERATION_ADDED.at("spec.tolerations", what)]


def _tolerates(one: Mapping[str, Value], name: str) -> bool:
    key = one.get("key")
    if key != name and (key or one.get("operator") != "Exists"):
        return False
    return one.get("effect") in (None, "", "NoSchedule")  # may be unhashable


def _told(
    containers: _Containers, users: Collection[Path], chosen: Mapping[Path, _Variables]
) -> list[Finding]:
    """Tell of what stays in containers and may not mean what it meant."""
    findings: list[Finding] = []
    for path, one in containers.items():
        if path in chosen:
            findings += (_of_user if path in users else _of_other)(path, chosen[path])
        if path in users and as_mapping(one.get("securityContext")).get("privileged") is True:
            what = "the container is privileged and sees every device"
            findings.append(NOT_ENFORCED.at(format_path(path), what))
    return findings


def _of_user(path: Path, chosen: _Variables) -> Iterator[Finding]:
    for number, one in chosen:
        text = f"{one.get('value', '')}"
        exact = one["name"] != _PREFIXED or text.startswith(("=", "^")) or ":" in text
        if exact and one["name"] != _VISIBLE:
            yield NAMED_DEVICES.at(
                format_path((*path, "env", number)),
                f"{one['name']} is {text or 'set'}, and the claim gives other devices",
            )


def _of_other(path: Path, chosen: _Variables) -> Iterator[Finding]:
    for number, one in chosen:
        text = f"{one.get('value', '')}"
        if one["name"] == _VISIBLE and text not in _NONE_VISIBLE:
            yield VISIBLE_WITHOUT_CLAIM.at(
                format_path((*path, "env", number)),
                f"{_VISIBLE} is {text}, and the container asks for no GPU",
            )


def _host_rdma(spec: Mapping[str, Value]) -> Iterator[Finding]:
    """Tell of RDMA devices that the pod takes by itself."""
    for number, each in enumerate(as_list(spec.get("volumes"))):
        if not isinstance(each, dict) or "hostPath" not in each:
            continue
        path = as_mapping(each["hostPath"]).get("path")
        if isinstance(path, str) and f"{path.rstrip('/')}/".startswith(_INFINIBAND):
            yield HOST_RDMA.at(
                format_path(("spec", "volumes", number, "hostPath", "path")),
                f"{path} of the host is mounted, and no network device is asked for",
            )


def _containers(spec: Mapping[str, Value]) -> _Containers:
    return {
        ("spec", part, number): as_mapping(each)
        for part in _CONTAINERS
        for number, each in enumerate(as_list(spec.get(part)))
    }


def _variables(container: Mapping[str, Value]) -> _Variables:
    """Find the variables of a container that are about devices, with their numbers."""
    found = []
    for number, each in enumerate(as_list(container.get("env"))):
        if isinstance(each, dict):
            name = each.get("name")
            if isinstance(name, str) and name in _READ:
                found.append((number, each))
    return found
