"""Events: told once, counted after that, and never more than is good for the server."""

# ruff: noqa: D102  # what a rig has is said by its names

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cluster import events as module
from cluster.errors import NotLeadingError
from cluster.events import EventRecorder, InvolvedObject
from cluster.session import Session
from cluster.write import ApiObject, Writer
from dra.finding import Finding, Severity
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi

pytestmark = pytest.mark.asyncio
POD = InvolvedObject("v1", "Pod", "trainer", "team", "u-1")


def finding(
    code: str = "NoDeviceMatches",
    severity: Severity = Severity.WARNING,
    message: str = "nothing matches",
    remedy: str = "",
) -> Finding:
    return Finding(code=code, severity=severity, message=message, remedy=remedy)


class Rig:
    """A server, and who tells events to it."""

    def __init__(self, api: FakeApi, session: Session) -> None:
        self.api = api
        self.session = session
        self.clock = Clock()
        self.events = EventRecorder(
            Writer(session),
            "drawbridge.dev/controller",
            "drawbridge-controller-1",
            now=self.clock.now,
            pause=self.clock.pause,
        )

    def told(self) -> list[ApiObject]:
        return self.api.all("events")

    async def step(self, later: float = 0) -> None:
        self.clock.time += later
        await self.events.write_due()


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeApi())
        api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        session = await Session.open(str(api.kubeconfig(tmp_path / "config")))
        yield Rig(api, await stack.enter_async_context(session))


async def test_a_finding_becomes_an_event_on_its_object(rig: Rig) -> None:
    rig.events.record(finding(remedy="ask for less"), POD, "Translate")
    await rig.write_due()
    (event,) = rig.told()

    assert event["metadata"]["namespace"] == "team"
    assert event["metadata"]["name"].startswith("trainer.")
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "trainer",
        "namespace": "team",
        "uid": "u-1",
    }
    assert (event["type"], event["reason"]) == ("Warning", "NoDeviceMatches")
    assert event["note"] == "nothing matches ask for less"
    assert event["action"] == "Translate"
    assert event["reportingController"] == "drawbridge.dev/controller"
    assert event["reportingInstance"] == "drawbridge-controller-1"
    assert "series" not in event


async def test_an_info_is_normal_and_what_has_no_namespace_is_told_in_default(rig: Rig) -> None:
    node = InvolvedObject("v1", "Node", "Gpu_1", uid="u-2")
    rig.events.record(finding(severity=Severity.INFO), node, "Label")
    await rig.write_due()
    (event,) = rig.told()

    assert (event["type"], event["metadata"]["namespace"]) == ("Normal", "default")
    assert event["metadata"]["name"].startswith("gpu-1.")
    assert "namespace" not in event["regarding"]


async def test_what_is_said_again_is_counted_once_a_minute(rig: Rig) -> None:
    for _ in range(3):
        rig.events.record(finding(), POD, "Translate")
    await rig.write_due()
    assert rig.told()[0]["series"]["count"] == 3
    rig.events.record(finding(), POD, "Translate")
    await rig.step(59)
    assert rig.told()[0]["series"]["count"] == 3
    await rig.step(2)
    assert rig.told()[0]["series"]["count"] == 4
    await rig.step(1000)

    assert len(rig.told()) == 1
    assert len(rig.api.asked("PATCH", "events")) == 1


async def test_other_objects_codes_and_words_are_other_events(rig: Rig) -> None:
    other = InvolvedObject("v1", "Pod", "trainer", "team", "u-9")
    for one in (
        (finding(), POD, "Translate"),
        (finding(), other, "Translate"),
        (finding(code="Else"), POD, "Translate"),
        (finding(message="else"), POD, "Translate"),
        (finding(), POD, "Judge"),
    ):
        rig.events.record(*one)
    await rig.write_due()

    assert len(rig.told()) == 5


async def test_a_series_that_was_silent_for_long_begins_anew(rig: Rig) -> None:
    rig.events.record(finding(), POD, "Translate")
    await rig.write_due()
    rig.clock.time += module.FORGET_SECONDS
    rig.events.record(finding(), POD, "Translate")
    await rig.write_due()

    assert len(rig.told()) == 2


