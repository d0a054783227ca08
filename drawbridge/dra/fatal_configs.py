"""Configurations that end the process of their driver on the node.

Such a configuration is more than one that the driver refuses: the driver ends at each attempt to
prepare the claim, and its pods of other claims cannot start until the pod is deleted. A claim can
have one although no component reads it before the driver, so every allocator and every judge that
meets one must know it.

A field can repeat. Go's decoder keeps what it has read of an object when the object comes again,
and ignores null for a text, so each value of such a field counts.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.dra.allocation import ConfigEntry
from drawbridge.dra.opaque_json import Fields

_GROUP: Final = "resource.nvidia.com/"
# A range of numbers, as in 0-3, that ends at 10000 or later. No machine has that many processors.
_LONG_RANGE: Final = re.compile(r"-\+?[0-9]{5}")


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
    is_in: Callable[[Fields], bool]
    path: str
    what: str


def find_fatal_configs(configs: Sequence[ConfigEntry]) -> Iterator[FatalConfig]:
    """Find configurations that end the process of the driver which prepares them."""
    for number, config in enumerate(configs):
        opaque = config.opaque
        setting = _OF_DRIVER.get(opaque.driver) if opaque is not None else None
        if opaque is None or setting is None or opaque.parameters is None:
            continue
        if not opaque.parameters.may_contain(setting.word):
            continue
        parameters = opaque.parameters.decode_fields()
        # The driver reads deeper than this process does.
        if parameters is None or (isinstance(parameters, Fields) and setting.is_in(parameters)):
            message = f"{setting.what} ends the process of driver {opaque.driver} on the node"
            yield FatalConfig(number, f"opaque.parameters.{setting.path}", message)


def _lacks_interval(parameters: Fields) -> bool:
    """Tell whether a configuration shares a GPU by time with settings that have no interval."""
    versions = _values(parameters, "apiVersion")
    settings = _values(parameters, "sharing", "timeSlicingConfig")
    return (
        "GpuConfig" in _values(parameters, "kind")
        and any(f"{version}".startswith(_GROUP) for version in versions)
        and "TimeSlicing" in _values(parameters, "sharing", "strategy")
        and any(
            isinstance(fields, Fields) and None in (_values(fields, "interval") or [None])
            for fields in settings
        )
    )


def _has_long_range(parameters: Fields) -> bool:
    """Tell whether a configuration names processors by a range that no memory holds."""
    # This driver ignores the case of fields, as Go's decoder of JSON does.
    return any(
        isinstance(processors, str) and _LONG_RANGE.search(processors)
        for processors in _values(parameters, "cpuconfig", "cpuset", form=str.casefold)
    )


def _values(parameters: Fields, *path: str, form: Callable[[str], str] = str) -> Sequence[object]:
    """Return each value that the fields at a path have."""
    values: list[object] = [parameters]
    for name in path:
        objects = [value for value in values if isinstance(value, Fields)]
        values = [value for fields in objects for key, value in fields if form(key) == name]
    return values


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
