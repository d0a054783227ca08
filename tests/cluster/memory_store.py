"""The objects of one resource in the storage of the fake API server, without requests.

It implements the protocols behind which controller and webhook reach kube-apiserver. `apply`
replaces whole fields of the object.
"""

# ruff: noqa: D102  # methods of documented protocols; objects are JSON

import asyncio
import datetime as dt
import random
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from controller.protocols import ObjectStore
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import error_from_response
from drawbridge.cluster.resources import ApiObject
from drawbridge.cluster.store import CachedObject, ChangeListener
from tests.cluster.fake.answers import merged
from tests.cluster.fake.kinds import Kind, copied
from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.store import Change, Store, encoded

T = TypeVar("T")
START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
# Whatever the objects are.
_KIND = Kind("", "v1", "objects", "Object", namespaced=True)
_MANAGER = "test"


@dataclass
class MemoryStore(Generic[T]):
    """Objects of one kind, readable as a cache with `shape` and writable as an `ObjectStore`.

    `decode` replaces the decoder of the shape. Requests wait until `unblocked` is set.
    """

    shape: type[T] | None
    requests: list[tuple[str, str]] = field(default_factory=list)
    # Called before a write with its verb and object; raises the error to inject.
    before_write: Callable[[str, ApiObject], None] = lambda _verb, _object: None
    # Returns the stored form of a created or applied object.
    admit: Callable[[ApiObject], ApiObject] = lambda value: value
    decode: Callable[[bytes], T] | None = None
    unblocked: asyncio.Event = field(default_factory=asyncio.Event)
    _decoded: dict[tuple[str, str], tuple[ApiObject, CachedObject[T]]] = field(default_factory=dict)
    _listeners: list[ChangeListener[T]] = field(default_factory=list)
    _created: dt.datetime = START

    def __post_init__(self) -> None:
        self._store = Store(lambda: self._created, random.Random(0), lambda _: False)
        self._store.listeners.append(self._tell)
        self.objects: dict[tuple[str, str], ApiObject] = self._store.objects.setdefault(_KIND, {})
        self.unblocked.set()

    def put(self, value: ApiObject, created: dt.datetime = START) -> CachedObject[T]:
        stored = copied(value)
        metadata = stored.setdefault("metadata", {})
        key = (metadata.get("namespace", ""), metadata["name"])
        if (before := self.objects.get(key)) is None:
            said = metadata.get("creationTimestamp")
            self._created = dt.datetime.fromisoformat(said) if said else created
            self._store.create(_KIND, stored, _MANAGER)
        else:
            metadata.pop("resourceVersion", None)
            metadata.pop("uid", None)
            self._store.update(_KIND, before, stored, _MANAGER)
        return self.cached(key)

    def _tell(self, _: Kind, change: Change) -> None:
        if self._listeners:
            before = self._read(change.before) if change.before else None
            after = self._read(change.after) if change.after else None
            for listener in self._listeners:
                listener(before, after)

    def cached(self, key: tuple[str, str]) -> CachedObject[T]:
        return self._read(self.objects[key])

    def _read(self, value: ApiObject) -> CachedObject[T]:
        metadata = value["metadata"]
        key = metadata.get("namespace", ""), metadata["name"]
        cached = self._decoded.get(key)
        if cached is None or cached[0] is not value:
            raw = msgspec.json.encode(value)
            shaped = self.decode(raw) if self.decode else msgspec.json.decode(raw, type=self.shape)
            version = metadata["resourceVersion"]
            cached = (value, CachedObject(*key, metadata["uid"], version, raw, shaped))
            self._decoded[key] = cached
        return cached[1]

    def remove(self, name: str, namespace: str = "") -> CachedObject[T]:
        gone = self.cached((namespace, name))
        self._store.delete(_KIND, self.objects[namespace, name])
        return gone

    # --- cache

    def get(self, name: str, namespace: str = "") -> CachedObject[T] | None:
        return self.cached((namespace, name)) if (namespace, name) in self.objects else None

    def all(self, namespace: str | None = None) -> Iterable[CachedObject[T]]:
        return [self.cached(key) for key in self.objects if namespace in (None, key[0])]

    def subscribe(self, listener: ChangeListener[T]) -> None:
        self._listeners.append(listener)

    # --- store

    async def _begin(self, verb: str, name: str, value: ApiObject) -> None:
        self.requests.append((verb, name))
        await asyncio.sleep(0)  # a request lets others run
        await self.unblocked.wait()
        self.before_write(verb, value)

    async def read(self, name: str, namespace: str = "") -> ApiObject | None:
        self.requests.append(("read", name))
        await self.unblocked.wait()
        return copied(self.objects.get((namespace, name)))

    async def iterate(self, namespace: str = "", *, fields: str = "") -> AsyncIterator[ApiObject]:
        self.requests.append(("list", fields or namespace))
        for each in copied([*self._store.among(_KIND, namespace, "", fields)]):
            yield each

    async def create(
        self, value: ApiObject, namespace: str = "", *, dry_run: bool = False
    ) -> ApiObject:
        name = value["metadata"]["name"]
        await self._begin("dry-run" if dry_run else "create", name, value)
        admitted = self.admit(copied(value))
        if namespace:
            admitted["metadata"]["namespace"] = namespace
        self._created = START
        return _answer(lambda: self._store.create(_KIND, admitted, _MANAGER, dry=dry_run))

    async def replace(self, value: ApiObject, namespace: str = "") -> ApiObject:
        await self._begin("replace", value["metadata"]["name"], value)
        return self._update(value["metadata"]["name"], namespace, lambda _: copied(value))

    async def apply(self, value: ApiObject, namespace: str = "") -> ApiObject:
        name = value["metadata"]["name"]
        await self._begin("apply", name, value)
        self.put(self.admit({**self.objects.get((namespace, name), {}), **copied(value)}))
        return self.objects[namespace, name]

    async def merge(self, name: str, value: ApiObject, namespace: str = "") -> ApiObject:
        await self._begin("merge", name, value)
        return self._update(name, namespace, lambda before: merged(before, value))

    def _update(
        self, name: str, namespace: str, change: Callable[[ApiObject], ApiObject]
    ) -> ApiObject:
        before = self.objects.get((namespace, name))
        if before is None:
            raise ApiError(404, "NotFound")
        return _answer(lambda: self._store.update(_KIND, before, change(before), _MANAGER))

    async def delete(self, name: str, namespace: str = "", *, uid: str, version: str) -> bool:
        await self._begin("delete", name, {"metadata": {"name": name}})
        held = self.objects.get((namespace, name))
        if held is None:
            return False
        if (held["metadata"]["uid"], held["metadata"]["resourceVersion"]) != (uid, version):
            raise ApiError(409, "Conflict")
        self.remove(name, namespace)
        return True


def _answer(write: Callable[[], ApiObject]) -> ApiObject:
    """Return what is stored; raises ApiError as a client does."""
    try:
        return write()
    except RefusedError as refused:
        raise error_from_response(refused.code, {}, encoded(refused.body)) from None


_: type[ObjectStore] = MemoryStore
