"""Reads rendered manifests and converts the command of a Deployment to a local one. Pure.

Mounted folders become local folders, and options that only a local process needs are added.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
BASE = Path(__file__).parents[2] / "manifests" / "base"


def find(objects: Iterable[JSON], kind: str, name: str) -> JSON:
    """Return the object of this kind and name."""
    for obj in objects:
        if (obj["kind"], obj["metadata"]["name"]) == (kind, name):
            return obj
    raise LookupError(f"the manifests have no {kind} {name}")


def container(deployment: JSON) -> JSON:
    """Return the one container of a Deployment."""
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def mount_paths(deployment: JSON, folders: Mapping[str, Path]) -> dict[str, str]:
    """Return where the container has its volumes: path inside to folder on this machine."""
    return {
        mount["mountPath"]: str(folders[mount["name"]])
        for mount in container(deployment).get("volumeMounts", ())
        if mount["name"] in folders
    }


def command(deployment: JSON, folders: Mapping[str, Path], more: Sequence[str]) -> list[str]:
    """Return the words of its process; `folders` maps volumes to where they are on this machine."""
    first = container(deployment)
    mounts = mount_paths(deployment, folders)
    words = [*first["command"], *first.get("args", ())]
    for inside, outside in mounts.items():
        words = [word.replace(f"{inside}/", f"{outside}/") for word in words]
    return [*words, *more]


def volumes(deployment: JSON) -> dict[str, tuple[str, str]]:
    """Return the volumes that are made of objects: name to kind and name of the object."""
    mounted: dict[str, tuple[str, str]] = {}
    for volume in deployment["spec"]["template"]["spec"].get("volumes", ()):
        if "secret" in volume:
            mounted[volume["name"]] = "secrets", volume["secret"]["secretName"]
        elif "configMap" in volume:
            mounted[volume["name"]] = "configmaps", volume["configMap"]["name"]
    return mounted
