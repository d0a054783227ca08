"""Lets several who each have a list take turns, so that nobody with a long one hides the others."""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TypeVar

T = TypeVar("T")


def take_turns(lists: Iterable[Sequence[T]]) -> Iterator[T]:
    """Yield the first entry of each list, then the second ones, and so on."""
    placed = ((place, entry) for entries in lists for place, entry in enumerate(entries))
    return (entry for _, entry in sorted(placed, key=itemgetter(0)))
