"""Reports objects by which something counts devices by their legacy names, and what it will see.

These are operators that read the capacity of nodes, and queries of kube-state-metrics in alerts,
autoscalers and dashboards. As of November 2026.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from drawbridge.documents.paths import format_path
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.counted import list_some
from drawbridge.finding import Finding
from drawbridge.translate.legacy.misspelt_names import DOMAINS
from drawbridge.translate.manifests.codes import LEGACY_NAME_USED
from drawbridge.translate.manifests.workloads import find_fields, group_kind

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
_MAX_NAMES: Final = 5  # in a message


def report_counters(value: Value) -> Iterator[Finding]:
    """Yield a finding for each object or query that counts devices of device plugins."""
    sees = _OPERATORS.get(group_kind(as_mapping(value)))
    if sees:
        yield LEGACY_NAME_USED.at("", sees)
    for kind, path, field in find_fields(value, _QUERIES):
        names = list(dict.fromkeys(_find_names(field)))
        if names:
            listed = list_some(names, _MAX_NAMES, "name")
            yield LEGACY_NAME_USED.at(
                format_path(path),
                f"{kind} counts {listed}, of which translated pods request 0, and nodes without "
                "the device plugin have none",
                remedy="Count claims, or the devices that a driver reports.",
            )


def _find_names(value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _find_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _find_names(inner)
    elif isinstance(value, str) and _KUBE_STATE.search(value):
        yield from _METRIC_NAME.findall(value)
