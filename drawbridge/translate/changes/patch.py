"""Composes the changes of one pod as JSON patch operations, with the patch that undoes them.

The command line and admission apply the same operations. The undo patch
(drawbridge.translate.changes.undo) is an annotation of the pod. Any user can write that annotation,
so it is never trusted.
"""

import enum
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from drawbridge.documents.patch import Edit, EditError, apply_edits
from drawbridge.documents.paths import Path, format_path, get_value, parse_index
from drawbridge.documents.values import Value, as_list, as_mapping, equal_json
from drawbridge.finding import Finding
from drawbridge.names import FACTS_ANNOTATION, ORIGINAL_ANNOTATION
from drawbridge.translate.changes.undo import (
    CONTAINER_LISTS,
    Operation,
    UndoStep,
    apply_undo,
    escape_token,
    item_name,
    make_operation,
    parse_undo,
    shorten,
    to_pointer,
)
from drawbridge.translate.codes import ANNOTATIONS_TOO_LARGE

_ENCODER: Final = msgspec.json.Encoder()
_ANNOTATIONS: Final[Path] = ("metadata", "annotations")


def to_operations(edits: Iterable[Edit]) -> list[Operation]:
    """Write edits as the operations of a JSON patch (RFC 6902)."""
    return [make_operation(edit.op, to_pointer(edit.path), edit.value) for edit in edits]


# The lists above a container: the list, the pointer to the name of its item, and the name.
_Names = tuple[tuple[str, str, str], ...]


class Original(enum.Enum):
    """The form of the annotation with the original requests."""

    FULL = enum.auto()
    """A JSON patch, which any tool can apply."""
    SHORT = enum.auto()
    """The same operations in about half of the space."""
    NONE = enum.auto()


class _Container:
    """A copy of an object or list that changes, and of the changed containers in it."""

    __slots__ = ("at", "held", "inner", "named")

    def __init__(
        self,
        held: dict[str, Value] | list[Value],
        at: str = "",
        named: _Names = (),
    ) -> None:
        self.held = held.copy()
        self.at = at  # as a JSON pointer
        self.named = named
        self.inner: dict[str | int, _Container] = {}

    def get(self, token: str | int) -> Value:
        """Return the value at a key or index, or None."""
        held = self.held
        if isinstance(held, dict):
            return held.get(f"{token}")
        index = parse_index(token, len(held))
        return None if index is None else held[index]

    def has(self, token: str | int) -> bool:
        """Whether there is a value at a key or index, even null."""
        if isinstance(self.held, dict):
            return token in self.held
        return parse_index(token, len(self.held)) is not None

    def open(self, token: str | int) -> "_Container | None":
        """Copy the object or list at a key or index to change it; None for other values."""
        held, child = self.held, self.get(token)
        if not isinstance(child, (dict, list)):
            return None
        place = self.inner[token] = _Container(child, self.to(token), self.named)
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
        """Return the pointer to a key or index."""
        key = f"{token}"
        if "/" in key or "~" in key:
            key = escape_token(key)
        return f"{self.at}/{key}"


