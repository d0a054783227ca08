"""Caches of API objects without their JSON."""

from collections.abc import Callable
from typing import TypeVar

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.resources import Resource
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import Accounting
from drawbridge.dra.decode import Reader
from drawbridge.finding import Finding
from drawbridge.memory_shares import MemoryShares, NamespaceLimit, find_limit_writer

T = TypeVar("T")
LimitT = TypeVar("LimitT", bound=NamespaceLimit)


def watch_objects(
    session: Session,
    resource: Resource,
    reader: Reader[T],
    *,
    keep: Callable[[T], T] | None = None,
    accounting: Accounting[T] | None = None,
) -> Cache[T]:
    """Return a cache of decoded objects, or of what `keep` keeps of them.

    An object that cannot be read is left out.
    """
    return _make_cache(session, resource, _decode_with(reader, keep), accounting)


def watch_readings(
    session: Session,
    resource: Resource,
    reader: Reader[T],
    accounting: Accounting[T | tuple[Finding, ...]] | None = None,
) -> Cache[T | tuple[Finding, ...]]:
    """Return a cache of decoded objects, and of the findings about those that cannot be read."""
    return _make_cache(session, resource, reader.read, accounting)


def watch_limits(
    session: Session,
    resource: Resource,
    shape: type[LimitT],
    shares: MemoryShares,
    reduce: Callable[[LimitT], LimitT],
) -> Cache[LimitT]:
    """Return a cache of what limits namespaces, for whose memory an administrator pays."""
    by_limiter = Accounting(shares, find_limit_writer, reduce)
    return Cache(session, resource, shape, keep_raw=False, accounting=by_limiter)


def _make_cache(
    session: Session,
    resource: Resource,
    decode: Callable[[bytes], T],
    accounting: Accounting[T] | None,
) -> Cache[T]:
    shape: type[T] = object  # type: ignore[assignment]  # the decoder decides
    return Cache(session, resource, shape, decode=decode, keep_raw=False, accounting=accounting)


def _decode_with(reader: Reader[T], keep: Callable[[T], T] | None) -> Callable[[bytes], T]:
    """Return a decoder that raises ValueError for an object that cannot be read."""

    def decode(raw: bytes) -> T:
        decoded = reader.read(raw)
        if isinstance(decoded, tuple):
            first = decoded[0]
            raise ValueError(f"{first.path}: {first.message}")  # noqa: TRY004  # not a type check
        return decoded if keep is None else keep(decoded)

    return decode
