"""Attribute constraints of a claim: matchAttribute and distinctAttribute.

The state of a constraint is an immutable value: adding a device returns a new state, and
backtracking restores the old one.
"""

from collections.abc import Sequence
from typing import TypeAlias

from drawbridge.dra.device import Attribute

# A value with its type: values of different types are never equal.
TypedValue: TypeAlias = tuple[str, object]
TypedValues: TypeAlias = frozenset[TypedValue]

_SCALARS = ("string", "integer", "boolean", "version")
_BY_PRECEDENCE = (
    ("int", "integers", "integer"),
    ("bool", "booleans", "boolean"),
    ("string", "strings", "string"),
    ("version", "versions", "version"),
)


def typed_values(attribute: Attribute) -> TypedValues:
    """Return the typed values of an attribute; none if its type is unknown."""
    for type_name, list_field, _ in _BY_PRECEDENCE:
        values = getattr(attribute, list_field)
        if values:
            return frozenset((type_name, value) for value in values)
    for type_name, _, scalar_field in _BY_PRECEDENCE:
        value = getattr(attribute, scalar_field)
        if value is not None:
            return frozenset({(type_name, value)})
    return frozenset()


class _Constraint:
    """What both kinds of constraints have in common; without `lists`, they ignore lists."""

    def __init__(self, name: str, *, lists: bool) -> None:
        self.name = name
        self.lists = lists

    def values(self, attribute: Attribute) -> TypedValues:
        """Return the values that the constraint compares."""
        if self.lists:
            return typed_values(attribute)
        field, value = _scalar(attribute)
        return frozenset({(field, value)}) if field else frozenset()


class MatchConstraint(_Constraint):
    """All devices have a value in common. The state holds the values of the devices so far."""

    empty: Attribute | TypedValues | None = None

    def extend(self, state: object, attribute: Attribute) -> object | None:
        """Return the state with one more device; None if the device violates the constraint."""
        if self.lists:
            values = typed_values(attribute)
            if state is not None:
                values &= state  # type: ignore[operator]  # made here
            return values or None
        if state is None:
            return attribute
        field, value = _scalar(attribute)
        return state if field and getattr(state, field) == value else None


class DistinctConstraint(_Constraint):
    """No two devices have a value in common."""

    empty: tuple[Attribute, ...] = ()

    def extend(self, state: object, attribute: Attribute) -> object | None:
        """Return the state with one more device; None if the device violates the constraint."""
        others: Sequence[Attribute] = state  # type: ignore[assignment]  # made here
        if self.lists:
            values = typed_values(attribute)
            if not values or any(values & typed_values(other) for other in others):
                return None
        elif others:
            field, value = _scalar(attribute)
            if not field or any(getattr(other, field) == value for other in others):
                return None
        return (*others, attribute)


AttributeConstraint: TypeAlias = MatchConstraint | DistinctConstraint


def _scalar(attribute: Attribute) -> tuple[str, object]:
    for field in _SCALARS:
        value = getattr(attribute, field)
        if value is not None:
            return field, value
    return "", None
