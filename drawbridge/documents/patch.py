"""Edits of JSON values: the JSON Patch operations that admission and the CLI share.

Values that are not edited stay the same Python objects, so that a writer finds changes by identity.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from drawbridge.documents.paths import Path, format_path, parse_index
from drawbridge.documents.values import Value


class EditError(Exception):
    """Raised if an edit does not fit the value; the message is for the user."""


class Edit(msgspec.Struct, frozen=True):
    """One operation; the path ends with an index for a list, or with `-` to append to it."""

    op: Literal["add", "replace", "remove"]
    path: Path
    value: Value = None


class EditedValue:
    """A value that edits are applied to; copies each object and list that changes, once."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self._copies: dict[int, Value] = {}  # by id; holding them keeps the ids unique

    def apply(self, edit: Edit) -> None:
        """Apply an edit; raises EditError."""
        if not edit.path:
            if edit.op == "remove":
                raise EditError("the whole document cannot be removed")
            self.value = edit.value
            return
        held = self.value = self._copy(self.value)
        for depth, token in enumerate(edit.path[:-1], 1):
            inner: Value = None
            if isinstance(held, dict):
                key = _check_key(held, f"{token}", edit.path[:depth])
                inner = held[key] = self._copy(held[key])
            elif isinstance(held, list):
                at = _check_index(token, len(held), edit.path[:depth])
                inner = held[at] = self._copy(held[at])
            else:
                raise _no_container(edit.path[:depth])
            held = inner
        if isinstance(held, dict):
            _edit_object(held, edit)
        elif isinstance(held, list):
            _edit_list(held, edit)
        else:
            raise _no_container(edit.path)

    def share(self) -> None:
        """Keep the value as it is now: later edits copy what they change again."""
        self._copies = {}

    def _copy(self, value: Value) -> Value:
        if not isinstance(value, dict | list) or id(value) in self._copies:
            return value
        copied = value.copy()
        self._copies[id(copied)] = copied
        return copied


def apply_edits(value: Value, edits: Iterable[Edit]) -> Value:
    """Return the value with all edits applied in order; raises EditError."""
    edited = EditedValue(value)
    for edit in edits:
        edited.apply(edit)
    return edited.value


def _edit_object(held: dict[str, Value], edit: Edit) -> None:
    key = str(edit.path[-1])
    if edit.op == "add":
        held[key] = edit.value
        return
    _check_key(held, key, edit.path)
    if edit.op == "replace":
        held[key] = edit.value
    else:
        del held[key]


def _edit_list(held: list[Value], edit: Edit) -> None:
    last = edit.path[-1]
    if edit.op == "add":
        at = len(held) if last == "-" else _check_index(last, len(held) + 1, edit.path)
        held.insert(at, edit.value)
        return
    at = _check_index(last, len(held), edit.path)
    if edit.op == "replace":
        held[at] = edit.value
    else:
        del held[at]


def _check_key(held: Mapping[str, Value], key: str, path: Path) -> str:
    if key not in held:
        raise EditError(f"there is no value at {format_path(path)}")
    return key


def _check_index(token: str | int, length: int, path: Path) -> int:
    at = parse_index(token, length)
    if at is None:
        raise EditError(f"there is no item {token} in {_parent_path(path)}")
    return at


def _no_container(path: Path) -> EditError:
    return EditError(f"there is no object or list at {_parent_path(path)}")


def _parent_path(path: Path) -> str:
    """Return the path of the object or list in which an edit failed."""
    return format_path(path[:-1]) or "the top"
