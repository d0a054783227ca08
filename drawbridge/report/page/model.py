"""What the page of a cluster says, as data."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from drawbridge.documents.values import Value
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.report.stuck.found import Stuck


class Extent(enum.StrEnum):
    """How much of a kind is known."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"  # only that of one namespace
    NOTHING = "nothing"


@dataclass(frozen=True)
class PageObjects:
    """The objects that were read. Claims, pods and templates are plain objects.

    `claims_known` and `pods_known` say whether those are all of the cluster: if not, a device
    without a holder may have one. `modes` and `labels` are those of the namespaces, and `leaving`
    the namespaces under deletion. `registered` are the nodes as plain objects with the annotations
    of device plugins, and what tells whether they are ready.
    """

    nodes: tuple[Node, ...] = ()
    registered: tuple[Value, ...] = ()
    slices: tuple[Slice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    claims: tuple[Value, ...] = ()
    pods: tuple[Value, ...] = ()
    templates: tuple[Value, ...] = ()
    modes: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    leaving: tuple[Value, ...] = ()
    claims_known: Extent = Extent.CLUSTER
    pods_known: Extent = Extent.CLUSTER
    templates_known: Extent = Extent.CLUSTER
    slices_known: Extent = Extent.CLUSTER


class DeviceState(enum.StrEnum):
    """Whether a device can be allocated."""

    HELD = "held"
    SHARED = "shared"  # held, and others can get a share
    BLOCKED = "blocked"  # what it consists of is held as other devices
    TAINTED = "tainted"  # its taint keeps new pods off
    UNKNOWN = "unknown"  # who holds it may not be read
    FREE = "free"


STATE_WORDS: Mapping[DeviceState, str] = {
    DeviceState.HELD: "held",
    DeviceState.SHARED: "shared",
    DeviceState.BLOCKED: "blocked by others of its counters",
    DeviceState.TAINTED: "tainted",
    DeviceState.UNKNOWN: "not known whether held",
    DeviceState.FREE: "free",
}


class PagePart(msgspec.Struct, frozen=True):
    """An object of the page's data."""


class HolderOnPage(PagePart, frozen=True):
    """Who holds a device or a share of it: a claim or none, pods, and amounts."""

    claim: str
    pods: tuple[str, ...]
    amounts: str = ""
    since: str = ""
    more_pods: int = 0


class DeviceOnPage(PagePart, frozen=True):
    """A device, and the first of its holders."""

    name: str
    driver: str
    product: str
    capacity: str
    state: DeviceState
    taints: tuple[str, ...] = ()
    holders: tuple[HolderOnPage, ...] = ()
    more_holders: int = 0


class PCIeRootOnPage(PagePart, frozen=True):
    """The devices of a PCIe root."""

    name: str
    devices: tuple[DeviceOnPage, ...]


class NUMANodeOnPage(PagePart, frozen=True):
    """The PCIe roots of a NUMA node."""

    name: str
    roots: tuple[PCIeRootOnPage, ...]


class PluginOnPage(PagePart, frozen=True):
    """A resource of device plugins: the units that a node, or all of them, offer and pods hold.

    `held` is None if the pods of the cluster may not be read.
    """

    name: str
    offered: int
    held: int | None


class NodeOnPage(PagePart, frozen=True):
    """A node, or the devices of a pool that several nodes reach.

    `others` are holders without a device of the node: pods of device plugins, and claims whose
    device is no longer published.
    """

    name: str
    notes: tuple[str, ...] = ()
    numa_nodes: tuple[NUMANodeOnPage, ...] = ()
    plugins: tuple[PluginOnPage, ...] = ()
    others: tuple[HolderOnPage, ...] = ()
    more_others: int = 0
    states: Mapping[DeviceState, int] = {}


class NodeGroupOnPage(PagePart, frozen=True):
    """Alike nodes."""

    name: str
    nodes: tuple[NodeOnPage, ...]


class WaitingPodOnPage(PagePart, frozen=True):
    """A pod that has no node or no devices yet, and why."""

    pod: str
    since: str
    asks: tuple[str, ...]
    reasons: tuple[str, ...]


class NamespaceProgress(PagePart, frozen=True):
    """The pods of a namespace that ask for devices, by who serves them.

    A pod that waits has no devices, so it counts as `waiting` only, in whatever form it asks.
    """

    namespace: str
    mode: str
    translated: int = 0
    own_claims: int = 0
    by_class: int = 0
    on_plugins: int = 0
    waiting: int = 0

    @property
    def pods(self) -> int:
        """All of them."""
        return self.served + self.on_plugins + self.waiting

    @property
    def served(self) -> int:
        """Those with devices of drivers."""
        return self.translated + self.own_claims + self.by_class


class QuotaOnPage(PagePart, frozen=True):
    """What is used of one total of a quota: by a namespace, or without one by all it selects."""

    quota: str
    namespace: str
    device_class: str
    amount: str
    used: str
    limit: str
    left: str
    per_mille: int


class QuotasOnPage(PagePart, frozen=True):
    """The quotas of the configuration; what is used is not known without the claims."""

    lines: tuple[QuotaOnPage, ...] = ()
    more_lines: int = 0
    is_known: bool = True


class ClusterOnPage(PagePart, frozen=True):
    """Everything that the page says about a cluster; `more_*` is left out."""

    groups: tuple[NodeGroupOnPage, ...] = ()
    waiting: tuple[WaitingPodOnPage, ...] = ()
    more_waiting: int = 0
    namespaces: tuple[NamespaceProgress, ...] = ()
    more_namespaces: int = 0
    more_nodes: int = 0
    states: Mapping[DeviceState, int] = {}
    plugins: tuple[PluginOnPage, ...] = ()
    quotas: QuotasOnPage | None = None
    stuck: tuple[Stuck, ...] = ()


class Watched(PagePart, frozen=True):
    """How a kind is read: how much of it, and since when its watch fails, with the reason."""

    kind: str
    extent: Extent
    namespace: str = ""
    is_read: bool = True
    failing: str = ""
    failing_seconds: float = 0.0


class PageState(PagePart, frozen=True):
    """Where the objects come from, and whether they are current; `at` is when they were."""

    source: str
    at: str
    is_live: bool = False
    watched: tuple[Watched, ...] = ()
    unread: int = 0
