"""Publishes the page: once from files, or again with each change of a live cluster."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec import structs

from cli.served_page.objects import ReadObjects
from cli.served_page.snapshots import Snapshots
from cli.served_page.watches import PageWatches
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.dra.gates import Gates
from drawbridge.report.page.compose import compose
from drawbridge.report.page.model import ClusterOnPage, PageObjects, PageState
from drawbridge.report.page.stuck import find_stuck_on_page
from drawbridge.report.page.written import describe_problems, write_page
from drawbridge.report.stuck.found import Stuck

# Changes arrive in bursts.
GATHER_SECONDS: Final = 0.3
# The state of the watches is looked at this often without a change.
LOOK_SECONDS: Final = 1.0
# How often it is searched for what is stuck.
STUCK_SECONDS: Final = 5.0
# The part of the time that composing may take.
_SHARE: Final = 1 / 3


def read_clock() -> str:
    """Return the time now, as the page writes it."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


class PageRules(NamedTuple):
    """What the page of a cluster follows beside its objects."""

    gates: Gates
    quotas: tuple[DeviceQuota, ...] = ()


def publish_files(read: ReadObjects, rules: PageRules, snapshots: Snapshots) -> None:
    """Publish the page of objects that do not change."""
    objects = read.as_page_objects()
    state = PageState("files", read_clock(), unread=read.unread)
    stuck = find_stuck_on_page(objects, read.latest)
    cluster = structs.replace(compose(objects, *rules), stuck=stuck)
    snapshots.publish(write_page(cluster, state))


async def follow(watches: PageWatches, rules: PageRules, source: str, snapshots: Snapshots) -> None:
    """Publish the page with each change, until cancelled."""
    cluster, at, said = ClusterOnPage(), read_clock(), None
    objects, searched, before = PageObjects(), -STUCK_SECONDS, frozenset[Stuck]()
    while True:
        started, is_changed = time.monotonic(), watches.changed.is_set()
        if is_changed:
            watches.changed.clear()
            objects, at = watches.objects(), read_clock()
            # In a thread, because a large cluster takes longer than requests may wait.
            composed = await asyncio.to_thread(compose, objects, *rules)
            cluster = structs.replace(composed, stuck=cluster.stuck)
        if started - searched >= STUCK_SECONDS:
            # Time alone makes something stuck. Watches are of two moments, so two searches count.
            searched = started
            every = await asyncio.to_thread(find_stuck_on_page, objects, watches.now())
            stuck = tuple(each for each in every if each in before)
            before = frozenset(every)
            is_changed = is_changed or stuck != cluster.stuck
            cluster = structs.replace(cluster, stuck=stuck)
        state = _describe(watches, source, at)
        problems = describe_problems(state)
        if is_changed or problems != said:
            said = problems
            snapshots.publish(await asyncio.to_thread(write_page, cluster, state))
        took = time.monotonic() - started
        await asyncio.sleep(max(GATHER_SECONDS, took / _SHARE - took))
        await _wait(watches.changed, LOOK_SECONDS)


def publish_unread(watches: PageWatches, source: str, snapshots: Snapshots) -> None:
    """Publish the page before anything is read."""
    snapshots.publish(write_page(ClusterOnPage(), _describe(watches, source, read_clock())))


def _describe(watches: PageWatches, source: str, at: str) -> PageState:
    return PageState(
        source, at, is_live=True, watched=tuple(watches.describe()), unread=watches.unread
    )


async def _wait(changed: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(changed.wait(), seconds)
    except TimeoutError:
        return
