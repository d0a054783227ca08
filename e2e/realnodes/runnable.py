"""Makes a legacy manifest runnable on real nodes: images, commands and sizes change. Pure.

What asks for devices stays: limits, annotations, labels, schedulers, node selectors and affinity.
"""

from typing import Any

from e2e.realnodes.stage import PRINT, container

GRACE_SECONDS = 2
# A node of the rig is small, and no other program listens, mounts or is asked here.
SIZES = ("cpu", "memory", "ephemeral-storage")
PROGRAM = (
    "args",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "startupProbe",
    "volumeMounts",
    "workingDir",
)


def runnable(value: Any, says: str = PRINT) -> Any:  # noqa: ANN401  # JSON
    """Return a document whose containers print what they have, wherever it has containers."""
    if isinstance(value, list):
        return [runnable(item, says) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {name: runnable(item, says) for name, item in value.items()}
    if isinstance(value.get("containers"), list):
        changed["containers"] = [_container(each, says) for each in value["containers"]]
        first = value.get("initContainers", [])
        changed["initContainers"] = [
            _container(each, says, ends=not _stays(each)) for each in first
        ]
        changed["terminationGracePeriodSeconds"] = GRACE_SECONDS
        for name in ("volumes", "imagePullSecrets"):
            changed.pop(name, None)
        if not first:
            del changed["initContainers"]
    return changed


def _stays(init: dict[str, Any]) -> bool:
    return init.get("restartPolicy") == "Always"


def _container(template: dict[str, Any], says: str, *, ends: bool = False) -> dict[str, Any]:
    kept = {name: item for name, item in template.items() if name not in PROGRAM}
    resources = {
        kind: {name: size for name, size in sizes.items() if not _is_size(name)}
        if kind in ("limits", "requests")
        else sizes
        for kind, sizes in template.get("resources", {}).items()
    }
    return {**kept, **container(ends=ends, says=says), "resources": resources}


def _is_size(name: str) -> bool:
    return name in SIZES or name.startswith("hugepages-")
