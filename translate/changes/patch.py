"""The changes of one pod, composed as JSON patch operations, and the way back from them.

Command line and admission apply the same operations. The way back (translate.changes.undo)
stands on the pod as an annotation, which anybody may have written: a hint, never a ground for
trust. Knows nothing of devices.
"""

import json
from collections.abc import Iterable
from typing import Final

import msgspec

from documents.patch import Edit, EditError
from documents.paths import Path, format_path, get_value, parse_index
from documents.values import Value, equal_json
from dra.names import ORIGINAL_ANNOTATION
from translate.changes.undo import (
    Operation,
    UndoStep,
    apply_undo,
    escape_token,
    item_name,
    make_operation,
    parse_undo,
    to_pointer,
)

_ENCODER: Final = msgspec.json.Encoder()
_ANNOTATIONS: Final[Path] = ("metadata", "annotations")


def to_operations(edits: Iterable[Edit]) -> list[Operation]:
    """Write edits as the operations of a JSON patch (RFC 6902)."""
    return [make_operation(edit.op, to_pointer(edit.path), edit.value) for edit in edits]


# Lists on the way to a place, where the names of their items stand, and the names.
_Names = tuple[tuple[str, str, str], ...]


class _Place:
    """An object or list that is changed: a copy, and the places in it that are changed as well."""

    __slots__ = ("at", "held", "inner", "named")

    def __init__(
        self,
        held: dict[str, Value] | list[Value],
        at: str = "",
        named: _Names = (),
    ) -> None:
        self.held = held.copy()
        self.at = at  # as a pointer
        self.named = named
        self.inner: dict[str | int, _Place] = {}

    def get(self, token: str | int) -> Value:
        """Give what stands at a key or index; none where nothing does."""
        held = self.held
        if isinstance(held, dict):
            return held.get(f"{token}")
        found = parse_index(token, len(held))
        return None if found is None else held[found]

    def has(self, token: str | int) -> bool:
        """Whether anything stands there, if only null."""
        if isinstance(self.held, dict):
            return token in self.held
        return parse_index(token, len(self.held)) is not None

    def open(self, token: str | int) -> "_Place | None":
        """Let what stands there be changed; None where that is no object or list."""
        held = self.held
        child = held.get(f"{token}") if isinstance(held, dict) else self.get(token)
        if not isinstance(child, (dict, list)):
            return None
        place = self.inner[token] = _Place(child, self.to(token), self.named)
        copied = place.held
        if isinstance(held, dict):
            held[f"{token}"] = copied
        else:
            held[int(token)] = copied
            name = copied.get("name") if isinstance(copied, dict) else None
            if isinstance(token, int) and isinstance(name, str) and self.at:
                place.named = (*self.named, (self.at, f"{place.at}/name", name))
        return place

    def to(self, token: str | int) -> str:
        """Point to what stands at a key or index."""
        key = f"{token}"
        if "/" in key or "~" in key:
            key = escape_token(key)
        return f"{self.at}/{key}"


