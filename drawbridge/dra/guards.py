"""The checks of a translated selector before it reads an attribute: a person need not read them."""

import re
from typing import Final

# As drawbridge.translate.targets.vocabulary writes them.
GUARD: Final = re.compile(
    r'"[^"]*" in device\.(?:capacity\["[^"]*"\]|'
    r'attributes\["[^"]*"\] && type\([^()]*\) in \[[^\]]*\]) && '
)


def without_guard(expression: str) -> str:
    """Return a condition without its brackets and its guard; anything else as it is."""
    guard = GUARD.match(expression, 1) if expression.startswith("(") else None
    return expression[guard.end() : -1] if guard else expression


def without_guards(expression: str) -> str:
    """Return an expression without any guards."""
    if len(GUARD.findall(expression)) == 1:
        expression = without_guard(expression)
    return GUARD.sub("", expression)
