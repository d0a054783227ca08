"""The function `includes` of Kubernetes 1.36's DRA; since 1.37 it is in the list library."""

from typing import Final

from drawbridge.cel.declare import CallEstimate, Function, Library, Overload, Range
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.types import BOOL, DYN
from drawbridge.cel.values import CelValue, same

# The maximum number of values in a list attribute.
_LONGEST: Final = 48


def _includes(target: CelValue, element: CelValue) -> bool:
    if not isinstance(target, (list, tuple)):
        return same(target, element)
    # A longer list is refused only if the element is not among the first ones.
    if any(same(other, element) for other in target[:_LONGEST]):
        return True
    if len(target) > _LONGEST:
        raise EvaluationError(
            "list_elements", f"'includes' cannot be applied to lists longer than {_LONGEST} values"
        )
    return False


INCLUDES: Final = Library(
    "dra.includes",
    (
        Function(
            "includes",
            (
                Overload(
                    "dra_includes_dyn_dyn", (DYN, DYN), BOOL, _includes, member=True,
                    estimate=costs.fixed(CallEstimate(Range(0, _LONGEST))),
                ),
            ),
        ),
    ),
)  # fmt: skip
