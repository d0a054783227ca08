"""`drawbridge serve allocator`: connects the decisions to the API server and to the scheduler.

Every replica watches and decides nothing until its kube-scheduler leads.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from allocator.api.opening import ApiOptions, list_api_metrics, open_api
from allocator.decisions.group_questions import key_of_group
from allocator.metrics import collect_conflicts, collect_quotas
from allocator.scheduler.calls import SchedulerCalls
from allocator.scheduler.known_versions import FollowedCache, KnownVersions
from allocator.scheduler.lease import LeaseName, SchedulerLease
from allocator.scheduler.server import ActivationStreams, serve_calls
from allocator.state.caches import AllocatorCaches, find_what_is_served
from allocator.state.live_state import LiveState
from allocator.state.reserved_pods import HoldLimits
from allocator.term import TermKeeper
from allocator.writes.api_server import ApiServerWrites, WriteFence
from allocator.writes.binding import BindingTimes, PodBinder
from allocator.writes.recovery import Recovery
from allocator.writes.reports import ReportWriter
from drawbridge.api_error import ApiError
from drawbridge.cluster.backoff import Backoff
from drawbridge.cluster.client import ResourceClient, decode_object
from drawbridge.cluster.discovery import SAME_ANSWERS, wait_until_changed
from drawbridge.cluster.events import EventRecorder
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.resources import EVENTS
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject, pause_garbage_collection
from drawbridge.names import SCHEDULER_LEASE
from drawbridge.pod_groups import GroupForm, PodGroup
from drawbridge.process import metrics
from drawbridge.process.alarm import CutAlarm
from drawbridge.process.collection import RebuildPause
from drawbridge.process.logs import log_event
from drawbridge.process.memory_limit import read_memory_limit
from drawbridge.process.run import (
    ProcessOptions,
    StartedProcess,
    StopSignal,
    run_background,
    run_configured,
    wait_unless_stopped,
)
from drawbridge.process.settings import Settings

_LOG: Final = logging.getLogger("allocator.process")
# The one beside the leader is ready again by then.
_ANSWERS_OF_LEADER: Final = SAME_ANSWERS + 3
# So many errors an API server answers with before groups, which it may serve, count as served.
_TRIES: Final = 4


class AllocatorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the allocator.

    `host` is the host name in the identity of the kube-scheduler; if empty, that of this machine.
    Without `api`, no API is served.
    """

    process: ProcessOptions
    socket: str
    host: str = ""
    api: ApiOptions | None
    binding: BindingTimes
    holding: HoldLimits


async def run(options: AllocatorOptions) -> int:
    """Run until a stop signal; 0 for a graceful stop, 2 if the process cannot start."""
    own = (metrics.ALLOCATOR, metrics.FACTS, *list_api_metrics(options.api))
    with metrics.registered(*own):
        return await run_configured(options.process, _LOG, partial(_serve, options))


