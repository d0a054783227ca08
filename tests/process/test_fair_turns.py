"""Turns: keys take turns, and a key with many calls loses its last one."""

import asyncio

import pytest

from drawbridge.process.fair_turns import FairTurns

pytestmark = pytest.mark.asyncio


class Callers:
    """Calls that hold their turn until they may end, and the order in which they had it."""

    def __init__(self, max_waiting: int = 16) -> None:
        self.turns = FairTurns(max_waiting)
        self.order: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def call(self, *names: str) -> None:
        """Start calls. The key of a call is the part of its name before the digit."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._run(name))
            await asyncio.sleep(0)

    async def _run(self, name: str) -> None:
        async with self.turns.take(name[0]):
            self.order.append(name)
            await asyncio.sleep(0)

    async def finish(self) -> dict[str, str]:
        """Wait for all calls; return the errors by call."""
        results = await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        found = zip(self.tasks, results, strict=True)
        return {name: type(one).__name__ for name, one in found if one is not None}


async def hold(callers: Callers, *names: str) -> dict[str, str]:
    """Start calls while another call has the turn, then let all of them finish."""
    async with callers.turns.take("x"):
        await callers.call(*names)
    errors = await callers.finish()
    assert len(callers.turns) == 0
    return errors


async def test_a_key_with_one_call_waits_for_one_call_of_each_other_key() -> None:
    callers = Callers()
    assert await hold(callers, "a1", "a2", "a3", "b1", "c1") == {}
    assert callers.order == ["a1", "b1", "c1", "a2", "a3"]


async def test_a_key_that_comes_last_waits_for_all_others() -> None:
    callers = Callers()
    callers.turns = FairTurns(16, lambda key: key in {"a", "b"})
    assert await hold(callers, "a1", "b1", "b2", "c1", "c2", "d1") == {}
    assert callers.order == ["c1", "d1", "c2", "a1", "b1", "b2"]


@pytest.mark.parametrize(
    ("key", "waiting", "is_awaited"),
    [
        ("c", (), False),
        ("c", ("c1",), False),
        ("c", ("d1",), True),
        ("c", ("a1",), False),  # it comes last
        ("a", ("b1",), True),
        ("a", ("c1",), True),
    ],
)
async def test_a_turn_is_awaited_by_keys_that_come_before_it(
    key: str,
    waiting: tuple[str, ...],
    is_awaited: bool,  # noqa: FBT001  # a column
) -> None:
    callers = Callers()
    callers.turns = FairTurns(16, lambda key: key in {"a", "b"})
    async with callers.turns.take(key):
        await callers.call(*waiting)
        assert callers.turns.is_awaited(key) is is_awaited
    await callers.finish()


async def test_a_full_queue_makes_room_for_a_key_with_fewer_calls() -> None:
    callers = Callers(max_waiting=3)
    assert await hold(callers, "a1", "a2", "a3", "b1") == {"a3": "NoTurnError"}
    assert callers.order == ["a1", "b1", "a2"]


@pytest.mark.parametrize(
    ("names", "refused"),
    [(("a1", "a2", "a3", "a4"), "a4"), (("a1", "b1", "c1", "d1"), "d1")],
)
async def test_a_full_queue_refuses_a_call_that_would_take_the_place_of_an_equal(
    names: tuple[str, ...], refused: str
) -> None:
    callers = Callers(max_waiting=3)
    assert await hold(callers, *names) == {refused: "NoTurnError"}


async def test_a_cancelled_call_gives_up_its_place() -> None:
    callers = Callers(max_waiting=2)
    async with callers.turns.take("x"):
        await callers.call("a1", "b1")
        callers.tasks["a1"].cancel()
        await asyncio.sleep(0)
        await callers.call("c1")
    assert await callers.finish() == {"a1": "CancelledError"}
    assert callers.order == ["b1", "c1"]


async def test_a_call_that_is_cancelled_when_its_turn_comes_passes_it_on() -> None:
    callers = Callers()
    async with callers.turns.take("x"):
        await callers.call("a1", "b1")
    callers.tasks["a1"].cancel()  # granted, and not resumed yet
    assert await callers.finish() == {"a1": "CancelledError"}
    assert callers.order == ["b1"]
    async with callers.turns.take("x"):
        pass


async def test_an_exception_passes_the_turn_on() -> None:
    turns = FairTurns(1)
    with pytest.raises(LookupError):
        async with turns.take("a"):
            raise LookupError("lost")
    async with turns.take("b"):
        assert len(turns) == 0
