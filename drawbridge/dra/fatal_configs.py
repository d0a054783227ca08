"""Configurations that end the process of their driver on the node.

Such a configuration is more than one that the driver refuses: the driver ends at each attempt to
prepare the claim, and its pods of other claims cannot start until the pod is deleted. A claim can
have one although no component reads it before the driver, so every allocator and every judge that
meets one must know it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from drawbridge.dra.allocation import Opaque

_GROUP: Final = "resource.nvidia.com/"
# A range of numbers, as in 0-3, that ends at 10000 or later. No machine has that many processors.
_LONG_RANGE: Final = re.compile(r"-\+?[0-9]{5}")


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


class _FatalSetting(NamedTuple):
    """What ends one driver: how to find it in the parameters, where it is, and what it is.

    Parameters without the `word` do not have it.
    """

    word: str
    is_in: Callable[[Mapping[object, object]], bool]
    path: str
    what: str


def find_fatal_configs(configs: Sequence[_Entry]) -> Iterator[FatalConfig]:
    """Find configurations that end the process of the driver which prepares them."""
    for number, config in enumerate(configs):
        opaque = config.opaque
        setting = _OF_DRIVER.get(opaque.driver) if opaque is not None else None
        if opaque is None or setting is None or opaque.parameters is None:
            continue
        if not opaque.parameters.may_contain(setting.word):
            continue
        parameters = opaque.parameters.decode()
        if isinstance(parameters, Mapping) and setting.is_in(parameters):
            message = f"{setting.what} ends the process of driver {opaque.driver} on the node"
            yield FatalConfig(number, f"opaque.parameters.{setting.path}", message)


def _lacks_interval(parameters: Mapping[object, object]) -> bool:
    """Tell whether a configuration shares a GPU by time with settings that have no interval."""
    if parameters.get("kind") != "GpuConfig":
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


def _has_long_range(parameters: Mapping[object, object]) -> bool:
    """Tell whether a configuration names processors by a range that no memory holds."""
    return any(
        isinstance(processors, str) and _LONG_RANGE.search(processors)
        for settings in _values(parameters, "cpuconfig")
        if isinstance(settings, Mapping)
        for processors in _values(settings, "cpuset")
    )


def _values(parameters: Mapping[object, object], name: str) -> Iterator[object]:
    """Yield the values of a field for a driver that ignores case, as Go's decoder of JSON does."""
    return (value for key, value in parameters.items() if f"{key}".casefold() == name)


_OF_DRIVER: Final[Mapping[str, _FatalSetting]] = {
    # With its gate TimeSlicingSettings, this driver reads the interval of time slicing without a
    # check for null, in releases 0.4.1 and 0.5.0 of dra-driver-nvidia-gpu.
    "gpu.nvidia.com": _FatalSetting(
        '"timeslicingconfig"',
        _lacks_interval,
        "sharing.timeSlicingConfig",
        "timeSlicingConfig without an interval",
    ),
    # With --group-by=machine, release 0.2.0 of dra-driver-cpu keeps each number of a range before
    # it compares them with the processors of the machine. Its chart sets no limit of memory.
    "dra.cpu": _FatalSetting(
        '"cpuset"', _has_long_range, "cpuConfig.cpuset", "a cpuset with a range beyond 9999"
    ),
}
