"""How much of what arrives can be placed at most, whatever the order and the rule.

A dual feasible function gives each part of a device a price such that parts which fit into one
device together cost at most 1. So what is placed costs at most as much as there are devices, and
what is most for its price comes first. Each such function gives a bound; CPU, memory and models
are ignored, so that the true limit is lower.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement
from typing import TypeAlias

from drawbridge.choice.amounts import WHOLE, Task

Prices: TypeAlias = dict[int, Fraction]


def most_placeable(arrived: Iterable[Task], devices: int) -> int:
    """Return a bound of the thousandths that can be allocated."""
    parts: Counter[int] = Counter()
    for task in arrived:
        parts[task.share] += task.devices
    del parts[0]
    prices = list(_families(parts))
    return min(
        _most(parts, {share: (a[share] + b[share]) / 2 for share in parts}, devices)
        for a, b in combinations_with_replacement(prices, 2)
    )


def _families(parts: Iterable[int]) -> Iterator[Prices]:
    shares = [*parts]
    for limit in sorted({0, *(each for each in shares if 2 * each <= WHOLE)}):
        yield _priced(shares, partial(_round_large, limit=limit))
        yield _priced(shares, partial(_round_large, limit=min(limit + 1, WHOLE // 2)))
    for steps in range(1, 21):
        yield _priced(shares, partial(_in_steps, steps=steps))


def _priced(shares: Iterable[int], price: Callable[[int], Fraction]) -> Prices:
    return {share: price(share) for share in shares}


def _round_large(share: int, limit: int) -> Fraction:
    """A part that leaves less than the limit fills a device; parts below the limit are free.

    The limit is at most half of a device.
    """
    if share > WHOLE - limit:
        return Fraction(1)
    return Fraction(share, WHOLE) if share >= limit else Fraction(0)


def _in_steps(share: int, steps: int) -> Fraction:
    """Round a part down to steps of a device, of which there is one less than fits."""
    exact = Fraction(share * (steps + 1), WHOLE)
    return Fraction(share, WHOLE) if exact.denominator == 1 else Fraction(int(exact), steps)


def _most(parts: Counter[int], prices: Prices, devices: int) -> int:
    left, placed = Fraction(devices), Fraction(0)
    for share in sorted(parts, key=lambda each: prices[each] / each):
        number = Fraction(parts[share])
        if prices[share]:
            number = min(number, left / prices[share])
            left -= number * prices[share]
        placed += number * share
    return int(placed)
