"""No function does more work than its price: the work is counted in calls of functions."""

import sys
from collections.abc import Callable, Iterator

from bench._cel_prices import calls, price_of
from drawbridge.cel.declare import Overload
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import Cancelled
from drawbridge.cel.library.authz import AUTHORIZATION
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.meter import ABSORBED, MOST_WORK_OF_CALL
from drawbridge.cel.scopes import declare
from tests.tables import every_row
from tests.thorough import drawn

SIZES = (1, 64, drawn(128, thorough=400))
# A call takes about a unit; some calls in C take a third of it.
FACTOR = 3


def overloads() -> Iterator[tuple[str, Overload]]:
    """Yield the functions that device selectors can reach, but those that the compiler plans."""
    unreachable = {function.name for function in AUTHORIZATION.functions}
    unreachable |= {"_[_]", "_[?_]", "_?._", "or", "orValue"}
    for name, function in declare(libraries("1.37", stored=True), {}, {}).functions.items():
        if name not in unreachable:
            yield from ((name, overload) for overload in function.overloads)


def counted(call: Callable[[], object]) -> int:
    """Return the number of functions that a call calls, in Python and in C.

    A callback of the collector or of a timer may come between, but not twice.
    """
    return min(_counted_once(call) for _ in range(2))


def _counted_once(call: Callable[[], object]) -> int:
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(profile)
    try:
        call()
    except EvaluationError:
        count -= ABSORBED
    finally:
        sys.setprofile(None)
    return count


@every_row(("name", "overload"), tuple(overloads()), ids=lambda value: getattr(value, "id", ""))
def test_a_call_does_not_call_more_functions_than_its_price(name: str, overload: Overload) -> None:
    for size in SIZES:
        for shapes, arguments in calls(overload, size):
            try:
                price = price_of(overload, name, arguments)
            except Cancelled:
                continue  # a pattern that is not built
            if price <= MOST_WORK_OF_CALL:
                count = counted(lambda values=arguments: overload.implementation(*values))
                assert count <= FACTOR * price, (size, shapes, count, price)
