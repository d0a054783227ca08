"""Keeps the decisions in step with the caches, the configuration and the feature gates.

The decisions are made anew when the feature gates or the configuration change, and when it is seen
that the API server drops fields of allocations. Reservations and waiting pods are forgotten then,
so the term starts again, and the scheduler tries every pod again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from allocator.decisions.basis import Surroundings
from allocator.decisions.pod_devices import PodDecisions
from allocator.decisions.waiting import WaitingPods
from allocator.state.caches import AllocatorCaches, Namespace
from allocator.state.cluster_state import AllocatorState
from allocator.state.dropped_fields import DroppedFields
from allocator.state.fences import Fenced
from allocator.state.followed_fences import FollowedFences
from allocator.state.inputs import Effect, Inputs, compare_inputs, make_state
from allocator.state.prepare_failures import PrepareEvent, find_unprepared
from allocator.state.reports import ClaimFinding
from allocator.state.reserved_pods import DEFAULT_LIMITS, HoldLimits, ReservedPods
from allocator.state.turns import NextTurn
from allocator.state.wrong_allocations import WrongAllocations
from allocator.writes.cluster_writes import PodName
from drawbridge.brief import Brief
from drawbridge.cluster.history import Identity
from drawbridge.cluster.server_clock import boot_time
from drawbridge.cluster.store import CachedObject, pause_garbage_collection
from drawbridge.config.model import Configuration, Placement
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.ledger.chosen_strategies import strategy_names
from drawbridge.ledger.conflicts import ConflictLine
from drawbridge.ledger.holdings import DeviceID
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.quota_use import QuotaLine
from drawbridge.process.logs import log_event
from drawbridge.resource_version import parse_version

_LOG: Final = logging.getLogger("allocator.state.cluster_state")
# So long the strategy is prepared in one turn of the loop.
_CATCH_UP_SECONDS: Final = 0.005
# How long other devices are preferred to one that has failed.
PENALTY_SECONDS: Final = 60.0


class LiveState:
    """The current decisions, for the calls of the scheduler and for the writes.

    `on_rebuild` is called after the decisions were made anew, `on_change` after each change of an
    object. `server_time` is the Unix time of the API server, `elapsed` a clock that is never set.
    `lacks_policy` is whether the Lease requires a newer policy than the caches have.
    """

    def __init__(  # noqa: PLR0913  # all but two by name
        self,
        caches: AllocatorCaches,
        configuration: Callable[[], Configuration],
        *,
        on_rebuild: Callable[[], None],
        on_change: Callable[[], None],
        server_time: Callable[[], float],
        lacks_policy: Callable[[], bool],
        elapsed: Callable[[], float] = boot_time,
        pause_collection: Callable[[], AbstractContextManager[None]] = pause_garbage_collection,
        limits: HoldLimits = DEFAULT_LIMITS,
        brief: Brief | None = None,
    ) -> None:
        self._caches = caches
        self._limits, self._brief = limits, brief
        self.server_time = server_time
        self._configuration = configuration
        self._on_rebuild = on_rebuild
        self._on_change = on_change
        self._pause_collection = pause_collection
        self._inputs: Inputs | None = None
        self._decisions: PodDecisions | None = None
        self._waiting: WaitingPods | None = None
        self._observed_version = 0
        self._strategy_turns = NextTurn(self._catch_up)
        self._dropped = DroppedFields(NextTurn(self.update).begin)
        self.wrong_allocations = WrongAllocations(lambda: self.cluster, self.report)
        self.fences = FollowedFences(
            caches, elapsed=elapsed, lacks_policy=lacks_policy, decide_owners=self._decide_owners
        )
        for cache in (*caches.devices, caches.claims, caches.pods):
            cache.subscribe(self._apply)
        caches.claims.subscribe_to_lists(self._follow_list)
        caches.namespaces.subscribe(self._apply_namespace)
        caches.facts.subscribe(self.update)
        caches.events.subscribe(self._follow_failure)

    @property
    def ready(self) -> bool:
        """Whether decisions can be made."""
        return self._decisions is not None

    @property
    def decisions(self) -> PodDecisions:
        """The current decisions."""
        if self._decisions is None:
            raise RuntimeError("no decisions before the caches are synced")
        return self._decisions

    @property
    def cluster(self) -> AllocatorState:
        """The cluster of the current decisions."""
        return self.decisions.state

    @property
    def waiting(self) -> WaitingPods:
        """The pods that wait for devices, by the current decisions."""
        if self._waiting is None:
            raise RuntimeError("no decisions before the caches are synced")
        return self._waiting

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod of the cluster."""
        cached = self._caches.pods.get(name, namespace)
        return None if cached is None else cached.value

    def users_of(self, claim: Claim) -> tuple[PodName, ...]:
        """Return the pods that name a claim."""
        namespace = claim.metadata.namespace
        users = self.cluster.pods.users_of(f"{namespace}/{claim.metadata.name}")
        return tuple(
            PodName(namespace, name.removeprefix(f"{namespace}/"), uid) for name, uid in users
        )

    def list_quota_lines(self) -> Iterable[QuotaLine]:
        """Yield what is used of quotas."""
        return self.cluster.ledger.quotas.list_lines() if self._decisions else ()

    def find_problems(self) -> list[str]:
        """Return why no devices may be allocated."""
        configuration = self._configuration()
        unsynced = self._caches.find_missing(needs_namespaces=bool(configuration.quotas))
        if configuration.placement is not Placement.BRIDGE:
            return [*unsynced, "the configuration does not set placement: bridge"]
        if unsynced:
            return unsynced
        return self.fences.find_missing(configuration)

    async def run(self) -> None:
        """Build the decisions when all caches are synced; then only changes build them anew."""
        await self._caches.wait_until_synced()
        self.update()

    def update(self) -> None:
        """Build the decisions if what they depend on has changed."""
        facts = self._caches.facts.facts
        if facts is None or not self._caches.synced:
            return
        before = self._inputs
        inputs = Inputs(self._configuration(), facts, self._dropped.fields)
        effect = compare_inputs(before, inputs) if before is not None else Effect.REBUILD
        if effect is Effect.REBUILD:
            if before is not None:
                self.fences.follow_configuration(before.configuration, inputs.configuration)
            delay = inputs.configuration.preemption.delay_seconds
            with self._pause_collection():
                self._decisions = self._build(inputs)
                self._waiting = WaitingPods(self._decisions, eviction_delay=delay)
            self._begin_turns()
            self._on_rebuild()
        elif effect is Effect.OWNERS:
            self.cluster.decide_owners(self.fences.make_filter(inputs.configuration, facts))
            self._on_change()
        self._inputs = inputs  # not before: what failed is done with the next change

    def _build(self, inputs: Inputs) -> PodDecisions:
        caches = self._caches
        serves_rules = caches.taint_rules is not None
        for node in caches.nodes.all():
            self.fences.follow_node(None, node)
        owns = self.fences.make_filter(inputs.configuration, inputs.facts)
        state = make_state(inputs, owns, serves_taint_rules=serves_rules, brief=self._brief)
        state.unfenced = self.fences.unfenced
        # Pods first, whose devices of plugins decide who owns a pool.
        ordered: Iterable[Any] = (
            *(caches.pods, caches.nodes, caches.classes),
            *(caches.taint_rules, caches.slices, caches.claims),
        )
        for cache in filter(None, ordered):
            for stored in cache.all():
                state.apply(None, stored.value)
        for namespace in caches.namespaces.all():
            state.ledger.quotas.set_labels(namespace.name, namespace.value.metadata.labels)
        # The scheduler can still know a claim that was deleted before.
        state.ledger.observe_bookmark(caches.claims.version)
        state.conflicts.start()
        if self._decisions is not None:
            state.take_over(self.cluster)
        # Otherwise the first call of the scheduler waits for both.
        state.planner.world()
        state.ledger.view()
        nodes, pools = len(state.planner.nodes), len(state.nodes_with_pools)
        log_event(_LOG, logging.INFO, "decisions built", nodes=nodes, nodes_with_pools=pools)
        around = Surroundings(
            strategy=strategy_names(inputs.configuration.strategy),
            limits=self._limits,
            min_member=caches.min_member,
            unread_groups=caches.find_unread_groups,
            find_pod=self.find_pod,
            server_time=self.server_time,
        )
        return PodDecisions(state, around)

    def _apply(self, before: CachedObject[Any] | None, after: CachedObject[Any] | None) -> None:
        if self._decisions is None:
            return
        state, changed = self.cluster, after or before
        if changed is not None and isinstance(changed.value, Node):
            self.fences.follow_node(before, after)
        values = (before.value if before else None, after.value if after else None)
        state.apply(*values)
        if changed is not None and isinstance(changed.value, Claim):
            self._follow_version(changed.version)
        self._begin_turns()
        self._on_change()

    def _apply_namespace(
        self, before: CachedObject[Namespace] | None, after: CachedObject[Namespace] | None
    ) -> None:
        changed = after or before
        if self._decisions is not None and changed is not None:
            labels = after.value.metadata.labels if after else None
            self.cluster.ledger.quotas.set_labels(changed.name, labels)
            self._on_change()

    def _begin_turns(self) -> None:
        """Do what a change leaves to do, in turns with everything else on the loop."""
        if self.decisions.strategy.orders:
            self._strategy_turns.begin()
        self.wrong_allocations.begin()

    def _decide_owners(self, fenced: Sequence[Fenced]) -> None:
        """Decide the ownership of a few pools whose fence changed, or that of their nodes."""
        for name in fenced:
            if isinstance(name, str):
                self.cluster.decide_owners_on(name)
        self.cluster.decide_owners_of([each for each in fenced if isinstance(each, PoolID)])
        self._on_change()

    def _catch_up(self) -> None:
        """Prepare the strategy for a short time in each turn, until nothing is left."""
        now = asyncio.get_running_loop().time
        end = now() + _CATCH_UP_SECONDS
        if self.decisions.strategy.catch_up(lambda: now() >= end):
            self._strategy_turns.begin()

    def _follow_version(self, version: str) -> None:
        """Remove deleted claims from the ledger after all changes of this batch are applied."""
        if not self._observed_version:
            asyncio.get_running_loop().call_soon(self._observe_version)
        self._observed_version = max(self._observed_version, parse_version(version))

    def _follow_list(self, version: str, uids: Collection[str]) -> None:
        if self._decisions is not None:
            self._follow_version(version)
            self.cluster.forget_unlisted(version, uids)
            self._on_change()

    def _observe_version(self) -> None:
        version, self._observed_version = self._observed_version, 0
        if self._decisions is not None:
            self.cluster.ledger.observe_bookmark(f"{version}")

    # --- the current decisions, for the writes ---

    @property
    def reservations(self) -> ReservedPods:
        """What is reserved by the current decisions."""
        return self.decisions.reservations

    def claims_of(self, pod_uid: str) -> tuple[Claim, ...]:
        """Return the claims of a pod, as last seen."""
        return self._decisions.requests.claims_of(pod_uid) if self._decisions else ()

    def observe_claim(self, claim: Claim) -> None:
        """Take over a claim from a response, of which the watch will tell as well."""
        about = claim.metadata
        identity = Identity(about.uid, about.resource_version)
        self._caches.claims.expect((about.namespace, about.name), identity)
        self.cluster.observe_claim(claim)
        self._begin_turns()
        self._on_change()

    def list_conflicts(self) -> Iterable[ConflictLine]:
        """Yield the conflicts between allocated claims."""
        return self.cluster.conflicts.list_lines() if self._decisions else ()

    def report(self, told: ClaimFinding) -> None:
        """Have a finding about a claim told to persons."""
        self.cluster.reports.append(told)
        self._on_change()

    def list_claims(self) -> Iterable[Claim]:
        """Yield all claims, as the watch shows them."""
        return (each.value for each in self._caches.claims.all())

    def shows(self, watched: Claim | Pod) -> bool:
        """Whether the watch shows a claim, of which others tell as well, or a pod on its node."""
        return self._caches.shows(watched)

    def forget_claim(self, claim: Claim) -> None:
        """Remove a claim that the API server does not have."""
        self.cluster.apply(claim, None)
        self._on_change()

    def hold_marked(self, claim: Claim) -> None:
        """Hold the devices in the mark of a claim until it has another version."""
        self.cluster.ledger.hold_marked(claim)
        self._on_change()

    def wake_at(self, pod_uid: str, at: float) -> None:
        """Have a pod tried again at a time, or before: no change of the cluster would do it."""
        times = self.cluster.records.times
        times.set("retry", pod_uid, min(at, times.get("retry", pod_uid) or at))
        self._on_change()

    def penalise(self, device: DeviceID) -> None:
        """Have other devices preferred to one that has just failed."""
        self.cluster.penalise(device, time.monotonic() + PENALTY_SECONDS)

    def note_dropped(self, fields: Collection[str]) -> None:
        """Pass over what needs fields of allocations that the API server has just not stored."""
        self._dropped.note(fields)

    def _follow_failure(self, _: object, after: CachedObject[PrepareEvent] | None) -> None:
        for device in find_unprepared(after, self.claims_of):
            self.penalise(device)
