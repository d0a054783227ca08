"""Which items of a list are which items of the list it became.

Knows nothing of text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from documents.values import Value, equal_json


@dataclass(frozen=True, slots=True)
class Alignment:
    """For every old item the new one it became or None; for every other new item, where it goes.

    `added` has the new items that stand right before the old item of the same place; the last
    entry has those behind all old ones.
    """

    kept: tuple[int | None, ...]
    added: tuple[tuple[int, ...], ...]


def align_lists(old: Sequence[Value], new: Sequence[Value]) -> Alignment:
    """Pair equal items in order, then those of the same name, then the rest as they come."""
    kept: list[int | None] = [None] * len(old)
    head = 0
    while head < min(len(old), len(new)) and equal_json(old[head], new[head]):
        kept[head] = head
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and equal_json(old[-1 - tail], new[-1 - tail]):
        kept[len(old) - 1 - tail] = len(new) - 1 - tail
        tail += 1
    _pair_alike(kept, old, new, range(head, len(new) - tail))
    _pair_rest(kept, len(new))
    return Alignment(tuple(kept), _places(kept, len(new)))


def _pair_alike(
    kept: list[int | None], old: Sequence[Value], new: Sequence[Value], middle: range
) -> None:
    at = middle.start
    end = len(old) - (len(new) - middle.stop)
    for number in middle:
        for candidate in range(at, end):
            if _alike(old[candidate], new[number]):
                kept[candidate] = number
                at = candidate + 1
                break


def _alike(old: Value, new: Value) -> bool:
    if isinstance(old, dict) and isinstance(new, dict) and "name" in old:
        return equal_json(old["name"], new.get("name"))
    return equal_json(old, new)


def _pair_rest(kept: list[int | None], count: int) -> None:
    """Pair what is left between two pairs in order: most likely it was changed in place."""
    free = iter(sorted(set(range(count)) - {number for number in kept if number is not None}))
    number = next(free, None)
    before = -1
    for place, partner in enumerate(kept):
        if partner is not None:
            before = partner
            continue
        following = next((n for n in kept[place:] if n is not None), count)
        while number is not None and number <= before:
            number = next(free, None)
        if number is not None and number < following:
            kept[place] = before = number
            number = next(free, None)


def _places(kept: Sequence[int | None], count: int) -> tuple[tuple[int, ...], ...]:
    places: list[tuple[int, ...]] = []
    at = 0
    for partner in kept:
        if partner is None:
            places.append(())
        else:
            places.append(tuple(range(at, partner)))
            at = partner + 1
    return (*places, tuple(range(at, count)))
