"""The changes of one pod, composed as JSON patch operations, and the way back from them.

Command line and admission apply the same operations. The way back is a JSON patch as well; it
stands on the pod as an annotation, which anybody may have written: a hint, never a ground for
trust. Knows nothing of devices.
"""

import json
from collections.abc import Iterable
from typing import Final

import msgspec

from documents.patch import Edit, EditError, edits_of, patched
from documents.paths import Path, get, index, show
from documents.values import Value, same

_SCALAR: Final = (str, int, float, bool, type(None))
ORIGINAL: Final = "drawbridge.dev/original"
_ANNOTATIONS: Final[Path] = ("metadata", "annotations")


def pointer(path: Path) -> str:
    """Write a path as a JSON pointer (RFC 6901)."""
    text = ""
    for token in path:
        if isinstance(token, str) and ("/" in token or "~" in token):
            token = token.replace("~", "~0").replace("/", "~1")  # noqa: PLW2901  # as it is written
        text += f"/{token}"
    return text


_Operation = dict[str, Value]


def operations(edits: Iterable[Edit]) -> list[_Operation]:
    """Write edits as the operations of a JSON patch (RFC 6902)."""
    return [_operation(edit.op, edit.path, edit.value) for edit in edits]


def _operation(op: str, path: Path, value: Value = None) -> _Operation:
    operation: _Operation = {"op": op, "path": pointer(path)}
    if op != "remove":
        operation["value"] = value
    return operation


class Patch:
    """Edits of one pod as they are composed: the pod with them made, and how to undo them.

    The pod that was given stays as it is: of what changes in it there are copies, one of each.
    """

    def __init__(self, pod: Value) -> None:
        self.pod = pod
        self.edits: list[Edit] = []
        self._undo: list[_Operation] = []
        self._copies: dict[int, Value] = {}  # by identity; held, so that none is given twice
        self._opened: dict[Path, Value] = {}  # what may be changed, by path; until paths change

    def put(self, path: Path, value: Value) -> None:
        """Let `value` stand at `path`; objects above it that are missing or null are made.

        Raises EditError where something else is in the way, and so do the others.
        """
        held, name = self._holder(path), path[-1]
        if held is None:
            self._build(path, value)
        elif isinstance(held, dict) and name not in held:
            self._make(held, Edit("add", path, value), *_leaving(path, value))
        elif not _there(held, name):
            raise EditError(f"there is no object or item at {show(path[:-1])}")
        elif not same(before := get(held, (name,)), value):
            undo = _operation("replace", path, before)
            self._make(held, Edit("replace", path, value), undo)

    def append(self, path: Path, value: Value) -> None:
        """Add an item to the list at `path`; what is there stays as it is."""
        held = self._holder((*path, 0))
        if held is None:
            self._build((*path, 0), value)
        elif isinstance(held, list):
            # By its number, so that the way back takes this one and no later one.
            at = (*path, len(held))
            self._make(held, Edit("add", at, value), _operation("remove", at))
        else:
            raise EditError(f"there is no list at {show(path)}")

    def _build(self, path: Path, value: Value) -> None:
        """Add a value with all that is missing above it; the way back takes it apart again."""
        size = next(i for i in range(1, len(path)) if get(self.pod, path[:i]) is None)
        top, held = path[:size], self._holder(path[:size])
        there = _there(held, top[-1])
        if not there and not isinstance(held, dict):
            raise EditError(f"there is no object or item at {show(top[:-1])}")
        undo = _leaving(path, value) if isinstance(path[-1], str) else [_operation("remove", path)]
        for end in range(len(path) - 1, size - 1, -1):
            undo.insert(0, _operation("remove", path[:end]))
            value = {f"{path[end]}": value} if isinstance(path[end], str) else [value]
        if there:
            undo[0] = _operation("replace", top)
        self._make(held, Edit("replace" if there else "add", top, value), *undo)

    def remove(self, path: Path) -> None:
        """Take out what stands at `path`, and an object that is empty without it."""
        held, name = self._holder(path), path[-1]
        if not _there(held, name):
            return
        alone = isinstance(held, dict) and len(held) == 1 and len(path) > 1
        if alone and path[-2] in _GOES_WHEN_EMPTY:
            self.remove(path[:-1])
        else:
            undo = _operation("add", path, get(held, (name,)))
            self._make(held, Edit("remove", path), undo)

    def remember(self) -> None:
        """Note the way back on the pod; what an earlier translation noted comes after it."""
        if not self.edits:
            return
        path = (*_ANNOTATIONS, ORIGINAL)
        written = get(self.pod, path)
        before = written_edits(written) if isinstance(written, str) else ()
        if get(self.pod, _ANNOTATIONS) is None:
            self.put(_ANNOTATIONS, {})
        # First of all: annotations that were made for this can only go when they are empty.
        first = [] if before else [_operation("remove", path)]
        back = [*first, *reversed(self._undo), *operations(before)]
        self.put(path, _text(back))

    def _make(self, held: Value, edit: Edit, *undo: _Operation) -> None:
        """Make an edit in what holds its end."""
        name = edit.path[-1]
        if edit.op != "add" and not (
            isinstance(held, dict) and isinstance(held.get(str(name)), _SCALAR)
        ):
            self._opened.clear()
        if isinstance(held, dict):
            if edit.op == "remove":
                del held[str(name)]
            else:
                held[str(name)] = edit.value
        elif isinstance(held, list):
            if edit.op == "remove":
                del held[int(name)]
            elif edit.op == "add":
                held.insert(int(name), edit.value)
            else:
                held[int(name)] = edit.value
        self.edits.append(edit)
        self._undo += undo

    def _holder(self, path: Path) -> Value:
        """Give what holds the end of `path`, to be changed; none where there is nothing."""
        above = path[:-1]
        if (held := self._opened.get(above)) is not None:
            return held
        self.pod = held = self._copy(self.pod)
        for token in above:
            if isinstance(held, dict):
                child = held.get(str(token))
                if isinstance(child, (dict, list)):
                    held[str(token)] = child = self._copy(child)
            elif isinstance(held, list) and (at := index(token, len(held))) is not None:
                held[at] = child = self._copy(held[at])
            else:
                return None
            held = child
        if isinstance(held, (dict, list)):
            self._opened[above] = held
        return held

    def _copy(self, value: Value) -> Value:
        if id(value) in self._copies or not isinstance(value, (dict, list)):
            return value
        copied = value.copy()
        self._copies[id(copied)] = copied
        return copied


