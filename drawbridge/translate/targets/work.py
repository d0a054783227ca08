"""Estimates the work of expressing asks, before it is done."""

from collections.abc import Iterable
from typing import Final

from drawbridge.facts.model import Facts
from drawbridge.translate.legacy.asks import Ask
from drawbridge.translate.legacy.selectors import AskSelector

# In units of drawbridge.translate.work_budget.
_ASK_UNITS: Final = 100
_CONDITION_UNITS: Final = 4
_CONDITIONS_OF_PRODUCTS: Final = 8  # matching a condition with so many products doubles its work


def estimate_work(asks: Iterable[Ask], facts: Facts | None) -> int:
    """Return the units of work that expressing these asks takes."""
    products = len(facts.products) if facts else 0
    each_condition = _CONDITION_UNITS * (1 + products // _CONDITIONS_OF_PRODUCTS)
    counts: dict[int, int] = {}  # by id: many asks have one selector
    units = 0
    for ask in asks:
        conditions = 0
        for selector in (*ask.selectors, *ask.alternatives):
            if id(selector) not in counts:
                counts[id(selector)] = _count_conditions(selector)
            conditions += counts[id(selector)]
        units += _ASK_UNITS + conditions * each_condition + len(ask.users)
    return units


def _count_conditions(selector: AskSelector) -> int:
    """Count the values that a selector compares with."""
    count, left = 0, [selector]
    while left:
        part = left.pop()
        count += 1
        for name in part.__struct_fields__:
            value = getattr(part, name)
            if isinstance(value, tuple) and value and not isinstance(value[0], str | int):
                left += value
            elif isinstance(value, tuple):
                count += len(value)
            elif hasattr(value, "__struct_fields__"):
                left.append(value)
    return count
