"""What a cache holds: objects as they were sent and as they were read, and who is told of changes.

Knows nothing of how objects arrive. An object that cannot be read is kept out and reported once:
it must neither end the cache nor stand in it with yesterday's content.
"""

import contextlib
import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from cluster.resources import Resource

T = TypeVar("T")
Key = tuple[str, str]
_LOG = logging.getLogger("cluster.cache")


class Kept(msgspec.Struct, Generic[T], frozen=True):
    """One object: `raw` is the JSON to write back, `value` the part that somebody reads."""

    namespace: str
    name: str
    uid: str
    version: str
    raw: bytes
    value: T


Listener = Callable[[Kept[T] | None, Kept[T] | None], None]


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Envelope(msgspec.Struct):
    """What every object says of itself."""

    metadata: _Metadata
    kind: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name


_ENVELOPE = msgspec.json.Decoder(Envelope)
# What msgspec and the hooks of shapes raise for values they do not take.
UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError, TypeError)


def envelope(raw: bytes | msgspec.Raw) -> Envelope:
    """Read what an object says of itself; one of UNREADABLE when it says nothing."""
    return _ENVELOPE.decode(raw)


class Shelf(Generic[T]):
    """Objects by namespace and name, with the listeners that are told of each change in order."""

    def __init__(self, resource: Resource, decode: Callable[[bytes], T]) -> None:
        self._resource = resource
        self._decode = decode
        self._prefix = b'{"kind":"%b","apiVersion":"%b",' % (
            resource.kind.encode(),
            resource.api_version.encode(),
        )
        self._listeners: list[Listener[T]] = []
        self._reported: dict[Key, str] = {}
        self.objects: dict[Key, Kept[T]] = {}
        self.revision = 0
        self.bugs = 0

    @property
    def unreadable(self) -> Mapping[Key, str]:
        """What is kept out, and why."""
        return self._reported

    def subscribe(self, listener: Listener[T]) -> None:
        """Tell `listener` of every change from now on."""
        self._listeners.append(listener)

    def read(self, head: Envelope, raw: bytes) -> Kept[T] | None:
        """Read an object; None when its content makes no sense, which is reported."""
        key, metadata = head.key, head.metadata
        now = self.objects.get(key)
        if now is not None and (now.uid, now.version) == (metadata.uid, metadata.resource_version):
            return now  # read before; a relist of what did not change costs nothing
        if not head.kind:
            # The items of a list say neither; whoever writes `raw` back has to.
            raw = self._prefix + raw.lstrip()[1:]
        try:
            value = self._decode(raw)
        except UNREADABLE as error:
            self._report(key, f"{error}")
            return None
        self._reported.pop(key, None)
        return Kept(key[0], key[1], metadata.uid, metadata.resource_version, raw, value)

    def put(self, kept: Kept[T]) -> None:
        """Keep a new or changed object."""
        key = kept.namespace, kept.name
        before = self.objects.get(key)
        if before is not kept:
            self.objects[key] = kept
            self._tell(before, kept)

    def drop(self, key: Key) -> None:
        """Forget an object that is no more."""
        before = self.objects.pop(key, None)
        if before is not None:
            self._tell(before, None)

    def gone(self, key: Key) -> None:
        """Forget an object that is no more, and that it could not be read."""
        self._reported.pop(key, None)
        self.drop(key)

    def replace(self, objects: Iterable[Kept[T]], listed: set[Key]) -> None:
        """Take a whole list for the truth; `listed` has those that could not be read, too."""
        now = {(kept.namespace, kept.name): kept for kept in objects}
        # What was deleted while nobody watched is found here and nowhere else. It is told first,
        # so that a device is free before whoever has it now takes it.
        for key in [key for key in self.objects if key not in now]:
            self.drop(key)
        for key in [key for key in self._reported if key not in listed]:
            del self._reported[key]
        for kept in now.values():
            self.put(kept)

    def _tell(self, before: Kept[T] | None, after: Kept[T] | None) -> None:
        self.revision += 1
        for listener in self._listeners:
            try:
                listener(before, after)
            except Exception:  # noqa: BLE001  # somebody else's bug must not end the cache
                self.bugs += 1
                _LOG.exception("a listener of %s failed", self._resource.plural)

    def _report(self, key: Key, error: str) -> None:
        if self._reported.get(key) != error:
            name = "/".join(part for part in key if part)
            _LOG.warning("%s %s cannot be read: %s", self._resource.kind, name, error)
        self._reported[key] = error


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Read many objects without looking for garbage meanwhile; only around what does not wait.

    Nothing of what is read can be garbage yet, and looking over it again and again cost two thirds
    of the time that 10,000 slices take.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def decoder(shape: type[T], decode: Callable[[bytes], T] | None) -> Callable[[bytes], T]:
    """Give what reads objects of a shape."""
    if decode is not None:
        return decode
    made: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)
    return made.decode
