"""What a judgement is made with: the cluster as published, and the settings of the administrator.

A context is immutable but for the caches in it, which are bounded and never change a result.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from drawbridge.cel.dra import Selectors
from drawbridge.config.model import Fleet, Policy
from drawbridge.config.string_formats import FindingCode
from drawbridge.dra.claim import Claim, Template
from drawbridge.dra.families import BY_DRIVER, Family
from drawbridge.dra.gates import Gates
from drawbridge.dra.nodes import Node
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.dra.slices import Slice
from drawbridge.facts.fleet import (
    FleetVerdict,
    PublishedClass,
    find_autoscaler,
    find_silent_node,
    fleet_verdicts,
)
from drawbridge.judge.devices.device_index import DeviceIndex, SliceNumbers
from drawbridge.judge.devices.published_classes import find_published_classes
from drawbridge.judge.slices.expressions import declares_compatibility
from drawbridge.ledger.quota_use import QuotaUse
from drawbridge.solver.ahead import Learnt, LentState, learn
from drawbridge.solver.expressions import Evaluators
from drawbridge.solver.memo import Memo
from drawbridge.solver.search import STEPS
from drawbridge.solver.world import View, World


def _finds_nothing(*_: str) -> None:
    return None


def _finds_no_quotas(_: str) -> Sequence[ResourceQuota]:
    return ()


def _knows_nothing(*_: str) -> bool:
    return False


class ObjectLookups(msgspec.Struct, frozen=True):
    """Finds namespaced objects, by namespace and name. None if an object does not exist.

    `device_quotas` counts what the claims of the cluster have. `complete` is false if no cluster is
    known: then an object that is not found may exist. `is_unreadable` tells whether an object of a
    kind exists that cannot be read, and has findings.
    """

    find_claim: Callable[[str, str], Claim | None] = _finds_nothing
    find_template: Callable[[str, str], Template | None] = _finds_nothing
    find_namespace_labels: Callable[[str], Mapping[str, str] | None] = _finds_nothing
    find_quotas: Callable[[str], Sequence[ResourceQuota]] = _finds_no_quotas
    device_quotas: QuotaUse | None = None
    is_unreadable: Callable[[str, str, str], bool] = _knows_nothing
    complete: bool = False


# The nodes, the slices that departed, and the families of drivers.
_IndexedObjects = tuple[tuple[Node, ...], tuple[Slice, ...], Mapping[str, Family]]


class _IndexedWorld(msgspec.Struct, frozen=True, eq=False):
    """What is derived from a world and its nodes, whatever the settings of the administrator."""

    world: World
    objects: _IndexedObjects
    relaxed: World
    index: DeviceIndex
    published: Mapping[str, PublishedClass]
    coming: str
    has_rules: bool


class ToldByCopy(NamedTuple):
    """What a copy of the process told, and the number of the memo that it is for."""

    memo: int
    learnt: Learnt


class UnownedClass(NamedTuple):
    """A class without a device in an owned pool.

    `drivers` are those of its devices if it selects no device of any driver with an entry, so that
    no node that comes helps; `elsewhere` is whether other schedulers can use one of the devices.
    """

    drivers: Sequence[str] = ()
    elsewhere: bool = False


class JudgeCaches:
    """The caches of the judgements of one process, for one world after the other."""

    def __init__(self, selectors: Selectors) -> None:
        self.selectors = selectors
        self.indexed: _IndexedWorld | None = None
        # One evaluator: its results do not depend on what the memos differ in.
        evaluators = Evaluators(selectors)
        self.proofs = Memo(evaluators)
        self.with_taints = Memo(evaluators)
        self.current = Memo(evaluators)
        self.memos = self.proofs, self.with_taints, self.current
        self.numbers = SliceNumbers()

    def drop_nodes(self, names: Collection[str]) -> None:
        """Drop what belongs to deleted nodes."""
        for memo in self.memos:
            for name in names:
                memo.drop_node(name)

    def become_copy(self, tell: Callable[[ToldByCopy], None], clock: Callable[[], float]) -> None:
        """Tell what is computed from now on in a copy of the process.

        A clock of the processor limits the search on each node.
        """

        def tell_of(number: int, learnt: Learnt) -> None:
            tell(ToldByCopy(number, learnt))

        for number, memo in enumerate(self.memos):
            memo.become_copy(partial(tell_of, number), clock)


class JudgeContext(msgspec.Struct, frozen=True, eq=False):
    """The cluster, and what is known about its completeness; `build_context` makes one.

    `world` answers as the allocator that will allocate: upstream's or ours. `relaxed` is the world
    for proofs, `with_taints` the same with the taints of devices. `view` is the current use of the
    devices, or None if it is unknown. `doubts` are reasons why the context may not show the cluster
    as it is, such as a stale cache: with any of them, no finding about devices is an error. `steps`
    limits the search on each node.
    """

    world: World
    relaxed: World
    with_taints: World
    index: DeviceIndex
    fleet: Mapping[str, FleetVerdict]
    caches: JudgeCaches
    view: View | None = None
    lookups: ObjectLookups = ObjectLookups()
    # Of all drivers that the configuration knows.
    families: Mapping[str, Family] = msgspec.field(default_factory=lambda: BY_DRIVER)
    policies: Mapping[FindingCode, Policy] = {}
    doubts: Sequence[str] = ()
    steps: int = STEPS
    # Whether any device has a compatibleOnlyWith rule that the allocator reads.
    has_rules: bool = False
    # The classes whose devices are all in pools that the allocator does not own.
    unowned: Mapping[str, UnownedClass] = {}

    @property
    def selectors(self) -> Selectors:
        """The compiled selectors of the cluster."""
        return self.caches.selectors

    def lend(self) -> LentState:
        """Return what a copy of the process knows that begins now, for what it tells later."""
        return LentState(self.world, self.nodes)

    def learn(self, told: Iterable[ToldByCopy], lent: LentState) -> None:
        """Keep what a copy told, unless what it depends on has changed since."""
        if not lent.has_settings_of(self.world):
            return
        nodes = {each.name: each for each in self.nodes}
        worlds = self.relaxed, self.with_taints, self.world
        for number, learnt in told:
            learn(self.caches.memos[number], worlds[number], nodes, learnt, lent)

    @property
    def gates(self) -> Gates:
        """The feature gates of the cluster."""
        return self.world.gates

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, including those that only slices name."""
        return self.index.nodes


