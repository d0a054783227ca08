"""`drawbridge serve controller`: puts the duties together and keeps them while leading.

Every replica watches, so that a new leader begins at once; only the leader writes. Knows what
wakes which duty, and nothing of what one does.
"""

import argparse
import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from cluster.cache import Cache
from cluster.events import Events
from cluster.lease import Election
from cluster.resources import (
    CLASSES,
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SLICES,
    TEMPLATES,
    VALIDATING_WEBHOOKS,
)
from cluster.session import Session
from cluster.write import Writer
from controller import dual_nodes
from controller.api_server import Bound, Telling, report
from controller.dual_nodes import DualDuty
from controller.facts import FactsDuty, Sources
from controller.field_probe import ProbeDuty
from controller.match_conditions import ConditionsDuty
from controller.missing_templates import TemplatesDuty
from controller.other_webhooks import OthersDuty
from controller.protocols import About, Object
from controller.quota_mirror import QuotaDuty
from controller.reconcile import Duty, Pace, Steady, keep
from controller.template_gc import JanitorDuty
from controller.watched_objects import Named, Node, Pod, Quota
from dra.names import CONTROLLER_LEASE, FACTS_CONFIG_MAP, WEBHOOK_CONFIGURATION
from registration import match_conditions as registered
from registration.codes import CODES
from runtime import logs, metrics
from runtime.health import Ready, operations
from runtime.process import REFUSED, live, running
from runtime.settings import Settings
from runtime.shutdown import Stop

_LOG: Final = logging.getLogger("controller.process")

PACES: Final = {
    # What decides how soon pods see a change, against what counting a large fleet costs.
    "facts": Pace(least=3, rest=4, every=60, most=60),
    "probe": Pace(least=1, every=30, most=60),
    # Somebody waits for these; to fail fast costs little.
    "templates": Pace(least=0.02, every=5, retry=0.5, most=5),
    # A change of ours lets the API server's controller count anew, by what it has seen; a pod is
    # charged before it can be seen, and what is counted without it is believed for minutes.
    "quota": Pace(delay=0.3, least=0.2, every=3, most=30),
    "conditions": Pace(least=0.5, every=60, most=30),
    # Nobody tells when the last pod of a plugin that went is gone.
    "dual": Pace(least=1, every=15, most=60),
    "others": Pace(least=1, every=3600),
    "janitor": Pace(least=60, every=3600, retry=60, most=3600),
}


def _now() -> datetime:
    return datetime.now(UTC)


class Caches:
    """Everything that is watched."""

    def __init__(self, session: Session) -> None:
        self.slices = Cache(session, SLICES, Named)
        self.classes = Cache(session, CLASSES, Named)
        self.nodes = Cache(session, NODES, Node)
        # A pod without its template is never given a node.
        self.pods = Cache(session, PODS, Pod, fields="spec.nodeName=")
        self.templates = Cache(session, TEMPLATES, Named)
        self.quotas = Cache(session, RESOURCE_QUOTAS, Quota)
        self.namespaces = Cache(session, NAMESPACES, Named)
        self.webhooks = Cache(session, MUTATING_WEBHOOKS, Named)
        self.validating = Cache(session, VALIDATING_WEBHOOKS, Named)

    def every(self) -> tuple[Cache[Any], ...]:
        """All of them."""
        return tuple(vars(self).values())

    def named(self) -> Iterator[tuple[str, Cache[Any]]]:
        """All of them, with the name that metrics give them."""
        return ((each.resource.plural, each) for each in self.every())

    def missing(self) -> list[str]:
        """Say what is not read yet."""
        waiting = (each for each in self.every() if not each.synced)
        return [f"{each.resource.plural} are not read yet: {each.trouble}" for each in waiting]

    def configurations(self) -> list[Object]:
        """Every webhook configuration, mutating ones and validating ones."""
        kept = (*self.webhooks.all(), *self.validating.all())
        return [msgspec.json.decode(each.raw) for each in kept]

    def webhook(self) -> Object | None:
        """Our own webhook configuration, as it is."""
        kept = self.webhooks.get(WEBHOOK_CONFIGURATION)
        return None if kept is None else msgspec.json.decode(kept.raw)


class Where(NamedTuple):
    """Where this process works."""

    session: Session
    namespace: str
    settings: Settings


