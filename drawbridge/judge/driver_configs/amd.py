"""AMD's GPU driver: a configuration without settings, and one for passthrough."""

from collections.abc import Iterator
from typing import Final

from drawbridge.dra.decode_errors import describe_choice
from drawbridge.judge.driver_configs.model import (
    ConfigDriver,
    ConfigFields,
    ConfigKind,
    ConfigProblem,
    TypedConfig,
)

_POLICIES: Final = ("LegacyOnly", "PreferIommuFD")


class _GpuConfig(TypedConfig, frozen=True):
    pass


class _Iommu(ConfigFields, frozen=True):
    backend_policy: str = ""


class _VfioDeviceConfig(TypedConfig, frozen=True):
    iommu: _Iommu | None = None


def _refused_policy(config: _VfioDeviceConfig) -> Iterator[ConfigProblem]:
    policy = config.iommu.backend_policy if config.iommu else ""
    # The driver replaces an empty policy by its default.
    if policy and policy not in _POLICIES:
        message = f"backendPolicy {describe_choice(policy, _POLICIES)}"
        yield ConfigProblem("iommu.backendPolicy", message)


DRIVER: Final = ConfigDriver(
    name="gpu.amd.com",
    project="k8s-gpu-dra-driver of ROCm",
    commits=("0c67c7fa", "44822493"),
    api_versions=("gpu.resource.amd.com/v1alpha1",),
    type_attribute="gpu.amd.com/type",
    kinds=(
        ConfigKind(name="GpuConfig", shape=_GpuConfig),
        ConfigKind(name="VfioDeviceConfig", shape=_VfioDeviceConfig, find_refusals=_refused_policy),
    ),
)
