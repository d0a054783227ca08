"""What the models know of pods: alike pods are of one kind, and a pod is where and with what."""

import enum
from collections.abc import Mapping
from typing import NamedTuple

from drawbridge.models.jobs import JobRules
from drawbridge.models.rollouts import PodRollout
from drawbridge.models.spreading import SpreadRule


class AskedOfNode(NamedTuple):
    """What a pod asks of its node, in the form in which it was created.

    `amounts` are what nodes count (CPU, memory, units of device plugins), `devices` what claims ask
    of classes. `nodes` are those where it may start as they are now, `moved_nodes` those where it
    may start after their plugin has been replaced.
    """

    amounts: Mapping[str, int] = {}
    devices: Mapping[str, float] = {}
    nodes: frozenset[str] = frozenset()
    moved_nodes: frozenset[str] = frozenset()


class PodKind(NamedTuple):
    """What alike pods of one owner have in common.

    `asked` is the pod as its owner writes it, `translated` as admission would; None if it does not.
    With `by_class`, a class serves the names that the pod asks for, where no plugin does; then
    `asked.devices` are those. `named_node` is that of a template with `nodeName`. `wanted` is what
    the owner asks for. In a namespace that is ending, nobody creates pods again. Gated pods get no
    node. A pod can be the owner of others, as the driver of Spark is, which creates them again.
    """

    namespace: str
    owner: str
    labels: Mapping[str, str]
    asked: AskedOfNode
    translated: AskedOfNode | None = None
    by_class: bool = False
    units: Mapping[str, int] = {}
    named_node: str = ""
    wanted: int = 0
    job: JobRules | None = None
    rules: tuple[SpreadRule, ...] = ()
    rollout: PodRollout | None = None
    is_ending: bool = False
    is_gated: bool = False
    is_of_pod: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether the pod has no owner that creates it again: then it stands for its owner."""
        return self.owner_kind == "Pod" and not self.is_of_pod

    @property
    def owner_kind(self) -> str:
        """The kind of the owner."""
        return self.owner.partition("/")[0]

    @property
    def full_owner(self) -> str:
        """The owner with its namespace."""
        return f"{self.namespace}/{self.owner}"

    @property
    def can_restart(self) -> bool:
        """Whether `kubectl rollout restart` of the owner replaces its pods."""
        return self.rollout is not None and self.rollout.can_restart

    @property
    def needs_devices(self) -> bool:
        """Whether the pods ask for devices, of whoever has them."""
        return bool(self.units or self.asked.devices or self.translated)


class Served(enum.Enum):
    """Who gave a running pod its devices."""

    NOBODY = "nobody"  # it needs none, or waits
    PLUGIN = "plugin"
    DRIVER = "driver"

    __hash__ = object.__hash__  # that of Enum is slow, and pods are counted by this


class Health(enum.Enum):
    """How budgets see a pod: only one that is ready counts for them and is protected by them."""

    READY = "ready"
    NOT_READY = "not ready"
    UNGUARDED = "pending or being deleted"  # the API server asks no budget

    __hash__ = object.__hash__


class ModelPod(NamedTuple):
    """A pod: alive on a node, or waiting without one. `is_translated` pods have claims.

    The scheduler of the play chose the node if `placed` is not 0, before the pod of this key came:
    a real one can choose another, and a driver in place of a plugin, or the reverse, if
    `has_other_source`.
    """

    kind: int
    node: str = ""
    served: Served = Served.NOBODY
    is_translated: bool = False
    is_static: bool = False
    placed: int = 0
    has_other_source: bool = False
    since: int = 0
    name: str = ""  # the node of a pod of a DaemonSet
    health: Health = Health.READY  # of a pod that starts in the model: it becomes ready