async def test_an_event_that_the_server_forgot_is_made_again(rig: Rig) -> None:
    rig.events.record(finding(), POD, "Translate")
    await rig.write_due()
    (event,) = rig.told()
    rig.api.remove("events", event["metadata"]["name"], "team")
    rig.events.record(finding(), POD, "Translate")
    await rig.step(61)

    assert [each["series"]["count"] for each in rig.told()] == [2]


async def test_a_flood_is_held_back_and_not_lost(rig: Rig) -> None:
    for number in range(100):
        rig.events.record(finding(message=f"{number}"), POD, "Translate")
    await rig.write_due()
    assert len(rig.told()) == module.BURST
    await rig.step(1)
    assert len(rig.told()) == module.BURST + module.RATE
    await rig.step(1000)
    await rig.step(1000)
    await rig.step(1000)

    assert len(rig.told()) == 100
    assert rig.events.dropped == 0


async def test_what_is_remembered_is_bounded(rig: Rig) -> None:
    for number in range(module.MAX_SERIES + 7):
        rig.events.record(finding(message=f"{number}"), POD, "Translate")
    assert rig.events.dropped == 7

    await rig.write_due()
    rig.clock.time += module.SERIES_SECONDS
    # What was written makes room.
    rig.events.record(finding(message="one more"), POD, "Translate")
    assert rig.events.dropped == 7


@pytest.mark.parametrize(("code", "attempts"), [(403, 1), (404, 1), (500, module.MAX_FAILURES)])
async def test_what_cannot_be_written_is_dropped_and_counted(
    rig: Rig, code: int, attempts: int
) -> None:
    rig.api.fail(code, part="events", times=float("inf"))
    rig.events.record(finding(), POD, "Translate")
    for _ in range(5):
        await rig.step(1)

    assert rig.events.dropped == 1
    assert len(rig.api.asked("POST", "events")) == attempts


async def test_events_behind_a_closed_fence_are_dropped(rig: Rig) -> None:
    class Closed:
        """A fence of somebody who does not lead."""

        async def check(self) -> None:
            raise NotLeadingError("closed")

    events = EventRecorder(Writer(rig.session, fence=Closed()), "drawbridge.dev/test", "me")
    events.record(finding(), POD, "Translate")
    await events.write_due()

    assert (events.dropped, rig.told()) == (1, [])


async def test_an_event_whose_answer_was_lost_is_there_once(rig: Rig) -> None:
    rig.api.cut(method="POST", part="events", after=True)
    rig.events.record(finding(), POD, "Translate")
    await rig.write_due()
    await rig.step(1)

    assert len(rig.told()) == 1
    assert rig.events.dropped == 0


@pytest.mark.parametrize("letter", ["a", "ä", "𝄞"])
async def test_a_note_has_at_most_1024_bytes_and_no_half_letters(rig: Rig, letter: str) -> None:
    rig.events.record(finding(message=letter * 2000), POD, "Translate")
    await rig.write_due()
    note = rig.told()[0]["note"]

    assert 1024 - 4 < len(note.encode()) <= 1024
    assert note == letter * (len(note) - 1) + "…"


async def test_a_long_name_still_makes_a_name(rig: Rig) -> None:
    about = InvolvedObject("v1", "Pod", "a" * 253, "team", "u")
    rig.events.record(finding(), about, "x" * 200)
    await rig.write_due()
    (event,) = rig.told()

    assert len(event["metadata"]["name"]) == 253
    assert len(event["action"]) == 128


async def test_running_writes_what_is_said_without_being_asked(rig: Rig) -> None:
    task = asyncio.create_task(rig.events.run())
    rig.events.record(finding(), POD, "Translate")
    await rig.api.until(rig.told)
    rig.events.record(finding(), POD, "Translate")
    await rig.api.until(lambda: rig.told()[0].get("series"))
    task.cancel()
    await asyncio.wait((task,))

    assert rig.told()[0]["series"]["count"] == 2
