"""Watches, caches, elections and events: the same tests for both API servers.

`tests/cluster/place.py` selects the server.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.event_series import InvolvedObject
from drawbridge.cluster.events import EventRecorder
from drawbridge.cluster.lease import LeaderElector
from drawbridge.cluster.resources import EVENTS, LEASES, ApiObject
from drawbridge.finding import Finding, Severity
from tests.cluster.place import Place, Text, placed, refused

pytestmark = pytest.mark.asyncio
IN_TIME = 20


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with placed(tmp_path) as made:
        yield made


@contextlib.asynccontextmanager
async def watched(
    place: Place, **query: str
) -> AsyncIterator[Callable[[], Awaitable[tuple[str, ApiObject]]]]:
    """Open a watch of ConfigMaps; yields a reader of its events, without the root CA."""
    query = {"watch": "true", "fieldSelector": "metadata.name!=kube-root-ca.crt", **query}
    async with place.session.stream(place.path(), query=query) as chunks:

        async def events() -> AsyncIterator[tuple[str, ApiObject]]:
            async for lines in chunks:
                for line in lines:
                    event = msgspec.json.decode(line)
                    yield event["type"], event["object"]

        stream = events()
        yield lambda: asyncio.wait_for(anext(stream), IN_TIME)


async def newest(place: Place) -> str:
    page = msgspec.json.decode(await place.session.call("GET", place.path()))
    return str(page["metadata"]["resourceVersion"])


# --- watching ----------------------------------------------------------------------------------


async def test_a_watch_sends_all_changes_since_a_version(place: Place) -> None:
    since = await newest(place)
    made = await place.make("seen", a="1")
    async with watched(place, resourceVersion=since) as event:
        told = [await event()]
        body = {"data": {"a": "2"}}
        await place.maps.merge("seen", body)
        told.append(await event())
        await place.maps.delete("seen")
        told.append(await event())

    versions = [int(value["metadata"]["resourceVersion"]) for _, value in told]
    assert [kind for kind, _ in told] == ["ADDED", "MODIFIED", "DELETED"]
    assert versions[0] == int(made["metadata"]["resourceVersion"])
    assert versions == sorted(set(versions))
    assert told[0][1]["kind"] == "ConfigMap"
    assert told[2][1]["data"] == {"a": "2"}


async def test_an_object_that_no_longer_matches_is_sent_as_deleted(place: Place) -> None:
    value = {"metadata": {"name": "chosen", "labels": {"in": "yes"}}}
    made = await place.maps.create(value)
    since = made["metadata"]["resourceVersion"]
    async with watched(place, resourceVersion=since, labelSelector="in=yes") as event:
        for label in ("no", "yes"):
            body = {"metadata": {"labels": {"in": label}}}
            await place.maps.merge("chosen", body)
        (gone, was), (added, _) = await event(), await event()

    assert (gone, added) == ("DELETED", "ADDED")
    assert int(was["metadata"]["resourceVersion"]) > int(since)


async def test_a_watch_from_an_expired_version_sends_a_410_event(place: Place) -> None:
    async with watched(place, resourceVersion="1") as event:
        kind, status = await event()

    assert kind == "ERROR"
    assert (status["code"], status["reason"]) == (410, "Expired")


async def test_a_watch_from_a_future_version_waits(place: Place) -> None:
    future = int(await newest(place)) + 3
    async with watched(place, resourceVersion=f"{future}") as event:
        number, reached = 0, 0
        while reached <= future:
            number += 1
            made = await place.make(f"later-{number}")
            reached = int(made["metadata"]["resourceVersion"])
        _, first = await event()

    assert number > 1
    assert int(first["metadata"]["resourceVersion"]) > future


async def test_a_watch_list_sends_the_list_and_marks_its_end(place: Place) -> None:
    for name in ("one", "two"):
        await place.make(name)
    offered = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with watched(place, **offered, allowWatchBookmarks="true") as event:
        told = [await event() for _ in range(3)]
        await place.make("three")
        kind, later = await event()

    assert {value["metadata"].get("name") for _, value in told[:2]} == {"one", "two"}
    assert told[2][0] == "BOOKMARK"
    assert told[2][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(told[2][1]["metadata"]["resourceVersion"]) > 0
    assert (kind, later["metadata"]["name"]) == ("ADDED", "three")


async def test_an_invalid_watch_list_request_is_rejected(place: Place) -> None:
    query = {"watch": "true", "sendInitialEvents": "true"}
    async with contextlib.AsyncExitStack() as stack:
        stream = place.session.stream(place.path(), query=query)
        error = await refused(stack.enter_async_context(stream))

    assert (error.code, error.reason) == (422, "Invalid")


# --- all of it together ------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def followed(
    place: Place, options: dict[str, Any]
) -> AsyncIterator[tuple[Cache[Text], Callable[[Callable[[], bool]], Awaitable[None]]]]:
    """Run a cache; yields it and a function that waits for a condition."""
    news = asyncio.Event()
    cache = place.cache(**options)
    cache.subscribe(lambda _before, _after: news.set())
    running = asyncio.create_task(cache.run())

    async def until(question: Callable[[], bool]) -> None:
        async with asyncio.timeout(IN_TIME):
            while not question():
                news.clear()
                await news.wait()

    try:
        await asyncio.wait_for(cache.wait_until_synced(), IN_TIME)
        yield cache, until
    finally:
        running.cancel()
        await asyncio.wait((running,))


@pytest.mark.parametrize("options", [{"watch_list": True}, {"watch_list": False, "page": 2}])
async def test_a_cache_stays_in_sync_with_its_server(place: Place, options: dict[str, Any]) -> None:
    for number in range(5):
        await place.make(f"item-{number}", n=f"{number}")

    def held() -> set[str]:
        return {kept.value.data["n"] for kept in cache.all() if "n" in kept.value.data}

    async with followed(place, options) as (cache, until):
        assert held() == set("01234")
        body = {"data": {"n": "new"}}
        await place.maps.merge("item-1", body)
        await until(lambda: held() == {"0", "new", "2", "3", "4"})
        await place.maps.delete("item-2")
        await until(lambda: held() == {"0", "new", "3", "4"})
        kept = cache.get("item-3", place.namespace)

    assert kept is not None
    assert msgspec.json.decode(kept.raw) == await place.find("item-3")
    written = msgspec.json.decode(kept.raw)
    written["data"]["m"] = "1"
    assert (await place.maps.replace(written))["data"] == {"n": "3", "m": "1"}


async def test_one_candidate_leads_and_hands_over_immediately(place: Place) -> None:
    async def lease() -> ApiObject:
        lease = await place.client(LEASES).read("lead")
        assert lease is not None
        spec: ApiObject = lease["spec"]
        return spec

    first, led_first = standing(place, "first")
    second, led_second = standing(place, "second")
    task = asyncio.create_task(first.run(led_first))
    await asyncio.wait_for(led_first.event.wait(), IN_TIME)
    two = asyncio.create_task(second.run(led_second))
    await first.check()
    assert not second.leading
    task.cancel()
    await asyncio.wait((task,))
    await asyncio.wait_for(led_second.event.wait(), IN_TIME)
    spec = await lease()
    two.cancel()
    await asyncio.wait((two,))

    assert spec["holderIdentity"] == second.identity
    assert spec["leaseTransitions"] >= 1
    assert not (await lease()).get("holderIdentity")


class Leads:
    """Leads until cancelled; `event` is set at the start."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def __call__(self) -> None:
        """Set the event and wait for the cancellation."""
        self.event.set()
        await asyncio.Event().wait()


def standing(place: Place, name: str) -> tuple[LeaderElector, Leads]:
    return LeaderElector(place.session, place.namespace, "lead", name, retry_period=0.1), Leads()


async def test_a_repeated_finding_becomes_the_series_of_one_event(place: Place) -> None:
    made = await place.make("about")
    now = [0.0]
    reporter = "drawbridge.dev/test"
    events = EventRecorder(place.client(EVENTS), reporter, "test-1", now=lambda: now[0])
    about = InvolvedObject("v1", "ConfigMap", "about", place.namespace, made["metadata"]["uid"])
    finding = Finding(
        code="NoDeviceMatches", severity=Severity.WARNING, message="ä" * 2000, remedy=""
    )
    events.record(finding, about, "Translate")
    await events.write_due()
    for _ in range(3):
        events.record(finding, about, "Translate")
    now[0] = 61
    await events.write_due()
    (event,) = [each async for each in place.client(EVENTS).iterate()]

    assert events.dropped == 0
    assert (event["reason"], event["type"]) == ("NoDeviceMatches", "Warning")
    assert (event["action"], event["regarding"]["name"]) == ("Translate", "about")
    assert event["reportingController"] == reporter
    assert event["series"]["count"] == 4
    assert len(event["note"].encode()) <= 1024
