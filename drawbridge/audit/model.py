"""What an audit says, as data."""

import enum
from collections.abc import Mapping

import msgspec

from drawbridge.agreement.scope import Mode
from drawbridge.audit.ended import can_end
from drawbridge.report.stuck.found import Stuck


class Fate(enum.StrEnum):
    """What becomes of the device requests of a pod in the migration."""

    TRANSLATED = "translated"  # it has claims of Drawbridge already
    TO_TRANSLATE = "toTranslate"  # claims replace the requests when the pod is created again
    BY_CLASS = "byClass"  # the manifest stays: a DeviceClass serves the name
    STAYS = "stays"  # it needs its device plugin
    REFUSED = "refused"  # nothing can serve it, or an annotation is wrong
    OWN_CLAIMS = "ownClaims"  # it was written with claims

    @property
    def goes(self) -> bool:
        """Whether the pod needs no device plugin after the migration."""
        return self not in (Fate.STAYS, Fate.REFUSED)

    @property
    def has_claims(self) -> bool:
        """Whether the pod was created with claims."""
        return self in (Fate.TRANSLATED, Fate.OWN_CLAIMS)

    @property
    def without_plugin(self) -> bool:
        """Whether the pod needs no device plugin as it was created."""
        return self.has_claims or self is Fate.BY_CLASS


FATE_WORDS: Mapping[Fate, str] = {
    Fate.TRANSLATED: "translated",
    Fate.TO_TRANSLATE: "to translate",
    Fate.BY_CLASS: "served by a class",
    Fate.STAYS: "stays with its plugin",
    Fate.REFUSED: "refused",
    Fate.OWN_CLAIMS: "own claims",
}


def count_fate(fate: Fate, number: int) -> str:
    """Return a number of workloads or pods with what becomes of them."""
    plural = number != 1 and fate is Fate.STAYS
    return f"{number:,} {'stay with their plugin' if plural else FATE_WORDS[fate]}"


class AuditPart(msgspec.Struct, frozen=True, rename="camel"):
    """An object of the audit's data."""


class PodDemand(AuditPart, frozen=True):
    """What pods hold or ask: units of legacy names, and devices or shares of them by class."""

    units: Mapping[str, int] = {}
    devices: Mapping[str, float] = {}


class WorkloadAudit(AuditPart, frozen=True):
    """The alike pods of one owner: what they ask, who serves them, and what becomes of it.

    `pods` are alive and `running` of them have a node; `finished` ones hold nothing. `wanted` is
    what the owner wants of such pods beside its other alike ones, if a template of it that asks the
    same was read; 0 of an owner that has ended. `reasons` say why a request stays or is refused, as
    `Code: message`; `codes` are those of all findings that a person should know.
    """

    owner: str
    asks: tuple[str, ...]
    served_by: str
    fate: Fate
    becomes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    pods: int = 0
    running: int = 0
    finished: int = 0
    wanted: int | None = None
    last: str = ""
    demand: PodDemand = PodDemand()
    nodes: Mapping[str, int] = {}  # running pods by node group; "" is unknown
    kept: tuple[str, ...] = ()  # the nodes of pods that stay with their plugin

    @property
    def is_over(self) -> bool:
        """Whether all pods have finished, and nobody creates others."""
        ends = can_end(self.owner.partition("/")[0])
        return ends and bool(self.finished) and not self.pods and not self.wanted


class NamespaceAudit(AuditPart, frozen=True):
    """The workloads of a namespace that ask for devices, and its quotas on legacy names.

    `pods` counts the pods by what becomes of them. `owners` is how many there are, and `fates`
    counts them: an owner whose pods differ counts for each fate. `refusals` are owners whose pods
    admission refuses now, with the number of attempts, from events.
    """

    namespace: str
    mode: Mode
    pods: Mapping[Fate, int]
    workloads: tuple[WorkloadAudit, ...]
    owners: int = 0
    fates: Mapping[Fate, int] = {}
    workloads_not_shown: int = 0
    refusals: Mapping[str, str] = {}
    quotas: tuple[str, ...] = ()


