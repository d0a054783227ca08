"""Reports objects that select nodes or pods by legacy names, which translated pods no longer have.

A table lists the fields of each kind: flavors of Kueue, node pools of Karpenter, and policies.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.counted import list_some
from drawbridge.finding import Finding
from drawbridge.translate.legacy.misspelt_names import DOMAINS
from drawbridge.translate.manifests.codes import LEGACY_NAME_USED
from drawbridge.translate.manifests.workloads import find_fields, group_kind

_POLICY: Final = ("spec",)
_FIELDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("kueue.x-k8s.io", "ResourceFlavor"): ("spec.nodeLabels", "spec.nodeTaints"),
    ("karpenter.sh", "NodePool"): ("spec.template", "spec.limits"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _POLICY,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _POLICY,
    ("kyverno.io", "ClusterPolicy"): _POLICY,
    ("kyverno.io", "Policy"): _POLICY,
    ("policies.kyverno.io", "ValidatingPolicy"): _POLICY,
    ("policies.kyverno.io", "MutatingPolicy"): _POLICY,
    ("templates.gatekeeper.sh", "ConstraintTemplate"): _POLICY,
    # Scores and extenders of a scheduler, which see no requests of translated pods.
    ("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration"): ("profiles", "extenders"),
    ("kubevirt.io", "KubeVirt"): ("spec.configuration.permittedHostDevices",),
    ("policy.karmada.io", "OverridePolicy"): _POLICY,
    ("policy.karmada.io", "ClusterOverridePolicy"): _POLICY,
}
# The configuration of Volcano's scheduler, in which plugins weigh resources, is a text.
_VOLCANO: Final[Path] = ("data", "volcano-scheduler.conf")
_NAME: Final = re.compile(
    rf"(?<![A-Za-z0-9.-])(?:{'|'.join(map(re.escape, sorted(DOMAINS)))})/[A-Za-z0-9._-]{{1,63}}"
)
_MAX_NAMES: Final = 5  # in a message


def report_named(value: Value) -> Iterator[Finding]:
    """Yield a finding for each field that names devices or node labels of device plugins."""
    fields = [*find_fields(value, _FIELDS)]
    if group_kind(as_mapping(value)) == ("", "ConfigMap"):
        fields.append(("ConfigMap", _VOLCANO, get_value(value, _VOLCANO)))
    for kind, path, field in fields:
        names = list(dict.fromkeys(_find_names(field)))
        if names:
            listed = list_some(names, _MAX_NAMES, "name")
            yield LEGACY_NAME_USED.at(format_path(path), f"{kind} names {listed}")


def _find_names(value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _NAME.findall(key)
            yield from _find_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _find_names(inner)
    elif isinstance(value, str):
        yield from _NAME.findall(value.replace("~1", "/"))  # as in the path of a JSON patch