def build_context(  # noqa: PLR0913  # one argument for each part of a cluster
    world: World,
    nodes: Iterable[Node] = (),
    *,
    fleet: Iterable[Fleet] = (),
    departed: Iterable[Slice] = (),
    view: View | None = None,
    lookups: ObjectLookups = ObjectLookups(),  # noqa: B008  # frozen
    families: Mapping[str, Family] = BY_DRIVER,
    policies: Mapping[FindingCode, Policy] = {},
    doubts: Sequence[str] = (),
    caches: JudgeCaches | None = None,
) -> JudgeContext:
    """Index a cluster for judgements.

    `departed` are the slices that were deleted a short time ago. With the same `caches`, only what
    changed since the last context is indexed again, and an unchanged world is not.
    """
    caches = caches or JudgeCaches(Selectors.of_gates(world.gates))
    indexed = _index(world, (tuple(nodes), tuple(departed), families), caches)
    return JudgeContext(
        world=world,
        relaxed=indexed.relaxed,
        with_taints=replace(indexed.relaxed, inventory=world.inventory),
        index=indexed.index,
        fleet=fleet_verdicts(fleet, indexed.published, indexed.coming),
        view=view,
        lookups=lookups,
        families=families,
        policies=policies,
        doubts=doubts,
        caches=caches,
        has_rules=indexed.has_rules,
    )


def _index(world: World, objects: _IndexedObjects, caches: JudgeCaches) -> _IndexedWorld:
    """Index a world, or return the last index if nothing changed."""
    indexed = caches.indexed
    nodes, departed, families = objects
    if indexed is not None and indexed.world is world and indexed.objects == objects:
        return indexed
    of_proofs = relaxed(world)
    caches.proofs.bind(of_proofs)
    index = DeviceIndex(world.inventory, nodes, caches.numbers)
    if indexed is not None:
        caches.drop_nodes(
            {each.name for each in indexed.index.nodes} - {each.name for each in index.nodes}
        )
    declared = world.compatibility is not None
    caches.indexed = _IndexedWorld(
        world,
        objects,
        of_proofs,
        index,
        find_published_classes(
            index, world.classes, caches.selectors, caches.proofs.expressions, departed, families
        ),
        find_autoscaler(nodes) or find_silent_node(nodes, index.inventory.slices),
        has_rules=declared
        and (bool(world.compatibility) or any(map(declares_compatibility, index.inventory.slices))),
    )
    return caches.indexed


def relaxed(world: World) -> World:
    """Return the world for proofs, in which a claim without a solution never has one.

    It is never stricter than the scheduler's world: an error rejects a device instead of the pod,
    because the device may be in use by then, and no device has a taint, because a taint can be
    removed. Rules of claims do not count, because the index of devices does not know their
    attributes. Neither do configurations, which are a question of their own.
    """
    gates = replace(world.inventory.gates, device_taints=False)
    # Upstream ends the pod with an error where ours continues.
    deviations = replace(
        world.deviations,
        all_goes_back=True,
        several_terms_bind=True,
        obeys_rules=False,
        spares_drivers=False,
    )
    inventory = replace(world.inventory, gates=gates)
    return replace(world, inventory=inventory, deviations=deviations, errors_reject=True)
