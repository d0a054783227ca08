"""A call to bind a pod ends before the plugin gives it up, whatever it waits for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from allocator.writes.binding import CALL_SECONDS
from allocator.writes.undoing import CONCURRENT_WRITES
from drawbridge.api_error import ApiError
from tests.allocator.binding_rig import Rig
from tests.virtual_time import run_virtually

PLUGIN_SECONDS = 120  # bindTimeout in bridge/plugin/limits.go


def delay(rig: Rig, monkeypatch: pytest.MonkeyPatch, name: str, seconds: float) -> None:
    """Let each write of a kind take some seconds."""
    original: Callable[..., Awaitable[Any]] = getattr(rig.cluster, name)

    async def slow(*arguments: object) -> object:
        await asyncio.sleep(seconds)
        return await original(*arguments)

    monkeypatch.setattr(rig.cluster, name, slow)


async def timed(rig: Rig, pod: str) -> tuple[float, str]:
    """Bind a pod; return how long that takes, and why the pod is not bound."""
    began = asyncio.get_running_loop().time()
    message = await rig.bind(pod)
    return asyncio.get_running_loop().time() - began, message


def test_pods_that_wait_for_the_writes_of_others_are_told_in_time_and_bound_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        rig = Rig()
        delay(rig, monkeypatch, "set_consumers", 2.0)
        waiting, rounds = [f"pod-{number}" for number in range(150)], 0
        while waiting:
            for pod in waiting:
                rig.reservations.reserve(pod, "b")
            answers = await asyncio.gather(*(timed(rig, pod) for pod in waiting))
            assert max(seconds for seconds, _ in answers) < PLUGIN_SECONDS
            assert {message for _, message in answers if message} <= {
                "the binding took longer than 115 s; the pod is tried again"
            }
            waiting = [pod for pod, answer in zip(waiting, answers, strict=True) if answer[1]]
            await rig.recovery.run_turn()
            rounds += 1
        assert rounds > 1

    run_virtually(story)


def test_each_attempt_binds_some_pods_however_many_write_claims_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        rig = Rig()
        for name in ("mark", "allocate", "bind"):
            delay(rig, monkeypatch, name, 0.3 * CALL_SECONDS)
        numbers = range(2 * CONCURRENT_WRITES)
        for number in numbers:
            rig.cluster.add_claim(f"c-{number}")
            rig.reservations.reserve(f"pod-{number}", f"c-{number}", device=f"gpu-{number}")
        answers = await asyncio.gather(*(rig.bind(f"pod-{number}") for number in numbers))
        assert answers.count("") == CONCURRENT_WRITES

    run_virtually(story)


def test_what_a_call_has_written_that_took_too_long_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        rig = Rig()
        delay(rig, monkeypatch, "allocate", CALL_SECONDS)
        rig.reservations.reserve("pod", "a")
        assert await rig.bind()
        assert rig.claim("a").metadata.finalizers
        await rig.recovery.run_turn()
        assert not rig.claim("a").metadata.finalizers
        assert rig.reservations.find("uid-pod") is None

    run_virtually(story)


async def no_answer_in_time(*_: object) -> None:
    """Get no answer before the call ends."""
    await asyncio.sleep(CALL_SECONDS)


async def no_answer(*_: object) -> None:
    """Get no answer."""
    raise ApiError(0, "", "no answer", unknown=True)


@pytest.mark.parametrize("bind", [no_answer_in_time, no_answer])
def test_a_pod_whose_binding_got_no_answer_may_be_bound(
    bind: Callable[..., Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        rig = Rig()
        rig.cluster.put_pod("pod")
        monkeypatch.setattr(rig.cluster, "bind", bind)
        rig.reservations.reserve("pod", "a")
        assert await rig.bind()
        assert set(rig.reservations.bound) == {"uid-pod"}

    run_virtually(story)
