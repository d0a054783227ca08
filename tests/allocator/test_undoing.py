"""What cannot be undone delays nothing else: neither a term nor what is undone beside it."""

import asyncio
import itertools
from collections.abc import Collection

import pytest
from msgspec.structs import replace

from allocator.writes.cluster_writes import FINALIZER
from allocator.writes.recovery import ABANDONED_SECONDS, CHARACTERS_AT_ONCE
from allocator.writes.undoing import (
    CONCURRENT_OF_NAMESPACE,
    MAX_PER_TURN,
    Undoing,
    Unfinished,
)
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.dra.claim import Claim
from drawbridge.names import ALLOCATION_ANNOTATION
from tests.allocator.binding_rig import Rig
from tests.virtual_time import run_virtually

MARK = '{"allocator":"drawbridge"}'


def _refuse(rig: Rig, names: Collection[str], seconds: float = 0.0) -> None:
    """Let a webhook refuse the removal of marks from claims, after some seconds."""
    original = rig.cluster.unmark

    async def unmark(claim: Claim) -> Claim:
        if claim.metadata.name in names:
            await asyncio.sleep(seconds)
            raise ApiError(500, "InternalError", "failed calling webhook", unknown=False)
        return await original(claim)

    rig.cluster.unmark = unmark  # type: ignore[method-assign]  # the webhook


def test_a_term_starts_beside_a_mark_that_cannot_be_removed() -> None:
    async def story() -> None:
        rig = Rig()
        for name in ("a", "b"):
            await rig.cluster.mark(rig.claim(name), MARK)
        _refuse(rig, {"a"})
        await rig.recovery.begin_term()
        assert rig.reservations.held == ["a", "b"]
        assert rig.claim("a").metadata.annotations == {ALLOCATION_ANNOTATION: MARK}
        assert rig.claim("a").metadata.finalizers == (FINALIZER,)
        assert rig.cluster.is_clean("b")
        assert rig.binder.undoing.failing == 1

    run_virtually(story)


@pytest.mark.parametrize(
    ("happens", "attempts", "is_clean"),
    [
        ("it changes", 2, True),
        ("its mark is removed", 1, True),
        ("it is deleted", 1, None),
        ("another claim has its name and a mark", 1, False),
    ],
)
def test_the_mark_of_a_claim_that_changes_meanwhile_is_removed_at_once(
    happens: str, attempts: int, *, is_clean: bool | None
) -> None:
    async def story() -> None:
        rig = Rig()
        await rig.cluster.mark(rig.claim("a"), MARK)
        original, sent = rig.cluster.unmark, list[str]()

        async def unmark(claim: Claim) -> Claim:
            sent.append(claim.metadata.uid)
            if len(sent) == 1:
                _change_otherwise(rig, rig.claim("a"), happens)
            return await original(claim)

        rig.cluster.unmark = unmark  # type: ignore[method-assign]  # a moment before it
        await rig.recovery.begin_term()
        assert sent == ["uid-a"] * attempts
        assert rig.binder.undoing.failing == 0
        assert is_clean is None or rig.cluster.is_clean("a") is is_clean

    run_virtually(story)


def _change_otherwise(rig: Rig, claim: Claim, happens: str) -> None:
    metadata = claim.metadata
    without = replace(metadata, annotations={}, finalizers=())
    match happens:
        case "its mark is removed":
            rig.cluster.put(replace(claim, metadata=without))
        case "it changes":
            rig.cluster.put(claim)
        case _:
            rig.cluster.put(replace(claim, metadata=without))
            rig.cluster.server.remove("resourceclaims", "a", "n")
            if happens != "it is deleted":
                rig.cluster.put(replace(claim, metadata=replace(metadata, uid="uid-other")))


def test_what_is_reserved_and_to_be_undone_goes_with_the_term() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.cluster.mark(rig.claim("a"), MARK)
        _refuse(rig, {"a"})
        await rig.recovery.begin_term()
        rig.reservations.reserve("pod", "b")
        assert rig.binder.undoing.failing == 1
        rig.recovery.end_term()
        assert rig.binder.undoing.failing == 0
        assert not rig.reservations.pods
        # The mark is for the next leader.
        assert rig.claim("a").metadata.annotations == {ALLOCATION_ANNOTATION: MARK}

    run_virtually(story)


