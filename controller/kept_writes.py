"""Writes of which the API server has to keep everything.

A policy of others can remove an annotation, a label or a taint from each write. The API server
accepts such a write, and the next run finds the same to do. So that is a failure of the object.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from controller.protocols import ObjectStore, Unstructured
from drawbridge.api_error import ApiError
from drawbridge.dra.quantity import valid_quantity

# A precondition, and not a part of the object.
_VERSION: Final = "resourceVersion"
# Of a write that is not kept: until it is sent again, and the longest one.
_FIRST_PAUSE, _MAX_PAUSE = 2.0, 120.0


class NotKeptError(ApiError):
    """The API server accepted a write, and has not stored a part of it."""

    def __init__(self, name: str, path: str) -> None:
        text = f"{path} of {name} is not stored as written; a policy or another webhook changes it"
        super().__init__(422, "NotKept", text)


class _Lost(NamedTuple):
    """A write that was not kept, when its pause ends, and how long the pause is."""

    write: object
    until: float
    pause: float


class Pauses:
    """The pauses of writes that are not kept: of each object, the last such write.

    Only the same write waits, a growing time: another one of the object may be kept. `now` is a
    clock that is never set. With `refused`, writes that the API server refuses wait as well.
    """

    def __init__(self, now: Callable[[], float], *, refused: bool = False) -> None:
        self._now = now
        self._refused = refused
        self._lost: dict[str, _Lost] = {}

    def keep_only(self, names: Collection[str]) -> None:
        """Forget the writes of all objects but these."""
        self._lost = {name: each for name, each in self._lost.items() if name in names}

    def was_lost(self, name: str, write: object) -> bool:
        """Tell whether this was the last write of an object that was not kept."""
        return name in self._lost and self._lost[name].write == write

    def holds(self, name: str, write: object) -> bool:
        """Tell whether a write waits."""
        return self.was_lost(name, write) and self._now() < self._lost[name].until

    @contextmanager
    def follow(self, name: str, write: object) -> Iterator[None]:
        """Begin the pause of a write that turns out not to be kept, and end that of one that is."""
        try:
            yield
        except ApiError as error:
            waits = self._refused and error.refused and not error.changed
            if not isinstance(error, NotKeptError) and not waits:
                raise
            longer = 2 * self._lost[name].pause if self.was_lost(name, write) else _FIRST_PAUSE
            pause = min(longer, _MAX_PAUSE)
            self._lost[name] = _Lost(write, self._now() + pause, pause)
            raise
        self._lost.pop(name, None)


async def merge_kept(store: ObjectStore, name: str, value: Unstructured) -> None:
    """Apply a JSON merge patch to an object without a namespace; raises ApiError."""
    _check(name, value, await store.merge(name, value))


async def apply_kept(store: ObjectStore, value: Unstructured, namespace: str) -> None:
    """Apply the fields of this controller; raises ApiError."""
    name = f"{namespace}/{value['metadata']['name']}"
    _check(name, value, await store.apply(value, namespace))


def _check(name: str, sent: Unstructured, stored: Unstructured) -> None:
    if lost := find_lost(sent, stored):
        raise NotKeptError(name, lost)


def find_lost(sent: object, stored: object, path: str = "") -> str:
    """Return the path of a value that was sent and is not stored; empty if everything is.

    Null removes a field. A list is stored as a whole, and a quantity can have another form.
    """
    if isinstance(sent, Mapping):
        fields = stored if isinstance(stored, Mapping) else {}
        lost = (
            find_lost(value, fields.get(key), f"{path}.{key}".lstrip("."))
            for key, value in sent.items()
            if key != _VERSION
        )
        return next(filter(None, lost), "")
    if isinstance(sent, list):
        items = stored if isinstance(stored, list) else []
        lost = (find_lost(one, other, path) for one, other in zip(sent, items, strict=False))
        return path if len(sent) != len(items) else next(filter(None, lost), "")
    return "" if sent == stored or _is_same_quantity(sent, stored) else path


def _is_same_quantity(sent: object, stored: object) -> bool:
    amounts = valid_quantity(sent), valid_quantity(stored)
    return None not in amounts and amounts[0] == amounts[1]
