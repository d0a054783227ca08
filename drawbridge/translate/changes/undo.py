"""Undoes the translation of a pod with a JSON patch whose steps identify items by name.

Other webhooks may insert containers and claims later, so that indices change. A `test` of the name,
or of the whole item, precedes every step that depends on an index. Other tools fail at this test if
the item moved; this module finds the item again. A `test` of the content precedes the removal of a
list or object that the translation created. If it has other content, that content stays. Any user
can write an undo patch, so parsing is strict, the work is limited, and only fields change that
translations change: whoever creates the original pod can have other rights than its writer.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from drawbridge.documents.patch import Edit, EditedValue, EditError
from drawbridge.documents.paths import Path, format_path, get_value, parse_index, parse_pointer
from drawbridge.documents.values import Value, equal_json

# The API server's limit for all annotations of an object. 100 containers need a tenth of it.
MAX_LENGTH: Final = 256 * 1024
# A step that a translation writes takes more than 32 characters, also in the short form.
_MAX_STEPS: Final = MAX_LENGTH // 32
_MAX_DEPTH: Final = 32

# What translations change in a pod.
_METADATA_FIELDS: Final = ("annotations", "labels", "finalizers")
SPEC_FIELDS: Final = (
    "resourceClaims",
    "tolerations",
    "schedulerName",
    "schedulingGates",
    "nodeSelector",
    "affinity",
)
CONTAINER_LISTS: Final = ("initContainers", "containers")
CONTAINER_FIELDS: Final = ("resources", "env")


Op = Literal["add", "remove", "replace", "test"]
_OPERATIONS: Final[dict[object, Op]] = {each: each for each in get_args(Op)}


class UndoStep(NamedTuple):
    """One operation of an undo patch."""

    op: Op
    path: Path
    value: Value = None


# An undo step as an operation of a JSON patch (RFC 6902).
Operation = dict[str, Value]


def to_pointer(path: Path) -> str:
    """Write a path as a JSON pointer (RFC 6901)."""
    text = ""
    for token in path:
        key = f"{token}"
        text += f"/{escape_token(key)}" if "/" in key or "~" in key else f"/{key}"
    return text


def escape_token(key: str) -> str:
    """Escape a key for a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


# A short operation is a list: a sign, the path, and the value. `-` with a value is a removal of
# exactly this value: a test and a removal.
_SIGNS: Final = {"add": "+", "remove": "-", "replace": "~", "test": "="}
_SHORT_OPERATIONS: Final = {sign: op for op, sign in _SIGNS.items()}


def shorten(operations: Sequence[Operation]) -> list[list[Value]]:
    """Write the operations of a patch in their short form."""
    short: list[list[Value]] = []
    for operation in operations:
        op, at = f"{operation['op']}", operation["path"]
        if op == "remove" and short and short[-1][:2] == [_SIGNS["test"], at]:
            short[-1][0] = _SIGNS["remove"]
        else:
            short.append([_SIGNS[op], at, *([] if op == "remove" else [operation["value"]])])
    return short


def _expand(operation: Value) -> Iterator[Mapping[str, Value]]:
    """Yield the operations of an item of an undo patch in the form of a JSON patch."""
    if not isinstance(operation, list):
        yield operation if isinstance(operation, dict) else {}
        return
    sign, at, *values = operation if len(operation) > 1 else ("", "")
    op = _SHORT_OPERATIONS.get(f"{sign}", "")
    if op == "remove" and values:
        yield {"op": "test", "path": at, "value": values[0]}
    yield {"op": op, "path": at, **({"value": values[0]} if values else {})}


def make_operation(op: str, at: str, value: Value = None) -> Operation:
    """Make a JSON patch operation."""
    if op == "remove":
        return {"op": op, "path": at}
    return {"op": op, "path": at, "value": value}


