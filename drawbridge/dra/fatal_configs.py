"""Configurations that end the process of their driver on the node.

Such a configuration is more than one that the driver refuses: the driver ends at each attempt to
prepare the claim, and its pods of other claims cannot start until the pod is deleted. A claim can
have one although no component reads it before the driver, so every allocator and every judge that
meets one must know it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from drawbridge.dra.allocation import Opaque

# With its gate TimeSlicingSettings, this driver reads the interval of time slicing without a check
# for null, in releases 0.4.1 and 0.5.0 of dra-driver-nvidia-gpu.
_DRIVER: Final = "gpu.nvidia.com"
_GROUP: Final = "resource.nvidia.com/"


class _Entry(Protocol):
    """An entry in the list of configurations of a claim or class."""

    @property
    def opaque(self) -> Opaque | None:
        """The configuration."""


class FatalConfig(NamedTuple):
    """A setting that ends a driver: the number of its entry, its path in there, and the reason."""

    number: int
    path: str
    message: str


def find_fatal_configs(configs: Sequence[_Entry]) -> Iterator[FatalConfig]:
    """Find configurations that end the process of the driver which prepares them."""
    for number, config in enumerate(configs):
        opaque = config.opaque
        if opaque is not None and opaque.driver == _DRIVER and _lacks_interval(opaque.parameters):
            yield FatalConfig(
                number,
                "opaque.parameters.sharing.timeSlicingConfig",
                "timeSlicingConfig without an interval ends the process of driver "
                f"{_DRIVER} on the node",
            )


def _lacks_interval(parameters: object) -> bool:
    """Tell whether a configuration shares a GPU by time with settings that have no interval."""
    if not isinstance(parameters, Mapping) or parameters.get("kind") != "GpuConfig":
        return False
    sharing, version = parameters.get("sharing"), parameters.get("apiVersion")
    if not isinstance(sharing, Mapping) or not f"{version}".startswith(_GROUP):
        return False
    settings = sharing.get("timeSlicingConfig")
    return (
        sharing.get("strategy") == "TimeSlicing"
        and isinstance(settings, Mapping)
        and settings.get("interval") is None
    )