def _there(held: Value, name: str | int) -> bool:
    if isinstance(held, dict):
        return name in held
    return isinstance(held, list) and index(name, len(held)) is not None


def _leaving(path: Path, value: Value) -> list[_Operation]:
    """Undo an addition, last first; what holds something of others by then would stay."""
    empty = type(value)() if isinstance(value, (dict, list)) and value else None
    emptied = [] if empty is None else [_operation("replace", path, empty)]
    return [_operation("remove", path), *emptied]


def _text(back: list[_Operation]) -> str:
    """Write a way back as it can be read; halves of characters, which JSON may have, escaped."""
    try:
        return msgspec.json.encode(back).decode()
    except UnicodeEncodeError:
        return json.dumps(back, separators=(",", ":"))


# Objects that say nothing when they are empty; `resources` or `metadata` may be somebody's.
_GOES_WHEN_EMPTY: Final = frozenset({"limits", "requests", "nodeSelector", "annotations", "labels"})


def written_edits(text: str) -> tuple[Edit, ...]:
    """Read a way back; empty where the annotation says nothing that can be read."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(read, list) or not all(isinstance(each, dict) for each in read):
        return ()
    try:
        return edits_of(read)
    except EditError:
        return ()


def restored(pod: Value) -> Value | None:
    """Take a pod back to what was asked; None where it does not say so, or not in a way that fits.

    An annotation that somebody copied or wrote gives some pod or none, and nothing else happens.
    """
    text = get(pod, (*_ANNOTATIONS, ORIGINAL))
    edits = written_edits(text) if isinstance(text, str) else ()
    if not edits:
        return None
    try:
        for edit in edits:
            if edit.op != "remove" or not _in_use(pod, edit.path):
                pod = patched(pod, (edit,))
    except EditError:
        return None
    return pod


def _in_use(pod: Value, path: Path) -> bool:
    """Whether a list or object that was made to hold something holds something of others."""
    held = get(pod, path) if path else None
    return isinstance(held, dict | list) and bool(held) and isinstance(get(pod, path[:-1]), dict)