def parse_undo(text: Value) -> tuple[UndoStep, ...]:
    """Parse an undo patch; empty if the text is not a valid one."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        return ()
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    operations = (
        [each for item in listed for each in _expand(item)] if isinstance(listed, list) else []
    )
    if len(operations) > _MAX_STEPS:
        return ()
    steps = []
    for fields in operations:
        op, path = _OPERATIONS.get(f"{fields.get('op')}"), fields.get("path")
        # An operation without a path would replace the whole pod.
        if op is None or not path or not isinstance(path, str):
            return ()
        if op != "remove" and ("value" not in fields or _is_too_deep(fields["value"], _MAX_DEPTH)):
            return ()
        steps.append(UndoStep(op, parse_pointer(path), fields.get("value")))
    return tuple(steps)


def _is_too_deep(value: Value, room: int) -> bool:
    """Whether a value is nested deeper than any value of a pod, so that comparing it is costly."""
    if not isinstance(value, dict | list) or not value:
        return False
    inner = value.values() if isinstance(value, dict) else value
    return room == 0 or any(_is_too_deep(each, room - 1) for each in inner)


def item_name(item: Value) -> str | None:
    """Return the name that identifies an item of a list, or None."""
    # References to requests of one claim share the name of the claim.
    if isinstance(item, dict) and "request" not in item:
        name = item.get("name")
        if isinstance(name, str):
            return name
    return None


def name_test(path: Path, item: Value) -> list[UndoStep]:
    """Return the test that identifies the list item at `path`."""
    name = item_name(item)
    if name is not None:
        return [UndoStep("test", (*path, "name"), name)]
    return [] if item is None else [UndoStep("test", path, item)]


def _is_guard(steps: Sequence[UndoStep], number: int) -> bool:
    """Whether a test checks the content of a list or object that the next step removes."""
    step = steps[number]
    if step.op != "test" or not isinstance(step.value, (dict, list)):
        return False
    return number + 1 < len(steps) and steps[number + 1].path == step.path


def apply_undo(pod: Value, steps: Sequence[UndoStep]) -> tuple[Value, list[UndoStep]]:
    """Apply an undo patch; return the original pod and the steps with current indices.

    Raises EditError if the patch does not fit the pod.
    """
    run = _UndoRun(pod)
    number = 0
    while number < len(steps):
        step = steps[number]
        if step.op != "test":
            run.change(step.op, step)
        elif _is_guard(steps, number) and run.leave_used(step):
            number += 1  # skip the guarded step
        else:
            run.test(step)
        number += 1
    return run.pod, run.applied


class _CurrentIndices:
    """The current indices of list items by their written paths, as a tree."""

    __slots__ = ("index", "inner")

    def __init__(self) -> None:
        self.index: int | None = None
        self.inner: dict[str | int, _CurrentIndices] = {}

    def set_path(self, written: Path, current: Path) -> None:
        """Store the indices of a written path."""
        place = self
        for token, now in zip(written, current, strict=True):
            place = place.inner.setdefault(token, _CurrentIndices())
            if isinstance(now, int):
                place.index = now

    def find(self, written: Path) -> "_CurrentIndices | None":
        """Return the entry of a written path, or None."""
        place: _CurrentIndices | None = self
        for token in written:
            place = place.inner.get(token) if place else None
        return place

    def find_index(self, written: Path) -> int | None:
        """Return the current index for the end of a written path, or None."""
        place = self.find(written)
        return place.index if place else None

    def get_path(self, written: Path) -> Path:
        """Replace the indices of a written path by the current ones."""
        place: _CurrentIndices | None = self
        current: list[str | int] = []
        for token in written:
            place = place.inner.get(token) if place else None
            current.append(token if place is None or place.index is None else place.index)
        return tuple(current)


class _UndoRun:
    """The pod during undo, and the current indices of the items in the steps."""

    def __init__(self, pod: Value) -> None:
        self.applied: list[UndoStep] = []
        self._edited = EditedValue(pod)
        self._indices = _CurrentIndices()

    @property
    def pod(self) -> Value:
        """The pod with the steps so far undone."""
        return self._edited.value

    def leave_used(self, step: UndoStep) -> bool:
        """Keep a list or object that others use, without our items; False if none do."""
        held = get_value(self.pod, self._indices.get_path(step.path))
        if not step.value:
            return isinstance(held, dict | list) and bool(held)
        if not isinstance(held, list) or not isinstance(step.value, list):
            return False
        if next(self._find_items(step), None) is not None:
            return False
        for item in step.value:
            first = (*step.path, "0")
            for operation in name_test(first, item):
                self.test(operation)
                self.change("remove", UndoStep("remove", first))
        return True

    def test(self, step: UndoStep) -> None:
        """Find the item that a step tests, first at its written index."""
        path = next(self._find_items(step), None)
        if path is None:
            raise EditError(f"{format_path(step.path)} has changed")
        self._indices.set_path(step.path, path)
        self.applied.append(UndoStep("test", path, step.value))

    def _find_items(self, step: UndoStep) -> Iterator[Path]:
        return self._find_below(self.pod, step, (), self._indices)

    def _find_below(
        self, held: Value, step: UndoStep, at: Path, indices: _CurrentIndices | None
    ) -> Iterator[Path]:
        """Find the items below `at` that equal the value of a step."""
        if len(at) == len(step.path):
            if equal_json(held, step.value):
                yield at
            return
        token = step.path[len(at)]
        inner = indices.inner.get(token) if indices else None
        if isinstance(held, dict):
            if token in held:
                yield from self._find_below(held[str(token)], step, (*at, token), inner)
        elif isinstance(held, list):
            index = inner.index if inner else None
            for number in self._candidate_indices(token, index, len(held)):
                yield from self._find_below(held[number], step, (*at, number), inner)

    def _candidate_indices(self, token: str | int, index: int | None, length: int) -> Iterator[int]:
        """Yield the possible indices for the end of a path, the most likely first."""
        written = parse_index(token if index is None else index, length)
        if written is not None:
            yield written
        if index is None:
            for number in range(length):
                if number != written:
                    yield number

    def change(self, op: Literal["add", "remove", "replace"], step: UndoStep) -> None:
        """Apply a change at the current index of its item."""
        path = self._indices.get_path(step.path)
        held = get_value(self.pod, path[:-1])
        value = step.value
        # Of a template without metadata, the translation creates it.
        created = path == ("metadata",) and not value and not get_value(self.pod, path)
        if not created and not _is_translated(path):
            raise EditError(f"{format_path(path)} is no field that translations change")
        if op == "add" and isinstance(held, list):
            path = (*path[:-1], self._insert_index(step.path, path[-1]))
        elif op == "add" and isinstance(held, dict):
            theirs = held.get(str(path[-1]))
            if theirs is not None:
                value = _merge(theirs, value)
                self._edited.share()
        self._edited.apply(Edit(op, path, value))
        self.applied.append(UndoStep(op, path, value))
        above = self._indices.find(step.path[:-1]) if isinstance(held, list) else None
        if above is not None:
            above.inner.clear()

    def _insert_index(self, written: Path, at: str | int) -> str | int:
        """Return the index at which to insert into a list: next to the former neighbor."""
        number = parse_index(written[-1], 1 << 30)
        if number is None:
            return at  # append
        index = self._indices.find_index(written)
        before = self._indices.find_index((*written[:-1], str(number - 1)))
        if index is not None or before is None:
            return number if index is None else index
        return before + 1


def _is_translated(path: Path) -> bool:
    """Whether translations change the field at a path, or a part of it."""
    match path:
        case ("metadata", field, *_):
            return field in _METADATA_FIELDS
        case ("spec", listed, _, field, *_) if listed in CONTAINER_LISTS:
            return field in CONTAINER_FIELDS
        case ("spec", field, *_):
            return field in SPEC_FIELDS
    return False


def _merge(theirs: Value, ours: Value) -> Value:
    """Restore a removed list or object; others may have created it again for their entries."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs.keys() & ours.keys():
            # Equal values exist if a later undo patch contains the result of an earlier one.
            if isinstance(ours[key], dict | list) and not equal_json(ours[key], theirs[key]):
                raise EditError("others have added different content there")
        return theirs | ours
    if isinstance(theirs, list) and isinstance(ours, list):
        merged = len(theirs) <= len(ours) and equal_json(ours[len(ours) - len(theirs) :], theirs)
        return ours if merged else [*ours, *theirs]
    return ours
