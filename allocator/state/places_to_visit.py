"""Places of pods, in their order, and which of them are still to be visited.

Each is visited once after something has changed for all of them, or for it. To find the next one
takes no look at the others, however many there are.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final

from allocator.state.records import BEHIND_ALL, WaitingPlace

_BEFORE_ALL: Final = WaitingPlace(-(1 << 64), 0.0, "")


class PlacesToVisit:
    """The places, and how far the visits are."""

    def __init__(self) -> None:
        self.places: Final[list[WaitingPlace]] = []  # in order
        self._reached = BEHIND_ALL  # those behind it are to be visited
        self._before: list[WaitingPlace] = []  # and these, which are not behind it

    def __bool__(self) -> bool:
        """Whether a place is to be visited."""
        return bool(self._before or (self.places and self._reached < self.places[-1]))

    def move(self, before: WaitingPlace | None, after: WaitingPlace | None) -> None:
        """Have a pod at another place; `before` may be missing by now."""
        if before is not None:
            _discard(self.places, before)
            _discard(self._before, before)
        if after is not None:
            insort(self.places, after)

    def visit(self, place: WaitingPlace) -> None:
        """Have one of the places visited, also if that is so already."""
        if place <= self._reached:
            _discard(self._before, place)
            insort(self._before, place)

    def visit_all(self) -> None:
        """Have all places visited, from the first one on."""
        self._reached = _BEFORE_ALL
        self._before.clear()

    def take(self) -> WaitingPlace | None:
        """Return the first place that is to be visited, which it is then."""
        if self._before:
            return self._before.pop(0)
        place = self._first_behind(self._reached)
        self._reached = BEHIND_ALL if place is None else place
        return place

    def end(self) -> None:
        """Have no place visited any more, until something changes."""
        self._reached = BEHIND_ALL
        self._before.clear()

    def places_from_first(self) -> Iterator[WaitingPlace]:
        """Yield all places in order, whatever is to be visited; they can change meanwhile."""
        place = self._first_behind(_BEFORE_ALL)
        while place is not None:
            yield place
            place = self._first_behind(place)

    def _first_behind(self, reached: WaitingPlace) -> WaitingPlace | None:
        position = bisect_right(self.places, reached)
        return self.places[position] if position < len(self.places) else None


def _discard(places: list[WaitingPlace], place: WaitingPlace) -> None:
    position = bisect_left(places, place)
    if position < len(places) and places[position] == place:
        del places[position]
