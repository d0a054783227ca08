"""A PodGroup of Coscheduling that changes while its members wait."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from allocator.decisions.waiting import WaitingPods
from allocator.process import _Parts
from drawbridge.cluster.store import CachedObject
from drawbridge.pod_groups import COSCHEDULING_LABEL
from tests.allocator.clusters import Cluster

KEY = f"default/{COSCHEDULING_LABEL}=g"


@pytest.mark.parametrize(("minimum", "woken"), [(3, ()), (2, ("m0", "m1")), (0, ("m0", "m1"))])
def test_members_are_woken_when_fewer_of_them_must_run(
    minimum: int, woken: tuple[str, ...]
) -> None:
    minimums = {("default", "g"): 4}
    cluster = Cluster(n1=2, min_members=minimums)
    waiting = WaitingPods(cluster.decisions)
    assert not cluster.ask_group(KEY, "m0", "m1").fit
    for uid in ("m0", "m1"):
        waiting.note_answer(uid, [], 0.0)
    assert waiting.wake(2.0).woken == ()
    minimums["default", "g"] = minimum
    assert waiting.wake(4.0).woken == ()
    waiting.note_minimum(KEY)
    assert waiting.wake(6.0).woken == woken


def test_a_group_that_was_not_refused_is_not_tried_again() -> None:
    cluster = Cluster(n1=2)
    assert not cluster.decisions.groups.forget_refusal(KEY)


def stored(minimum: int) -> CachedObject[int]:
    return CachedObject("default", "g", "uid", "1", b"", minimum)


@pytest.mark.parametrize(
    ("before", "after", "tried"),
    [
        (None, stored(3), [KEY]),
        (stored(3), stored(2), [KEY]),
        (stored(3), None, [KEY]),
        (stored(3), stored(3), []),
        (None, stored(0), []),
    ],
)
def test_a_group_is_tried_again_when_its_minimum_changes(
    before: CachedObject[int] | None, after: CachedObject[int] | None, tried: list[str]
) -> None:
    noted: list[str] = []
    waiting = SimpleNamespace(note_minimum=noted.append)
    parts: Any = SimpleNamespace(
        state=SimpleNamespace(ready=True, waiting=waiting), changed=asyncio.Event()
    )
    _Parts._follow_group(parts, before, after)  # noqa: SLF001
    assert noted == tried
    assert parts.changed.is_set() is bool(tried)