class Patch:
    """The edits of one pod, the pod with the edits applied, and how to undo them.

    The original pod stays unchanged; every changed object and list is copied once.
    """

    def __init__(self, pod: Value) -> None:
        self.edits: list[Edit] = []
        self.operations: list[Operation] = []  # the edits as a JSON patch
        self._original = pod
        # For each edit: the names of items above it, the undo steps, and the list whose items move.
        self._undo: list[tuple[_Names, list[Operation], str | None]] = []
        self._top = _Container(pod if isinstance(pod, (dict, list)) else {})

    @property
    def pod(self) -> Value:
        """The pod with the edits applied."""
        return self._top.held if self.edits else self._original

    def put(self, path: Path, value: Value) -> None:
        """Set the value at `path`; creates missing or null objects above it.

        Like the other methods, raises EditError if a value above the path has the wrong type.
        """
        place, depth = self._find_container(path[:-1])
        name = path[-1]
        if depth < len(path) - 1:
            self._build(place, depth, path, value)
            return
        at, before = place.to(name), place.get(name)
        if before is not None or place.has(name):
            if not equal_json(before, value):
                undo = [*_test_unchanged(at, name, value), make_operation("replace", at, before)]
                self._apply(place, Edit("replace", path, value), at, undo)
        elif isinstance(place.held, dict):
            self._apply(place, Edit("add", path, value), at, _undo_addition(at, name, value))
        else:
            raise EditError(f"there is no object or item at {format_path(path[:-1])}")

    def append(self, path: Path, value: Value) -> None:
        """Append an item to the list at `path`."""
        place, depth = self._find_container(path)
        if isinstance(place.held, list) and depth == len(path):
            # Use the index, so that undo removes this item and not a later one.
            number = len(place.held)
            at = f"{place.at}/{number}"
            undo = [*_test_name(at, value), make_operation("remove", at)]
            self._apply(place, Edit("add", (*path, number), value), at, undo)
        elif depth == len(path) or (depth == len(path) - 1 and place.get(path[-1]) is not None):
            raise EditError(f"there is no list at {format_path(path)}")
        else:
            self._build(place, depth, (*path, 0), value)

    def _build(self, place: _Container, depth: int, path: Path, value: Value) -> None:
        """Add a value with its missing parents; undo removes the parents again."""
        top = path[depth]
        there = place.has(top)
        if place.get(top) is not None:
            raise EditError(f"there is no object or item at {format_path(path[: depth + 1])}")
        if not there and not isinstance(place.held, dict):
            raise EditError(f"there is no object or item at {format_path(path[:depth])}")
        at = f"{place.at}{to_pointer(path[depth:])}"
        undo = _undo_addition(at, path[-1], value) if isinstance(path[-1], str) else []
        for token in path[:depth:-1]:
            at = at.rpartition("/")[0]
            empty: Value = {} if isinstance(token, str) else []
            value = {token: value} if isinstance(token, str) else [value]
            undo.append({"op": "test", "path": at, "value": empty if undo else value})
            undo.append({"op": "remove", "path": at})
        if there:
            undo[-1] = make_operation("replace", at)
        edit = Edit("replace" if there else "add", path[: depth + 1], value)
        self._apply(place, edit, at, undo)

    def remove(self, path: Path) -> None:
        """Remove the value at `path`, and parents that are empty without it."""
        place, depth = self._find_container(path[:-1])
        name = path[-1]
        held, before = place.held, place.get(name)
        if depth < len(path) - 1 or (before is None and not place.has(name)):
            return
        if len(held) == 1 and depth and path[-2] in _REMOVED_WHEN_EMPTY:
            self.remove(path[:-1])
            return
        at = place.to(name)
        undo = [make_operation("add", at, before)]
        if isinstance(held, list):
            undo[:0] = _test_neighbor(place, held, name)
        self._apply(place, Edit("remove", path), at, undo)

    def add_undo(self, original: Original = Original.FULL) -> None:
        """Write the undo patch to the pod, followed by that of an earlier translation."""
        if not self.edits or original is Original.NONE:
            return
        path = (*_ANNOTATIONS, ORIGINAL_ANNOTATION)
        before = _read_undo(self._original)
        if get_value(self.pod, _ANNOTATIONS) is None:
            self.put(_ANNOTATIONS, {})
        # Remove the annotation first: new annotations can only be removed once they are empty.
        undo = [] if before else [make_operation("remove", to_pointer(path))]
        undo += self._compose_undo()
        undo += (make_operation(op, to_pointer(at), value) for op, at, value in before)
        self.put(path, _encode(shorten(undo) if original is Original.SHORT else undo))

    def _compose_undo(self) -> list[Operation]:
        """Undo the edits from the last one on; tests an item name once until its index changes."""
        tested: dict[str, set[str]] = {}  # item names by list
        back: list[Operation] = []
        for names, steps, moves in reversed(self._undo):
            for above, at, name in names:
                among = tested.setdefault(above, set())
                if at not in among:
                    among.add(at)
                    back.append(make_operation("test", at, name))
            back += steps
            if moves is not None:
                for path in [one for one in tested if f"{one}/".startswith(f"{moves}/")]:
                    del tested[path]
        return back

    def _apply(self, place: _Container, edit: Edit, at: str, undo: list[Operation]) -> None:
        """Apply an edit in the container that holds its path; `at` is the path as a pointer."""
        held, name = place.held, edit.path[-1]
        op, value = edit.op, edit.value
        moves = None
        if isinstance(held, dict):
            if op == "remove":
                del held[f"{name}"]
            else:
                held[f"{name}"] = value
            if op != "add":
                place.inner.pop(name, None)
            if name == "name":  # perhaps of an opened item
                self._top.inner.clear()
                place, _ = self._find_container(edit.path[:-1])
        else:
            moves = place.at
            if op == "add":
                held.insert(int(name), value)
            else:
                place.inner.clear()
                if op == "remove":
                    del held[int(name)]
                else:
                    held[int(name)] = value
        self.edits.append(edit)
        self.operations.append(make_operation(op, at, value))
        self._undo.append((place.named, undo, moves))

    def _find_container(self, path: Path) -> tuple[_Container, int]:
        """Return the deepest existing object or list on a path, and its depth."""
        place, depth = self._top, 0
        for token in path:
            inner = place.inner.get(token) or place.open(token)
            if inner is None:
                return place, depth
            place = inner
            depth += 1
        return place, depth


def _undo_addition(at: str, name: str | int, value: Value) -> list[Operation]:
    """Return the operations that undo an addition."""
    return [*_test_unchanged(at, name, value), make_operation("remove", at)]


def _test_unchanged(at: str, name: str | int, value: Value) -> list[Operation]:
    """Test, before removing an added value, that it has not changed."""
    if isinstance(name, int):
        return _test_name(at, value)
    return [make_operation("test", at, value)] if isinstance(value, (dict, list)) else []


