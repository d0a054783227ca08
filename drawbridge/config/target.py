"""The targets of the configuration: what legacy requests are translated to."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import msgspec

from drawbridge.config.part import ConfigurationPart, describe
from drawbridge.config.string_formats import (
    AttributeName,
    DNSLabel,
    DriverName,
    ExpressionText,
    ObjectName,
    ResourceName,
)
from drawbridge.dra.families import BY_SHORT_NAME, VENDORS

if TYPE_CHECKING:
    FamilyName = str
    Vendor = str
else:
    # The words of the table, so that a family has one entry. A type checker cannot read them.
    FamilyName = Literal[tuple(BY_SHORT_NAME)]
    Vendor = Literal[VENDORS]

# The keys of `attributes` and `capacities` of a custom driver.
ATTRIBUTE_WORDS: Final = (
    "product",
    "uuid",
    "architecture",
    "compute",
    "driver-version",
    "cuda-version",
    "profile",
    "parent",
    "kernel-driver",
    "resource",
)
CAPACITY_WORDS: Final = ("memory", "cores", "shares")


class Target(ConfigurationPart, frozen=True, kw_only=True):
    """The driver and DeviceClass for legacy requests of a kind of device, or of certain names."""

    kind: Annotated[
        Literal["gpu", "nic"] | None,
        describe(
            "The kind of the requested device: the entry is for every resource name and annotation"
            " by which pods request that kind. If not set, the entry is only for the names in"
            " `resources`, `selectors` and `amounts`."
        ),
    ] = None
    driver: Annotated[DriverName, describe("The DRA driver to use.")]
    class_: Annotated[ObjectName, describe("The DeviceClass to request.")] = msgspec.field(
        name="class"
    )
    resources: Annotated[
        tuple[ResourceName, ...],
        describe(
            "Resource names of any kind of device, such as `example.com/fpga`. A pod that requests"
            " 2 of a name gets 2 devices of the class. A name that Drawbridge knows by itself, such"
            " as `nvidia.com/gpu`, belongs to its kind and is refused here."
        ),
    ] = ()
    selectors: Annotated[
        Mapping[ResourceName, ExpressionText],
        describe(
            "Resource names that count certain devices of the class, such as partitions, and the"
            " CEL expression that selects these devices."
        ),
    ] = {}
    amounts: Annotated[
        Mapping[ResourceName, AttributeName],
        describe(
            "Resource names whose amount is a part of each device, and the capacity that it is a"
            " part of. The devices must allow multiple allocations. `legacy.units` says what one"
            " unit stands for. A pod that requests no device beside it gets one."
        ),
    ] = {}
    family: Annotated[
        FamilyName | None,
        describe(
            "For a custom driver with a `kind`: the known driver family whose attributes,"
            " capacities and opaque configuration it has, under its own name. Without it,"
            " `attributes` and `capacities` say what the driver publishes, and requests that need"
            " another property are not translated. `drawbridge check --config FILE` says which of"
            " them the slices of the driver lack."
        ),
    ] = None
    vendor: Annotated[
        Vendor | None,
        describe(
            "For a custom driver of GPUs without a `family`: the vendor of its devices. The entry"
            " is then not used for names of another vendor."
        ),
    ] = None
    sharing: Annotated[
        Literal["none", "memory", "unlimited"] | Annotated[int, msgspec.Meta(ge=2)],
        describe(
            "How pods share a device: not at all, by memory, without limit, or up to this number."
        ),
    ] = "none"
    attributes: Annotated[
        Mapping[DNSLabel, AttributeName],
        describe(
            "For a custom driver: the attributes that hold product, uuid, architecture, compute,"
            " driver-version, cuda-version, profile, parent, kernel-driver, or resource (the"
            " name of a device-plugin resource). A request for several shared devices needs uuid,"
            " one for a product needs product, one for a partition of a GPU needs profile, and"
            " virtual functions of different cards need parent."
        ),
    ] = {}
    capacities: Annotated[
        Mapping[DNSLabel, AttributeName],
        describe(
            "For a custom driver: the capacities that hold memory, cores or shares. A request for a"
            " share of the memory or the cores of a device needs them."
        ),
    ] = {}

    @property
    def names(self) -> tuple[ResourceName, ...]:
        """The resource names that the entry is for, in addition to those of its kind."""
        return (*self.resources, *self.selectors, *self.amounts)


class NamedDevices(NamedTuple):
    """What a configured resource name requests: devices of a target, or a part of each of them."""

    target: Target
    selector: str = ""  # a CEL expression for the devices that the name counts
    is_amount: bool = False
