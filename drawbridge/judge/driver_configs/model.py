"""The types of the tables: a driver, the kinds of configuration it decodes, and their rules.

The shape of a kind is a struct that forbids unknown fields, so `drawbridge.dra.decode_errors`
decodes it as strictly as the driver does. Rules across fields are functions of the decoded struct.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec


class ConfigFields(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The base of all parts of a configuration: unknown fields are errors."""


class TypedConfig(ConfigFields, frozen=True, kw_only=True):
    """A configuration that names its version and kind."""

    api_version: str = ""
    kind: str = ""


class ConfigProblem(NamedTuple):
    """A setting that the driver refuses, or that not every installation of it can have."""

    path: str
    message: str


def accept_all(_: Any) -> Iterator[ConfigProblem]:  # noqa: ANN401  # any shape
    """Find no refusals: the shape is the only rule."""
    return iter(())


class ConfigKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of configuration.

    `device_types` are the values of the driver's type attribute that the kind configures; empty
    for all. `find_gates` finds settings that need a feature gate of the driver or a newer build of
    it, `shares_device` tells whether a configuration shares the device between containers.
    """

    name: str
    shape: type[ConfigFields]
    device_types: tuple[str, ...] = ()
    find_refusals: Callable[[Any], Iterator[ConfigProblem]] = accept_all
    find_gates: Callable[[Any], Iterator[ConfigProblem]] = accept_all
    shares_device: Callable[[Any], bool] = lambda _: False


class ConfigDriver(msgspec.Struct, frozen=True, kw_only=True):
    """The configurations of one driver.

    Without `api_versions`, the configurations have neither version nor kind, and there is one kind.
    `classes` are the classes that the project installs, with the device types that they select.
    From release `plain_admin_access_since` on, the driver refuses a claim with a configuration that
    applies to a request with admin access.
    """

    name: str
    project: str  # the project that publishes the driver
    commits: tuple[str, ...]  # of the source that the table was read from
    kinds: tuple[ConfigKind, ...]
    api_versions: tuple[str, ...] = ()
    type_attribute: str = ""
    classes: Mapping[str, tuple[str, ...]] = {}
    plain_admin_access_since: str = ""

    def device_types(self) -> frozenset[str]:
        """Return all device types that a kind of this driver configures."""
        return frozenset(each for kind in self.kinds for each in kind.device_types)
