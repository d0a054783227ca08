"""Reports quotas on extended resources that translated pods no longer request.

A table lists where each kind of quota names resources. Quotas are never changed.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.translate.legacy.pod_view import is_device_resource
from drawbridge.translate.manifests.codes import QUOTA_COUNTS_NAMES
from drawbridge.translate.manifests.workloads import group_kind

_KUEUE: Final = "kueue.x-k8s.io"
_MAP: Final = (
    "Add the DeviceClasses of the claims with this name to `resources.deviceClassMappings` of "
    "Kueue's configuration, so that the quota counts pods before and after their translation."
)
_PREFIXES: Final = ("requests.", "limits.")
# The API groups of Volcano, and of the scheduler plugins and Koordinator, older and newer.
_GROUPS: Final = ("scheduling.volcano.sh", "scheduling.sigs.k8s.io", "scheduling.x-k8s.io")
_NOS: Final = "nos.nebuly.com"
# Names with a slash that are not devices: object counts, storage, and claims of device classes.
_OTHERS: Final = ("count/", "storageclass.storage.k8s.io/", "deviceclass.resource.")


def report_quotas(value: Value, facts: Facts | None = None) -> Iterator[Finding]:
    """Report each resource that an object counts but translated pods do not request.

    A ResourceQuota on `requests.<name>` counts the claims of the classes that have the name.
    """
    if not isinstance(value, dict):
        return
    read = _KINDS.get(group_kind(value))
    for path, name in read(value) if read else ():
        bare = next((name.removeprefix(p) for p in _PREFIXES if name.startswith(p)), name)
        if is_device_resource(bare) and not any(other in name for other in _OTHERS):
            message = f"{name} does not count translated pods"
            if group_kind(value)[0] == _KUEUE:
                message = f"{name} counts translated pods only if Kueue maps their classes to it"
            elif facts and name == f"requests.{bare}" and group_kind(value)[0] == "":
                classes = facts.find_resource(bare).classes
                if classes:
                    message = f"{name} counts claims of {', '.join(classes)} only"
            remedy = _MAP if group_kind(value)[0] == _KUEUE else None
            yield QUOTA_COUNTS_NAMES.at(format_path(path), message, remedy=remedy)


def _read_keys(*paths: Path) -> Callable[[Value], Iterator[tuple[Path, str]]]:
    def read(value: Value) -> Iterator[tuple[Path, str]]:
        for path in paths:
            for name in as_mapping(get_value(value, path)):
                yield (*path, name), name

    return read


def _read_limits(value: Value) -> Iterator[tuple[Path, str]]:
    """Read the resources of a LimitRange."""
    for number, limit in enumerate(as_list(get_value(value, ("spec", "limits")))):
        for part, amounts in as_mapping(limit).items():
            for name in as_mapping(amounts):
                yield ("spec", "limits", number, part, name), name


def _read_unnamed(name: str, *paths: Path) -> Callable[[Value], Iterator[tuple[Path, str]]]:
    """Read a quota that counts GPUs without this name, by which pods request them."""

    def read(value: Value) -> Iterator[tuple[Path, str]]:
        for path in paths:
            if as_mapping(get_value(value, path)):
                yield path, name

    return read


def _read_covered(value: Value) -> Iterator[tuple[Path, str]]:
    """Read the resources of a ClusterQueue or Cohort of Kueue."""
    groups: Path = ("spec", "resourceGroups")
    for number, group in enumerate(as_list(get_value(value, groups))):
        path: Path = (*groups, number, "coveredResources")
        for at, name in enumerate(as_list(as_mapping(group).get("coveredResources"))):
            if isinstance(name, str):
                yield (*path, at), name


_KINDS: Final[Mapping[tuple[str, str], Callable[[Value], Iterator[tuple[Path, str]]]]] = {
    ("", "ResourceQuota"): _read_keys(("spec", "hard")),
    (_KUEUE, "ClusterQueue"): _read_covered,
    (_KUEUE, "Cohort"): _read_covered,
    ("", "LimitRange"): _read_limits,
    ("scheduling.run.ai", "Queue"): _read_unnamed("nvidia.com/gpu", ("spec", "resources", "gpu")),
    ("tensor-fusion.ai", "GPUResourceQuota"): _read_unnamed(
        "tensor-fusion.ai/vram-limit", ("spec", "total"), ("spec", "single")
    ),
    ("scheduling.volcano.sh", "Queue"): _read_keys(
        ("spec", "capability"), ("spec", "deserved"), ("spec", "guarantee", "resource")
    ),
    **{(group, "PodGroup"): _read_keys(("spec", "minResources")) for group in _GROUPS},
    **{
        (group, kind): _read_keys(("spec", "min"), ("spec", "max"))
        for group in (*_GROUPS, _NOS)
        for kind in ("ElasticQuota", "CompositeElasticQuota")
    },
}
