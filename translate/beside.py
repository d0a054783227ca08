"""What changes in a pod beside its devices: environment, tolerations, and what is told of the rest.

A container that gets devices by a claim must not choose them by its environment as well. What
merely may be useless stays. Knows no dialect and no driver.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from documents.paths import Path, get, show
from documents.values import Value
from dra.finding import Finding
from translate.asks import Ask, Kind, Variable
from translate.patch import Patch
from translate.podview import items, mapping
from translate.verdicts import (
    HOST_RDMA,
    NAMED_DEVICES,
    NOT_ENFORCED,
    RUNTIME_CLASS_KEPT,
    TOLERATION_ADDED,
    VISIBLE_DROPPED,
    VISIBLE_WITHOUT_CLAIM,
)

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


def change(patch: Patch, asks: Collection[Ask], every: Collection[Ask]) -> list[Finding]:
    """Make the changes for the asks that are translated; `every` are those of the whole pod."""
    users = dict.fromkeys(user.path for ask in asks for user in ask.users)
    removed = dict.fromkeys(ask.resources[0] for ask in asks if ask.resources)
    findings = list(_told(patch.pod, users))
    if not any(ask.kind is Kind.NIC for ask in every):
        findings += _host_rdma(patch.pod)
    for path in users:
        findings += _visible(patch, path)
    for ask in asks:
        for setting in ask.settings:
            if isinstance(setting, Variable):
                _variable(patch, ask, setting)
    for name in removed:
        findings += _tolerated(patch, name)
    return findings


def _visible(patch: Patch, path: Path) -> Iterator[Finding]:
    """Take the variable out, from the end, so that numbers stay right."""
    for at, _ in reversed(list(_variables(patch.pod, path, {_VISIBLE}))):
        patch.remove(at)
        yield VISIBLE_DROPPED.at(show(at), f"{_VISIBLE} is taken away, the claim decides")


def _variable(patch: Patch, ask: Ask, setting: Variable) -> None:
    for user in ask.users:
        if not any(_variables(patch.pod, user.path, {setting.name})):
            variable: Value = {"name": setting.name, "value": setting.value}
            patch.append((*user.path, "env"), variable)


def _tolerated(patch: Patch, name: str) -> Iterator[Finding]:
    path: Path = ("spec", "tolerations")
    if any(_tolerates(mapping(each), name) for each in items(get(patch.pod, path))):
        return
    patch.append(path, {"key": name, "operator": "Exists", "effect": "NoSchedule"})
    yield TOLERATION_ADDED.at(show(path), f"{name} is tolerated, as it was while it was asked for")


def _tolerates(one: Mapping[str, Value], name: str) -> bool:
    effect = one.get("effect") in (None, "", "NoSchedule")  # may be unhashable
    exists = one.get("operator") == "Exists"
    return effect and (one.get("key") == name or (exists and not one.get("key")))


def _told(pod: Value, users: Collection[Path]) -> Iterator[Finding]:
    """Tell of what stays and may not mean what it meant."""
    spec = mapping(get(pod, ("spec",)))
    runtime = spec.get("runtimeClassName")
    if isinstance(runtime, str) and runtime.startswith("nvidia"):
        yield RUNTIME_CLASS_KEPT.at("spec.runtimeClassName", f"{runtime} stays")
    for part in _CONTAINERS:
        for number in range(len(items(spec.get(part)))):
            path: Path = ("spec", part, number)
            yield from (_of_user if path in users else _of_other)(pod, path)


def _of_user(pod: Value, path: Path) -> Iterator[Finding]:
    for at, one in _variables(pod, path, {*_NAMED, _PREFIXED}):
        text = f"{one.get('value', '')}"
        if one["name"] != _PREFIXED or text.startswith(("=", "^")) or ":" in text:
            yield NAMED_DEVICES.at(
                show(at), f"{one['name']} is {text or 'set'}, and the claim gives other devices"
            )
    if get(pod, (*path, "securityContext", "privileged")) is True:
        yield NOT_ENFORCED.at(show(path), "the container is privileged and sees every device")


def _of_other(pod: Value, path: Path) -> Iterator[Finding]:
    for at, one in _variables(pod, path, {_VISIBLE}):
        text = f"{one.get('value', '')}"
        if text not in _NONE_VISIBLE:
            yield VISIBLE_WITHOUT_CLAIM.at(
                show(at), f"{_VISIBLE} is {text}, and the container asks for no GPU"
            )


def _host_rdma(pod: Value) -> Iterator[Finding]:
    """Tell of RDMA devices that the pod takes by itself."""
    for number, each in enumerate(items(get(pod, ("spec", "volumes")))):
        at: Path = ("hostPath", "path")
        path = get(each, at)
        if isinstance(path, str) and f"{path.rstrip('/')}/".startswith(_INFINIBAND):
            yield HOST_RDMA.at(
                show(("spec", "volumes", number, *at)),
                f"{path} of the host is mounted, and no network device is asked for",
            )


def _variables(
    pod: Value, path: Path, names: Collection[str]
) -> Iterator[tuple[Path, Mapping[str, Value]]]:
    for number, each in enumerate(items(get(pod, (*path, "env")))):
        one = mapping(each)
        name = one.get("name")
        if isinstance(name, str) and name in names:
            yield (*path, "env", number), one
