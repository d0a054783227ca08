"""Events: creation, series, rate limit and failures."""

# ruff: noqa: D102  # the fields have descriptive names

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from drawbridge.cluster import events as module
from drawbridge.cluster.client import ResourceClient, decode_object
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.cluster.event_series import (
    FORGET_SECONDS,
    MAX_FAILURES,
    SERIES_SECONDS,
    InvolvedObject,
)
from drawbridge.cluster.events import EventRecorder
from drawbridge.cluster.resources import EVENTS, ApiObject
from drawbridge.cluster.session import Session
from drawbridge.finding import Finding, Severity
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
    """A fake server and an event recorder."""

    def __init__(self, api: FakeApi, session: Session) -> None:
        self.api = api
        self.session = session
        self.clock = Clock()
        self.recorder = EventRecorder(
            ResourceClient(session, EVENTS, decode_object),
            "drawbridge.dev/controller",
            "drawbridge-controller-1",
            now=self.clock.now,
            pause=self.clock.pause,
        )

    def events_written(self) -> list[ApiObject]:
        return self.api.all("events")

    async def write_due(self, later: float = 0) -> None:
        self.clock.time += later
        await self.recorder.write_due()


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeApi())
        api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        session = await Session.open(str(api.kubeconfig(tmp_path / "config")))
        yield Rig(api, await stack.enter_async_context(session))


async def test_a_finding_becomes_an_event_on_its_object(rig: Rig) -> None:
    rig.recorder.record(finding(remedy="ask for less"), POD, "Translate")
    await rig.write_due()
    (event,) = rig.events_written()

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
    assert event["note"] == "nothing matches. ask for less"
    assert event["action"] == "Translate"
    assert event["reportingController"] == "drawbridge.dev/controller"
    assert event["reportingInstance"] == "drawbridge-controller-1"
    assert "series" not in event


async def test_an_info_is_normal_and_cluster_scoped_events_are_in_default(rig: Rig) -> None:
    node = InvolvedObject("v1", "Node", "Gpu_1", uid="u-2")
    rig.recorder.record(finding(severity=Severity.INFO), node, "Label")
    await rig.write_due()
    (event,) = rig.events_written()

    assert (event["type"], event["metadata"]["namespace"]) == ("Normal", "default")
    assert event["metadata"]["name"].startswith("gpu-1.")
    assert "namespace" not in event["regarding"]


async def test_repetitions_are_written_once_a_minute(rig: Rig) -> None:
    starts = [rig.recorder.record(finding(), POD, "Translate") for _ in range(3)]
    assert starts == [True, False, False]
    await rig.write_due()
    assert rig.events_written()[0]["series"]["count"] == 3
    rig.recorder.record(finding(), POD, "Translate")
    await rig.write_due(59)
    assert rig.events_written()[0]["series"]["count"] == 3
    await rig.write_due(2)
    assert rig.events_written()[0]["series"]["count"] == 4
    await rig.write_due(1000)

    assert len(rig.events_written()) == 1
    assert len(rig.api.asked("PATCH", "events")) == 1


async def test_different_objects_codes_and_messages_are_different_events(rig: Rig) -> None:
    other = InvolvedObject("v1", "Pod", "trainer", "team", "u-9")
    for one in (
        (finding(), POD, "Translate"),
        (finding(), other, "Translate"),
        (finding(code="Else"), POD, "Translate"),
        (finding(message="else"), POD, "Translate"),
        (finding(), POD, "Judge"),
    ):
        rig.recorder.record(*one)
    await rig.write_due()

    assert len(rig.events_written()) == 5


async def test_a_new_event_is_created_after_a_long_silence(rig: Rig) -> None:
    rig.recorder.record(finding(), POD, "Translate")
    await rig.write_due()
    rig.clock.time += FORGET_SECONDS
    assert rig.recorder.record(finding(), POD, "Translate")
    await rig.write_due()

    assert len(rig.events_written()) == 2


async def test_a_deleted_event_is_created_again(rig: Rig) -> None:
    rig.recorder.record(finding(), POD, "Translate")
    await rig.write_due()
    (event,) = rig.events_written()
    rig.api.remove("events", event["metadata"]["name"], "team")
    rig.recorder.record(finding(), POD, "Translate")
    await rig.write_due(61)

    assert [each["series"]["count"] for each in rig.events_written()] == [2]


