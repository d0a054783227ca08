"""The changes of one pod, composed as JSON patch operations, and the way back from them.

Command line and admission apply the same operations. The way back is a JSON patch as well; it
stands on the pod as an annotation, which anybody may have written: a hint, never a ground for
trust. Knows nothing of devices.
"""

import json
from collections.abc import Iterable
from typing import Final

from documents.patch import Edit, EditError, edits_of, patched
from documents.paths import Path, get, show
from documents.values import Value, same

ORIGINAL: Final = "drawbridge.dev/original"
_ANNOTATIONS: Final[Path] = ("metadata", "annotations")


def pointer(path: Path) -> str:
    """Write a path as a JSON pointer (RFC 6901)."""
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in path)


def operations(edits: Iterable[Edit]) -> list[dict[str, Value]]:
    """Write edits as the operations of a JSON patch (RFC 6902)."""
    return [_operation(edit) for edit in edits]


def _operation(edit: Edit) -> dict[str, Value]:
    operation: dict[str, Value] = {"op": edit.op, "path": pointer(edit.path)}
    if edit.op != "remove":
        operation["value"] = edit.value
    return operation


class Patch:
    """Edits of one pod as they are composed: the pod with them made, and how to undo them."""

    def __init__(self, pod: Value) -> None:
        self.pod = pod
        self.edits: list[Edit] = []
        self._undo: list[Edit] = []

    def put(self, path: Path, value: Value) -> None:
        """Let `value` stand at `path`; objects above it that are missing or null are made.

        Raises EditError where something else is in the way, and so do the others.
        """
        held, name = get(self.pod, path[:-1]), path[-1]
        if held is None:
            self.put(path[:-1], {str(name): value})
            return
        if not isinstance(held, dict | list):
            raise EditError(f"there is no object or list at {show(path[:-1])}")
        there = isinstance(held, list) or name in held
        if there and same(get(self.pod, path), value):
            return
        if there:
            self._make(Edit("replace", path, value), Edit("replace", path, get(self.pod, path)))
        else:
            self._make(Edit("add", path, value), Edit("remove", path))

    def append(self, path: Path, value: Value) -> None:
        """Add an item to the list at `path`; what is there stays as it is."""
        held = get(self.pod, path)
        if isinstance(held, list):
            # By its number, so that the way back takes this one and no later one.
            at = (*path, len(held))
            self._make(Edit("add", at, value), Edit("remove", at))
        elif held is None:
            self.put(path, [value])
        else:
            raise EditError(f"there is no list at {show(path)}")

    def remove(self, path: Path) -> None:
        """Take out what stands at `path`, and an object that is empty without it."""
        held = get(self.pod, path[:-1])
        there = path[-1] in held if isinstance(held, dict) else get(self.pod, path) is not None
        if not there:
            return
        if isinstance(held, dict) and len(held) == 1 and path[-2] in _GOES_WHEN_EMPTY:
            self.remove(path[:-1])
            return
        self._make(Edit("remove", path), Edit("add", path, get(self.pod, path)))

    def remember(self) -> None:
        """Note the way back on the pod; what an earlier translation noted comes after it."""
        if not self.edits:
            return
        path = (*_ANNOTATIONS, ORIGINAL)
        written = get(self.pod, path)
        before = written_edits(written) if isinstance(written, str) else ()
        # Where we made the annotations, or all metadata, they go with what is in them.
        removed = (each.path for each in self._undo if each.op == "remove")
        goes = any(path[: len(above)] == above for above in removed)
        last = () if goes else (Edit("remove", path),)
        back = (*reversed(self._undo), *(before or last))
        self.put(path, json.dumps(operations(back), separators=(",", ":"), ensure_ascii=False))

    def _make(self, edit: Edit, undo: Edit) -> None:
        self.pod = patched(self.pod, (edit,))
        self.edits.append(edit)
        self._undo.append(undo)


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
        return patched(pod, edits)
    except EditError:
        return None