def test_others_run_while_large_marks_are_read_at_the_start_of_a_term() -> None:
    async def story() -> None:
        rig = Rig()
        mark = f"{MARK}{' ' * (CHARACTERS_AT_ONCE // 4)}"
        names = [f"c{number}" for number in range(40)]
        for name in names:
            await rig.cluster.mark(rig.cluster.add_claim(name), mark)
        term = asyncio.ensure_future(rig.recovery.begin_term())
        held = [0]
        while not term.done():
            await asyncio.sleep(0)
            held.append(len(rig.reservations.held))
        assert sorted(rig.reservations.held) == sorted(names)
        assert max(after - before for before, after in itertools.pairwise(held)) <= 4

    run_virtually(story)


def test_a_mark_that_cannot_be_removed_is_tried_again_later_and_reported_each_hour() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.cluster.mark(rig.claim("a"), MARK)
        _refuse(rig, {"a"})
        await rig.recovery.begin_term()
        attempts, unmark = [0.0], rig.cluster.unmark
        began = asyncio.get_running_loop().time()

        async def count(claim: Claim) -> Claim:
            attempts.append(asyncio.get_running_loop().time() - began)
            return await unmark(claim)

        rig.cluster.unmark = count  # type: ignore[method-assign]  # counts
        for _ in range(6000):
            await rig.recovery.run_turn()
            await asyncio.sleep(1)
        pauses = [after - before for before, after in itertools.pairwise(attempts)]
        assert pauses == [5, 10, 20, 40, 80, 160, *[300] * 18]
        problem = "cannot remove the mark: 500 InternalError: failed calling webhook"
        assert rig.reported == [f"MarkNotRemoved a: {problem}"] * 2

    run_virtually(story)


def test_marks_that_are_not_answered_delay_neither_the_term_nor_those_of_other_namespaces() -> None:
    async def story() -> None:
        rig = Rig()
        names = [f"c{number}" for number in range(100)]
        for name in names:
            await rig.cluster.mark(rig.cluster.add_claim(name, "hostile"), MARK)
        await rig.cluster.mark(rig.claim("a"), MARK)
        _refuse(rig, names, seconds=30.0)
        began = asyncio.get_running_loop().time()
        await rig.recovery.begin_term()
        assert asyncio.get_running_loop().time() - began <= 1.0
        assert rig.cluster.is_clean("a")

    run_virtually(story)


def test_a_failed_binding_that_cannot_be_undone_delays_no_other_one() -> None:
    async def story() -> None:
        rig = Rig()
        refused = {"a", "b"}
        _refuse(rig, refused)
        for pod, name in (("first", "a"), ("second", "b")):
            rig.reservations.reserve(pod, name)
            rig.cluster.faults[len(rig.cluster.writes) + 2] = "refuse"
            assert await rig.bind(pod) == "403 Forbidden: forbidden"
        assert rig.reservations.ended == []
        refused.discard("b")
        await rig.recovery.run_turn()
        assert rig.reservations.ended == [("uid-second", False)]
        assert rig.cluster.is_clean("b")
        for _ in range(30):
            await rig.recovery.run_turn()
            await asyncio.sleep(1)
        assert rig.binder.undoing.failing == 1
        (reported,) = rig.reported
        assert reported.startswith("WriteNotUndone a: the devices for pod n/first stay reserved: 5")
        refused.clear()
        await asyncio.sleep(60)
        await rig.recovery.run_turn()
        assert rig.reservations.ended == [("uid-second", False), ("uid-first", False)]
        assert rig.binder.undoing.failing == 0

    run_virtually(story)


def test_a_mark_that_nobody_continues_is_removed_after_a_while() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.cluster.mark(rig.claim("a"), "{}")
        await rig.cluster.mark(rig.claim("b"), "{}")
        rig.reservations.reserve("pod", "b")
        for pause in (29.9, 0.1):
            await rig.recovery.run_turn()
            assert not rig.cluster.is_clean("a")
            await asyncio.sleep(pause)
        await rig.recovery.run_turn()
        assert rig.cluster.is_clean("a")
        assert not rig.cluster.is_clean("b")

    run_virtually(story)


