"""`drawbridge serve controller`: connects the reconcilers and runs them while this replica leads.

Every replica watches, so that a new leader starts without delay. Only the leader writes.
"""

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from certs.rotation import RotationPolicy
from controller.api_server import EventReporter, ResultReporter
from controller.caches import ControllerCaches
from controller.certificates import make_certificate_parts
from controller.configuration import NAME as CONFIGURATION
from controller.observations import Observations
from controller.protocols import Gauge, ObjectStore, Reporter
from controller.reconcile import EventLoopClock, run_reconciler
from controller.reconcilers import SCHEDULES, ControllerContext, Reconcilers
from controller.usage_series import UsageSeries
from drawbridge.agreement.offered_configuration import read_accepted, read_offered
from drawbridge.cluster.client import Fence, ResourceClient, decode_object
from drawbridge.cluster.events import EventRecorder
from drawbridge.cluster.lease import LeaderElector
from drawbridge.cluster.resources import EVENTS
from drawbridge.cluster.session import Session
from drawbridge.names import (
    CONFIGURATION_CONFIG_MAP,
    CONFIGURATION_IN_USE_CONFIG_MAP,
    CONTROLLER_LEASE,
)
from drawbridge.process import metrics
from drawbridge.process.logs import log_event
from drawbridge.process.memory_limit import read_memory_limit
from drawbridge.process.run import (
    ProcessOptions,
    StartedProcess,
    run_background,
    run_configured,
    wait_unless_stopped,
)
from drawbridge.process.settings import Settings, WatchedConfiguration
from drawbridge.process.stuck_metrics import collect_stuck
from drawbridge.process.usage_metrics import UsageCollector
from drawbridge.report.stuck.found import Stuck

_LOG: Final = logging.getLogger("controller.process")


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the controller.

    `identity` is the holder in the Lease; if empty, the host name. Without a rotation policy,
    somebody else makes the CA. `metric_devices` bounds the series of devices.
    """

    process: ProcessOptions
    identity: str = ""
    rotation: RotationPolicy | None
    metric_devices: int = 1_000


async def run(options: ControllerOptions) -> int:
    """Run the controller until a signal stops it; 0 for a graceful stop, 2 if it cannot start."""
    authorities = (metrics.AUTHORITIES,) if options.rotation else ()
    with metrics.registered(metrics.CONTROLLER, *authorities):
        return await run_configured(
            options.process,
            _LOG,
            partial(_serve, options),
            _watch_configurations,
            Settings.wait_unless_first,
        )


def _watch_configurations(session: Session) -> Sequence[WatchedConfiguration]:
    """Watch both, and judge both: a version that refuses the copy must not take the Lease."""
    return (
        WatchedConfiguration(session, CONFIGURATION_IN_USE_CONFIG_MAP, read_accepted),
        WatchedConfiguration(session, CONFIGURATION_CONFIG_MAP, read_offered),
    )


async def _serve(options: ControllerOptions, process: StartedProcess) -> None:
    session, settings, stop = process.session, process.settings, process.stop
    identity = options.identity or socket.gethostname()
    elector = LeaderElector(session, session.namespace, CONTROLLER_LEASE, identity)
    events = ResourceClient(session, EVENTS, decode_object)
    recorder = EventRecorder(events, "drawbridge.dev/controller", elector.identity)
    reporter = EventReporter(recorder, lambda: settings.current)
    reporter.set_gauge(Gauge.LEADING, 0)
    parts = make_certificate_parts(options.rotation, session, elector)
    context = ControllerContext(session, settings, parts)
    caches = ControllerCaches(session, parts and parts.secret, read_memory_limit())
    leader = Leader(context, caches, elector, reporter)

    process.readiness.find_missing = lambda: [*settings.find_missing(), *caches.find_missing()]

    async def lead() -> None:
        log_event(_LOG, logging.INFO, "leading", identity=elector.identity)
        reporter.set_gauge(Gauge.LEADING, 1)
        try:
            await leader.lead()
        finally:
            for gauge in Gauge:
                reporter.set_gauge(gauge, 0)

    usage = UsageCollector(leader.usage_series(options.metric_devices))
    with metrics.registered(
        lambda: metrics.collect_caches(caches.by_resource, settings.caches),
        lambda: metrics.collect_events(recorder.dropped),
        usage,
        lambda: collect_stuck(*leader.find_stuck()),
    ):
        async with (
            run_background((recorder.run(), leader.observations.usage.run(), *caches.run())),
        ):
            # On cancellation the elector stops the reconcilers and releases the Lease.
            await wait_unless_stopped(elector.run(lead), stop)


class Leader:
    """Observes in each replica, and runs new reconcilers in each term."""

    def __init__(
        self,
        context: ControllerContext,
        caches: ControllerCaches,
        fence: Fence,
        reporter: Reporter,
    ) -> None:
        self.observations = Observations(caches, context.session.clock.now)
        self.reconcilers: Reconcilers | None = None  # of the term
        self._caches, self._settings = caches, context.settings
        self._results = ResultReporter()
        self._make_reconcilers = partial(
            Reconcilers, context, caches, self.observations, fence, reporter
        )

    async def lead(self) -> None:
        """Run the reconcilers of a term until cancelled."""
        await self._caches.wait_until_synced()
        self.reconcilers = reconcilers = self._make_reconcilers()
        try:
            await self._run(reconcilers)
        finally:
            self.reconcilers = None
            reconcilers.end()
            self._results.end_term()

    async def _run(self, reconcilers: Reconcilers) -> None:
        """Run all reconcilers concurrently; without a configuration, only the first."""
        clock = EventLoopClock()
        async with asyncio.TaskGroup() as group:
            for reconciler in reconcilers.all():
                if reconciler.name != CONFIGURATION:
                    await self._settings.wait()
                wake_up = reconcilers.wake_ups[reconciler.name]
                schedule = SCHEDULES[reconciler.name]
                group.create_task(
                    run_reconciler(reconciler, wake_up, schedule, self._results.report, clock)
                )

    def find_stuck(self) -> tuple[Sequence[tuple[Stuck, float]], Mapping[str, int]]:
        """Return what is stuck since when, and the free devices; nothing if another one leads."""
        if self.reconcilers is None:
            return (), {}
        return self.reconcilers.stuck.stuck, self.reconcilers.stuck.free

    def usage_series(self, max_devices: int) -> UsageSeries:
        """Return the series of who holds devices, which only the leader has."""
        return UsageSeries(
            self.observations.usage,
            lambda: None if self.reconcilers is None else self.reconcilers.usage.totals,
            self._caches.device_pods,
            max_devices=max_devices,
        )


_: tuple[type[ObjectStore], type[Reporter]] = (ResourceClient, EventReporter)
