"""Work of several steps: each key has one turn, whatever happens to others."""

import asyncio
from collections.abc import Sequence

from allocator.state.turns import KeyTurns


def test_a_bug_for_some_keys_keeps_no_others_from_their_turn() -> None:
    turns: list[Sequence[int]] = []

    def step(keys: Sequence[int]) -> None:
        turns.append(keys)
        if keys == (2, 3):
            raise ValueError(keys)

    async def run() -> list[object]:
        errors: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        keys = KeyTurns(step, 2)
        keys.add(range(5))
        for _ in range(9):
            await asyncio.sleep(0)
        return errors

    (error,) = asyncio.run(run())
    assert isinstance(error, ValueError)
    assert turns == [(0, 1), (2, 3), (4,)]
