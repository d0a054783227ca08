"""Conditions on devices, independent of drivers, CEL and dialects.

An atom is one condition on a device. Atoms are combined by `Not`, `AnyOf` and `AllOf`. The set of
types is closed, so that a target can support or reject each of them.
"""

import enum
from typing import TypeAlias

import msgspec


class Atom(msgspec.Struct, frozen=True, tag_field="is", tag=True):
    """One condition on a device."""


class ProductIs(Atom, frozen=True):
    """The product has one of these names. The comparison treats spaces and dashes as equal."""

    names: tuple[str, ...]


class ProductContains(Atom, frozen=True):
    """The product name contains one of these parts, regardless of case."""

    parts: tuple[str, ...]


class Memory(Atom, frozen=True):
    """The total memory of the device in bytes is in the range [at_least, below)."""

    at_least: int | None = None
    below: int | None = None


class Architecture(Atom, frozen=True):
    """The architecture is one of these, in lower case and with dashes for spaces."""

    names: tuple[str, ...]


class ComputeCapability(Atom, frozen=True):
    """The compute capability (major, minor) is in the range [at_least, below)."""

    at_least: tuple[int, int] | None = None
    below: tuple[int, int] | None = None


class Software(enum.StrEnum):
    """The software on the node whose version is compared."""

    DRIVER = "driver"
    CUDA = "cuda"


class DriverVersion(Atom, frozen=True):
    """The major version of the driver or of its CUDA version is in the range [at_least, below)."""

    software: Software = Software.DRIVER
    at_least: int | None = None
    below: int | None = None


class Uuid(Atom, frozen=True):
    """The UUID of the device is one of these."""

    ids: tuple[str, ...]


class PartitionProfile(Atom, frozen=True):
    """The device is a partition with one of these profiles (`1g.5gb`, `cpx_nps4`)."""

    names: tuple[str, ...]


class NicKind(enum.StrEnum):
    """A type or capability of a network device."""

    RDMA = "rdma"
    VF = "vf"
    PF = "pf"


class NicIs(Atom, frozen=True):
    """The network device is of this kind."""

    kind: NicKind


class DriverKind(Atom, frozen=True):
    """The kernel driver of the device is one of these (`i915`, `xe`, `vfio`)."""

    names: tuple[str, ...]


class LabelOperator(enum.StrEnum):
    """How a device label is compared."""

    IN = "In"
    EXISTS = "Exists"


class DeviceLabel(Atom, frozen=True):
    """A label of the device in its dialect.

    `attribute` is the device attribute that `legacy.labels` of the configuration maps it to.
    """

    key: str
    operator: LabelOperator = LabelOperator.EXISTS
    values: tuple[str, ...] = ()
    attribute: str = ""


class PluginPool(Atom, frozen=True):
    """The device belongs to one of these resource pools of a device plugin."""

    names: tuple[str, ...]


class RawCEL(Atom, frozen=True):
    """A CEL expression from the configuration, never from a pod."""

    expression: str


class Not(msgspec.Struct, frozen=True, tag_field="is", tag=True):
    """The device does not match the operand."""

    operand: "AskSelector"


class AnyOf(msgspec.Struct, frozen=True, tag_field="is", tag=True):
    """The device matches at least one operand. Without operands no device matches."""

    operands: tuple["AskSelector", ...]


class AllOf(msgspec.Struct, frozen=True, tag_field="is", tag=True):
    """The device matches all operands. Without operands every device matches."""

    operands: tuple["AskSelector", ...]


AskSelector: TypeAlias = (
    ProductIs
    | ProductContains
    | Memory
    | Architecture
    | ComputeCapability
    | DriverVersion
    | Uuid
    | PartitionProfile
    | NicIs
    | DriverKind
    | DeviceLabel
    | PluginPool
    | RawCEL
    | Not
    | AnyOf
    | AllOf
)