class NodeState(enum.StrEnum):
    """Who offers the devices of a node."""

    PLUGIN = "plugin"
    DRIVER = "driver"
    BOTH = "both"  # the same devices twice
    MIXED = "mixed"  # a plugin and a driver, with different devices
    NONE = "none"


class GroupCapacity(AuditPart, frozen=True):
    """What a node group offers, and how much of it running pods hold."""

    name: str  # a legacy name, or a DeviceClass
    offered: float
    held: float


class NodeGroup(AuditPart, frozen=True):
    """Alike nodes: the same labels, offers and plugins.

    `selector` selects exactly these nodes; empty if no label does. `before` counts units of legacy
    names and devices of classes; `after` devices of classes when a driver has the devices. `driver`
    is who publishes them, or is expected to.
    """

    name: str
    nodes: tuple[str, ...]
    selector: str
    state: NodeState
    plugins: tuple[str, ...]
    driver: str
    before: tuple[GroupCapacity, ...]
    after: tuple[GroupCapacity, ...]
    cordoned: int = 0
    not_ready: int = 0
    notes: tuple[str, ...] = ()


class Expected(AuditPart, frozen=True):
    """What a step leaves: running pods by who serves them, and nodes by who offers devices.

    `either` pods have devices of a plugin or of a driver: the scheduler can choose.
    """

    on_plugins: int
    on_drivers: int
    waiting: int
    plugin_nodes: int
    driver_nodes: int
    either: int = 0


class PodsOfOwner(AuditPart, frozen=True):
    """The pods of an owner that ask for devices: with those of plugins, of drivers, or waiting.

    Of `either` the scheduler decides: they have devices of a plugin or of a driver, or wait while
    pods of others have these.
    """

    owner: str
    on_plugins: int = 0
    on_drivers: int = 0
    waiting: int = 0
    either: int = 0


class MigrationStep(AuditPart, frozen=True):
    """One step of the migration: what it is for, what to type, and what it leaves.

    `loses` is who never comes back, `story` what happened when it was rehearsed, `checks` are the
    commands that end when one can go on, and `undo` puts back what it set. `leaves` has the owners
    of whose pods the step changes who gives them devices.
    """

    title: str
    why: str
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    expected: Expected | None = None
    undo: tuple[str, ...] = ()
    loses: tuple[str, ...] = ()
    story: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    leaves: tuple[PodsOfOwner, ...] = ()


class Summary(AuditPart, frozen=True):
    """The counts that answer first."""

    nodes: int
    workloads: int
    pods: int
    fates: Mapping[Fate, int]  # workloads
    units: Mapping[str, int] = {}  # of legacy names, that running pods hold


class PodWithoutRoom(AuditPart, frozen=True):
    """A running pod that does not fit after the migration, the node where it runs, and why."""

    pod: str
    node: str
    why: str


class FitSummary(AuditPart, frozen=True):
    """How many of the running pods fit after the migration: where they are, and packed anew.

    The solver places them by devices, CPU, memory, node selectors and taints. `not_in_place` and
    `not_packed` are the first pods that do not fit. Of the pods, some are `without_devices`; those
    that are `unread` are not counted.
    """

    pods: int
    in_place: int
    packed: int
    not_in_place: tuple[PodWithoutRoom, ...] = ()
    not_packed: tuple[PodWithoutRoom, ...] = ()
    unread: int = 0
    without_devices: int = 0


class Audit(AuditPart, frozen=True):
    """Everything that an audit says. Of a part of the cluster, it has no node groups and no plan.

    `notes` are what is assumed, not known and not simulated.
    `stuck` is what does not go on, with who holds it.
    """

    version: str
    summary: Summary
    namespaces: tuple[NamespaceAudit, ...]
    node_groups: tuple[NodeGroup, ...] = ()
    steps: tuple[MigrationStep, ...] = ()
    notes: tuple[str, ...] = ()
    fit: FitSummary | None = None
    stuck: tuple[Stuck, ...] = ()
