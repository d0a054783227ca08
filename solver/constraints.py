"""Constraints of a claim: what its devices must have in common, or apart.

The state of a constraint is a value: adding a device gives a new one, and going back is keeping
the old one. Devices and requests are not known here, only attributes.
"""

from collections.abc import Sequence
from typing import TypeAlias

from dra.device import Attribute

# A value with its type: values of different types are never equal.
Typed: TypeAlias = tuple[str, object]
Values: TypeAlias = frozenset[Typed]

_SCALARS = ("string", "integer", "boolean", "version")
_BY_PRECEDENCE = (
    ("int", "integers", "integer"),
    ("bool", "booleans", "boolean"),
    ("string", "strings", "string"),
    ("version", "versions", "version"),
)


def values(attribute: Attribute) -> Values:
    """Give the values of an attribute, one or several; none where its type is not known."""
    for kind, several, _ in _BY_PRECEDENCE:
        held = getattr(attribute, several)
        if held:
            return frozenset((kind, value) for value in held)
    for kind, _, one in _BY_PRECEDENCE:
        held = getattr(attribute, one)
        if held is not None:
            return frozenset({(kind, held)})
    return frozenset()


class Match:
    """All devices have a value in common. The state is that of the devices so far."""

    empty: Attribute | Values | None = None

    def __init__(self, name: str, *, lists: bool) -> None:
        self.name = name
        self.lists = lists

    def joined(self, state: object, attribute: Attribute) -> object | None:
        """Give the state with one device more, None where it may not join."""
        if self.lists:
            found = values(attribute)
            if state is not None:
                found &= state  # type: ignore[operator]  # made here
            return found or None
        if state is None:
            return attribute
        field, value = _scalar(attribute)
        return state if field and getattr(state, field) == value else None


class Distinct:
    """No two devices have a value in common."""

    empty: tuple[Attribute, ...] = ()

    def __init__(self, name: str, *, lists: bool) -> None:
        self.name = name
        self.lists = lists

    def joined(self, state: object, attribute: Attribute) -> object | None:
        """Give the state with one device more, None where it may not join."""
        others: Sequence[Attribute] = state  # type: ignore[assignment]  # made here
        if self.lists:
            found = values(attribute)
            if not found or any(found & values(other) for other in others):
                return None
        elif others:
            field, value = _scalar(attribute)
            if not field or any(getattr(other, field) == value for other in others):
                return None
        return (*others, attribute)


Constraint: TypeAlias = Match | Distinct


def _scalar(attribute: Attribute) -> tuple[str, object]:
    for field in _SCALARS:
        value = getattr(attribute, field)
        if value is not None:
            return field, value
    return "", None
