"""Caches of API objects that a reader decodes; an object that it cannot read is left out."""

from collections.abc import Callable
from typing import TypeVar

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.resources import Resource
from drawbridge.cluster.session import Session
from drawbridge.dra.decode import Reader

T = TypeVar("T")


def watch_objects(
    session: Session,
    resource: Resource,
    reader: Reader[T],
    *,
    keep: Callable[[T], T] | None = None,
) -> Cache[T]:
    """Return a cache of decoded objects without their JSON, or of what `keep` keeps of them."""
    shape: type[T] = object  # type: ignore[assignment]  # the decoder decides
    decode = _decode_with(reader, keep)
    return Cache(session, resource, shape, decode=decode, keep_raw=False)


def _decode_with(reader: Reader[T], keep: Callable[[T], T] | None) -> Callable[[bytes], T]:
    """Return a decoder that raises ValueError for an object that cannot be read."""

    def decode(raw: bytes) -> T:
        decoded = reader.read(raw)
        if isinstance(decoded, tuple):
            first = decoded[0]
            raise ValueError(f"{first.path}: {first.message}")  # noqa: TRY004  # not a type check
        return decoded if keep is None else keep(decoded)

    return decode
