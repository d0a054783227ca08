"""tensor-fusion's labels and annotations of a pod, and the findings about what changes or is lost.

`tensor_fusion` makes the asks of them.
"""

from collections.abc import Iterator, Mapping
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
    RESTRICTION_LOST,
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
# These restrict which GPUs the pod gets, and the reason why a claim does not.
_RESTRICTIONS: Final = {
    "gpupool": "DRA has no pools of GPUs",
    "gpu-indices": "the index of a GPU on its node is not a device attribute",
}
_ON_SHARES: Final = (
    "vram-request", "vram-limit", "compute-percent-request", "compute-percent-limit",
    "partition-id",
)  # fmt: skip
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

    def has_no_effect(self, key: str, why: str) -> Finding:
        """Return the finding that tensor-fusion does not read a setting."""
        return HINT_EMPTY.at(self.where(key), f"{PREFIX}{key} has no effect, because {why}")

    @property
    def is_whole(self) -> bool:
        """Whether the pod gets whole GPUs, whatever amounts it requests."""
        return self.values.get("isolation") == "shared" or self.is_true("dedicated-gpu")

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
    findings += _report_without_effect(settings)
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
        if not limit or not request:
            continue
        if parse(request.strip()) > parse(limit.strip()):
            why = f"{PREFIX}{kind}-request is larger"
            findings.append(settings.has_no_effect(f"{kind}-limit", why))
        elif parse(request.strip()) < parse(limit.strip()):
            why = f"the claim reserves the limit, not only {PREFIX}{kind}-request"
            findings.append(MEANING_CHANGES.at(settings.where(f"{kind}-limit"), why))
    return findings


def _report_without_effect(settings: TensorFusionSettings) -> Iterator[Finding]:
    """Report settings that another setting overrides."""
    for key, value in settings.values.items():
        if settings.pod.labels.get(PREFIX + key, value) != value:
            why = "the label has no effect, because the annotation takes precedence"
            yield HINT_EMPTY.at(label_path(PREFIX + key), why)
    for key in _ON_SHARES:
        if key not in settings.values:
            continue
        if settings.is_whole:
            yield settings.has_no_effect(key, "the pod gets whole GPUs")
        elif key == "partition-id" and settings.values.get("isolation") != "partitioned":
            yield settings.has_no_effect(key, "isolation is not partitioned")
        elif key.startswith("compute-percent") and uses_tflops(settings):
            yield settings.has_no_effect(key, "tflops takes precedence")
    if settings.values.get("isolation") == "hard":
        why = "the driver decides how pods that share a GPU are isolated, not tensor-fusion"
        yield MEANING_CHANGES.at(settings.where("isolation"), why)


def _report_lost(settings: TensorFusionSettings) -> list[Finding]:
    findings = []
    for key in settings.values:
        if key in _RESTRICTIONS:
            value = format_value(settings.values[key])
            why = f"{PREFIX}{key} is {value}, but {_RESTRICTIONS[key]}"
            findings.append(RESTRICTION_LOST.at(settings.where(key), why))
        elif key not in _SUPPORTED or key.startswith("tflops-"):
            why = f"{PREFIX}{key} is not carried over, because DRA has no equivalent"
            findings.append(HINT_LOST.at(settings.where(key), why))
    return findings
