"""A PodGroup of Coscheduling that changes while its members wait."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from allocator.decisions.group_devices import UNREAD_SECONDS
from allocator.decisions.waiting import WaitingPods
from allocator.process import _Parts
from allocator.state.caches import AllocatorCaches
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject
from drawbridge.pod_groups import COSCHEDULING_LABEL
from tests.allocator.clusters import Cluster, allocation_on, claim, codes
from tests.cluster.fake.api import FakeApi

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


@pytest.mark.parametrize("members", [("m0",), ("m0", "m1")])
def test_a_group_asks_once_for_victims_when_fewer_of_its_members_must_run(
    members: tuple[str, ...],
) -> None:
    """There were too few members before, or too few victims."""
    minimums = {("default", "g"): 2}
    cluster = Cluster(n1=1, min_members=minimums)
    waiting = WaitingPods(cluster.decisions)
    cluster.add_claim(claim("c-low", allocation=allocation_on("n1", 0), pods=["low"]))
    may_evict = cluster.ask_group(KEY, *members, priority=9).group_preemptible
    assert may_evict is (len(members) == 2)
    for uid in members:
        waiting.note_answer(uid, [], 0.0)
        if may_evict:
            waiting.note_preemption(uid, refused=True)
    assert waiting.wake(2.0).woken == ()
    minimums["default", "g"] = 1
    waiting.note_minimum(KEY)
    assert waiting.wake(4.0).unfinished
    assert waiting.wake(4.1).woken == ("m0",)
    assert cluster.ask_group(KEY, *members, priority=9).group_preemptible
    waiting.note_answer("m0", [], 4.2)
    # The state is another one, in which nothing is free either.
    cluster.add_claim(claim("c", allocation=allocation_on("elsewhere", 0), pods=["x"]))
    assert [waiting.wake(at).woken for at in (60.0, 60.1)] == [(), ()]


def test_a_group_that_the_scheduler_describes_anew_is_not_refused_as_before() -> None:
    cluster, key = Cluster(n1=2), "default/g"
    for _ in range(2):
        assert codes(cluster.ask_group(key, "m0", "m1", min_count=3)) == ["GangIncomplete"]
    assert cluster.ask_group(key, "m0", "m1", min_count=2).fit


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


def test_only_a_group_of_an_unread_object_waits_until_that_is_known() -> None:
    why, minimums = ["500: the conversion webhook is away"], dict[tuple[str, str], int]()
    cluster = Cluster(n1=8, min_members=minimums, unread_groups=lambda: why[0])
    waiting = WaitingPods(cluster.decisions)
    others = (("b", "default/g", 0), ("c", KEY.replace("=g", "=h"), 2))
    for prefix, key, says in others:
        assert cluster.ask_group(key, f"{prefix}0", f"{prefix}1", min_count=says).fit
    reply = cluster.ask_group(KEY, "m0", "m1")
    assert (codes(reply), reply.complete) == (["GangMinimumUnknown"], True)
    assert why[0] in reply.message
    for uid in ("m0", "m1"):
        waiting.note_answer(uid, [], 0.0)
    assert waiting.wake(2.0).woken == ()
    why[0], minimums["default", "g"] = "", 2
    # Nothing else tells of it.
    assert set(waiting.wake(2.1 + UNREAD_SECONDS).woken) == {"m0", "m1"}
    assert cluster.ask_group(KEY, "m0", "m1").fit


@pytest.mark.asyncio
@pytest.mark.parametrize(("code", "waits"), [(429, True), (500, True), (503, True), (403, False)])
async def test_groups_that_cannot_be_read_stop_only_their_members(
    tmp_path: Path, code: int, *, waits: bool
) -> None:
    """Before that, a gang could get devices for those of its members that exist."""
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        assert AllocatorCaches(session, "drawbridge-system").find_unread_groups() == ""
        caches = AllocatorCaches(session, "drawbridge-system", groups=True)
        before = caches.find_missing()
        groups = caches._groups  # noqa: SLF001
        assert groups is not None
        assert groups not in caches.required
        api.fail(code, part="podgroups", times=99)
        running = asyncio.ensure_future(groups.run())
        await api.until(lambda: groups.problem != "not listed yet")
        assert caches.find_missing() == before
        assert caches.find_unread_groups() == (groups.problem if waits else "")
        running.cancel()
        await asyncio.wait((running,))
