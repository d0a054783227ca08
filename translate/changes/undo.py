"""The way back of a translated pod: a JSON patch whose steps name the items they are about.

Others insert containers and claims after us, and indices move. Before a step that counts on one
stands a `test` of the name, or of the whole item, that was there: a tool that knows nothing of us
fails where something moved, and we find the item again. Before a list or object that we made goes,
stands a `test` that it holds nothing, or just what is ours; where it holds more, the rest stays.
Anybody may have written a way back: it is read strictly, and going it never does more than so much
work.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from documents.patch import Edit, EditError, apply_edits
from documents.paths import Path, format_path, get_value, parse_index, parse_pointer
from documents.values import Value, equal_json

# What the API server lets all annotations of an object have; a pod of 100 containers needs a tenth.
MAX_LENGTH: Final = 256 * 1024
_MOST_STEPS: Final = 4096
_DEEPEST: Final = 32
_MOST_LOOKS: Final = 20_000


Op = Literal["add", "remove", "replace", "test"]
_OPERATIONS: Final[dict[object, Op]] = {
    "add": "add",
    "remove": "remove",
    "replace": "replace",
    "test": "test",
}


class UndoStep(NamedTuple):
    """One operation of a way back."""

    op: Op
    path: Path
    value: Value = None


# The same as it is written: an operation of a JSON patch (RFC 6902).
Operation = dict[str, Value]


def to_pointer(path: Path) -> str:
    """Write a path as a JSON pointer (RFC 6901)."""
    text = ""
    for token in path:
        key = f"{token}"
        text += f"/{escape_token(key)}" if "/" in key or "~" in key else f"/{key}"
    return text


def escape_token(key: str) -> str:
    """Write a key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def make_operation(op: str, at: str, value: Value = None) -> Operation:
    """Write an operation."""
    if op == "remove":
        return {"op": op, "path": at}
    return {"op": op, "path": at, "value": value}


