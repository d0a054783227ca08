"""Turns: keys take turns, and a key with many calls loses its last one."""

import asyncio

import pytest

from drawbridge.process.fair_turns import FairTurns, TurnKey

pytestmark = pytest.mark.asyncio


def make_key(name: str) -> TurnKey:
    """Return the key of a call, a lower-case letter; an upper-case one before it is the group."""
    return TurnKey(name[1], name[0]) if name[0].isupper() else TurnKey(name[0])


class Callers:
    """Calls that hold their turn until they may end, and the order in which they had it."""

    def __init__(self, max_waiting: int = 16) -> None:
        self.now = 0.0
        self.seconds: dict[str, float] = {}  # that a turn takes, by key
        self.turns = FairTurns(max_waiting, lambda: self.now)
        self.order: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def call(self, *names: str) -> None:
        """Start calls; `make_key` reads their keys from their names."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._run(name))
            await asyncio.sleep(0)

    async def _run(self, name: str) -> None:
        async with self.turns.take(make_key(name)):
            self.order.append(name)
            await asyncio.sleep(0)
            self.now += self.seconds.get(name[:-1], 0.0)

    async def finish(self) -> dict[str, str]:
        """Wait for all calls; return the errors by call."""
        results = await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        ended = zip(self.tasks, results, strict=True)
        return {name: type(one).__name__ for name, one in ended if one is not None}


async def hold(callers: Callers, *names: str) -> dict[str, str]:
    """Start calls while another call has the turn, then let all of them finish."""
    async with callers.turns.take(TurnKey("x")):
        await callers.call(*names)
    errors = await callers.finish()
    assert len(callers.turns) == 0
    return errors


async def test_a_key_with_one_call_waits_for_one_call_of_each_other_key() -> None:
    callers = Callers()
    assert await hold(callers, "a1", "a2", "a3", "b1", "c1") == {}
    assert callers.order == ["a1", "b1", "c1", "a2", "a3"]


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (("Pa1", "Pb1", "Pc1", "Qa1"), ["Pa1", "Qa1", "Pb1", "Pc1"]),
        (("Pa1", "Pa2", "Pb1", "Qa1", "Qa2"), ["Pa1", "Qa1", "Pb1", "Qa2", "Pa2"]),
    ],
)
async def test_groups_take_turns_however_many_keys_they_have(
    names: tuple[str, ...], order: list[str]
) -> None:
    callers = Callers()
    assert await hold(callers, *names) == {}
    assert callers.order == order


@pytest.mark.parametrize(
    ("names", "refused"),
    [
        pytest.param(("Pa1", "Pb1", "Pc1", "Qa1"), "Pc1", id="a group with many keys loses one"),
        pytest.param(("Pa1", "Pb1", "Qa1", "Qb1"), "Qb1", id="not to a group with as many"),
        pytest.param(("Pa1", "Qa1", "Qb1", "Qc1"), "Qc1", id="the group with most refuses its own"),
        pytest.param(("Qa1", "Qa2", "Qa3", "Qb1"), "Qa3", id="unless a key of it has many"),
        pytest.param(
            ("Pa1", "Pb1", "Pc1", "Pd1", "Qa1", "Qa2", "Qa3"), "Qa3", id="nor to a key with many"
        ),
        pytest.param(
            ("Qa1", "Qa2", "Qa3", "Pa1", "Pb1", "Pc1", "Pd1"), "Qa3", id="which loses one itself"
        ),
    ],
)
async def test_a_full_queue_makes_room_for_a_key_and_group_with_fewer_calls(
    names: tuple[str, ...], refused: str
) -> None:
    callers = Callers(max_waiting=len(names) - 1)
    assert await hold(callers, *names) == {refused: "NoTurnError"}


async def test_long_turns_in_many_keys_delay_a_key_with_short_ones_by_one_of_them() -> None:
    callers = Callers(max_waiting=64)
    callers.seconds = dict.fromkeys("abcdefgh", 2.0)
    async with callers.turns.take(TurnKey("x")):
        await callers.call(*(f"{key}{number}" for number in range(3) for key in "abcdefgh"))
    for _ in range(1000):
        if len(callers.order) > 8:  # each has had a turn
            break
        await asyncio.sleep(0)
    began = len(callers.order)
    await callers.call("z1")
    assert await callers.finish() == {}
    assert callers.order.index("z1") <= began + 1


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
    async with callers.turns.take(TurnKey("x")):
        await callers.call("a1", "b1")
        callers.tasks["a1"].cancel()
        await asyncio.sleep(0)
        await callers.call("c1")
    assert await callers.finish() == {"a1": "CancelledError"}
    assert callers.order == ["b1", "c1"]


async def test_a_call_that_is_cancelled_when_its_turn_comes_passes_it_on() -> None:
    callers = Callers()
    async with callers.turns.take(TurnKey("x")):
        await callers.call("a1", "b1")
    callers.tasks["a1"].cancel()  # granted, and not resumed yet
    assert await callers.finish() == {"a1": "CancelledError"}
    assert callers.order == ["b1"]
    async with callers.turns.take(TurnKey("x")):
        pass


async def test_a_call_that_is_cancelled_when_it_is_refused_passes_no_turn_on() -> None:
    callers = Callers(max_waiting=2)
    async with callers.turns.take(TurnKey("x")):
        await callers.call("a1", "a2")
        await callers.call("b1")
        callers.tasks["a2"].cancel()  # refused, and not resumed yet
        await asyncio.wait([callers.tasks["a2"]])
        assert (len(callers.turns), callers.order) == (2, [])
    assert await callers.finish() == {"a2": "CancelledError"}


async def test_a_call_is_not_refused_when_it_has_just_been_cancelled() -> None:
    callers = Callers(max_waiting=2)
    async with callers.turns.take(TurnKey("x")):
        await callers.call("a1", "a2")
        asyncio.get_running_loop().call_soon(callers.tasks["a2"].cancel)
        await callers.call("b1")  # before "a2" resumes
    assert await callers.finish() == {"a2": "CancelledError"}
    assert callers.order == ["a1", "b1"]


async def test_an_exception_passes_the_turn_on() -> None:
    turns = FairTurns(1)
    with pytest.raises(LookupError):
        async with turns.take(TurnKey("a")):
            raise LookupError("lost")
    async with turns.take(TurnKey("b")):
        assert len(turns) == 0
