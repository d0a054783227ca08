"""`drawbridge serve controller`: connects the reconcilers and runs them while this replica leads.

Every replica watches, so that a new leader starts without delay. Only the leader writes.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from certs.rotation import RotationPolicy
from controller.api_server import EventReporter, report_result
from controller.caches import ControllerCaches
from controller.certificates import make_certificate_parts
from controller.configuration import NAME as CONFIGURATION
from controller.protocols import Gauge, ObjectStore, Reporter
from controller.reconcile import EventLoopClock, run_reconciler
from controller.reconcilers import SCHEDULES, ControllerContext, Reconcilers
from drawbridge.agreement.offered_configuration import read_accepted, read_offered
from drawbridge.cluster.client import ResourceClient, decode_object
from drawbridge.cluster.events import EventRecorder
from drawbridge.cluster.lease import LeaderElector
from drawbridge.cluster.resources import EVENTS
from drawbridge.cluster.session import Session
from drawbridge.names import (
    CONFIGURATION_CONFIG_MAP,
    CONFIGURATION_IN_USE_CONFIG_MAP,
    CONTROLLER_LEASE,
)
from drawbridge.process import logs, metrics
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
    namespace = session.namespace
    elector = LeaderElector(
        session, namespace, CONTROLLER_LEASE, options.identity or socket.gethostname()
    )
    events = ResourceClient(session, EVENTS, decode_object)
    recorder = EventRecorder(events, "drawbridge.dev/controller", elector.identity)
    reporter = EventReporter(recorder, lambda: settings.current)
    reporter.set_gauge(Gauge.LEADING, 0)
    parts = make_certificate_parts(options.rotation, session, elector, namespace)
    context = ControllerContext(session, namespace, settings, parts)
    caches = ControllerCaches(session, parts and parts.secret, read_memory_limit())
    reconcilers = Reconcilers(context, caches, elector, reporter)

    process.readiness.find_missing = lambda: [*settings.find_missing(), *caches.find_missing()]

    async def lead() -> None:
        reporter.set_gauge(Gauge.LEADING, 1)
        reconcilers.leads = True
        try:
            await _run_reconcilers(caches, reconcilers, settings, elector.identity)
        finally:
            reconcilers.leads = False
            reporter.set_gauge(Gauge.LEADING, 0)

    usage = UsageCollector(reconcilers.usage_series(options.metric_devices))
    with metrics.registered(
        lambda: metrics.collect_caches(caches.by_resource, settings.caches),
        lambda: metrics.collect_events(recorder.dropped),
        usage,
        lambda: collect_stuck(reconcilers.stuck.stuck, reconcilers.stuck.free),
    ):
        async with (
            run_background((recorder.run(), reconcilers.observer.run(), *caches.run())),
        ):
            # On cancellation the elector stops the reconcilers and releases the Lease.
            await wait_unless_stopped(elector.run(lead), stop)


async def _run_reconcilers(
    caches: ControllerCaches, reconcilers: Reconcilers, settings: Settings, identity: str
) -> None:
    """Run all reconcilers concurrently until cancelled; without a configuration, only the first."""
    logs.log_event(_LOG, logging.INFO, "leading", identity=identity)
    await caches.wait_until_synced()
    reconcilers.begin_term()
    clock = EventLoopClock()
    async with asyncio.TaskGroup() as group:
        for reconciler in reconcilers.all():
            if reconciler.name != CONFIGURATION:
                await settings.wait()
            wake_up, schedule = reconcilers.wake_ups[reconciler.name], SCHEDULES[reconciler.name]
            group.create_task(run_reconciler(reconciler, wake_up, schedule, report_result, clock))


_: tuple[type[ObjectStore], type[Reporter]] = (ResourceClient, EventReporter)
