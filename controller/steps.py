"""Goes over objects of which tenants or drivers decide how many there are."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

T = TypeVar("T")
STEP: Final = 100


async def iterate_in_steps(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield all items; other tasks run after each step."""
    for number, item in enumerate(items, 1):
        yield item
        if number % STEP == 0:
            await asyncio.sleep(0)