async def test_a_burst_of_events_is_rate_limited_and_not_lost(rig: Rig) -> None:
    for number in range(100):
        rig.recorder.record(finding(message=f"{number}"), POD, "Translate")
    await rig.write_due()
    assert len(rig.events_written()) == module.BURST
    await rig.write_due(1)
    assert len(rig.events_written()) == module.BURST + module.RATE
    await rig.write_due(1000)
    await rig.write_due(1000)
    await rig.write_due(1000)

    assert len(rig.events_written()) == 100
    assert rig.recorder.dropped == 0


async def test_the_number_of_series_is_limited(rig: Rig) -> None:
    messages = map(str, range(module.MAX_SERIES + 7))
    starts = [rig.recorder.record(finding(message=e), POD, "Translate") for e in messages]
    assert starts == [True] * module.MAX_SERIES + [False] * 7
    assert rig.recorder.dropped == 7

    await rig.write_due()
    rig.clock.time += SERIES_SECONDS
    # Written series are removed to make room.
    rig.recorder.record(finding(message="one more"), POD, "Translate")
    assert rig.recorder.dropped == 7


def pod_of(namespace: str) -> InvolvedObject:
    return InvolvedObject("v1", "Pod", "trainer", namespace, "u-1")


async def test_a_namespace_with_many_findings_delays_no_other(rig: Rig) -> None:
    for number in range(module.MAX_SERIES):
        rig.recorder.record(finding(message=f"{number}"), POD, "Translate")
    for name in ("team-a", "team-b"):
        rig.api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        rig.recorder.record(finding(), pod_of(name), "Translate")
    await rig.write_due()
    namespaces = [event["metadata"]["namespace"] for event in rig.events_written()]

    assert len(namespaces) == module.BURST
    assert set(namespaces) == {"team", "team-a", "team-b"}


async def test_in_a_namespace_severe_findings_are_first_and_repetitions_last(rig: Rig) -> None:
    rig.recorder.record(finding(code="Repeated", severity=Severity.ERROR), POD, "Translate")
    await rig.write_due()
    rig.recorder.record(finding(code="Repeated", severity=Severity.ERROR), POD, "Translate")
    for number in range(2 * module.BURST):
        rig.recorder.record(
            finding(code="Mild", severity=Severity.INFO, message=f"{number}"), POD, "Translate"
        )
    rig.recorder.record(finding(code="DeviceHeldTwice", severity=Severity.ERROR), POD, "Report")
    rig.clock.time += SERIES_SECONDS
    await rig.write_due()
    reasons = [
        msgspec.json.decode(request.body)["reason"] for request in rig.api.asked("POST", "events")
    ]

    assert reasons[:3] == ["Repeated", "DeviceHeldTwice", "Mild"]
    assert len(rig.api.asked("PATCH", "events")) == 1


