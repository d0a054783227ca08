"""How many writes of bindings are under way at once, and who waits for whom."""

import asyncio
from collections.abc import Awaitable, Callable

from allocator.writes.undoing import CONCURRENT_WRITES
from allocator.writes.write_slots import WriteSlots
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


class Writers:
    """Pods that write twice each, a second long, and in which order their writes begin."""

    def __init__(self) -> None:
        self.slots = WriteSlots()
        self.began: list[str] = []

    def start(self, namespace: str, pods: int) -> list["asyncio.Task[None]"]:
        """Let pods of a namespace come."""
        return [asyncio.create_task(self._write(namespace)) for _ in range(pods)]

    async def _write(self, namespace: str) -> None:
        slot = self.slots.queue(namespace)
        for write in ("first", "second"):
            async with slot():
                self.began.append(f"{namespace} {write}")
                await asyncio.sleep(1)


def test_pods_that_have_begun_end_before_others_begin() -> None:
    async def story() -> None:
        writers = Writers()
        await asyncio.gather(*writers.start("n", 2 * CONCURRENT_WRITES))
        some = CONCURRENT_WRITES
        assert writers.began == (["n first"] * some + ["n second"] * some) * 2

    run_virtually(story)


def test_the_namespace_that_writes_least_is_first() -> None:
    async def story() -> None:
        writers, loop = Writers(), asyncio.get_running_loop()
        before = [*writers.start("a", MANY), *writers.start("b", MANY)]
        await asyncio.sleep(0.5)
        await asyncio.gather(*writers.start("c", CONCURRENT_WRITES // 2))
        assert loop.time() <= 3.5
        await asyncio.gather(*before)

    run_virtually(story)


def test_a_pod_that_gives_up_takes_no_slot_from_others() -> None:
    async def story() -> None:
        writers = Writers()
        for _ in range(2):
            writing = writers.start("n", CONCURRENT_WRITES)
            waiting = writers.start("n", MANY)
            await asyncio.sleep(0.5)
            for pod in waiting:
                pod.cancel()
            await asyncio.gather(*writing)
            # Each is cancelled when it has been granted a slot and does not know it yet.
            granted = writers.start("n", CONCURRENT_WRITES)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for pod in granted:
                pod.cancel()
        writers.began.clear()
        await asyncio.gather(*writers.start("n", MANY))
        assert len(writers.began) == 2 * MANY

    run_virtually(story)
