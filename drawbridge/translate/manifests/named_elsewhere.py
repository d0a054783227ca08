"""Reports objects that name or count devices by legacy names, which translated pods no longer have.

Tables list the fields of each kind: flavors of Kueue, node pools of Karpenter, and policies; and
queries of kube-state-metrics in alerts, autoscalers and dashboards. Operators that read the
capacity of nodes count devices wherever they are. As of November 2026.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
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
# Where queries stand.
_QUERIES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("monitoring.coreos.com", "PrometheusRule"): ("spec",),
    ("keda.sh", "ScaledObject"): ("spec.triggers",),
    ("keda.sh", "ScaledJob"): ("spec.triggers",),
    ("grafana.integreatly.org", "GrafanaDashboard"): ("spec",),
    ("autoscaling", "HorizontalPodAutoscaler"): ("spec.metrics",),
    ("", "ConfigMap"): ("data",),
}
# As kube-state-metrics writes resources: nvidia_com_gpu.
_METRIC_NAME: Final = re.compile(
    rf"(?<![A-Za-z0-9_])(?:{'|'.join(sorted(re.sub(r'[.-]', '_', each) for each in DOMAINS))})"
    r"_[A-Za-z0-9_]{1,63}"
)
_KUBE_STATE: Final = re.compile(r"kube_\w+")
_NO_CAPACITY: Final = "which is no longer in the capacity of nodes without the device plugin"
_OPERATORS: Final[Mapping[tuple[str, str], str]] = {
    ("llmd.ai", "VariantAutoscaling"): f"its autoscaler counts nvidia.com/gpu, {_NO_CAPACITY}",
    ("inference.optimization", "VariantAutoscaling"): (
        f"its autoscaler counts nvidia.com/gpu, {_NO_CAPACITY}"
    ),
    ("kaito.sh", "Workspace"): f"KAITO waits for nodes with nvidia.com/gpu, {_NO_CAPACITY}",
    ("kaito.sh", "InferenceSet"): f"KAITO waits for nodes with nvidia.com/gpu, {_NO_CAPACITY}",
    ("kaito.sh", "RAGEngine"): f"KAITO waits for nodes with nvidia.com/gpu, {_NO_CAPACITY}",
}
_MAX_NAMES: Final = 5  # in a message


def report_named(value: Value) -> Iterator[Finding]:
    """Yield a finding for each field that names devices or node labels of device plugins."""
    fields = [*find_fields(value, _FIELDS)]
    if group_kind(as_mapping(value)) == ("", "ConfigMap"):
        fields.append(("ConfigMap", _VOLCANO, get_value(value, _VOLCANO)))
    for kind, path, field in fields:
        # Of the path of a JSON patch.
        texts = (t if is_key else t.replace("~1", "/") for t, is_key in _list_texts(field))
        if listed := _list_names(_NAME, texts):
            yield LEGACY_NAME_USED.at(format_path(path), f"{kind} names {listed}")


def report_counters(value: Value) -> Iterator[Finding]:
    """Yield a finding for each object or query that counts devices of device plugins."""
    if sees := _OPERATORS.get(group_kind(as_mapping(value))):
        yield LEGACY_NAME_USED.at("", sees)
    for kind, path, field in find_fields(value, _QUERIES):
        texts = (text for text, is_key in _list_texts(field) if not is_key)
        if listed := _list_names(_METRIC_NAME, filter(_KUBE_STATE.search, texts)):
            yield LEGACY_NAME_USED.at(
                format_path(path),
                f"{kind} counts {listed}, of which translated pods request 0, and nodes without "
                "the device plugin have none",
                remedy="Count claims, or the devices that a driver reports.",
            )


def _list_names(pattern: re.Pattern[str], texts: Iterable[str]) -> str:
    """Return the first names in texts; empty if there are none."""
    names = [*dict.fromkeys(name for text in texts for name in pattern.findall(text))]
    return list_some(names, _MAX_NAMES, "name") if names else ""


def _list_texts(value: Value) -> Iterator[tuple[str, bool]]:
    """Yield the texts in a value, and whether each is a key."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, True
            yield from _list_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_texts(inner)
    elif isinstance(value, str):
        yield value, False
