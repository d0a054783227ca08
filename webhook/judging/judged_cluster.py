"""The cluster as the judge knows it.

The watches collect changes, which are applied before a judgement. The world and the ledger follow
the changes.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from drawbridge.config.model import Configuration, Placement
from drawbridge.config.policy import compatibility_declarations, device_quotas
from drawbridge.dra.claim import Claim, Template
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.dra.gates import DEFAULTS, Gates
from drawbridge.dra.inventory import Inventory, PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.dra.slices import Slice
from drawbridge.facts.families import known_families
from drawbridge.facts.recent_pools import RESTART_SECONDS
from drawbridge.judge.context import JudgeCaches, JudgeContext, ObjectLookups, build_context
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner, PlannerObject
from drawbridge.ledger.quota_use import QuotaUse, published_capacity
from drawbridge.resource_version import parse_version
from drawbridge.solver.deviations import Allocator
from webhook.judging.withdrawn_devices import WithdrawnDevices

T = TypeVar("T")


class NamespaceLabels(msgspec.Struct, frozen=True):
    """The labels of a namespace, which select quotas."""

    labels: Mapping[str, str]


JudgedObject: TypeAlias = (
    Slice | DeviceClass | Node | Claim | Template | ResourceQuota | NamespaceLabels
)


class ObjectChange(msgspec.Struct, frozen=True):
    """An object before and after a change. One of the two is None if it was added or deleted."""

    namespace: str
    name: str
    uid: str
    version: str
    before: JudgedObject | None
    after: JudgedObject | None


class PendingChanges:
    """The changes that are not applied yet: at most one for each object."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], ObjectChange] = {}

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, kind: str, change: ObjectChange) -> None:
        """Add a change, in order. It is merged with an earlier one of the same object."""
        key = (kind, change.uid)
        earlier = self._changes.pop(key, None)
        if earlier is not None:
            change = msgspec.structs.replace(change, before=earlier.before)
        self._changes[key] = change

    def take(self) -> tuple[ObjectChange, ...]:
        """Return the changes so far as one batch."""
        taken, self._changes = tuple(self._changes.values()), {}
        return taken


class JudgeSettings(msgspec.Struct, frozen=True):
    """The configuration, and the feature gates of the cluster."""

    configuration: Configuration = Configuration()
    gates: Gates = DEFAULTS


DEFAULT_SETTINGS: Final = JudgeSettings()