class _Parts:
    """The parts of the allocator, connected."""

    def __init__(
        self,
        options: AllocatorOptions,
        settings: Settings,
        session: Session,
        caches: AllocatorCaches,
    ) -> None:
        host = options.host or socket.gethostname()
        self.caches = caches
        lease = LeaseName(session.namespace, SCHEDULER_LEASE)
        followed: dict[str, FollowedCache] = {"nodes": caches.nodes, "policy": caches.fence_policy}
        if settings.watched:
            followed["configuration"] = settings.watched[0].cache
        versions = KnownVersions(followed, optional=("policy",))
        self._lacks_policy = partial(versions.is_behind, "policy")
        self.lease = SchedulerLease(session, lease, host, versions=versions)
        events = ResourceClient(session, EVENTS, decode_object)
        self.recorder = EventRecorder(events, "drawbridge.dev/allocator", host)
        self.changed = asyncio.Event()
        self.streams = ActivationStreams()
        self.reporter = ReportWriter(
            self.recorder, lambda: settings.current, leads=lambda: self.lease.term is not None
        )
        self.collection = RebuildPause(pause_garbage_collection)
        self.state = self._make_state(settings, session.clock.now, options.holding)
        fence = WriteFence(self.lease, caches.nodes, caches.claims)
        writes = ApiServerWrites(session, fence, caches.claims)
        self.binder = PodBinder(
            self.state, writes, caches, leads=lambda: self.term.leading, times=options.binding
        )
        recovery = Recovery(self.state, writes, self.binder)
        self.term = TermKeeper(self.lease, recovery, self.state, on_leading=self._start_leading)
        self.calls = SchedulerCalls(
            state=self.state,
            leadership=self.term,
            binder=self.binder,
            publish=self.streams.publish,
            report=self.reporter.report,
            changed=self.changed,
            collect=self.collection.look_at_all,
        )
        settings.subscribe(lambda _: self.state.update())
        caches.subscribe_groups(self._follow_group)

    def _make_state(
        self, settings: Settings, server_time: Callable[[], float], limits: HoldLimits
    ) -> LiveState:
        return LiveState(
            self.caches,
            lambda: settings.current,
            on_rebuild=self._start_again,
            on_change=self.changed.set,
            server_time=server_time,
            pause_collection=self.collection,
            lacks_policy=self._lacks_policy,
            limits=limits,
            brief=CutAlarm(),
        )

    def _follow_group(
        self, before: CachedObject[int] | None, after: CachedObject[int] | None
    ) -> None:
        """Try a group of Coscheduling again whose minimum is another one."""
        group, values = after or before, {each.value if each else 0 for each in (before, after)}
        if group is None or len(values) == 1 or not self.state.ready:
            return
        form = GroupForm.COSCHEDULING
        self.state.waiting.note_minimum(key_of_group(PodGroup(form, group.namespace, group.name)))
        self.changed.set()

    def _start_leading(self) -> None:
        """Look again at what others had to report, and at all pods that wait."""
        self.state.wrong_allocations.search_again(self.reporter.take_left())
        # The pods that waited in an earlier term, or before new decisions, are not known.
        self.streams.publish_all()

    def _start_again(self) -> None:
        """Recover again, because the reservations are lost."""
        self.term.start_again()
        self.changed.set()

    def find_problems(self) -> list[str]:
        """Return why this pair of scheduler and allocator could not take over."""
        return [*self.state.find_problems(), *self.streams.find_problems()]

    def run(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return everything that runs in the background."""
        return (
            self.recorder.run(),
            self.lease.run(),
            self.state.run(),
            self.term.run(),
            self.calls.wake_pods(),
            self._measure(),
            *self.caches.run(),
        )

    async def _measure(self) -> None:
        """Set the gauges of the state, until cancelled."""
        while True:
            metrics.ALLOCATOR_LEADING.set(self.term.leading)
            ready = self.state.ready and not self.find_problems()
            metrics.ALLOCATOR_READY.set(ready)
            metrics.ALLOCATOR_NOT_UNDONE.set(self.binder.undoing.failing)
            reservations = self.state.reservations if self.state.ready else None
            state = self.state.decisions.state if self.state.ready else None
            metrics.ALLOCATOR_UNEXPECTED.set(state.records.unexpected if state else 0)
            for name, kept in (
                ("pods", state.records if state else ()),
                ("vanished-claims", state.vanished.claims if state else ()),
            ):
                metrics.ALLOCATOR_RECORDS.labels(name).set(len(kept))
            held = reservations.count_renewed_devices(time.monotonic()) if reservations else 0
            metrics.ALLOCATOR_HELD.set(held)
            await asyncio.sleep(1)


async def _serve(options: AllocatorOptions, process: StartedProcess) -> None:
    session, stop = process.session, process.stop
    process.readiness.find_missing = lambda: ("the API server has not responded yet",)
    caches = await _create_caches(session, session.namespace, stop)
    if caches is None:
        return
    parts = _Parts(options, process.settings, session, caches)
    process.readiness.find_missing = parts.find_problems
    with metrics.registered(
        lambda: metrics.collect_caches(caches.by_resource, process.settings.caches),
        lambda: metrics.collect_events(parts.recorder.dropped),
        lambda: collect_quotas(parts.state.list_quota_lines()),
        lambda: collect_conflicts(parts.state.list_conflicts()),
    ):
        async with (
            run_background((*parts.run(), stop_if_served_differs(session, parts, stop))),
            serve_calls(options.socket, parts.calls, parts.streams),
            open_api(options.api, session, parts.state, parts.term, caches),
        ):
            await stop.wait()


async def stop_if_served_differs(
    session: Session,
    parts: _Parts,
    stop: StopSignal,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Stop once the API server serves other resources than the caches were made for.

    The process starts again then. The one beside the leader does so first.
    """
    served = await wait_until_changed(
        lambda: find_what_is_served(session),
        parts.caches.served,
        lambda: _ANSWERS_OF_LEADER if parts.term.leading else SAME_ANSWERS,
        pause,
    )
    text = "the API server serves other resources than before, so this process starts again"
    before = parts.caches.served._asdict()
    log_event(_LOG, logging.WARNING, text, before=before, served=served._asdict())
    stop.request()


async def _create_caches(
    session: Session, namespace: str, stop: StopSignal
) -> AllocatorCaches | None:
    """Create the caches as soon as the API server responds; None if the process has to stop."""
    created: list[AllocatorCaches] = []

    async def create() -> None:
        created.append(await _ask_what_is_served(session, namespace))

    return created[0] if await wait_unless_stopped(create(), stop) else None


async def _ask_what_is_served(session: Session, namespace: str) -> AllocatorCaches:
    """Create the caches as soon as the API server responds."""
    backoff, limit, tries = Backoff(maximum=5), read_memory_limit(), 0
    log = FailureLog(_LOG, "it is known after %.0f s what the API server serves")
    while True:
        try:
            caches = await AllocatorCaches.create(
                session, namespace, limit, expects_groups=tries >= _TRIES
            )
        except ApiError as error:
            tries += bool(error.code)
            log.fail(error, "cannot find out what the API server serves: %s", error)
        else:
            log.succeed()
            return caches
        await asyncio.sleep(backoff.pause())