class Patch:
    """Edits of one pod as they are composed: the pod with them made, and how to undo them.

    The pod that was given stays as it is: of what changes in it there are copies, one of each.
    """

    def __init__(self, pod: Value) -> None:
        self.edits: list[Edit] = []
        self.operations: list[Operation] = []  # the same as a JSON patch
        self._given = pod
        # Of each edit: what names the items on the way, the steps, and the list whose items move.
        self._undo: list[tuple[_Names, list[Operation], str | None]] = []
        self._opened: dict[Path, _Place] = {}  # until what stands there goes, or moves
        self._top = _Place(pod if isinstance(pod, (dict, list)) else {})

    @property
    def pod(self) -> Value:
        """The pod with the edits made."""
        return self._top.held if self.edits else self._given

    def put(self, path: Path, value: Value) -> None:
        """Let `value` stand at `path`; objects above it that are missing or null are made.

        Raises EditError where something else is in the way, and so do the others.
        """
        place, depth = self._inmost(path[:-1])
        name = path[-1]
        if depth < len(path) - 1:
            self._build(place, depth, path, value)
            return
        at, before = place.to(name), place.get(name)
        if before is not None or place.has(name):
            if not equal_json(before, value):
                undo = [*_as_put(at, name, value), make_operation("replace", at, before)]
                self._make(place, Edit("replace", path, value), at, undo)
        elif isinstance(place.held, dict):
            self._make(place, Edit("add", path, value), at, _leaving(at, name, value))
        else:
            raise EditError(f"there is no object or item at {format_path(path[:-1])}")

    def append(self, path: Path, value: Value) -> None:
        """Add an item to the list at `path`; what is there stays as it is."""
        place, depth = self._inmost(path)
        if isinstance(place.held, list) and depth == len(path):
            # By its number, so that the way back takes this one and no later one.
            number = len(place.held)
            at = f"{place.at}/{number}"
            undo = [*_naming(at, value), make_operation("remove", at)]
            self._make(place, Edit("add", (*path, number), value), at, undo)
        elif depth == len(path) or (depth == len(path) - 1 and place.get(path[-1]) is not None):
            raise EditError(f"there is no list at {format_path(path)}")
        else:
            self._build(place, depth, (*path, 0), value)

    def _build(self, place: _Place, depth: int, path: Path, value: Value) -> None:
        """Add a value with all that is missing above it; the way back takes it apart again."""
        top = path[depth]
        there = place.has(top)
        if place.get(top) is not None:
            raise EditError(f"there is no object or item at {format_path(path[: depth + 1])}")
        if not there and not isinstance(place.held, dict):
            raise EditError(f"there is no object or item at {format_path(path[:depth])}")
        at = f"{place.at}{to_pointer(path[depth:])}"
        undo = _leaving(at, path[-1], value) if isinstance(path[-1], str) else []
        for token in path[:depth:-1]:
            at = at.rpartition("/")[0]
            empty: Value = {} if isinstance(token, str) else []
            value = {token: value} if isinstance(token, str) else [value]
            undo.append({"op": "test", "path": at, "value": empty if undo else value})
            undo.append({"op": "remove", "path": at})
        if there:
            undo[-1] = make_operation("replace", at)
        edit = Edit("replace" if there else "add", path[: depth + 1], value)
        self._make(place, edit, at, undo)

    def remove(self, path: Path) -> None:
        """Take out what stands at `path`, and an object or list that is empty without it."""
        place, depth = self._inmost(path[:-1])
        name = path[-1]
        held, before = place.held, place.get(name)
        if depth < len(path) - 1 or (before is None and not place.has(name)):
            return
        if len(held) == 1 and depth and path[-2] in _GOES_WHEN_EMPTY:
            self.remove(path[:-1])
            return
        at = place.to(name)
        undo = [make_operation("add", at, before)]
        if isinstance(held, list):
            undo[:0] = _beside(place, held, name)
        self._make(place, Edit("remove", path), at, undo)

    def add_undo(self) -> None:
        """Note the way back on the pod; what an earlier translation noted comes after it."""
        if not self.edits:
            return
        path = (*_ANNOTATIONS, ORIGINAL_ANNOTATION)
        before = _way(self._given)
        if get_value(self.pod, _ANNOTATIONS) is None:
            self.put(_ANNOTATIONS, {})
        # First of all: annotations that were made for this can only go when they are empty.
        back = [] if before else [make_operation("remove", to_pointer(path))]
        back += self._back()
        back += (make_operation(op, to_pointer(at), what) for op, at, what in before)
        self.put(path, _text(back))

    def _back(self) -> list[Operation]:
        """Undo the edits from the last one on; an item is named once until its number changes."""
        told: dict[str, set[str]] = {}  # by the list whose items are named
        back: list[Operation] = []
        for names, steps, moves in reversed(self._undo):
            for above, at, name in names:
                among = told.setdefault(above, set())
                if at not in among:
                    among.add(at)
                    back.append(make_operation("test", at, name))
            back += steps
            if moves is not None:
                for each in [one for one in told if f"{one}/".startswith(f"{moves}/")]:
                    del told[each]
        return back

    def _make(self, place: _Place, edit: Edit, at: str, undo: list[Operation]) -> None:
        """Make an edit at the end of its path, `at` as a pointer, in the place that holds it."""
        held, name = place.held, edit.path[-1]
        op, value = edit.op, edit.value
        moves = None
        if isinstance(held, dict):
            if op == "remove":
                del held[f"{name}"]
            else:
                held[f"{name}"] = value
            if op != "add" and place.inner.pop(name, None) is not None:
                self._opened.clear()
            if name == "name":  # of an item that is opened, perhaps
                self._opened.clear()
                self._top.inner.clear()
                place, _ = self._inmost(edit.path[:-1])
        else:
            moves = place.at
            if op == "add":
                held.insert(int(name), value)
            else:
                place.inner.clear()
                self._opened.clear()
                if op == "remove":
                    del held[int(name)]
                else:
                    held[int(name)] = value
        self.edits.append(edit)
        self.operations.append(make_operation(op, at, value))
        self._undo.append((place.named, undo, moves))

    def _inmost(self, path: Path) -> tuple[_Place, int]:
        """Give the object or list at a path, or what holds something and comes nearest; how far."""
        known = self._opened.get(path)
        if known is not None:
            return known, len(path)
        place, depth = self._top, 0
        for token in path:
            inner = place.inner.get(token) or place.open(token)
            if inner is None:
                return place, depth
            place = inner
            depth += 1
        self._opened[path] = place
        return place, depth


