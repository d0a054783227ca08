"""Interfaces that the reconcilers depend on: object caches, object stores, a reporter, a clock.

`controller.process` passes implementations that talk to the API server; tests pass fakes.
"""

import enum
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from drawbridge.finding import Finding

# An API object as decoded JSON. It holds every field, so that a write loses none.
Unstructured: TypeAlias = dict[str, Any]
WallClock: TypeAlias = Callable[[], datetime]
T_co = TypeVar("T_co", covariant=True)


class ObjectReference(msgspec.Struct, frozen=True):
    """The object that a finding is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class WatchedObject(Protocol[T_co]):
    """One object in a cache."""

    @property
    def namespace(self) -> str:
        """Its namespace; empty for a cluster-scoped object."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def uid(self) -> str:
        """Its uid."""

    @property
    def version(self) -> str:
        """Its resourceVersion."""

    @property
    def raw(self) -> bytes:
        """The complete object as JSON."""

    @property
    def value(self) -> T_co:
        """The decoded fields."""


class ObjectCache(Protocol[T_co]):
    """All objects of one kind, as last seen by the watch."""

    def get(self, name: str, namespace: str = "") -> WatchedObject[T_co] | None:
        """Return one object; None if the cache does not have it."""

    def all(self, namespace: str | None = None) -> Iterable[WatchedObject[T_co]]:
        """Return all objects, or all objects of one namespace."""


class ObjectStore(Protocol):
    """Objects of one kind on the API server; every method raises ApiError on failure."""

    async def read(self, name: str, namespace: str = "") -> Unstructured | None:
        """Read an object from the API server; None if it does not exist."""

    def iterate(self, namespace: str = "", *, fields: str = "") -> AsyncIterator[Unstructured]:
        """Yield the objects of a namespace that match a field selector; tenants can make many."""

    async def create(
        self, value: Unstructured, namespace: str = "", *, dry_run: bool = False
    ) -> Unstructured:
        """Create an object and return the stored form; with `dry_run` nothing is stored."""

    async def replace(self, value: Unstructured, namespace: str = "") -> Unstructured:
        """Replace an object; fails with 409 if it changed since it was read."""

    async def apply(self, value: Unstructured, namespace: str = "") -> Unstructured:
        """Apply the fields that this controller owns (server-side apply)."""

    async def merge(self, name: str, value: Unstructured, namespace: str = "") -> Unstructured:
        """Apply a JSON merge patch; null removes a field."""

    async def delete(self, name: str, namespace: str = "", *, uid: str, version: str) -> bool:
        """Delete this version of this object; False if another object has the name by now."""


class Gauge(enum.Enum):
    """The gauges that only the leader sets; they are 0 in every other replica."""

    LEADING = enum.auto()
    PODS_WITHOUT_TEMPLATE = enum.auto()
    MATCH_CONDITIONS_INACTIVE = enum.auto()
    DUAL_NODES = enum.auto()
    DUAL_NODE_IDLE_DEVICES = enum.auto()
    OWNED_NODES = enum.auto()
    UNFENCED_NODES = enum.auto()
    OTHER_WEBHOOKS = enum.auto()
    MOVING_NODES = enum.auto()
    BUNDLES_MISSING = enum.auto()


class Reporter(Protocol):
    """Reports findings to people and numbers to the metrics."""

    def report(self, finding: Finding, reference: ObjectReference, action: str) -> None:
        """Report a finding about an object; does not block."""

    def report_bug(self, reconciler: str, error: Exception) -> None:
        """Count and log an exception that nothing expects, which ended the work on one object."""

    def count(self, reconciler: str, event: str) -> None:
        """Count one event of a reconciler, such as `created`."""

    def set_gauge(self, gauge: Gauge, value: float) -> None:
        """Set a gauge to its current value."""