def _test_neighbor(place: _Container, held: list[Value], at: str | int) -> list[Operation]:
    """Test the neighbor of an item that is removed from a list, at its index without the item."""
    if not isinstance(at, int) or len(held) < 2:
        return []
    before = max(at - 1, 0)
    return _test_name(place.to(before), held[before if at else 1])


def _test_name(at: str, item: Value) -> list[Operation]:
    """Return the test that identifies the item of a list."""
    name = item_name(item)
    if name is not None:
        return [make_operation("test", f"{at}/name", name)]
    return [] if item is None else [make_operation("test", at, item)]


def _encode(undo: Sequence[object]) -> str:
    """Encode an undo patch; escapes lone surrogates, which JSON may contain."""
    try:
        return _ENCODER.encode(undo).decode()
    except UnicodeEncodeError:
        return json.dumps(undo, separators=(",", ":"))


# Fields that mean nothing when empty, and that the API server does not keep empty. Not `resources`
# or `metadata`, which the user may have written.
_REMOVED_WHEN_EMPTY: Final = frozenset(
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
    """Restore the original pod; None without an undo annotation, or if it does not fit.

    Later changes of others stay. A copied or forged annotation has no other effect than its result.
    """
    try:
        steps = _parse_undo(pod)
        return apply_undo(pod, steps)[0] if steps else None
    except EditError:
        return None


def describe_misfit(pod: Value) -> str:
    """Return why the undo patch of a pod does not fit; empty if it does, or if there is none."""
    try:
        apply_undo(pod, _parse_undo(pod))
    except EditError as error:
        return f"{error}"
    return ""


def list_inputs(pod: Value) -> Iterator[Value]:
    """Yield the original pod, and then what each translation was given if there were two.

    The second one writes its undo steps before those of the first one, which begin with the removal
    of the annotation.
    """
    steps, path = _parse_undo(pod), (*_ANNOTATIONS, ORIGINAL_ANNOTATION)
    first = next((number for number, each in enumerate(steps) if each.path == path), 0)
    second = [(steps[:first], steps[first:]), (steps[first:], ())] if first else []
    for undone, kept in ((steps, ()), *second):
        try:
            given = apply_undo(pod, undone)[0] if undone else None
            if kept:
                undo = [make_operation(op, to_pointer(at), value) for op, at, value in kept]
                given = apply_edits(given, [Edit("replace", path, _encode(undo))])
        except EditError:
            continue
        if given is not None:
            yield given


def list_restored(pod: Value) -> set[Path]:
    """Return the fields that the undo patch of a pod adds to objects."""
    added = [step for step in _parse_undo(pod) if step.op == "add"]
    return {
        path
        for step in added
        for path in (step.path, *((*step.path, key) for key in as_mapping(step.value)))
    }


def had_claims(pod: Value) -> bool:
    """Whether a translation wrote claims to a pod: the undo patch takes them back.

    Another pod with a copy of the annotation, such as a helper of an operator, has other containers
    than those that the patch names, or lacks the other annotation that the patch takes back. What
    takes claims away because it does not know them takes no annotation.
    """
    steps, spec = _parse_undo(pod), as_mapping(get_value(pod, ("spec",)))
    has_claims = any(step.path[:2] == ("spec", "resourceClaims") for step in steps)
    facts = (*_ANNOTATIONS, FACTS_ANNOTATION)
    had_facts = any((step.op, step.path) == ("remove", facts) for step in steps)
    if had_facts and get_value(pod, facts) is None and not spec.get("resourceClaims"):
        return False
    return has_claims and all(
        any(item_name(each) == step.value for each in as_list(spec.get(f"{step.path[1]}")))
        for step in steps
        if step.op == "test" and step.path[3:] == ("name",) and step.path[1] in CONTAINER_LISTS
    )


def _parse_undo(pod: Value) -> Sequence[UndoStep]:
    """Parse the undo patch of a pod."""
    return parse_undo(get_value(pod, (*_ANNOTATIONS, ORIGINAL_ANNOTATION)))


def _read_undo(pod: Value) -> list[UndoStep]:
    """Return the undo steps on a pod, with current indices; empty if they do not fit."""
    steps = _parse_undo(pod)
    try:
        return apply_undo(pod, steps)[1] if steps else []
    except EditError:
        return []


MAX_ANNOTATION_BYTES: Final = 256 * 1024


def check_annotation_size(pod: Value) -> tuple[Finding, ...]:
    """Report annotations that the API server refuses for their size."""
    annotations = as_mapping(get_value(pod, ("metadata", "annotations")))
    total = sum(_count_bytes(key) + _count_bytes(text) for key, text in annotations.items())
    if total <= MAX_ANNOTATION_BYTES:
        return ()
    own = _count_bytes(annotations.get(ORIGINAL_ANNOTATION))
    message = (
        f"the annotations would have {total} bytes, of which {ORIGINAL_ANNOTATION} has {own}, but "
        f"the limit is {MAX_ANNOTATION_BYTES}"
    )
    return (ANNOTATIONS_TOO_LARGE.at("metadata.annotations", message),)


def _count_bytes(text: Value) -> int:
    return len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0
