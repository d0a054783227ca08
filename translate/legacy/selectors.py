"""Which devices an ask accepts: a closed algebra, so that every target can say what it knows.

An atom states a fact about a device in words of the trade, not of a driver. Atoms go under not,
any-of and all-of. Knows nothing of CEL, labels or dialects.
"""

import enum
from typing import TypeAlias

import msgspec


class Atom(msgspec.Struct, frozen=True, tag_field="is", tag=True):
    """One fact about a device."""


class ProductIs(Atom, frozen=True):
    """The product has one of these names; blanks and dashes are the same in the comparison."""

    names: tuple[str, ...]


class ProductContains(Atom, frozen=True):
    """The product's name contains one of these, whatever the case."""

    parts: tuple[str, ...]


class Memory(Atom, frozen=True):
    """The device's whole memory, in bytes: at least, and below."""

    at_least: int | None = None
    below: int | None = None


class Architecture(Atom, frozen=True):
    """The generation is one of these: small letters, dashes for blanks."""

    names: tuple[str, ...]


class Compute(Atom, frozen=True):
    """The compute capability as (major, minor): at least, and below."""

    at_least: tuple[int, int] | None = None
    below: tuple[int, int] | None = None


class Software(enum.StrEnum):
    """What has a version on the node."""

    DRIVER = "driver"
    CUDA = "cuda"


class DriverVersion(Atom, frozen=True):
    """The major version of the driver, or of the CUDA it brings: at least, and below."""

    of: Software = Software.DRIVER
    at_least: int | None = None
    below: int | None = None


class Uuid(Atom, frozen=True):
    """The device is one of these."""

    ids: tuple[str, ...]


class Profile(Atom, frozen=True):
    """The device is a partition of one of these profiles (`1g.5gb`, `cpx_nps4`)."""

    names: tuple[str, ...]


class NicKind(enum.StrEnum):
    """What a network device can do or is."""

    RDMA = "rdma"
    VF = "vf"
    PF = "pf"


class Nic(Atom, frozen=True):
    """The network device is of this kind."""

    kind: NicKind


class DriverKind(Atom, frozen=True):
    """The kernel driver behind the device is one of these (`i915`, `xe`, `vfio`)."""

    names: tuple[str, ...]


class Operator(enum.StrEnum):
    """How a label of a device is compared."""

    IN = "In"
    EXISTS = "Exists"


class DeviceLabel(Atom, frozen=True):
    """A label that a device bears in its dialect; `attribute` where the configuration maps it."""

    key: str
    operator: Operator = Operator.EXISTS
    values: tuple[str, ...] = ()
    attribute: str = ""


class ResourceName(Atom, frozen=True):
    """The pool of a device plugin from which the device would have come."""

    names: tuple[str, ...]


class RawCEL(Atom, frozen=True):
    """An expression that the administrator wrote; never made from a pod."""

    expression: str


class Not(msgspec.Struct, frozen=True, tag_field="is", tag=True):
    """The selector does not hold."""

    what: "Selector"


class AnyOf(msgspec.Struct, frozen=True, tag_field="is", tag=True):
    """One of the selectors holds; of none, nothing does."""

    these: tuple["Selector", ...]


class AllOf(msgspec.Struct, frozen=True, tag_field="is", tag=True):
    """All of the selectors hold; of none, that is always so."""

    these: tuple["Selector", ...]


Selector: TypeAlias = (
    ProductIs
    | ProductContains
    | Memory
    | Architecture
    | Compute
    | DriverVersion
    | Uuid
    | Profile
    | Nic
    | DriverKind
    | DeviceLabel
    | ResourceName
    | RawCEL
    | Not
    | AnyOf
    | AllOf
)
