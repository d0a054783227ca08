"""The bound of the bench on fragmentation, compared with all packings of a few tasks."""

from collections.abc import Sequence
from functools import cache
from random import Random

from bench._packing_bound import most_placeable
from drawbridge.choice.amounts import WHOLE, Task
from tests.tables import every_row
from tests.thorough import drawn

_SHARES = (1000, 810, 650, 590, 500, 470, 340, 330, 320, 230, 160, 50)


def _most(shares: Sequence[int], devices: int) -> int:
    """Return the most that fits, by trying every device for every task."""

    @cache
    def place(number: int, left: tuple[int, ...]) -> int:
        if number == len(shares):
            return 0
        share, best = shares[number], place(number + 1, left)
        for device, free in enumerate(left):
            if free >= share:
                after = sorted((*left[:device], free - share, *left[device + 1 :]))
                best = max(best, share + place(number + 1, tuple(after)))
        return best

    return place(0, (WHOLE,) * devices)


@every_row("seed", range(drawn(40, 2_000)))
def test_no_packing_is_above_the_bound(seed: int) -> None:
    random = Random(seed)
    devices = random.randint(1, 3)
    shares = random.choices(_SHARES, k=random.randint(1, 7))
    bound = most_placeable((Task(1, share, 0, 0) for share in shares), devices)
    assert _most(shares, devices) <= bound <= WHOLE * devices
