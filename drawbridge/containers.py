"""How much the containers of a pod need at the same time."""

from collections.abc import Iterable


def most_at_once(amounts: Iterable[tuple[bool, int]]) -> int:
    """Return the most that containers need at the same time, from the amount of each.

    They come in the order in which they start, with whether they end before the next one starts, as
    init containers do that are no sidecars.
    """
    most = running = 0
    for ends, amount in amounts:
        if ends:
            most = max(most, running + amount)
        else:
            running += amount
    return max(most, running)
