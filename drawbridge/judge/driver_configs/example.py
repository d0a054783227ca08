"""The example driver of Kubernetes, with its profiles for GPUs and for network devices.

The group of the configuration changed with the repository's name; drivers before and after the
change decode their own.
"""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta

from drawbridge.dra.decode_errors import describe_choice, describe_value
from drawbridge.judge.driver_configs.model import (
    ConfigDriver,
    ConfigFields,
    ConfigKind,
    ConfigProblem,
    TypedConfig,
)

_PROJECT: Final = "dra-example-driver"
_COMMITS: Final = ("55084f76", "dc8de8dc", "b99da550", "ed3bea48")
_TIME_SLICING: Final = "TimeSlicing"
_INTERVALS: Final = ("Default", "Short", "Medium", "Long")
_Unsigned = Annotated[int, Meta(ge=0)]


class _TimeSlicingConfig(ConfigFields, frozen=True):
    interval: str | None = None


class _SpacePartitioningConfig(ConfigFields, frozen=True):
    partition_count: int | None = None


class _Sharing(ConfigFields, frozen=True):
    strategy: Literal["TimeSlicing", "SpacePartitioning"]
    time_slicing_config: _TimeSlicingConfig | None = None
    space_partitioning_config: _SpacePartitioningConfig | None = None


class _GpuConfig(TypedConfig, frozen=True):
    sharing: _Sharing | None = None
    mode: str = ""


class _Burst(ConfigFields, frozen=True):
    ingress_burst: _Unsigned = 0
    egress_burst: _Unsigned = 0


class _NetConfig(TypedConfig, frozen=True):
    bw_burst: _Burst | None = None


def _refused_settings(config: _GpuConfig) -> Iterator[ConfigProblem]:
    if config.mode not in ("", "Passthrough"):
        yield ConfigProblem("mode", f"mode must be Passthrough, not {describe_value(config.mode)}")
    sharing = config.sharing
    if sharing is None:
        return
    settings = {
        "timeSlicingConfig": (sharing.time_slicing_config, _TIME_SLICING),
        "spacePartitioningConfig": (sharing.space_partitioning_config, "SpacePartitioning"),
    }
    for name, (value, strategy) in settings.items():
        if value is not None and sharing.strategy != strategy:
            message = f"{name} must not be set with strategy {sharing.strategy}"
            yield ConfigProblem(f"sharing.{name}", message)
    # With the other strategy, the settings are refused as a whole.
    if sharing.strategy == _TIME_SLICING:
        yield from _refused_interval(sharing.time_slicing_config)
    else:
        yield from _refused_count(sharing.space_partitioning_config)


def _refused_interval(settings: _TimeSlicingConfig | None) -> Iterator[ConfigProblem]:
    # The driver replaces missing settings by its default, but not a missing interval.
    if settings is not None and settings.interval not in _INTERVALS:
        message = f"interval {describe_choice(settings.interval, _INTERVALS)}"
        yield ConfigProblem("sharing.timeSlicingConfig.interval", message)


def _refused_count(settings: _SpacePartitioningConfig | None) -> Iterator[ConfigProblem]:
    count = settings.partition_count if settings is not None else None
    if count is not None and count < 0:
        message = f"partitionCount is {count}, must be 0 or more"
        yield ConfigProblem("sharing.spacePartitioningConfig.partitionCount", message)


DRIVERS: Final = (
    ConfigDriver(
        name="gpu.example.com",
        project=_PROJECT,
        commits=_COMMITS,
        api_versions=(
            "gpu.resource.example.com/v1alpha1",
            "gpu.resource.dra-example-driver.sigs.k8s.io/v1alpha1",
        ),
        kinds=(ConfigKind(name="GpuConfig", shape=_GpuConfig, find_refusals=_refused_settings),),
        classes={"gpu.example.com": ()},
    ),
    ConfigDriver(
        name="net.example.com",
        project=_PROJECT,
        commits=_COMMITS,
        api_versions=(
            "net.resource.example.com/v1alpha1",
            "net.resource.dra-example-driver.sigs.k8s.io/v1alpha1",
        ),
        kinds=(ConfigKind(name="NetConfig", shape=_NetConfig),),
        classes={"net.example.com": ()},
    ),
)
