"""Plans the most frequent comparison as one closure: a field of a variable with a constant string.

If a key is missing or the value is not a string, the general plan runs. It is created on first use.
"""

from collections.abc import Callable

from drawbridge.cel import calls
from drawbridge.cel.attributes import QualifiedAttribute
from drawbridge.cel.calls import traversal
from drawbridge.cel.declare import Cost
from drawbridge.cel.frame import COST, COST_LIMIT, Frame, Run, cancel_over_limit
from drawbridge.cel.shapes import Step


def equal_to_text(  # noqa: PLR0913  # the parts of a comparison
    left: Step,
    close: Callable[[], Run],
    text: str,
    cost: Cost,
    offset: int,
    *,
    negated: bool,
) -> Run:
    """Plan `==` and `!=` with a constant string; `close` plans the left side."""

    def exact() -> Run:
        return calls.equal_to_text(close(), text, cost, offset, negated=negated)

    path = left.path() if isinstance(left, QualifiedAttribute) else None
    if path is None or not isinstance(left, QualifiedAttribute) or len(path) not in (1, 3):
        return exact()
    own = len(path) + 1
    costs = [own + traversal(length) for length in range(len(text) + 1)]
    apart = _plan_on_demand(exact)
    return _compare(left.slot, path, text, costs, apart, wanted=not negated)


def _plan_on_demand(exact: Callable[[], Run]) -> Run:
    """Run the general plan, which is created on first use."""
    made: list[Run] = []

    def run(frame: Frame) -> object:
        if not made:
            made.append(exact())
        return made[0](frame)

    return run


def _cancel_at_step(frame: Frame, amount: int, own: int) -> None:
    """Cancel at the step that exceeds the limit: `own` steps of 1, then the comparison."""
    cancel_over_limit(frame, (*(1,) * own, amount - own))


# Both closures differ only in the lookup. A shared function would add a third to their run time.
def _compare(  # noqa: PLR0913  # the parts of a comparison
    slot: int,
    path: tuple[str, ...],
    text: str,
    costs: list[int],
    apart: Run,
    *,
    wanted: bool,
) -> Run:
    longest = len(text)
    if len(path) == 1:
        (key,) = path

        def one_key(frame: Frame) -> object:
            try:
                value = frame[slot][key]
            except (KeyError, TypeError):
                return apart(frame)
            if type(value) is not str:
                return apart(frame)
            length = len(value)
            amount = costs[length if length < longest else longest]  # noqa: FURB136  # faster
            total = frame[COST] = frame[COST] + amount
            if total > COST_LIMIT:
                _cancel_at_step(frame, amount, 2)
            return (value == text) is wanted

        return one_key
    first, second, third = path

    def three_keys(frame: Frame) -> object:
        try:
            value = frame[slot][first][second][third]
        except (KeyError, TypeError):
            return apart(frame)
        if type(value) is not str:
            return apart(frame)
        length = len(value)
        amount = costs[length if length < longest else longest]  # noqa: FURB136  # faster
        total = frame[COST] = frame[COST] + amount
        if total > COST_LIMIT:
            _cancel_at_step(frame, amount, 4)
        return (value == text) is wanted

    return three_keys
