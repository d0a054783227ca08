"""Objects of a cache, decoded further from the JSON that it keeps."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from controller.protocols import WatchedObject

T = TypeVar("T")


class Readings(Generic[T]):
    """Decoded objects without a namespace; one is decoded again only after it changed."""

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self._decode = decode
        self._read: dict[str, tuple[str, T]] = {}

    def read(self, cached: Iterable[WatchedObject[Any]]) -> Iterator[T]:
        """Decode the objects that are new or have changed, and return all."""
        read = {}
        for published in cached:
            entry = self._read.get(published.name)
            if entry is None or entry[0] != published.version:
                entry = (published.version, self._decode(published.raw))
            read[published.name] = entry
        self._read = read
        return (reading for _, reading in read.values())