async def test_a_full_table_drops_the_mildest_finding_of_the_largest_namespace(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(module.MAX_SERIES):
        severity = Severity.INFO if number == 5 else Severity.WARNING
        rig.recorder.record(finding(message=f"{number}", severity=severity), POD, "Translate")
    rig.api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    rig.recorder.record(finding(), pod_of("team-a"), "Translate")
    series = vars(rig.recorder)["_series"]
    await rig.write_due()

    assert rig.recorder.dropped == 1
    assert "dropped 1 events; most: team (1)" in caplog.text
    assert not [each for each in series if each.key.severity is Severity.INFO]
    assert [each for each in series if each.key.involved.namespace == "team-a"]


@pytest.mark.parametrize(("code", "attempts"), [(403, 1), (404, 1), (500, MAX_FAILURES)])
async def test_events_that_cannot_be_written_are_dropped_and_counted(
    rig: Rig, code: int, attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    rig.api.fail(code, part="events", times=float("inf"))
    for number in range(2):
        rig.recorder.record(finding(message=f"{number}"), POD, "Translate")
        for _ in range(5):
            await rig.write_due(1)

    assert rig.recorder.dropped == 2
    assert len(rig.api.asked("POST", "events")) == 2 * attempts
    (line,) = caplog.records
    assert line.getMessage().startswith("dropped 1 events; most: team (1); ")
    assert f": {code} " in line.getMessage()


@pytest.mark.parametrize("code", [401, 408, 429, 503])
async def test_an_event_is_written_after_a_failure_that_passes(rig: Rig, code: int) -> None:
    # The session sends a request again once after 401, with a new token.
    rig.api.fail(code, method="POST", part="events", times=2)
    rig.recorder.record(finding(), POD, "Translate")
    for _ in range(3):
        await rig.write_due(later=1)

    assert len(rig.events_written()) == 1
    assert rig.recorder.dropped == 0


async def test_events_behind_a_closed_fence_are_dropped(rig: Rig) -> None:
    class Closed:
        """A fence of a process that does not lead."""

        async def check(self) -> None:
            raise NotLeadingError("closed")

    events = ResourceClient(rig.session, EVENTS, decode_object, fence=Closed())
    recorder = EventRecorder(events, "drawbridge.dev/test", "me")
    recorder.record(finding(), POD, "Translate")
    await recorder.write_due()

    assert (recorder.dropped, rig.events_written()) == (1, [])


async def test_an_event_with_a_lost_response_exists_once(rig: Rig) -> None:
    rig.api.cut(method="POST", part="events", after=True)
    rig.recorder.record(finding(), POD, "Translate")
    await rig.write_due()
    await rig.write_due(1)

    assert len(rig.events_written()) == 1
    assert rig.recorder.dropped == 0


@pytest.mark.parametrize(
    ("message", "remedy", "note"),
    [
        ("a quota: pods=0", "Raise it.", "a quota: pods=0. Raise it."),
        ("It is full.", "Raise it.", "It is full. Raise it."),
        ("Did you mean a?", "Write a.", "Did you mean a? Write a."),
        ("a quota", "", "a quota"),
    ],
)
async def test_a_note_has_message_and_remedy_as_sentences(
    rig: Rig, message: str, remedy: str, note: str
) -> None:
    rig.recorder.record(finding(message=message, remedy=remedy), POD, "Translate")
    await rig.write_due()
    assert rig.events_written()[0]["note"] == note


@pytest.mark.parametrize("letter", ["a", "ä", "𝄞"])
async def test_a_note_has_at_most_1024_bytes_and_complete_characters(rig: Rig, letter: str) -> None:
    rig.recorder.record(finding(message=letter * 2000, remedy=""), POD, "Translate")
    await rig.write_due()
    note = rig.events_written()[0]["note"]

    assert 1024 - 4 < len(note.encode()) <= 1024
    assert note == letter * (len(note) - 1) + "…"


@pytest.mark.parametrize("letter", ["a", "ä", "𝄞"])
async def test_a_long_message_loses_its_middle_and_keeps_the_remedy(rig: Rig, letter: str) -> None:
    long = finding(message=f"not {letter * 2000}, but c", remedy="ask for less")
    rig.recorder.record(long, POD, "Translate")
    await rig.write_due()
    note = rig.events_written()[0]["note"]

    assert 1024 - 8 < len(note.encode()) <= 1024
    begin, _, end = note.partition("…")
    assert begin == f"not {letter * (len(begin) - 4)}"
    assert end.lstrip(letter) == ", but c. ask for less"


async def test_a_long_object_name_is_shortened_in_the_event_name(rig: Rig) -> None:
    involved = InvolvedObject("v1", "Pod", "a" * 253, "team", "u")
    rig.recorder.record(finding(), involved, "x" * 200)
    await rig.write_due()
    (event,) = rig.events_written()

    assert len(event["metadata"]["name"]) == 253
    assert len(event["action"]) == 128


async def test_run_writes_recorded_events(rig: Rig) -> None:
    task = asyncio.create_task(rig.recorder.run())
    rig.recorder.record(finding(), POD, "Translate")
    await rig.api.until(rig.events_written)
    rig.recorder.record(finding(), POD, "Translate")
    await rig.api.until(lambda: rig.events_written()[0].get("series"))
    task.cancel()
    await asyncio.wait((task,))

    assert rig.events_written()[0]["series"]["count"] == 2
