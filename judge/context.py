"""What a judgement is made with: the cluster as published, and the settings of the administrator.

A context is immutable but for the caches in it, which are bounded and never change a result.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from cel.dra import Selectors
from config.model import Policy
from config.string_formats import FindingCode
from dra.claim import Claim, Template
from dra.gates import Gates
from dra.nodes import Node
from dra.resource_quotas import ResourceQuota
from facts.fleet import FleetVerdict
from solver.memo import Memo
from solver.search import STEPS
from solver.world import View, World


def _finds_nothing(*_: str) -> None:
    return None


def _finds_no_quotas(_: str) -> Sequence[ResourceQuota]:
    return ()


class ObjectLookups(msgspec.Struct, frozen=True):
    """Finds namespaced objects, by namespace and name. None if an object does not exist.

    `complete` is false if no cluster is known: then an object that is not found may exist.
    """

    find_claim: Callable[[str, str], Claim | None] = _finds_nothing
    find_template: Callable[[str, str], Template | None] = _finds_nothing
    find_namespace_labels: Callable[[str], Mapping[str, str] | None] = _finds_nothing
    find_quotas: Callable[[str], Sequence[ResourceQuota]] = _finds_no_quotas
    complete: bool = False


class JudgeCaches:
    """The caches of the questions that need devices. They belong to one process."""

    def __init__(self) -> None:
        self.proofs = Memo()
        self.current = Memo()


class JudgeContext(msgspec.Struct, frozen=True, eq=False):
    """The cluster, and what is known about its completeness.

    `world` answers as the allocator that will allocate: upstream's or ours. `view` is the current
    use of its devices, or None if it is unknown. `doubts` are reasons why the context may not show
    the cluster as it is, such as a stale cache: with any of them, no finding about devices is an
    error. `steps` limits the search on each node.
    """

    world: World
    nodes: tuple[Node, ...] = ()
    view: View | None = None
    fleet: Mapping[str, FleetVerdict] = {}
    selectors: Selectors = msgspec.field(default_factory=Selectors)
    lookups: ObjectLookups = ObjectLookups()
    policies: Mapping[FindingCode, Policy] = {}
    doubts: Sequence[str] = ()
    caches: JudgeCaches = msgspec.field(default_factory=JudgeCaches)
    steps: int = STEPS

    @property
    def gates(self) -> Gates:
        """The feature gates of the cluster."""
        return self.world.gates
