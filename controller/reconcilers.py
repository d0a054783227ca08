"""The reconcilers of one term: what each gets, when it runs and what wakes it up.

Another process can have led since the last term of this one. So each term has reconcilers of its
own, which remember nothing of an earlier one.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeVar

import msgspec

from certs.issuing import NAME as ALLOCATOR_CERTIFICATE
from certs.reconciler import NAME as CERTIFICATES
from controller.admission_scope import AdmissionScope
from controller.caches import ControllerCaches
from controller.certificates import (
    Alarm,
    CertificateParts,
    make_allocator_certificate_reconciler,
    make_certificate_reconciler,
)
from controller.change_books import ChangeCounter
from controller.changed_claims import NAME as CLAIMS_OF_TEMPLATES
from controller.changed_claims import ChangedClaimReconciler, ClaimSources
from controller.configuration import NAME as CONFIGURATION
from controller.configuration import ConfigurationReconciler
from controller.dual_nodes import DualNodeReconciler, DualNodeStores
from controller.ended_holds import EndedHoldReconciler
from controller.facts import FactsReconciler, FactsSources
from controller.fence_rules import NAME as RULES
from controller.fence_rules import FenceRuleReconciler, FenceSources, make_fence_stores
from controller.field_probe import FieldProbeReconciler, ProbedServer
from controller.giving_back import GivingBack, find_nodes, read_pending_pools, restart_relabelled
from controller.match_conditions import LiveWebhooks, MatchConditionReconciler
from controller.missing_templates import LEAST_SECONDS, MissingTemplateReconciler
from controller.observations import Observations
from controller.other_webhooks import OtherWebhookReconciler
from controller.owned_nodes import OwnedNodeReconciler
from controller.protocols import ObjectReference, ObjectStore, Reporter
from controller.quota_mirror import QuotaMirrorReconciler
from controller.reconcile import Reconciler, Schedule
from controller.scheduler_lease import SchedulerLeaseReconciler
from controller.stuck import NAME as STUCK
from controller.stuck import StuckReconciler, StuckSources
from controller.template_gc import TemplateGarbageCollector
from controller.usage_books import NAME as USAGE
from controller.usage_books import UsageReconciler
from controller.watched_objects import WatchedNode
from drawbridge.agreement.match_conditions import API_VERSION, GUARD_KIND, KIND
from drawbridge.agreement.required_versions import RequiredVersions
from drawbridge.brief import BriefRuns
from drawbridge.cluster.client import Fence, ResourceClient, decode_object
from drawbridge.cluster.resources import (
    CLAIMS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    TEMPLATES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from drawbridge.cluster.server_clock import boot_time
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject, pause_garbage_collection
from drawbridge.dra.inventory import PoolID
from drawbridge.facts.model import Cluster
from drawbridge.names import FACTS_CONFIG_MAP, WEBHOOK_CONFIGURATION, WEBHOOK_DEPLOYMENT
from drawbridge.process.alarm import CutAlarm
from drawbridge.process.collection import CollectionPause
from drawbridge.process.settings import Settings

K = TypeVar("K", str, PoolID)
L = TypeVar("L")

SCHEDULES: Final = {
    # Every process waits for it. A refused configuration is reported again in each run.
    CONFIGURATION: Schedule(min_interval=0.2, resync=300, max_retry=10),
    # A balance between how soon pods see a change and the cost of counting a large fleet.
    "facts": Schedule(min_interval=3, idle_ratio=4, resync=60, max_retry=60),
    "probe": Schedule(min_interval=1, resync=30, max_retry=60),
    # Pods get the scheduler of bridge placement soon after it runs.
    "scheduler": Schedule(min_interval=1, resync=10, max_retry=30),
    # Pods wait for these, and a failed attempt is cheap.
    "templates": Schedule(min_interval=0.02, resync=5, first_retry=0.5, max_retry=5),
    # People see it while the pod waits or has just begun to run.
    CLAIMS_OF_TEMPLATES: Schedule(resync=5, max_retry=30),
    # Each change of the mirrored quota makes the quota controller count again from its own cache. A
    # pod is charged before that cache has it, and a count without the pod stays for minutes.
    "quota": Schedule(debounce=0.3, min_interval=0.2, resync=3, max_retry=30),
    # No watch tells that the webhook is rolled out, and until then nobody guards.
    "conditions": Schedule(min_interval=0.5, resync=5, max_retry=30),
    # Its own alarm wakes it up when time alone changes the decision.
    "certificates": Schedule(min_interval=0.2, resync=60, max_retry=10),
    # The Secret is read, not watched. A certificate is due days before it expires.
    ALLOCATOR_CERTIFICATE: Schedule(min_interval=1, resync=60, max_retry=30),
    # No watch event tells that the last pod with a device of a removed plugin is gone.
    "dual": Schedule(min_interval=1, resync=15, max_retry=60),
    # An owned node is unprotected until it has the taint. A write that conflicts is repeated soon.
    "owned": Schedule(min_interval=1, resync=5, max_retry=30),
    # Only time ends a hold, and what has ended does no harm.
    "holds": Schedule(min_interval=1, resync=60, max_retry=300),
    # No watch tells that the policy is gone. The allocator stops until the taint is there.
    RULES: Schedule(min_interval=2, idle_ratio=4, resync=5, max_retry=30),
    "others": Schedule(min_interval=1, resync=3600),
    # A book is a large object, and what happened since the last one is not lost.
    USAGE: Schedule(min_interval=15, resync=60, max_retry=300),
    # Time alone makes something stuck. Two runs find it, and people see it within a minute.
    STUCK: Schedule(min_interval=5, idle_ratio=9, resync=10, max_retry=60),
    "janitor": Schedule(min_interval=60, resync=300, first_retry=60, max_retry=3600),
}


class ControllerContext:
    """What a process has once, whatever the number of its terms. Its main thread makes it.

    A handler of signals cannot be given back. What `pause_collection` leaves out of the
    collections is never garbage again, so that it does that in the first term only.
    """

    def __init__(
        self, session: Session, settings: Settings, certificates: CertificateParts | None
    ) -> None:
        self.session, self.namespace, self.settings = session, session.namespace, settings
        self.certificates = certificates
        self.briefs = BriefRuns(CutAlarm(), time.monotonic, LEAST_SECONDS)
        self.pause_collection = CollectionPause(pause_garbage_collection)


class Reconcilers:
    """All reconcilers of a term, and the wake-up event of each. `end` ends the term."""

    def __init__(
        self,
        context: ControllerContext,
        caches: ControllerCaches,
        observations: Observations,
        fence: Fence,
        reporter: Reporter,
    ) -> None:
        self._context, self._caches = context, caches
        self._observations = observations
        self._fence, self._reporter = fence, reporter
        self._subscriptions = ExitStack()
        self.end = self._subscriptions.close
        settings = context.settings
        self._scope = AdmissionScope(
            caches.namespaces, caches.read_pod_webhook, lambda: settings.current
        )
        self.probe = FieldProbeReconciler(self._connect, self._read_cluster, reporter)
        self._accepting = tuple(self._make_configuration())
        self.scheduler = SchedulerLeaseReconciler(
            self._store(LEASES, context.namespace), lambda: settings.current
        )
        self.facts = self._make_facts()
        self.templates = self._make_missing_templates()
        self.claims = self._make_changed_claims()
        self.changes = ChangeCounter(caches.device_pods, caches.templates)
        self.usage, self.stuck = self._make_usage(), self._make_stuck()
        self._leaving_nodes, self._leaving_pools = self._make_leaving()
        self.rules, self.quota = self._make_rules(), self._make_quota_mirror()
        self.owned = self._make_owned()
        self._independent: tuple[Reconciler, ...] = (
            self.usage,
            self.stuck,
            self._make_garbage_collector(),
            self.quota,
            self._make_match_conditions(),
            *self._make_node_reconcilers(),
            self._make_other_webhooks(),
            *self._make_certificates(),
        )
        self.wake_ups = {each.name: asyncio.Event() for each in self.all()}
        self._subscribe(caches, settings)

    def _store(self, resource: Resource, namespace: str = "") -> ObjectStore:
        session, fence = self._context.session, self._fence
        return ResourceClient(session, resource, decode_object, namespace=namespace, fence=fence)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[ProbedServer]:
        """Connect anew, perhaps to another API server."""
        namespace = self._context.namespace
        async with self._context.session.with_new_connections() as session:
            templates = ResourceClient(session, TEMPLATES, decode_object, namespace=namespace)
            yield ProbedServer(templates, session.version)

    async def _read_cluster(self) -> Cluster | None:
        return await self.facts.read_cluster()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._context.session.clock.now(), UTC)

    def _make_configuration(self) -> Iterator[Reconciler]:
        settings = self._context.settings
        if settings.watched:
            yield ConfigurationReconciler(
                self._store(CONFIG_MAPS, self._context.namespace),
                self._context.namespace,
                lambda: settings.text,
                self._reporter,
                self._now,
            )

    def _make_facts(self) -> FactsReconciler:
        caches = self._caches
        return FactsReconciler(
            FactsSources(
                caches.slices, caches.classes, caches.nodes, lambda: caches.slices.too_large
            ),
            self._store(CONFIG_MAPS),
            self._context.namespace,
            configuration=lambda: self._context.settings.current,
            server_support=self.probe.wait_for_support,
            reporter=self._reporter,
            scheduler_missing=self.scheduler.is_missing,
            pause_collection=self._context.pause_collection,
        )

    def _make_missing_templates(self) -> MissingTemplateReconciler:
        return MissingTemplateReconciler(
            self._caches.pods,
            self._caches.templates,
            self._store(TEMPLATES),
            scope=self._scope,
            context=lambda: self.facts.context,
            find_facts=self.facts.find_version,
            reporter=self._reporter,
            now=self._now,
            briefs=self._context.briefs,
        )

    def _make_changed_claims(self) -> ChangedClaimReconciler:
        caches = self._caches
        pods = caches.device_pods
        sources = ClaimSources(caches.claims, pods, caches.templates, lambda: pods.synced)
        return ChangedClaimReconciler(sources, self._store(CLAIMS), self._reporter)

    def _make_garbage_collector(self) -> TemplateGarbageCollector:
        return TemplateGarbageCollector(
            self._caches.templates,
            self._store(PODS),
            self._store(TEMPLATES),
            is_enforced=self._scope.is_enforced,
            reporter=self._reporter,
            now=self._now,
        )

    def _make_usage(self) -> UsageReconciler:
        return UsageReconciler(
            self._observations.usage,
            self._store(CONFIG_MAPS),
            self._context.namespace,
            pods=self._store(PODS),
            changes=self.changes,
            reporter=self._reporter,
        )

    def _make_stuck(self) -> StuckReconciler:
        caches = self._caches
        sources = StuckSources(
            caches.claims,
            caches.device_pods,
            caches.nodes,
            caches.slices,
            caches.classes,
            caches.namespaces,
        )
        now = self._context.session.clock.now
        return StuckReconciler(
            sources, now=now, is_fresh=lambda: caches.claims.fresh and caches.device_pods.fresh
        )

    def _make_quota_mirror(self) -> QuotaMirrorReconciler:
        return QuotaMirrorReconciler(
            self._caches.quotas,
            self._caches.namespaces,
            self._store(RESOURCE_QUOTAS),
            is_enforced=self._scope.is_enforced,
            context=lambda: self.facts.context,
            reporter=self._reporter,
        )

    def _make_match_conditions(self) -> MatchConditionReconciler:
        stores = {
            KIND: self._store(MUTATING_WEBHOOKS),
            GUARD_KIND: self._store(VALIDATING_WEBHOOKS),
        }
        deployments = self._store(DEPLOYMENTS, self._context.namespace)
        namespaces = self._caches.namespaces
        live = LiveWebhooks(
            self._caches.read_pod_webhook,
            self._caches.read_validating,
            lambda: deployments.read(WEBHOOK_DEPLOYMENT),
            lambda: {each.name: each.value.metadata.labels or {} for each in namespaces.all()},
        )
        return MatchConditionReconciler(
            stores, live, lambda: self._context.settings.current, self._reporter
        )

    def _make_node_reconcilers(self) -> Iterator[Reconciler]:
        nodes = self._store(NODES)
        reference = ObjectReference("ConfigMap", FACTS_CONFIG_MAP, self._context.namespace)
        dual = DualNodeReconciler(
            self._caches.nodes,
            DualNodeStores(nodes, self._store(PODS)),
            dual_nodes=lambda: self.facts.dual_nodes,
            publishing=lambda: self.facts.publishing,
            context=lambda: self.facts.context,
            reporter=self._reporter,
            reference=reference,
            now=time.monotonic,
        )
        dual.listener = self._wake(dual.name)
        yield dual
        yield self.owned
        yield self.rules
        yield EndedHoldReconciler(
            self._caches.nodes,
            nodes,
            reporter=self._reporter,
            now=self._context.session.clock.now,
        )

    def _make_owned(self) -> OwnedNodeReconciler:
        return OwnedNodeReconciler(
            self._caches.nodes,
            self._store(NODES),
            configuration=lambda: self._context.settings.current,
            reporter=self._reporter,
            reference=ObjectReference("ConfigMap", FACTS_CONFIG_MAP, self._context.namespace),
            giving_back=self._leaving_nodes,
            former=self._observations.former,
            now=self._context.session.clock.now,
            elapsed=boot_time,
            rules_hold=self.rules.holds,
        )

    def _make_rules(self) -> FenceRuleReconciler:
        session = self._context.session
        return FenceRuleReconciler(
            FenceSources(self._caches.slices, self._caches.nodes),
            make_fence_stores(session, self._store),
            namespace=self._context.namespace,
            configuration=lambda: self._context.settings.current,
            reporter=self._reporter,
            giving_back=self._leaving_pools,
            now=boot_time,
        )

    def _make_leaving(self) -> tuple[GivingBack[str], GivingBack[PoolID]]:
        """Return what tells when nodes, and pools, can go to others."""
        nodes: GivingBack[str] = self._make_giving_back(self._find_nodes, self._find_versions)
        pools: GivingBack[PoolID] = self._make_giving_back(
            frozenset.intersection, self._find_policy_version
        )
        return nodes, pools

    def _make_giving_back(
        self,
        find_touched: Callable[[frozenset[PoolID], frozenset[K]], Collection[K]],
        versions: Callable[[], RequiredVersions],
    ) -> GivingBack[K]:
        context = self._context
        claims = ResourceClient(context.session, CLAIMS, read_pending_pools)
        return GivingBack(
            self._store(LEASES, context.namespace),
            claims.iterate,
            versions=versions,
            find_touched=find_touched,
            elapsed=boot_time,
        )

    def _find_nodes(self, pools: frozenset[PoolID], nodes: frozenset[str]) -> Collection[str]:
        return find_nodes(pools, nodes, self._caches.nodes, self._caches.slices)

    def _find_versions(self) -> RequiredVersions:
        """Return what this process knows of what decides who owns a node.

        These are versions of changes: of a bookmark, another watch can hear a minute later.
        """
        configurations = [each.cache.changed for each in self._context.settings.watched[:1]]
        return RequiredVersions(self._caches.nodes.changed, *configurations)

    def _find_policy_version(self) -> RequiredVersions:
        """Return which version of the policy says that the pools leave which are given back."""
        return msgspec.structs.replace(self._find_versions(), policy=self.rules.policy_version)

    def _make_other_webhooks(self) -> OtherWebhookReconciler:
        return OtherWebhookReconciler(
            self._caches.webhook_configurations,
            self._reporter,
            ObjectReference(KIND, WEBHOOK_CONFIGURATION, api_version=API_VERSION),
        )

    def _make_certificates(self) -> Iterator[Reconciler]:
        if (parts := self._context.certificates) is not None:
            read, alarm = self._caches.injected_configurations, Alarm(self._wake(CERTIFICATES))
            self._subscriptions.callback(alarm.cancel)  # it is set to days from now
            yield make_certificate_reconciler(parts, self._reporter, read, alarm.set)
            current = self._context.settings
            yield make_allocator_certificate_reconciler(
                parts, self._reporter, lambda: current.current
            )
            wake_both = self._wake(CERTIFICATES, ALLOCATOR_CERTIFICATE)
            self._follow(parts.secret.subscribe, wake_both)

    def all(self) -> tuple[Reconciler, ...]:
        """Return all reconcilers. The others need the configuration that the first one accepts."""
        reading = (self.probe, self.scheduler, self.facts)
        return (*self._accepting, *reading, self.templates, self.claims, *self._independent)

    def _wake(self, *names: str) -> Callable[..., None]:
        def wake(*_: object) -> None:
            for name in names:
                if name in self.wake_ups:
                    self.wake_ups[name].set()

        return wake

    def _node_changed(
        self, before: CachedObject[WatchedNode] | None, after: CachedObject[WatchedNode] | None
    ) -> None:
        if not before or not after or before.value.fact_fields != after.value.fact_fields:
            self._wake("facts", "dual")()
        if not before or not after or before.value.fence_fields != after.value.fence_fields:
            self._wake("owned", RULES)()

    def _follow(self, subscribe: Callable[[L], Callable[[], None]], *listeners: L) -> None:
        """Call listeners as long as the term lasts."""
        for listener in listeners:
            self._subscriptions.callback(subscribe(listener))

    def _subscribe(self, caches: ControllerCaches, settings: Settings) -> None:
        wake, follow = self._wake, self._follow
        follow(caches.slices.subscribe, wake("facts", RULES))
        follow(caches.classes.subscribe, wake("facts"))
        follow(caches.nodes.subscribe, self._node_changed)
        follow(caches.nodes.subscribe, partial(restart_relabelled, self._leaving_nodes))
        follow(caches.nodes.subscribe_to_lists, lambda *_: self._leaving_nodes.restart())
        follow(caches.pods.subscribe, self.templates.pod_changed, wake("templates"))
        follow(caches.templates.subscribe, self.templates.template_changed, wake("templates"))
        follow(caches.quotas.subscribe, wake("quota"))
        follow(caches.device_pods.subscribe, self.changes.pod_changed)
        follow(caches.claims.subscribe, self.claims.claim_changed)
        follow(caches.namespaces.subscribe, self.templates.namespace_changed)
        follow(caches.namespaces.subscribe, wake("quota", "templates"))
        follow(caches.webhooks.subscribe, lambda *_: self.templates.queue_unresolved())
        for scope in (caches.webhooks.subscribe, settings.subscribe):
            follow(scope, lambda *_: self.quota.look_at_all())
        follow(caches.webhooks.subscribe, wake("templates", "quota"))
        for webhooks in (caches.webhooks.subscribe, caches.validating.subscribe):
            follow(webhooks, wake("conditions", "others", CERTIFICATES))
        for watched in settings.watched:
            follow(watched.subscribe, wake(CONFIGURATION))
        follow(settings.subscribe, lambda *_: self._leaving_nodes.restart())
        follow(
            settings.subscribe,
            wake("facts", "conditions", "quota", "owned", RULES, ALLOCATOR_CERTIFICATE),
        )
        self.probe.listener = self.scheduler.listener = self._wake("facts")
        self.rules.listener = self._wake("owned")
        self.facts.listeners += [
            self.templates.queue_unresolved,
            self._wake("templates", "dual", "quota"),
        ]
