"""Data model of the device requests of a pod, independent of dialects and of DRA.

An `Ask` is one group of equal devices. `PodRequests` holds everything that the dialects read from
one pod.
"""

import enum
from decimal import Decimal
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from drawbridge.documents.paths import Path
from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.translate.legacy.selectors import AskSelector


class Kind(enum.StrEnum):
    """The kind of device that an ask is for."""

    GPU = "gpu"
    NIC = "nic"
    OTHER = "other"  # any other device; without a name in the configuration, no driver is known


class ContainerRole(enum.StrEnum):
    """When a container runs."""

    APP = "app"
    INIT = "init"  # ends before the app containers start
    SIDECAR = "sidecar"  # an init container with restartPolicy Always


class DeviceUser(msgspec.Struct, frozen=True):
    """A container that gets the devices of an ask."""

    path: Path  # ("spec", "containers", 0)
    name: str
    role: ContainerRole = ContainerRole.APP


class Bytes(msgspec.Struct, frozen=True, tag=True):
    """An amount of memory of each device."""

    value: int


class Percent(msgspec.Struct, frozen=True, tag=True):
    """A part of the memory or cores of each device, in percent."""

    value: Decimal


class Isolation(enum.StrEnum):
    """How the pods that share a device are isolated from each other, as the dialect promises it."""

    NONE = "none"
    MEMORY = "memory"  # software limits memory and cores
    MPS = "mps"
    MIG = "mig"  # a hardware partition of sufficient size, with any profile
    UNKNOWN = "unknown"  # depends on the cluster, not on the pod


class DeviceShare(msgspec.Struct, frozen=True):
    """A part of each device. An ask for whole devices has no share."""

    memory: Bytes | Percent | None = None  # None: the pod does not specify memory
    cores: Percent | None = None  # None: neither a limit nor a guarantee of cores
    isolation: Isolation = Isolation.UNKNOWN
    replica: bool = False  # one of the equal replicas into which the cluster divides a device
    amounts: tuple[tuple[str, int], ...] = ()  # of capacities, by configured resource name
    per_mille: int | None = None  # of a network device: the part of it, in thousandths


class Distinctness(enum.StrEnum):
    """How the devices of one ask must differ from each other."""

    DEVICE = "device"
    PARENT = "parent"  # on different physical devices: VFs of different PFs
    NONE = "none"


class TopologyScope(enum.StrEnum):
    """The part of a node that devices have in common."""

    DEVICE = "device"
    PCIE = "pcie"
    NUMA = "numa"
    NODE = "node"
    LINK = "link"  # a partition of the links between GPUs


class Colocation(msgspec.Struct, frozen=True):
    """All devices of one ask are in the same scope."""

    scope: TopologyScope
    required: bool = True
    annotation: str = ""  # the annotation that specifies it


class JointAllocation(msgspec.Struct, frozen=True):
    """Asks with an equal value are allocated jointly.

    Each scope that has a device of the primary kind has one device of every other ask.
    """

    name: str
    primary: Kind
    scope: TopologyScope = TopologyScope.PCIE
    required: bool = True
    # The pod specifies its own count. False: one device for each scope.
    explicit_count: bool = False
    annotation: str = ""  # the annotation that specifies it


class StrategyPreference(msgspec.Struct, frozen=True):
    """A preference among suitable nodes or devices, a strategy for both, or its weights.

    Of nodes and devices, it fills used ones first (`packed`), or spreads. Weights are a list such
    as `cores=1,memory=3`.
    """

    about: Literal["nodes", "devices", "strategy", "weights"]
    value: str
    annotation: str  # the annotation that specifies it; empty for the dialect's scheduler itself


class VfSettings(msgspec.Struct, frozen=True, tag=True):
    """Settings of a virtual network function."""

    network: str = ""  # namespace/name of the network definition
    interface: str = ""  # the interface name in the pod's annotation
    driver: str = ""
    parameters: tuple[tuple[str, Value], ...] = ()  # mac, ips and the like, as in the annotation


# The variables that dialects set where the user has not; a translation reads whether there is one.
VariableName: TypeAlias = Literal["CUDA_TASK_PRIORITY"]
SET_VARIABLES: Final = frozenset[str](get_args(VariableName))


class EnvironmentVariable(msgspec.Struct, frozen=True, tag=True):
    """An environment variable that the dialect sets in the containers of the ask."""

    name: VariableName
    value: str


Setting: TypeAlias = VfSettings | EnvironmentVariable


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a pod for one group of equal devices."""

    name: str = ""  # unique in its pod; internal, used by source fields and joint allocations
    kind: Kind
    # The resource name by which the configuration or a class selects devices; empty: the kind does.
    named: str = ""
    row: str  # the row in the decision table: "<dialect>/<request>"
    vendor: str = ""  # "nvidia", "amd", "intel", ...; empty: any vendor
    count: int | None = 1  # None: all devices of the node
    share: DeviceShare | None = None
    selectors: tuple[AskSelector, ...] = ()  # a device must match all of them
    alternatives: tuple[AskSelector, ...] = ()  # a device must match one; preferred ones first
    distinct: Distinctness = Distinctness.DEVICE
    colocation: Colocation | None = None
    joint: JointAllocation | None = None
    preferences: tuple[StrategyPreference, ...] = ()  # not part of the claim spec
    # Scopes that the devices share if possible, in this order; not part of the claim spec.
    nearness: tuple[TopologyScope, ...] = ()
    admin: bool = False  # admin access: monitors devices without allocating them
    partition: bool = False  # a hardware partition, not a whole device
    passthrough: bool = False  # for a virtual machine
    uses_node_labels: bool = False  # the pod selects nodes by labels that the device plugin sets
    settings: tuple[Setting, ...] = ()
    users: tuple[DeviceUser, ...] = ()
    resources: tuple[str, ...] = ()  # the names of the extended resources as written in the pod
    amounts: tuple[str, ...] = ()  # those of them that do not count the devices of the ask
    stands_on: str = ""  # the resource of the device plugin by which annotations are served
    queue: str = ""  # the queue of Kueue that charges the pod by its claims

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """The names that a device plugin advertises where it serves the ask."""
        return self.resources or ((self.stands_on,) if self.stands_on else ())

    @property
    def is_plain(self) -> bool:
        """Whether an extended resource can express it: a count of whole devices and no more.

        An extended resource gives each container devices of its own.
        """
        apps = sum(user.role is ContainerRole.APP for user in self.users)
        return self.count is not None and not (
            apps > 1
            or self.share
            or self.amounts
            or self.selectors
            or self.alternatives
            or self.colocation
            or self.joint
            or self.admin
            or self.settings
            or self.uses_node_labels
        )


class SourceField(msgspec.Struct, frozen=True):
    """A field of the pod that an ask was read from, and its fate when the ask is translated.

    `path` is the containing object or list, `name` the key or index in it. `replacement` is the
    value that the field gets. A field that is neither removed nor replaced stays in the pod.
    The source fields of a pod are ordered so that they can be removed one by one: higher indices
    come first.
    """

    path: Path
    name: str | int
    value: Value
    removed: bool = True
    replacement: Value = None
    asks: tuple[str, ...] = ()  # removed only if all of these are translated; empty: with any


class PodRequests(msgspec.Struct, frozen=True):
    """Everything that the dialects read from one pod."""

    asks: tuple[Ask, ...] = ()
    source_fields: tuple[SourceField, ...] = ()
    findings: tuple[Finding, ...] = ()
    dialects: tuple[str, ...] = ()  # the dialects that the pod uses


NO_REQUESTS = PodRequests()
