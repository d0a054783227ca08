"""The memory of the event recorder does not depend on what users write."""

import gc
import os
from pathlib import Path
from typing import cast

from drawbridge.cluster.client import ResourceClient
from drawbridge.cluster.event_series import InvolvedObject, SeriesTable
from drawbridge.cluster.events import MAX_NOTE_BYTES, MAX_SERIES, EventRecorder
from drawbridge.cluster.resources import ApiObject
from drawbridge.finding import Finding, Severity

MIB = 1 << 20
# The API server limits all annotations of an object to this size, and a message may quote one.
LONG = 256 * 1024


def resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def record(recorder: EventRecorder, number: int) -> None:
    text = f"{number} {'x' * LONG}"
    finding = Finding(
        code="TemplateNotReproduced", severity=Severity.WARNING, message=text, remedy=""
    )
    recorder.record(finding, InvolvedObject("v1", "Pod", f"pod-{number}", "team"), "Ensure")


def test_distinct_messages_take_bounded_memory() -> None:
    recorder = EventRecorder(cast("ResourceClient[ApiObject]", None), "drawbridge.dev/test", "me")
    series: SeriesTable = vars(recorder)["_series"]
    for i in range(MAX_SERIES):
        record(recorder, i)
    before = resident()
    for i in range(MAX_SERIES, 3 * MAX_SERIES):
        record(recorder, i)
    assert len(series) == MAX_SERIES
    assert recorder.dropped == 2 * MAX_SERIES
    assert max(len(each.event["note"]) for each in series) <= MAX_NOTE_BYTES
    # The messages together have 512 MiB.
    assert sum(len(part) for each in series for part in each.key if isinstance(part, str)) < 8 * MIB
    assert resident() - before < 32 * MIB
