"""Fakes for the reconcilers: an object cache and store, a reporter and a clock."""

# ruff: noqa: ANN401, D101, D102  # fakes of documented protocols; objects are JSON

import asyncio
import copy
import datetime as dt
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from controller.protocols import Gauge, ObjectReference, Unstructured
from drawbridge.api_error import ApiError
from drawbridge.finding import Finding

T = TypeVar("T")
START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


@dataclass(frozen=True)
class FakeObject(Generic[T]):
    namespace: str
    name: str
    uid: str
    version: str
    raw: bytes
    value: T


@dataclass
class FakeStore(Generic[T]):
    """Objects of one kind, readable as a cache with `shape` and writable as a store.

    `decode` replaces the decoder of the shape.
    """

    shape: type[T] | None
    objects: dict[tuple[str, str], Unstructured] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    # Called before a write with its verb and object; raises the error to inject.
    before_write: Callable[[str, Unstructured], None] = lambda _verb, _object: None
    # Returns the stored form of a created object.
    admit: Callable[[Unstructured], Unstructured] = lambda value: value
    version: int = 0
    decode: Callable[[bytes], T] | None = None
    _decoded: dict[tuple[str, str], tuple[Unstructured, FakeObject[T]]] = field(
        default_factory=dict
    )

    def put(self, value: Unstructured, created: dt.datetime = START) -> FakeObject[T]:
        stored = copy.deepcopy(value)
        metadata = stored.setdefault("metadata", {})
        self.version += 1
        key = (metadata.get("namespace", ""), metadata["name"])
        before = self.objects.get(key)
        metadata["uid"] = before["metadata"]["uid"] if before else f"uid-{self.version}"
        metadata["resourceVersion"] = f"{self.version}"
        metadata.setdefault("creationTimestamp", created.isoformat())
        self.objects[key] = stored
        return self.cached(key)

    def cached(self, key: tuple[str, str]) -> FakeObject[T]:
        value = self.objects[key]
        known = self._decoded.get(key)
        if known is None or known[0] is not value:
            raw, metadata = json.dumps(value).encode(), value["metadata"]
            shaped = self.decode(raw) if self.decode else msgspec.json.decode(raw, type=self.shape)
            version = metadata["resourceVersion"]
            known = (value, FakeObject(*key, metadata["uid"], version, raw, shaped))
            self._decoded[key] = known
        return known[1]

    def remove(self, name: str, namespace: str = "") -> FakeObject[T]:
        gone = self.cached((namespace, name))
        del self.objects[namespace, name]
        return gone

    # --- cache

    def get(self, name: str, namespace: str = "") -> FakeObject[T] | None:
        return self.cached((namespace, name)) if (namespace, name) in self.objects else None

    def all(self, namespace: str | None = None) -> Iterable[FakeObject[T]]:
        return [self.cached(key) for key in self.objects if namespace in (None, key[0])]

    # --- store

    async def read(self, name: str, namespace: str = "") -> Unstructured | None:
        return copy.deepcopy(self.objects.get((namespace, name)))

    async def list(self, namespace: str = "", *, fields: str = "") -> "list[Unstructured]":
        self.requests.append(("list", fields or namespace))
        return [
            copy.deepcopy(value)
            for key, value in self.objects.items()
            if namespace in ("", key[0]) and _matches(value, fields)
        ]

    async def create(
        self, value: Unstructured, namespace: str = "", *, dry_run: bool = False
    ) -> Unstructured:
        name = value["metadata"]["name"]
        self.requests.append(("dry-run" if dry_run else "create", name))
        await asyncio.sleep(0)  # a request lets others run
        self.before_write("create", value)
        if dry_run:
            return self.admit(copy.deepcopy(value))
        if (namespace, name) in self.objects:
            raise ApiError(409, "AlreadyExists")
        place = {"namespace": namespace} if namespace else {}
        self.put({**value, "metadata": {**value["metadata"], **place}})
        return self.objects[namespace, name]

    async def replace(self, value: Unstructured, namespace: str = "") -> Unstructured:
        name = value["metadata"]["name"]
        self.requests.append(("replace", name))
        await asyncio.sleep(0)
        self.before_write("replace", value)
        now = self.objects[namespace, name]["metadata"]["resourceVersion"]
        if value["metadata"].get("resourceVersion") != now:
            raise ApiError(409, "Conflict")
        self.put(value)
        return self.objects[namespace, name]

    async def apply(self, value: Unstructured, namespace: str = "") -> Unstructured:
        name = value["metadata"]["name"]
        self.requests.append(("apply", name))
        await asyncio.sleep(0)
        self.before_write("apply", value)
        self.put({**self.objects.get((namespace, name), {}), **copy.deepcopy(value)})
        return self.objects[namespace, name]

    async def merge(self, name: str, value: Unstructured, namespace: str = "") -> Unstructured:
        self.requests.append(("merge", name))
        await asyncio.sleep(0)
        self.before_write("merge", value)
        if (namespace, name) not in self.objects:
            raise ApiError(404, "NotFound")
        metadata = self.objects[namespace, name]["metadata"]
        version = value.get("metadata", {}).get("resourceVersion")
        if version not in (None, metadata["resourceVersion"]):
            raise ApiError(409, "Conflict")
        self.put(_merge(self.objects[namespace, name], value))
        return self.objects[namespace, name]

    async def delete(self, name: str, namespace: str = "", *, uid: str, version: str) -> bool:
        self.requests.append(("delete", name))
        await asyncio.sleep(0)
        self.before_write("delete", {"metadata": {"name": name}})
        held = self.objects.get((namespace, name))
        if held is None:
            return False
        if (held["metadata"]["uid"], held["metadata"]["resourceVersion"]) != (uid, version):
            raise ApiError(409, "Conflict")
        del self.objects[namespace, name]
        return True


def _matches(value: Unstructured, fields: str) -> bool:
    """Whether a field selector matches an object."""
    path, _, wanted = fields.partition("=")
    found: Any = value
    for part in path.split(".") if path else ():
        found = found.get(part, {})
    return not path or found == wanted


def _merge(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    new = dict(old)
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = _merge(old.get(key, {}), value)
    return new


@dataclass
class FakeReporter:
    """Records findings, counts and gauges."""

    reported: list[tuple[str, ObjectReference]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    gauges: dict[Gauge, float] = field(default_factory=dict)

    def report(self, finding: Finding, reference: ObjectReference, action: str) -> None:
        assert action
        self.findings.append(finding)
        self.reported.append((finding.code, reference))

    def count(self, reconciler: str, event: str) -> None:
        key = (reconciler, event)
        self.counts[key] = self.counts.get(key, 0) + 1

    def set_gauge(self, gauge: Gauge, value: float) -> None:
        self.gauges[gauge] = value

    @property
    def codes(self) -> list[str]:
        return [code for code, _ in self.reported]


@dataclass
class FakeClock:
    """A wall clock that only moves when a test moves it."""

    now: dt.datetime = START

    def __call__(self) -> dt.datetime:
        return self.now
