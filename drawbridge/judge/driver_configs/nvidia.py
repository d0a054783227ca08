"""NVIDIA's drivers for GPUs and compute domains, and HAMi's driver, which has the same kinds.

A driver decodes strictly, fills in defaults and validates. Sharing needs a feature gate of the
driver that is off by default.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from msgspec import field

from drawbridge.dra.decode_errors import describe_choice, describe_value
from drawbridge.dra.formats import check_label_value
from drawbridge.dra.quantity import Quantity
from drawbridge.judge.driver_configs.model import (
    ConfigDriver,
    ConfigFields,
    ConfigKind,
    ConfigProblem,
    TypedConfig,
)

_VERSIONS: Final = ("resource.nvidia.com/v1beta1",)
_PROJECT: Final = "dra-driver-nvidia-gpu"
_COMMITS: Final = (
    "v0.4.1",
    "v0.5.0",
    "06756cbb",
    "1b3fb8ac",
    "c128a8b6",
    "6bc0df7b",
    "094807e4",
    "49fabdf0",
)
_TIME_SLICING: Final = "TimeSlicing"
_GATES: Final = {_TIME_SLICING: "TimeSlicingSettings", "MPS": "MPSSupport"}
_INTERVALS: Final = ("Default", "Short", "Medium", "Long")
_MEBIBYTE: Final = 1024 * 1024
_UUID_PREFIXES: Final = ("GPU-", "MIG-")
# An allocation has at most 32 devices, so no index is higher.
_MAX_INDEX: Final = 31
_MAX_PERCENTAGE: Final = 100


class _TimeSlicingConfig(ConfigFields, frozen=True):
    interval: str | None = None


class _MpsConfig(ConfigFields, frozen=True):
    default_active_thread_percentage: int | None = None
    default_pinned_device_memory_limit: Quantity | None = None
    default_per_device_pinned_memory_limit: Mapping[str, Quantity] | None = None
    multi_user: bool | None = None


class _GpuSharing(ConfigFields, frozen=True):
    strategy: Literal["TimeSlicing", "MPS"]
    time_slicing_config: _TimeSlicingConfig | None = None
    mps_config: _MpsConfig | None = None


class _MigSharing(ConfigFields, frozen=True):
    strategy: Literal["TimeSlicing", "MPS"]
    mps_config: _MpsConfig | None = None


class _GpuConfig(TypedConfig, frozen=True):
    sharing: _GpuSharing | None = None


class _MigDeviceConfig(TypedConfig, frozen=True):
    sharing: _MigSharing | None = None


class _Iommu(ConfigFields, frozen=True):
    # The driver replaces an empty policy by its default.
    backend_policy: Literal["LegacyOnly", "PreferIommuFD", ""] | None = None
    enable_api_device: bool | None = field(default=None, name="enableAPIDevice")


class _VfioDeviceConfig(TypedConfig, frozen=True):
    iommu: _Iommu | None = None


class _ChannelConfig(TypedConfig, frozen=True):
    domain_id: str = field(default="", name="domainID")
    allocation_mode: str = ""


class _DaemonConfig(TypedConfig, frozen=True):
    domain_id: str = field(default="", name="domainID")


def _refused_sharing(config: _GpuConfig | _MigDeviceConfig) -> Iterator[ConfigProblem]:
    sharing = config.sharing
    if sharing is None:
        return
    if isinstance(sharing, _GpuSharing):
        yield from _refused_combination(sharing)
        yield from _refused_interval(sharing)
    if sharing.strategy != _TIME_SLICING and sharing.mps_config is not None:
        yield from _refused_limits(sharing.mps_config)


def _refused_combination(sharing: _GpuSharing) -> Iterator[ConfigProblem]:
    if sharing.strategy == _TIME_SLICING and sharing.mps_config is not None:
        yield ConfigProblem(
            "sharing.mpsConfig", "mpsConfig must not be set with strategy TimeSlicing"
        )
    if sharing.strategy != _TIME_SLICING and sharing.time_slicing_config is not None:
        path, message = "sharing.timeSlicingConfig", "timeSlicingConfig must not be set with "
        yield ConfigProblem(path, f"{message}strategy {sharing.strategy}")


def _refused_interval(sharing: _GpuSharing) -> Iterator[ConfigProblem]:
    """Find an unknown interval; one that is missing is a question of `fatal_configs`."""
    settings = sharing.time_slicing_config
    interval = settings.interval if settings is not None else None
    # With another strategy, the settings are refused as a whole.
    if interval is None or interval in _INTERVALS or sharing.strategy != _TIME_SLICING:
        return
    message = f"interval {describe_choice(interval, _INTERVALS)}"
    yield ConfigProblem("sharing.timeSlicingConfig.interval", message)


def _refused_limits(config: _MpsConfig) -> Iterator[ConfigProblem]:
    path = "sharing.mpsConfig"
    percentage = config.default_active_thread_percentage
    if percentage is not None and not 0 <= percentage <= _MAX_PERCENTAGE:
        name = "defaultActiveThreadPercentage"
        yield ConfigProblem(
            f"{path}.{name}", f"{name} is {percentage}, must be 0 to {_MAX_PERCENTAGE}"
        )
    limit = config.default_pinned_device_memory_limit
    if limit is not None and limit.value() < _MEBIBYTE:
        name = "defaultPinnedDeviceMemoryLimit"
        yield ConfigProblem(f"{path}.{name}", f"{name} is {limit}, must be at least 1Mi")
    for key, quantity in (config.default_per_device_pinned_memory_limit or {}).items():
        at = f"{path}.defaultPerDevicePinnedMemoryLimit[{key}]"
        if quantity.value() < _MEBIBYTE:
            yield ConfigProblem(
                at, f"the limit of device {describe_value(key)} is {quantity}, must be at least 1Mi"
            )
        if not _can_name_device(key):
            yield ConfigProblem(
                at,
                f"{describe_value(key)} is neither the index nor the UUID of a device of the claim",
            )


def _can_name_device(key: str) -> bool:
    if key.startswith(_UUID_PREFIXES):
        return True
    digits = key.removeprefix("+")
    return digits.isascii() and digits.isdigit() and int(digits[:20]) <= _MAX_INDEX


def _sharing_gates(config: _GpuConfig | _MigDeviceConfig) -> Iterator[ConfigProblem]:
    if config.sharing is not None:
        strategy = config.sharing.strategy
        yield ConfigProblem(
            "sharing.strategy", f"strategy {strategy} needs {_GATES[strategy]}=true"
        )


def _passthrough_gate(_: _VfioDeviceConfig) -> Iterator[ConfigProblem]:
    yield ConfigProblem("kind", "VfioDeviceConfig needs PassthroughSupport=true")


def _refused_domain(config: _ChannelConfig | _DaemonConfig) -> Iterator[ConfigProblem]:
    # The driver uses it in the path of a folder and in a label of the node.
    if not config.domain_id:
        yield ConfigProblem("domainID", "domainID must not be empty")
    elif problem := check_label_value(config.domain_id):
        yield ConfigProblem(
            "domainID", f"domainID is {describe_value(config.domain_id)}: {problem}"
        )


def _device_kinds(*gpu_types: str) -> tuple[ConfigKind, ...]:
    """Return the kinds for devices; `gpu_types` are the types of whole devices of the driver."""
    return (
        ConfigKind(
            name="GpuConfig",
            shape=_GpuConfig,
            device_types=gpu_types,
            find_refusals=_refused_sharing,
            find_gates=_sharing_gates,
            shares_device=lambda config: config.sharing is not None,
        ),
        ConfigKind(
            name="MigDeviceConfig",
            shape=_MigDeviceConfig,
            device_types=("mig",),
            find_refusals=_refused_sharing,
            find_gates=_sharing_gates,
            shares_device=lambda config: config.sharing is not None,
        ),
        ConfigKind(
            name="VfioDeviceConfig",
            shape=_VfioDeviceConfig,
            device_types=("vfio",),
            find_gates=_passthrough_gate,
        ),
    )


DRIVERS: Final = (
    ConfigDriver(
        name="gpu.nvidia.com",
        project=_PROJECT,
        commits=_COMMITS,
        api_versions=_VERSIONS,
        type_attribute="gpu.nvidia.com/type",
        kinds=_device_kinds("gpu"),
        classes={
            "gpu.nvidia.com": ("gpu",),
            "mig.nvidia.com": ("mig",),
            "vfio.gpu.nvidia.com": ("vfio",),
        },
        plain_admin_access_since="0.5.0",
    ),
    ConfigDriver(
        name="compute-domain.nvidia.com",
        project=_PROJECT,
        commits=_COMMITS,
        api_versions=_VERSIONS,
        type_attribute="compute-domain.nvidia.com/type",
        kinds=(
            ConfigKind(
                name="ComputeDomainChannelConfig",
                shape=_ChannelConfig,
                device_types=("channel",),
                find_refusals=_refused_domain,
            ),
            ConfigKind(
                name="ComputeDomainDaemonConfig",
                shape=_DaemonConfig,
                device_types=("daemon",),
                find_refusals=_refused_domain,
            ),
        ),
        classes={
            "compute-domain-daemon.nvidia.com": ("daemon",),
            "compute-domain-default-channel.nvidia.com": ("channel",),
        },
    ),
    ConfigDriver(
        name="hami-core-gpu.project-hami.io",
        project="k8s-dra-driver of Project-HAMi",
        commits=("3c8771b3",),
        api_versions=_VERSIONS,
        type_attribute="hami-core-gpu.project-hami.io/type",
        kinds=_device_kinds("gpu", "hami-gpu"),
        classes={"hami-core-gpu.project-hami.io": ("hami-gpu",)},
    ),
)
