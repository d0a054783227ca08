"""How many writes of bindings are under way at once, and who waits for whom."""

import asyncio
from collections.abc import Awaitable, Callable

from allocator.writes.undoing import CONCURRENT_WRITES
from drawbridge.api_error import ApiError
from drawbridge.dra.claim import Claim
from tests.allocator.binding_rig import Rig
from tests.virtual_time import run_virtually

MANY = 3 * CONCURRENT_WRITES


def test_pods_that_wait_for_a_shared_claim_keep_no_others_from_their_writes() -> None:
    async def story() -> None:
        rig, loop = Rig(), asyncio.get_running_loop()
        original = rig.cluster._write  # noqa: SLF001  # each write passes it

        async def write(what: str, request: Callable[[], Awaitable[Claim]]) -> Claim:
            await asyncio.sleep(1)
            return await original(what, request)

        rig.cluster._write = write  # type: ignore[assignment,method-assign]  # noqa: SLF001
        for number in range(MANY):
            rig.reservations.reserve(f"pod-{number}", "b")
        rig.reservations.reserve("other", "a")
        sharing = [asyncio.create_task(rig.bind(f"pod-{number}")) for number in range(MANY)]
        await asyncio.sleep(0.1)
        began = loop.time()
        assert not await rig.bind("other")
        assert loop.time() - began < 5
        assert not any(await asyncio.gather(*sharing))

    run_virtually(story)


def test_writes_of_a_namespace_that_get_no_response_leave_room_for_others() -> None:
    async def story() -> None:
        rig, running, most = Rig(), 0, 0

        async def mark(*_: object) -> Claim:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(5)
            running -= 1
            raise ApiError(0, "", "no response", unknown=True)

        rig.cluster.mark = mark  # type: ignore[assignment,method-assign]
        for number in range(MANY):
            rig.cluster.add_claim(f"c-{number}")
            rig.reservations.reserve(f"pod-{number}", f"c-{number}", device=f"gpu-{number}")
        await asyncio.gather(*(rig.bind(f"pod-{number}") for number in range(MANY)))
        assert most == CONCURRENT_WRITES < MANY  # of twice as many of all namespaces

    run_virtually(story)
