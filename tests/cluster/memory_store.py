"""An API server in memory for tests and benches: the objects of one resource, with versions.

It implements the protocols behind which controller and webhook reach kube-apiserver, without HTTP.
It does not track the fields of managers, and `apply` replaces whole fields of the object.
"""

# ruff: noqa: D102  # methods of documented protocols; objects are JSON

import asyncio
import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from controller.protocols import ObjectStore
from drawbridge.api_error import ApiError
from drawbridge.cluster.resources import ApiObject
from drawbridge.cluster.store import CachedObject, ChangeListener
from tests.cluster.fake.answers import merged
from tests.cluster.fake.kinds import copied
from tests.cluster.fake.selectors import selects

T = TypeVar("T")
START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


@dataclass
class MemoryStore(Generic[T]):
    """Objects of one kind, readable as a cache with `shape` and writable as an `ObjectStore`.

    `decode` replaces the decoder of the shape. Requests wait until `unblocked` is set.
    """

    shape: type[T] | None
    objects: dict[tuple[str, str], ApiObject] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    # Called before a write with its verb and object; raises the error to inject.
    before_write: Callable[[str, ApiObject], None] = lambda _verb, _object: None
    # Returns the stored form of a created object.
    admit: Callable[[ApiObject], ApiObject] = lambda value: value
    version: int = 0
    decode: Callable[[bytes], T] | None = None
    unblocked: asyncio.Event = field(default_factory=asyncio.Event)
    _decoded: dict[tuple[str, str], tuple[ApiObject, CachedObject[T]]] = field(default_factory=dict)
    _listeners: list[ChangeListener[T]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.unblocked.set()

    def put(self, value: ApiObject, created: dt.datetime = START) -> CachedObject[T]:
        stored = copied(value)
        metadata = stored.setdefault("metadata", {})
        self.version += 1
        key = (metadata.get("namespace", ""), metadata["name"])
        before = self.objects.get(key)
        metadata["uid"] = before["metadata"]["uid"] if before else f"uid-{self.version}"
        metadata["resourceVersion"] = f"{self.version}"
        metadata.setdefault("creationTimestamp", created.isoformat())
        previous = self.cached(key) if before and self._listeners else None
        self.objects[key] = stored
        self._tell(previous, key)
        return self.cached(key)

    def _tell(self, before: CachedObject[T] | None, key: tuple[str, str]) -> None:
        for listener in self._listeners:
            listener(before, self.get(key[1], key[0]))

    def cached(self, key: tuple[str, str]) -> CachedObject[T]:
        value = self.objects[key]
        cached = self._decoded.get(key)
        if cached is None or cached[0] is not value:
            raw, metadata = msgspec.json.encode(value), value["metadata"]
            shaped = self.decode(raw) if self.decode else msgspec.json.decode(raw, type=self.shape)
            version = metadata["resourceVersion"]
            cached = (value, CachedObject(*key, metadata["uid"], version, raw, shaped))
            self._decoded[key] = cached
        return cached[1]

    def remove(self, name: str, namespace: str = "") -> CachedObject[T]:
        gone = self.cached((namespace, name))
        del self.objects[namespace, name]
        self._tell(gone, (namespace, name))
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

    async def list(self, namespace: str = "", *, fields: str = "") -> "list[ApiObject]":
        self.requests.append(("list", fields or namespace))
        return [
            copied(value)
            for key, value in self.objects.items()
            if namespace in ("", key[0]) and selects("", fields, value)
        ]

    async def create(
        self, value: ApiObject, namespace: str = "", *, dry_run: bool = False
    ) -> ApiObject:
        name = value["metadata"]["name"]
        await self._begin("dry-run" if dry_run else "create", name, value)
        if (namespace, name) in self.objects:
            raise ApiError(409, "AlreadyExists")
        admitted = self.admit(copied(value))
        if dry_run:
            return admitted
        place = {"namespace": namespace} if namespace else {}
        self.put({**admitted, "metadata": {**admitted["metadata"], **place}})
        return self.objects[namespace, name]

    async def replace(self, value: ApiObject, namespace: str = "") -> ApiObject:
        name = value["metadata"]["name"]
        await self._begin("replace", name, value)
        now = self.objects[namespace, name]["metadata"]["resourceVersion"]
        if value["metadata"].get("resourceVersion") != now:
            raise ApiError(409, "Conflict")
        self.put(value)
        return self.objects[namespace, name]

    async def apply(self, value: ApiObject, namespace: str = "") -> ApiObject:
        name = value["metadata"]["name"]
        await self._begin("apply", name, value)
        self.put({**self.objects.get((namespace, name), {}), **copied(value)})
        return self.objects[namespace, name]

    async def merge(self, name: str, value: ApiObject, namespace: str = "") -> ApiObject:
        await self._begin("merge", name, value)
        if (namespace, name) not in self.objects:
            raise ApiError(404, "NotFound")
        metadata = self.objects[namespace, name]["metadata"]
        version = value.get("metadata", {}).get("resourceVersion")
        if version not in (None, metadata["resourceVersion"]):
            raise ApiError(409, "Conflict")
        self.put(merged(self.objects[namespace, name], value))
        return self.objects[namespace, name]

    async def delete(self, name: str, namespace: str = "", *, uid: str, version: str) -> bool:
        await self._begin("delete", name, {"metadata": {"name": name}})
        held = self.objects.get((namespace, name))
        if held is None:
            return False
        if (held["metadata"]["uid"], held["metadata"]["resourceVersion"]) != (uid, version):
            raise ApiError(409, "Conflict")
        self.remove(name, namespace)
        return True


_: type[ObjectStore] = MemoryStore
