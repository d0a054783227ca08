"""Edits of JSON values: the JSON Patch operations that admission and the CLI share.

Values that are not edited stay the same Python objects, so that a writer finds changes by identity.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from documents.paths import Path, format_path, parse_index, parse_pointer
from documents.values import Value


class EditError(Exception):
    """Raised if an edit does not fit the value; the message is for the user."""


class Edit(msgspec.Struct, frozen=True):
    """One operation; the path ends with an index for a list, or with `-` to append to it."""

    op: Literal["add", "replace", "remove"]
    path: Path
    value: Value = None


def read_json_patch(patch: Iterable[Mapping[str, Value]]) -> tuple[Edit, ...]:
    """Read a JSON patch (RFC 6902) of edits; raises EditError for other operations."""
    edits = []
    for operation in patch:
        op, pointer = operation.get("op"), operation.get("path")
        if op not in {"add", "replace", "remove"} or not isinstance(pointer, str):
            raise EditError(f"operation {op} is not one of add, replace, remove")
        edits.append(Edit(op, parse_pointer(pointer), operation.get("value")))  # type: ignore[arg-type]  # checked above
    return tuple(edits)


def apply_edits(value: Value, edits: Iterable[Edit]) -> Value:
    """Return the value with all edits applied in order; raises EditError."""
    for edit in edits:
        value = _apply(value, edit, edit.path)
    return value


def _apply(value: Value, edit: Edit, rest: Path) -> Value:
    if not rest:
        if edit.op == "remove":
            raise EditError("the whole document cannot be removed")
        return edit.value
    step, rest = rest[0], rest[1:]
    if isinstance(value, dict):
        return _apply_to_object(value, edit, str(step), rest)
    if isinstance(value, list):
        return _apply_to_list(value, edit, step, rest)
    raise EditError(f"there is no object or list at {_parent_path(edit, rest)}")


def _apply_to_object(value: dict[str, Value], edit: Edit, key: str, rest: Path) -> Value:
    if key not in value and (rest or edit.op != "add"):
        raise EditError(
            f"there is no value at {format_path(edit.path[: len(edit.path) - len(rest)])}"
        )
    changed = dict(value)
    if rest or edit.op != "remove":
        changed[key] = _apply(value.get(key), edit, rest)
    else:
        del changed[key]
    return changed


def _apply_to_list(value: list[Value], edit: Edit, step: str | int, rest: Path) -> Value:
    adds = edit.op == "add" and not rest
    at = len(value) if adds and step == "-" else parse_index(step, len(value) + adds)
    if at is None:
        raise EditError(f"there is no item {step} in {_parent_path(edit, rest)}")
    changed = list(value)
    if adds:
        changed.insert(at, edit.value)
    elif rest or edit.op == "replace":
        changed[at] = _apply(value[at], edit, rest)
    else:
        del changed[at]
    return changed


def _parent_path(edit: Edit, rest: Path) -> str:
    """Return the path of the object or list in which an edit failed."""
    return format_path(edit.path[: len(edit.path) - len(rest) - 1]) or "the top"