class JudgedCluster:
    """All objects that a judgement reads."""

    def __init__(
        self,
        settings: JudgeSettings = DEFAULT_SETTINGS,
        settle_seconds: float = RESTART_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._claims: dict[tuple[str, str], Claim] = {}
        self._templates: dict[tuple[str, str], Template] = {}
        self._quotas: dict[tuple[str, str], ResourceQuota] = {}
        self._labels: dict[tuple[str, str], NamespaceLabels] = {}
        self._published: dict[tuple[type, str], PlannerObject] = {}
        self._withdrawn = WithdrawnDevices(settle_seconds, now)
        self._derive(settings)

    def configure(self, settings: JudgeSettings) -> None:
        """Use these settings. If they differ, everything that depends on them is derived again."""
        if settings is not self._settings and settings != self._settings:
            self._derive(settings)

    def _derive(self, settings: JudgeSettings) -> None:
        configuration, gates = settings.configuration, settings.gates
        is_native = configuration.placement is Placement.NATIVE
        self._settings = settings
        self._families = known_families(configuration)
        self._planner = Planner(
            gates,
            compatibility=compatibility_declarations(configuration),
            unset_groups=UnsetGroups(configuration.unset_groups),
            allocator=Allocator.UPSTREAM if is_native else Allocator.DRAWBRIDGE,
        )
        quotas = QuotaUse(device_quotas(configuration), published_capacity(self._planner.find_pool))
        self._ledger = Ledger(quotas=quotas)
        for (_, name), namespace in self._labels.items():
            quotas.set_labels(name, namespace.labels)
        self._caches = JudgeCaches(self._planner.selectors)
        for change in self._published.values():
            self._planner.update(change)
        for claim in self._claims.values():
            self._ledger.observe(claim)

    def apply(self, changes: Sequence[ObjectChange]) -> None:
        """Apply a batch of changes in order. Later batches have only later versions of claims."""
        inventory = self._planner.world().inventory
        for change in changes:
            match change.before or change.after:
                case Claim():
                    self._apply_claim(change)
                case Template():
                    _store(self._templates, change, Template)
                case ResourceQuota():
                    _store(self._quotas, change, ResourceQuota)
                case NamespaceLabels():
                    _store(self._labels, change, NamespaceLabels)
                    self._follow_labels(change)
                case Slice():
                    self._observe_slice(change, inventory)
                    self._apply_published(change)
                case _:
                    self._apply_published(change)
        self._charge_again(changes)
        # The ledger forgets the deleted claims of the batch.
        versions = [each.version for each in changes if isinstance(each.before, Claim)]
        if versions:
            self._ledger.observe_bookmark(max(versions, key=parse_version))

    def _follow_labels(self, change: ObjectChange) -> None:
        after = change.after
        labels = after.labels if isinstance(after, NamespaceLabels) else None
        self._ledger.quotas.set_labels(change.name, labels)

    def _charge_again(self, changes: Sequence[ObjectChange]) -> None:
        """Charge the claims of pools that are published again; quotas can limit capacities."""
        if self._ledger.quotas.counts_capacity:
            slices = (each.after for each in changes if isinstance(each.after, Slice))
            for pool in {PoolID(each.driver, each.pool) for each in slices}:
                self._ledger.charge_again(pool)

    def _apply_claim(self, change: ObjectChange) -> None:
        _store(self._claims, change, Claim)
        if isinstance(change.after, Claim):
            self._ledger.observe(change.after)
        else:
            self._ledger.observe_deletion(change.uid, change.version)

    def _observe_slice(self, change: ObjectChange, inventory: Inventory) -> None:
        """Record the devices that a change withdraws from the inventory before the batch."""
        before, after = change.before, change.after
        if isinstance(before, Slice):
            kept = after if isinstance(after, Slice) else None
            self._withdrawn.observe_change(before, kept)
        elif isinstance(after, Slice):
            # By its generation, a new slice can replace the others of its pool.
            pool = PoolID(after.driver, after.pool)
            self._withdrawn.observe_new_slice(after, inventory.published_slices(pool))

    def _apply_published(self, change: ObjectChange) -> None:
        after = change.after
        if isinstance(after, Slice | DeviceClass | Node):
            self._published[type(after), change.name] = after
            self._planner.update(after)
        elif isinstance(change.before, Slice | DeviceClass | Node):
            self._published.pop((type(change.before), change.name), None)
            self._planner.remove(type(change.before), change.name)

    def context(
        self,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
        doubts: Sequence[str] = (),
    ) -> JudgeContext:
        """Return the context of a judgement in a namespace with these labels.

        `doubts` are reasons why the objects may be outdated.
        """
        withdrawn = self._withdrawn.recent(self._make_absence_check())
        return build_context(
            self._planner.world(),
            self._planner.nodes.values(),
            fleet=self._settings.configuration.fleet,
            families=self._families,
            view=self._ledger.view(),
            lookups=ObjectLookups(
                find_claim=lambda *key: self._claims.get(key),
                find_template=lambda *key: self._templates.get(key),
                find_quotas=self._find_quotas,
                device_quotas=self._ledger.quotas,
                find_namespace_labels=lambda name: labels if name == namespace else None,
                complete=True,
            ),
            policies=self._settings.configuration.findings,
            departed=withdrawn.slices,
            doubts=(*doubts, *withdrawn.doubts),
            caches=self._caches,
        )

    def _make_absence_check(self) -> Callable[[Slice], bool]:
        """Return whether the node of a slice exists and its driver publishes nothing there."""

        @functools.cache
        def publishing() -> frozenset[tuple[str, str | None]]:
            slices = (each for each in self._published.values() if isinstance(each, Slice))
            return frozenset((each.driver, each.node_name) for each in slices)

        def is_absent(slice_: Slice) -> bool:
            has_node = slice_.node_name in self._planner.nodes
            return has_node and (slice_.driver, slice_.node_name) not in publishing()

        return is_absent

    def classes(self) -> tuple[DeviceClass, ...]:
        """Return all classes by name."""
        classes = self._planner.declared_world().classes
        return tuple(classes[name] for name in sorted(classes))

    def _find_quotas(self, namespace: str) -> tuple[ResourceQuota, ...]:
        return tuple(each for (own, _), each in self._quotas.items() if own == namespace)


def _store(objects: dict[tuple[str, str], T], change: ObjectChange, kind: type[T]) -> None:
    """Store an object after a change, or remove it."""
    key = (change.namespace, change.name)
    if isinstance(change.after, kind):
        objects[key] = change.after
    else:
        objects.pop(key, None)