class Duties:
    """All duties, and what wakes each."""

    def __init__(self, where: Where, caches: Caches, writer: Writer, telling: Telling) -> None:
        settings, namespace = where.settings, where.namespace
        templates = Bound(writer, TEMPLATES)
        trials = Bound(writer, TEMPLATES, namespace)
        self.probe = ProbeDuty(trials, where.session.version, telling)
        self.facts = FactsDuty(
            Sources(caches.slices, caches.classes, caches.nodes),
            Bound(writer, CONFIG_MAPS),
            namespace,
            configuration=lambda: settings.current,
            probed=self.probe.known,
            told=telling,
        )
        self.templates = TemplatesDuty(
            caches.pods,
            caches.templates,
            templates,
            given=lambda: self.facts.given,
            version=self.facts.version,
            told=telling,
            now=_now,
        )
        self.rest = self._others(where, caches, writer, telling)
        self.woken = {each.name: asyncio.Event() for each in self.every()}
        self._connect(caches, settings)

    def _others(
        self, where: Where, caches: Caches, writer: Writer, telling: Telling
    ) -> tuple[Duty, ...]:
        """Make the duties that nothing else asks."""
        settings, own = where.settings, About("ConfigMap", FACTS_CONFIG_MAP, where.namespace)
        hooks = About(registered.KIND, WEBHOOK_CONFIGURATION, api_version=registered.API_VERSION)
        store, quotas = Bound(writer, TEMPLATES), Bound(writer, RESOURCE_QUOTAS)
        return (
            JanitorDuty(caches.templates, Bound(writer, PODS), store, telling, _now),
            QuotaDuty(caches.quotas, caches.namespaces, quotas, lambda: self.facts.given, telling),
            ConditionsDuty(
                Bound(writer, MUTATING_WEBHOOKS), caches.webhook, lambda: settings.current, telling
            ),
            DualDuty(
                caches.nodes,
                dual_nodes.Stores(Bound(writer, NODES), Bound(writer, PODS)),
                twice=lambda: self.facts.twice,
                given=lambda: self.facts.given,
                told=telling,
                about=own,
            ),
            OthersDuty(caches.configurations, telling, hooks),
        )

    def every(self) -> tuple[Duty, ...]:
        """All of them."""
        return (self.probe, self.facts, self.templates, *self.rest)

    def _wake(self, *names: str) -> Callable[..., None]:
        def wake(*_: object) -> None:
            for name in names:
                self.woken[name].set()

        return wake

    def _connect(self, caches: Caches, settings: Settings) -> None:
        for cache in (caches.slices, caches.classes):
            cache.subscribe(self._wake("facts"))
        caches.nodes.subscribe(
            lambda before, after: (
                None
                if before and after and before.value.matters == after.value.matters
                else self._wake("facts", "dual")()
            )
        )
        caches.pods.subscribe(self.templates.pod_changed)
        caches.pods.subscribe(self._wake("templates"))
        caches.templates.subscribe(self.templates.template_changed)
        caches.templates.subscribe(self._wake("templates"))
        caches.quotas.subscribe(self._wake("quota"))
        caches.namespaces.subscribe(self._wake("quota"))
        caches.webhooks.subscribe(self._wake("conditions", "others"))
        caches.validating.subscribe(self._wake("others"))
        settings.subscribe(self._wake("facts", "conditions", "quota"))
        self.probe.listener = self._wake("facts")
        self.facts.listeners += [
            self.templates.facts_changed,
            self._wake("templates", "dual", "quota"),
        ]


async def run(options: argparse.Namespace) -> int:
    """Keep the duties until told to stop; 0 for a graceful end, 2 for what cannot begin."""
    logs.configure(options.log_level)
    settings = Settings(options.config, known=CODES)
    if settings.load():
        return REFUSED

    async def serve(stop: Stop, session: Session) -> None:
        where = Where(session, options.namespace or session.namespace, settings)
        await _serve(options, where, stop)

    return await live(options, _LOG, serve)


async def _serve(options: argparse.Namespace, where: Where, stop: Stop) -> None:
    election = Election(
        where.session, where.namespace, CONTROLLER_LEASE, options.identity or socket.gethostname()
    )
    identity = election.identity
    events = Events(Writer(where.session), "drawbridge.dev/controller", identity)
    caches, telling = Caches(where.session), Telling(events, lambda: where.settings.current)
    telling.level("lease", "leading", 0)
    duties = Duties(where, caches, Writer(where.session, fence=election), telling)

    def ready() -> list[str]:
        return [*(["stopping"] if stop.asked else []), *caches.missing()]

    async def lead() -> None:
        telling.level("lease", "leading", 1)
        try:
            await _lead(caches, duties, identity)
        finally:
            telling.level("lease", "leading", 0)

    async with _operated(options, ready, caches):
        background = (where.settings.run(), events.run(), *(each.run() for each in caches.every()))
        async with running(background):
            await _until_asked(stop, election.run(lead))
    logs.say(_LOG, logging.INFO, "stopped")


async def _until_asked(stop: Stop, election: Coroutine[Any, Any, None]) -> None:
    """Stand for election until the end is asked for, or the election itself fails."""
    leading = asyncio.create_task(election)
    asked = asyncio.create_task(stop.wanted())
    await asyncio.wait((leading, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    # Cancelled, the election ends what it leads and gives the lease back.
    leading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leading


async def _lead(caches: Caches, duties: Duties, identity: str) -> None:
    """Keep all duties, each by itself, until cancelled."""
    logs.say(_LOG, logging.INFO, "leading", identity=identity)
    for cache in caches.every():
        await cache.until_synced()
    clock = Steady()
    async with asyncio.TaskGroup() as group:
        for duty in duties.every():
            woken = duties.woken[duty.name]
            group.create_task(keep(duty, woken, PACES[duty.name], report, clock))


@contextlib.asynccontextmanager
async def _operated(
    options: argparse.Namespace, ready: Ready, caches: Caches
) -> AsyncIterator[None]:
    """Serve health and metrics, with what the caches have to say."""
    collector = metrics.Caches(caches.named)
    metrics.REGISTRY.register(collector)
    try:
        async with operations(options.health, options.metrics, ready):
            yield
    finally:
        metrics.REGISTRY.unregister(collector)
