"""The changes of one pod, composed as JSON patch operations, and the way back from them.

Command line and admission apply the same operations. The way back (translate.back)
stands on the pod as an annotation, which anybody may have written: a hint, never a ground for
trust. Knows nothing of devices.
"""

import json
from collections.abc import Iterable
from typing import Final

import msgspec

from documents.patch import Edit, EditError
from documents.paths import Path, get, index, show
from documents.values import Value, same
from translate.back import Step, gone, naming, operation, read, written

_Operation = dict[str, Value]
_SCALAR: Final = (str, int, float, bool, type(None))
ORIGINAL: Final = "drawbridge.dev/original"
_ANNOTATIONS: Final[Path] = ("metadata", "annotations")


def operations(edits: Iterable[Edit]) -> list[_Operation]:
    """Write edits as the operations of a JSON patch (RFC 6902)."""
    return [operation(edit.op, edit.path, edit.value) for edit in edits]


class Patch:
    """Edits of one pod as they are composed: the pod with them made, and how to undo them.

    The pod that was given stays as it is: of what changes in it there are copies, one of each.
    """

    def __init__(self, pod: Value) -> None:
        self.pod = pod
        self.edits: list[Edit] = []
        self._given = pod
        self._undo: list[list[Step]] = []  # of each edit, in the order in which it is undone
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
            self._make(held, Edit("add", path, value), _leaving(path, value))
        elif not _there(held, name):
            raise EditError(f"there is no object or item at {show(path[:-1])}")
        elif not same(before := get(held, (name,)), value):
            undo = [*_as_put(path, value), Step("replace", path, before)]
            self._make(held, Edit("replace", path, value), undo)

    def append(self, path: Path, value: Value) -> None:
        """Add an item to the list at `path`; what is there stays as it is."""
        held = self._holder((*path, 0))
        if held is None:
            self._build((*path, 0), value)
        elif isinstance(held, list):
            # By its number, so that the way back takes this one and no later one.
            at = (*path, len(held))
            self._make(held, Edit("add", at, value), _leaving(at, value))
        else:
            raise EditError(f"there is no list at {show(path)}")

    def _build(self, path: Path, value: Value) -> None:
        """Add a value with all that is missing above it; the way back takes it apart again."""
        size, above = 1, get(self.pod, path[:1])
        while above is not None:
            above = get(above, (path[size],))
            size += 1
        top, held = path[:size], self._holder(path[:size])
        there = _there(held, top[-1])
        if not there and not isinstance(held, dict):
            raise EditError(f"there is no object or item at {show(top[:-1])}")
        undo = _leaving(path, value) if isinstance(path[-1], str) else []
        for end in range(len(path) - 1, size - 1, -1):
            token = path[end]
            made = path[:end]
            value = {token: value} if isinstance(token, str) else [value]
            rest: Value = value if not undo else {} if isinstance(token, str) else []
            undo += (Step("test", made, rest), Step("remove", made))
        if there:
            undo[-1] = Step("replace", top)
        self._make(held, Edit("replace" if there else "add", top, value), undo)

    def remove(self, path: Path) -> None:
        """Take out what stands at `path`, and an object or list that is empty without it."""
        held, name = self._holder(path), path[-1]
        if not isinstance(held, dict | list) or not _there(held, name):
            return
        if len(held) == 1 and len(path) > 1 and path[-2] in _GOES_WHEN_EMPTY:
            self.remove(path[:-1])
        else:
            undo = [*_beside(held, path), Step("add", path, get(held, (name,)))]
            self._make(held, Edit("remove", path), undo)

    def remember(self) -> None:
        """Note the way back on the pod; what an earlier translation noted comes after it."""
        if not self.edits:
            return
        path = (*_ANNOTATIONS, ORIGINAL)
        before = _way(self._given)
        if get(self.pod, _ANNOTATIONS) is None:
            self.put(_ANNOTATIONS, {})
        # First of all: annotations that were made for this can only go when they are empty.
        first = [] if before else [Step("remove", path)]
        undo = [step for each in reversed(self._undo) for step in each]
        back = [*written([*first, *undo]), *(operation(*step) for step in before)]
        self.put(path, _text(back))

    def _make(self, held: Value, edit: Edit, undo: list[Step]) -> None:
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
        self._undo.append([*self._through(edit.path), *undo])

    def _through(self, path: Path) -> list[Step]:
        """Name the items that a path goes through, where they have names."""
        steps = []
        for end in range(1, len(path) - 1):
            if type(path[end]) is int:
                at = (*path[: end + 1], "name")
                name = get(self.pod, at)
                if isinstance(name, str):
                    steps.append(Step("test", at, name))
        return steps

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


def _leaving(path: Path, value: Value) -> list[Step]:
    """Undo an addition."""
    return [*_as_put(path, value), Step("remove", path)]


def _as_put(path: Path, value: Value) -> list[Step]:
    """Make sure, before what was put somewhere goes, that it is that and nothing more."""
    if type(path[-1]) is int:
        return naming(path, value)
    return [Step("test", path, value)] if isinstance(value, (dict, list)) else []


def _beside(held: Value, path: Path) -> list[Step]:
    """Name the neighbour of an item that goes from a list, as it is called without the item."""
    at = path[-1]
    if not isinstance(held, list) or not isinstance(at, int) or len(held) < 2:
        return []
    before = max(at - 1, 0)
    return naming((*path[:-1], before), held[before if at else 1])


def _text(back: list[_Operation]) -> str:
    """Write a way back as it can be read; halves of characters, which JSON may have, escaped."""
    try:
        return msgspec.json.encode(back).decode()
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


def restored(pod: Value) -> Value | None:
    """Take a pod back to what was asked; None where it does not say so, or not in a way that fits.

    What others have inserted since stays. An annotation that somebody copied or wrote gives some
    pod or none, and nothing else happens.
    """
    steps = read(get(pod, (*_ANNOTATIONS, ORIGINAL)))
    if not steps:
        return None
    try:
        return gone(pod, steps)[0]
    except EditError:
        return None


def _way(pod: Value) -> list[Step]:
    """The way back that a pod says, by the indices of today; none where it does not fit."""
    steps = read(get(pod, (*_ANNOTATIONS, ORIGINAL)))
    try:
        return gone(pod, steps)[1] if steps else []
    except EditError:
        return []
