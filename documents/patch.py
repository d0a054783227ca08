"""Edits of a plain value: the operations of JSON Patch that admission and the CLI share.

What is not edited stays the same object, so that whoever writes the result back sees at once what
changed. Knows nothing of text.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from documents.paths import Path, format_path, parse_index, parse_pointer
from documents.values import Value


class EditError(Exception):
    """An edit that does not fit the value; its message is for the person who asked for it."""


class Edit(msgspec.Struct, frozen=True):
    """One operation; a list takes an index or, to add at its end, `-`."""

    op: Literal["add", "replace", "remove"]
    path: Path
    value: Value = None


def read_json_patch(patch: Iterable[Mapping[str, Value]]) -> tuple[Edit, ...]:
    """Read a JSON patch (RFC 6902) of operations that edit; raises EditError for others."""
    edits = []
    for operation in patch:
        op, pointer = operation.get("op"), operation.get("path")
        if op not in {"add", "replace", "remove"} or not isinstance(pointer, str):
            raise EditError(f"the operation {op} is not one of add, replace, remove")
        edits.append(Edit(op, parse_pointer(pointer), operation.get("value")))  # type: ignore[arg-type]  # checked above
    return tuple(edits)


def apply_edits(value: Value, edits: Iterable[Edit]) -> Value:
    """Return the value with the edits made one after the other; raises EditError."""
    for edit in edits:
        value = _edited(value, edit, edit.path)
    return value


def _edited(value: Value, edit: Edit, rest: Path) -> Value:
    if not rest:
        if edit.op == "remove":
            raise EditError("the whole document cannot be removed")
        return edit.value
    step, rest = rest[0], rest[1:]
    if isinstance(value, dict):
        return _in_object(value, edit, str(step), rest)
    if isinstance(value, list):
        return _in_list(value, edit, step, rest)
    raise EditError(f"there is no object or list at {_above(edit, rest)}")


def _in_object(value: dict[str, Value], edit: Edit, key: str, rest: Path) -> Value:
    if key not in value and (rest or edit.op != "add"):
        raise EditError(
            f"there is nothing at {format_path(edit.path[: len(edit.path) - len(rest)])}"
        )
    changed = dict(value)
    if rest or edit.op != "remove":
        changed[key] = _edited(value.get(key), edit, rest)
    else:
        del changed[key]
    return changed


def _in_list(value: list[Value], edit: Edit, step: str | int, rest: Path) -> Value:
    adds = edit.op == "add" and not rest
    at = len(value) if adds and step == "-" else parse_index(step, len(value) + adds)
    if at is None:
        raise EditError(f"there is no item {step} in {_above(edit, rest)}")
    changed = list(value)
    if adds:
        changed.insert(at, edit.value)
    elif rest or edit.op == "replace":
        changed[at] = _edited(value[at], edit, rest)
    else:
        del changed[at]
    return changed


def _above(edit: Edit, rest: Path) -> str:
    """Name the object or list that an edit failed in."""
    return format_path(edit.path[: len(edit.path) - len(rest) - 1]) or "the top"
