"""tensor-fusion's labels and annotations of a pod, and the findings about what changes or is lost.

`tensor_fusion` makes the asks of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drawbridge.dra.quantity import parse
from drawbridge.finding import Finding
from drawbridge.translate.legacy.codes import (
    AMOUNT_REFUSED,
    HINT_EMPTY,
    HINT_LOST,
    LABEL_LOOSE,
    MEANING_CHANGES,
    VENDOR_WITHOUT_DRIVER,
)
from drawbridge.translate.legacy.pod_view import PodView, annotation_path, format_value, label_path

PREFIX: Final = "tensor-fusion.ai/"
AMOUNTS: Final = (
    "gpu-count", "tflops-request", "tflops-limit", "vram-request", "vram-limit",
    "compute-percent-request", "compute-percent-limit",
)  # fmt: skip
# The number of GPUs of each container.
COUNTS: Final = "container-gpu-count"
PROFILES: Final = ("workload-profile", "client-profile")
_SUPPORTED: Final = (
    *AMOUNTS, COUNTS, "enabled", "inject-container", "is-local-gpu", "isolation", "partition-id",
    "gpu-model", "gpu-ids", "vendor", "dedicated-gpu",
)  # fmt: skip
_WITHOUT_EFFECT: Final = ("gpupool",)
VENDORS: Final = ("nvidia", "amd", "intel")


@dataclass(frozen=True, slots=True)
class TensorFusionSettings:
    """The annotations and labels of the pod with the prefix. Annotations override labels."""

    pod: PodView
    values: Mapping[str, str]

    @property
    def vendor(self) -> str:
        """The vendor of the GPUs, in lower case."""
        return self.values.get("vendor", "nvidia").strip().lower()

    def where(self, key: str) -> str:
        """Return the path of a setting for findings."""
        full = PREFIX + key
        return annotation_path(full) if full in self.pod.annotations else label_path(full)

    def reject(self, key: str, why: str) -> Finding:
        """Return the finding that tensor-fusion rejects the amount of a setting."""
        return AMOUNT_REFUSED.at(self.where(key), f"{format_value(self.values[key])!r} {why}")

    def is_true(self, key: str) -> bool:
        """Whether a setting is `true`."""
        return self.values.get(key) == "true"

    def listed(self, key: str) -> tuple[str, ...]:
        """Return the entries of a comma-separated list."""
        return tuple(one.strip() for one in self.values.get(key, "").split(",") if one.strip())


def uses_tflops(settings: TensorFusionSettings) -> bool:
    """Whether the pod requests compute as TFLOPS, which takes precedence over a percentage."""
    return any(key.startswith("tflops-") for key in settings.values)


def report_changes(settings: TensorFusionSettings) -> list[Finding]:
    """Report the settings that change or get lost."""
    findings = _report_bursts(settings)
    if {key.rpartition("-")[0] for key in settings.values} >= {"compute-percent", "tflops"}:
        why = "compute-percent has no effect, because tflops takes precedence"
        findings.append(HINT_EMPTY.at("metadata.annotations", why))
    if model := format_value(settings.values.get("gpu-model", "")):
        findings.append(
            LABEL_LOOSE.at(
                settings.where("gpu-model"),
                f"a device matches if its product name contains all words of {model}",
            )
        )
    if settings.vendor not in VENDORS:
        findings.append(
            VENDOR_WITHOUT_DRIVER.at(
                settings.where("vendor"),
                f"no known DRA driver serves GPUs of the vendor {format_value(settings.vendor)}",
            )
        )
    return [*findings, *_report_lost(settings)]


def _report_bursts(settings: TensorFusionSettings) -> list[Finding]:
    findings = []
    values = settings.values
    # `_report_lost` reports settings that are not translated at all.
    for kind in ("vram",) if uses_tflops(settings) else ("vram", "compute-percent"):
        limit, request = values.get(f"{kind}-limit"), values.get(f"{kind}-request")
        if limit and request and parse(request.strip()) < parse(limit.strip()):
            why = f"the claim reserves the limit of {kind}, not only the request"
            findings.append(MEANING_CHANGES.at(settings.where(f"{kind}-limit"), why))
    return findings


def _report_lost(settings: TensorFusionSettings) -> list[Finding]:
    findings = []
    for key in settings.values:
        if key in _WITHOUT_EFFECT:
            why = f"{PREFIX}{key} has no effect, because DRA has no pools of GPUs"
            findings.append(HINT_EMPTY.at(settings.where(key), why))
        elif key not in _SUPPORTED or key.startswith("tflops-"):
            why = f"{PREFIX}{key} is not carried over, because DRA has no equivalent"
            findings.append(HINT_LOST.at(settings.where(key), why))
    return findings
