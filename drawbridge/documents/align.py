"""Aligns the items of a list with the items of its changed version."""

from collections.abc import Sequence
from dataclasses import dataclass

from drawbridge.documents.values import Value, equal_json


@dataclass(frozen=True, slots=True)
class Alignment:
    """The new index of each old item or None, and the positions of the other new items.

    `added[i]` has the new items right before old item `i`; its last entry has those after all old
    items.
    """

    kept: tuple[int | None, ...]
    added: tuple[tuple[int, ...], ...]


def align_lists(old: Sequence[Value], new: Sequence[Value]) -> Alignment:
    """Pair equal items first, then items of equal name, then the others in order."""
    kept: list[int | None] = [None] * len(old)
    head = 0
    while head < min(len(old), len(new)) and equal_json(old[head], new[head]):
        kept[head] = head
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and equal_json(old[-1 - tail], new[-1 - tail]):
        kept[len(old) - 1 - tail] = len(new) - 1 - tail
        tail += 1
    _pair_similar(kept, old, new, range(head, len(new) - tail))
    _pair_remaining(kept, len(new))
    return Alignment(tuple(kept), _positions(kept, len(new)))


def _pair_similar(
    kept: list[int | None], old: Sequence[Value], new: Sequence[Value], middle: range
) -> None:
    at = middle.start
    end = len(old) - (len(new) - middle.stop)
    for number in middle:
        for candidate in range(at, end):
            if _is_similar(old[candidate], new[number]):
                kept[candidate] = number
                at = candidate + 1
                break


def _is_similar(old: Value, new: Value) -> bool:
    if isinstance(old, dict) and isinstance(new, dict) and "name" in old:
        return equal_json(old["name"], new.get("name"))
    return equal_json(old, new)


def _pair_remaining(kept: list[int | None], count: int) -> None:
    """Pair the items between two pairs in order; most likely they were changed in place."""
    free = iter(sorted(set(range(count)) - {number for number in kept if number is not None}))
    number = next(free, None)
    before = -1
    for position, partner in enumerate(kept):
        if partner is not None:
            before = partner
            continue
        following = next((n for n in kept[position:] if n is not None), count)
        while number is not None and number <= before:
            number = next(free, None)
        if number is not None and number < following:
            kept[position] = before = number
            number = next(free, None)


def _positions(kept: Sequence[int | None], count: int) -> tuple[tuple[int, ...], ...]:
    positions: list[tuple[int, ...]] = []
    at = 0
    for partner in kept:
        if partner is None:
            positions.append(())
        else:
            positions.append(tuple(range(at, partner)))
            at = partner + 1
    return (*positions, tuple(range(at, count)))