def parse_undo(text: Value) -> tuple[UndoStep, ...]:
    """Read a way back; empty where the text says nothing that can be gone."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        return ()
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(listed, list) or len(listed) > _MOST_STEPS:
        return ()
    steps = []
    for each in listed:
        said = each if isinstance(each, dict) else {}
        op, path = _OPERATIONS.get(f"{said.get('op')}"), said.get("path")
        # Without a path it is another pod altogether.
        if op is None or not path or not isinstance(path, str):
            return ()
        if op != "remove" and ("value" not in said or _deep(said["value"], _DEEPEST)):
            return ()
        steps.append(UndoStep(op, parse_pointer(path), said.get("value")))
    return tuple(steps)


def _deep(value: Value, room: int) -> bool:
    """Whether values are nested deeper than anything in a pod is: comparing them would not end."""
    if not isinstance(value, dict | list) or not value:
        return False
    inner = value.values() if isinstance(value, dict) else value
    return room == 0 or any(_deep(each, room - 1) for each in inner)


def item_name(item: Value) -> str | None:
    """The name that tells an item of a list from the others, if it has one."""
    # Of the requests of one claim the name is the same.
    if isinstance(item, dict) and "request" not in item:
        name = item.get("name")
        if isinstance(name, str):
            return name
    return None


def name_test(path: Path, item: Value) -> list[UndoStep]:
    """Give the test that names the item of a list that stands at `path`."""
    name = item_name(item)
    if name is not None:
        return [UndoStep("test", (*path, "name"), name)]
    return [] if item is None else [UndoStep("test", path, item)]


def _guards(steps: Sequence[UndoStep], number: int) -> bool:
    """Whether a test says what a list or object holds that goes next, or becomes null again."""
    step = steps[number]
    if step.op != "test" or not isinstance(step.value, (dict, list)):
        return False
    return number + 1 < len(steps) and steps[number + 1].path == step.path


def apply_undo(pod: Value, steps: Sequence[UndoStep]) -> tuple[Value, list[UndoStep]]:
    """Go a way back: the pod as it was, and the steps by the indices that they have in this pod.

    Raises EditError where it does not fit.
    """
    going = _Going(pod)
    number = 0
    while number < len(steps):
        step = steps[number]
        if step.op != "test":
            going.change(step.op, step)
        elif _guards(steps, number) and going.left(step):
            number += 1  # and what it guards
        else:
            going.test(step)
        number += 1
    return going.pod, going.went


class _Going:
    """A pod on its way back, and where the items are that the steps name."""

    def __init__(self, pod: Value) -> None:
        self.pod = pod
        self.went: list[UndoStep] = []
        self._moved: dict[Path, int] = {}  # the index now, by a path as it is written
        self._looks = 0

    def left(self, step: UndoStep) -> bool:
        """Leave a list or object to others who use it, without what is ours; False: nobody does."""
        held = get_value(self.pod, self._path(step.path))
        if not step.value:
            return isinstance(held, dict | list) and bool(held)
        if not isinstance(held, list) or not isinstance(step.value, list):
            return False
        if next(self._places(self.pod, step), None) is not None:
            return False
        for item in step.value:
            one = (*step.path, "0")
            for each in name_test(one, item):
                self.test(each)
                self.change("remove", UndoStep("remove", one))
        return True

    def test(self, step: UndoStep) -> None:
        """Find what a step names, first of all where it should be."""
        found = next(self._places(self.pod, step), None)
        if found is None:
            raise EditError(f"{format_path(step.path)} is not what it was")
        for end, token in enumerate(found):
            if isinstance(token, int):
                self._moved[step.path[: end + 1]] = token
        self.went.append(UndoStep("test", found, step.value))

    def _places(self, held: Value, step: UndoStep, at: Path = ()) -> Iterator[Path]:
        if len(at) == len(step.path):
            if equal_json(held, step.value):
                yield at
            return
        token = step.path[len(at)]
        if isinstance(held, dict):
            if token in held:
                yield from self._places(held[str(token)], step, (*at, token))
        elif isinstance(held, list):
            for number in self._numbers(step.path[: len(at) + 1], len(held)):
                yield from self._places(held[number], step, (*at, number))

    def _numbers(self, path: Path, length: int) -> Iterator[int]:
        """The indices that may be meant by the end of a path, the likeliest first."""
        known = self._moved.get(path)
        written = parse_index(path[-1], length) if known is None else parse_index(known, length)
        if written is not None:
            yield written
        if known is None:
            for number in range(length):
                self._looks += 1
                if self._looks > _MOST_LOOKS:
                    raise EditError("there is too much to look through")
                if number != written:
                    yield number

    def change(self, op: Literal["add", "remove", "replace"], step: UndoStep) -> None:
        """Make a change where the item is now."""
        path = self._path(step.path)
        held = get_value(self.pod, path[:-1])
        value = step.value
        if op == "add" and isinstance(held, list):
            path = (*path[:-1], self._room(step.path, path[-1]))
        elif op == "add" and isinstance(held, dict):
            value = _both(held.get(str(path[-1])), value)
        self.pod = apply_edits(self.pod, (Edit(op, path, value),))
        self.went.append(UndoStep(op, path, value))
        if isinstance(held, list):
            above = step.path[:-1]
            for one in [one for one in self._moved if one[: len(above)] == above != one]:
                del self._moved[one]

    def _room(self, written: Path, at: str | int) -> str | int:
        """Where to add to a list: beside the item that was the neighbour."""
        number = parse_index(written[-1], 1 << 30)
        if number is None:
            return at  # at its end
        before = self._moved.get((*written[:-1], str(number - 1)))
        if written in self._moved or before is None:
            return self._moved.get(written, number)
        return before + 1

    def _path(self, path: Path) -> Path:
        return tuple(self._moved.get(path[: i + 1], token) for i, token in enumerate(path))


def _both(theirs: Value, ours: Value) -> Value:
    """Put back what went with its last entry; others may have made it again for theirs."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs.keys() & ours.keys():
            # The same is there where a later way back says what an earlier one came to.
            if isinstance(ours[key], dict | list) and not equal_json(ours[key], theirs[key]):
                raise EditError("others have put something of their own there")
        return theirs | ours
    if isinstance(theirs, list) and isinstance(ours, list):
        merged = len(theirs) <= len(ours) and equal_json(ours[len(ours) - len(theirs) :], theirs)
        return ours if merged else [*ours, *theirs]
    return ours
