"""Events of a namespace whose writes get no response, and those of others."""

import asyncio
from typing import Any, cast

import pytest

from drawbridge.cluster.errors import UnreachableError
from drawbridge.cluster.event_series import InvolvedObject
from drawbridge.cluster.events import EventRecorder
from drawbridge.finding import Finding, Severity
from tests.virtual_time import run_virtually

FINDING = Finding(code="NoDeviceMatches", severity=Severity.WARNING, message="nothing", remedy="")
MANY = 20


class Events:
    """Events of which some get no response, and when the others are written."""

    def __init__(self) -> None:
        self.written: list[float] = []

    async def create(self, event: dict[str, Any]) -> None:
        """Create an event, or wait as long as the time limit of a request."""
        if event["metadata"]["namespace"].startswith("slow"):
            await asyncio.sleep(10)
            raise UnreachableError("no response")
        if event["metadata"]["namespace"] == "bug":
            raise ZeroDivisionError
        self.written.append(asyncio.get_running_loop().time())


def record(recorder: EventRecorder, namespace: str, number: int) -> None:
    """Record a finding about a pod."""
    involved = InvolvedObject("v1", "Pod", f"p{number}", namespace, f"u{number}")
    recorder.record(FINDING, involved, "Translate")


def test_a_namespace_whose_writes_get_no_response_delays_no_other() -> None:
    async def story() -> None:
        events, loop = Events(), asyncio.get_running_loop()
        recorder = EventRecorder(cast("Any", events), "reporter", "one", now=loop.time)
        running = asyncio.create_task(recorder.run())
        for number in range(MANY):
            for namespace in ("slow-1", "slow-2", "team"):
                record(recorder, namespace, number)
        await asyncio.sleep(60)
        assert len(events.written) == MANY
        assert events.written[0] < 1
        running.cancel()

    run_virtually(story)


@pytest.mark.parametrize("before", [(), ("slow",)])
def test_a_bug_in_a_write_ends_the_writer(before: tuple[str, ...]) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        recorder = EventRecorder(cast("Any", Events()), "reporter", "one", now=loop.time)
        for namespace in (*before, "bug"):
            record(recorder, namespace, 1)
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(recorder.run(), 60)

    run_virtually(story)