def test_one_run_removes_a_bounded_number_of_marks() -> None:
    async def story() -> None:
        rig = Rig()
        for number in range(MAX_PER_TURN + 1):
            await rig.cluster.mark(rig.cluster.add_claim(f"c{number}"), "{}")
        await rig.recovery.run_turn()
        await asyncio.sleep(31)
        before = len(rig.cluster.writes)
        await rig.recovery.run_turn()
        assert len(rig.cluster.writes) - before == MAX_PER_TURN
        await rig.recovery.run_turn()
        assert len(rig.cluster.writes) - before == MAX_PER_TURN + 1

    run_virtually(story)


def test_a_turn_ends_when_what_waited_is_written_again() -> None:
    async def story() -> None:
        undoing, answered = Undoing(), asyncio.Event()

        async def undo(_: object) -> None:
            await answered.wait()
            raise NotLeadingError("another scheduler leads")

        keys = [f"pod-{number:02}" for number in range(CONCURRENT_OF_NAMESPACE + 1)]
        for key in keys:
            undoing.add(key, Unfinished("ml", key, undo, lambda *_: None))
        turn = asyncio.ensure_future(undoing.run_turn())
        await asyncio.sleep(0)
        undoing.discard(keys[-1])
        answered.set()
        await turn
        assert list(undoing._attempts) == keys[:-1]  # noqa: SLF001

    run_virtually(story)


def test_a_claim_that_no_watch_shows_is_read_and_forgotten_if_it_is_gone() -> None:
    async def story() -> None:
        rig = Rig()
        gone, there = rig.claim("a"), rig.claim("b")
        rig.reservations.unwatched = [gone, there]
        rig.cluster.server.remove("resourceclaims", "a", "n")
        rig.cluster.add_claim("a")  # another claim has its name
        rig.cluster.put(replace(rig.claim("a"), metadata=replace(gone.metadata, uid="other")))
        rig.reservations.unwatched.append(late := rig.cluster.add_claim("late"))
        await rig.recovery.run_turn()
        assert rig.reservations.observed == []
        rig.reservations.shown.append(late.metadata.uid)
        await asyncio.sleep(ABANDONED_SECONDS)
        await rig.recovery.run_turn()
        observed = {each.metadata.uid for each in rig.reservations.observed}
        assert observed == {"other", "uid-b"}
        assert rig.reservations.forgotten == ["uid-a"]
        rig.cluster.server.remove("resourceclaims", "b", "n")
        await rig.recovery.run_turn()
        rig.cluster.is_down = True
        await asyncio.sleep(ABANDONED_SECONDS)
        await rig.recovery.run_turn()
        assert rig.reservations.forgotten == ["uid-a"]
        rig.cluster.is_down = False
        await asyncio.sleep(10)
        await rig.recovery.run_turn()
        assert rig.reservations.forgotten == ["uid-a", "uid-b"]

    run_virtually(story)


def test_a_claim_of_which_only_a_scheduler_has_told_another_version_is_read() -> None:
    async def story() -> None:
        rig = Rig()
        rig.claim("a"), rig.claim("b")
        rig.reservations.told = ["uid-a", "uid-b"]
        await rig.recovery.run_turn()
        rig.reservations.told = ["uid-a"]
        await asyncio.sleep(ABANDONED_SECONDS)
        await rig.recovery.run_turn()
        assert [each.metadata.uid for each in rig.reservations.observed] == ["uid-a"]
        assert rig.reservations.doubted == ["uid-a"]
        assert rig.reservations.forgotten == []

    run_virtually(story)


def test_a_claim_of_which_only_a_scheduler_has_told_is_read_without_the_lead() -> None:
    async def story() -> None:
        rig = Rig()
        rig.cluster.add_claim("a")
        rig.reservations.told = ["uid-a"]
        rig.reservations.ready = False
        await rig.recovery.read_told()
        await asyncio.sleep(ABANDONED_SECONDS)
        rig.reservations.ready = True
        await rig.recovery.read_told()
        assert rig.reservations.observed == [], "the watch can tell of it first"
        rig.cluster.is_down = True
        await asyncio.sleep(ABANDONED_SECONDS)
        await rig.recovery.read_told()
        rig.cluster.is_down = False
        await asyncio.sleep(10)
        await rig.recovery.read_told()
        assert [each.metadata.uid for each in rig.reservations.observed] == ["uid-a"]
        assert rig.reservations.doubted == ["uid-a"]
        assert rig.cluster.writes == []

    run_virtually(story)
