"""What a pod wants of devices, free of dialects and of DRA: the words between the two.

An `Ask` is one group of alike devices; a `Reading` is all that was read from one pod. Nothing here
reads or prints anything.
"""

import enum
from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

from documents.paths import Path
from documents.values import Value
from dra.finding import Finding
from translate.legacy.selectors import Selector


class Kind(enum.StrEnum):
    """What an ask is for."""

    GPU = "gpu"
    NIC = "nic"
    OTHER = "other"  # known by name, and no driver is known that serves it


class Role(enum.StrEnum):
    """When a container runs."""

    APP = "app"
    INIT = "init"  # ends before the app containers start
    SIDECAR = "sidecar"  # an init container that goes on running


class User(msgspec.Struct, frozen=True):
    """A container that gets the devices."""

    path: Path  # ("spec", "containers", 0)
    name: str
    role: Role = Role.APP


class Bytes(msgspec.Struct, frozen=True, tag=True):
    """An amount of memory of each device."""

    value: int


class Percent(msgspec.Struct, frozen=True, tag=True):
    """A part of what each device has, in percent of it."""

    value: Decimal


class Isolation(enum.StrEnum):
    """What keeps those who share a device apart, as the dialect promises it."""

    NONE = "none"
    MEMORY = "memory"  # memory and cores are limited in software
    MPS = "mps"
    MIG = "mig"  # a hardware partition that is large enough, whatever its name
    UNKNOWN = "unknown"  # decided by the cluster, not by the pod


class Share(msgspec.Struct, frozen=True):
    """A part of a device; who asks for a whole one has no share."""

    memory: Bytes | Percent | None = None  # None: it says nothing of memory
    cores: Percent | None = None  # None: no limit on cores and no claim to any
    isolation: Isolation = Isolation.UNKNOWN
    replica: bool = False  # one of as many equal parts as the cluster makes
    per_mille: int | None = None  # of a network device: how much of it, in thousandths


class Distinct(enum.StrEnum):
    """How the devices of one ask must differ from each other."""

    DEVICE = "device"
    PARENT = "parent"  # on different physical devices: VFs of different PFs
    NONE = "none"


class Scope(enum.StrEnum):
    """Which neighbourhood devices share."""

    DEVICE = "device"
    PCIE = "pcie"
    NUMA = "numa"
    NODE = "node"
    LINK = "link"  # a partition of the link between GPUs


class Together(msgspec.Struct, frozen=True):
    """All devices of one ask are in one neighbourhood."""

    scope: Scope
    required: bool = True


class Joint(msgspec.Struct, frozen=True):
    """Asks with the same joint go together: each neighbourhood of the primary's has one of each."""

    name: str
    primary: Kind
    scope: Scope = Scope.PCIE
    required: bool = True
    # The pod gave a number of its own; False: as many as there are neighbourhoods.
    counted: bool = False


class Wish(msgspec.Struct, frozen=True):
    """How to choose among what all fits: `packed` fills up what is in use, `spread` does not."""

    among: Literal["nodes", "devices"]
    policy: Literal["packed", "spread"]
    key: str  # the annotation that says it


class Vf(msgspec.Struct, frozen=True, tag=True):
    """How a network function is set up."""

    network: str = ""  # namespace/name of the network definition
    interface: str = ""  # as the pod names it
    driver: str = ""
    fixed: tuple[tuple[str, Value], ...] = ()  # mac, ips and the like, as written


class Variable(msgspec.Struct, frozen=True, tag=True):
    """An environment variable that the users of the ask relied on."""

    name: str
    value: str


Setting: TypeAlias = Vf | Variable


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One group of alike devices that a pod wants."""

    name: str = ""  # unique in its reading, for traces and joints; not a name for others to see
    kind: Kind
    row: str  # which row of the decisions' table it is: "<dialect>/<what>"
    vendor: str = ""  # "nvidia", "amd", "intel", ...; empty: whichever
    count: int | None = 1  # None: all there are on the node
    share: Share | None = None
    selectors: tuple[Selector, ...] = ()  # all hold
    alternatives: tuple[Selector, ...] = ()  # in order of preference; one of them holds
    distinct: Distinct = Distinct.DEVICE
    together: Together | None = None
    joint: Joint | None = None
    wishes: tuple[Wish, ...] = ()  # of no weight in what a claim spec says
    admin: bool = False  # looks at devices without taking them
    partition: bool = False  # a hardware partition, not a whole device
    passthrough: bool = False  # for a virtual machine
    labelled: bool = False  # its pod chooses nodes by labels that go with the device plugin
    settings: tuple[Setting, ...] = ()
    users: tuple[User, ...] = ()
    resources: tuple[str, ...] = ()  # the extended resources as the pod wrote them

    @property
    def plain(self) -> bool:
        """Whether an extended resource could say it: a number of whole devices and nothing more."""
        return self.count is not None and not (
            self.share
            or self.selectors
            or self.alternatives
            or self.together
            or self.joint
            or self.admin
            or self.settings
            or self.labelled
        )


class Trace(msgspec.Struct, frozen=True):
    """What in the pod asked for it, and what becomes of that when the ask is translated.

    `path` is the object or list that holds it and `name` its key or index. `instead` is what stands
    there afterwards; a trace that is neither removed nor replaced stays for those who read it.
    Traces of a reading are in an order in which they can be taken out: higher indices first.
    """

    path: Path
    name: str | int
    value: Value
    removed: bool = True
    instead: Value = None
    asks: tuple[str, ...] = ()  # taken out only if all of these are translated; empty: with any


class Reading(msgspec.Struct, frozen=True):
    """All that was read from one pod."""

    asks: tuple[Ask, ...] = ()
    traces: tuple[Trace, ...] = ()
    findings: tuple[Finding, ...] = ()
    dialects: tuple[str, ...] = ()  # which ones spoke


NOTHING = Reading()
