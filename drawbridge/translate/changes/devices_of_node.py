"""Reports annotations and volumes that give a container devices of its node by name.

No claim allocates these devices: pods with claims get them as well. Annotations of the container
runtime and of GKE, as of November 2026.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from drawbridge.documents.paths import format_path
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
    fields = as_mapping(pod)
    annotations = as_mapping(as_mapping(fields.get("metadata")).get("annotations"))
    for key in annotations:
        if key.startswith(_ANNOTATIONS):
            what = "names devices of the node, which no claim allocates"
            yield DEVICES_BY_NAME.at(annotation_path(key), f"{key} {what}", remedy=_REMEDY)
    yield from _report_volumes(as_mapping(fields.get("spec")))


def _report_volumes(spec: Mapping[str, Value]) -> Iterator[Finding]:
    for number, volume in enumerate(as_list(spec.get("volumes"))):
        path = as_mapping(as_mapping(volume).get("hostPath")).get("path")
        if isinstance(path, str) and _FILES.fullmatch(path.rstrip("/")):
            yield DEVICES_BY_NAME.at(
                format_path(("spec", "volumes", number, "hostPath", "path")),
                f"mounts {format_value(path)} of the host, which no claim allocates",
                remedy=_REMEDY,
            )
