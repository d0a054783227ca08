"""Reports annotations and volumes that give a container devices of its node by name.

No claim allocates these devices: pods with claims get them as well. Annotations of the container
runtime and of GKE, as of November 2026.
"""

import re
from collections.abc import Iterator
from typing import Final

from drawbridge.documents.paths import format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.finding import Finding
from drawbridge.translate.changes.codes import DEVICES_BY_NAME
from drawbridge.translate.legacy.pod_view import annotation_path, format_value

_ANNOTATIONS: Final = ("cdi.k8s.io/", "devices.gke.io/container.", "networking.gke.io/interfaces")
# Device files of accelerators; those of RDMA have a finding of their own.
_FILES: Final = re.compile(
    r"/dev/(nvidia[\w-]*|dri|kfd|davinci[\w]*|devmm_svm|hisi_hdc|accel[\w]*|neuron\d*|hl\d*"
    r"|cambricon[\w-]*|mtgpu[\w.]*|iluvatar\d*|xpu\d*|gcu\d*|mxcd|vfio|apex_\d+)(/.*)?"
)

_REMEDY: Final = "Remove it, unless the pod needs these devices beside those of its claims."


def report_devices_of_node(pod: Value) -> Iterator[Finding]:
    """Yield a finding for each annotation and volume of a pod that names devices of the node."""
    for key in as_mapping(get_value(pod, ("metadata", "annotations"))):
        if key.startswith(_ANNOTATIONS):
            what = "names devices of the node, which no claim allocates"
            yield DEVICES_BY_NAME.at(annotation_path(key), f"{key} {what}", remedy=_REMEDY)
    for where, path in list_host_paths(pod):
        if _FILES.fullmatch(path.rstrip("/")):
            what = f"mounts {format_value(path)} of the host, which no claim allocates"
            yield DEVICES_BY_NAME.at(where, what, remedy=_REMEDY)


def list_host_paths(pod: Value) -> Iterator[tuple[str, str]]:
    """Yield what volumes of a pod mount of the host, with the path of each for findings."""
    for number, volume in enumerate(as_list(get_value(pod, ("spec", "volumes")))):
        path = get_value(volume, ("hostPath", "path"))
        if isinstance(path, str):
            yield format_path(("spec", "volumes", number, "hostPath", "path")), path