def _leaving(at: str, name: str | int, value: Value) -> list[Operation]:
    """Undo an addition."""
    return [*_as_put(at, name, value), make_operation("remove", at)]


def _as_put(at: str, name: str | int, value: Value) -> list[Operation]:
    """Make sure, before what was put somewhere goes, that it is that and nothing more."""
    if isinstance(name, int):
        return _naming(at, value)
    return [make_operation("test", at, value)] if isinstance(value, (dict, list)) else []


def _beside(place: _Place, held: list[Value], at: str | int) -> list[Operation]:
    """Name the neighbour of an item that goes from a list, as it is called without the item."""
    if not isinstance(at, int) or len(held) < 2:
        return []
    before = max(at - 1, 0)
    return _naming(place.to(before), held[before if at else 1])


def _naming(at: str, item: Value) -> list[Operation]:
    """Give the test that names the item of a list that stands there."""
    name = item_name(item)
    if name is not None:
        return [make_operation("test", f"{at}/name", name)]
    return [] if item is None else [make_operation("test", at, item)]


def _text(back: list[Operation]) -> str:
    """Write a way back as it can be read; halves of characters, which JSON may have, escaped."""
    try:
        return _ENCODER.encode(back).decode()
    except UnicodeEncodeError:
        return json.dumps(back, separators=(",", ":"))


# What says nothing when it is empty, and is not kept so by the API server; `resources` or
# `metadata` may be somebody's.
_GOES_WHEN_EMPTY: Final = frozenset(
    {
        "annotations",
        "env",
        "finalizers",
        "labels",
        "limits",
        "nodeSelector",
        "preferredDuringSchedulingIgnoredDuringExecution",
        "requests",
        "schedulingGates",
    }
)


def restore_original(pod: Value) -> Value | None:
    """Take a pod back to what was asked; None where it does not say so, or not in a way that fits.

    What others have inserted since stays. An annotation that somebody copied or wrote gives some
    pod or none, and nothing else happens.
    """
    steps = parse_undo(get_value(pod, (*_ANNOTATIONS, ORIGINAL_ANNOTATION)))
    if not steps:
        return None
    try:
        return apply_undo(pod, steps)[0]
    except EditError:
        return None


def _way(pod: Value) -> list[UndoStep]:
    """The way back that a pod says, by the indices of today; none where it does not fit."""
    steps = parse_undo(get_value(pod, (*_ANNOTATIONS, ORIGINAL_ANNOTATION)))
    try:
        return apply_undo(pod, steps)[1] if steps else []
    except EditError:
        return []
