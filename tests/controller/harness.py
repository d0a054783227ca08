"""A small world for duties: objects of one kind with versions, somebody who is told, a clock."""

# ruff: noqa: ANN401, D101, D102  # what is faked says what it does; objects are plain JSON

import copy
import datetime as dt
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from controller.protocols import About, Object
from dra.finding import Finding

T = TypeVar("T")
START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


class WorldError(Exception):
    """What an API server answers."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class Kept(Generic[T]):
    namespace: str
    name: str
    uid: str
    version: str
    raw: bytes
    value: T


@dataclass
class Kind(Generic[T]):
    """Objects of one kind: watched as `shape`, and written."""

    shape: type[T]
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    # Called before a write, with its verb and object; raises what the world does.
    trouble: Callable[[str, Object], None] = lambda _verb, _object: None
    # What the server makes of an object that is created.
    keeps: Callable[[Object], Object] = lambda value: value
    version: int = 0

    def put(self, value: Object, created: dt.datetime = START) -> Kept[T]:
        stored = copy.deepcopy(value)
        metadata = stored.setdefault("metadata", {})
        self.version += 1
        key = (metadata.get("namespace", ""), metadata["name"])
        before = self.objects.get(key)
        metadata["uid"] = before["metadata"]["uid"] if before else f"uid-{self.version}"
        metadata["resourceVersion"] = f"{self.version}"
        metadata.setdefault("creationTimestamp", created.isoformat())
        self.objects[key] = stored
        return self.kept(key)

    def kept(self, key: tuple[str, str]) -> Kept[T]:
        value = self.objects[key]
        raw, metadata = json.dumps(value).encode(), value["metadata"]
        shaped = msgspec.json.decode(raw, type=self.shape)
        return Kept(*key, metadata["uid"], metadata["resourceVersion"], raw, shaped)

    def remove(self, name: str, namespace: str = "") -> Kept[T]:
        gone = self.kept((namespace, name))
        del self.objects[namespace, name]
        return gone

    # --- watched

    def get(self, name: str, namespace: str = "") -> Kept[T] | None:
        return self.kept((namespace, name)) if (namespace, name) in self.objects else None

    def all(self, namespace: str | None = None) -> Iterable[Kept[T]]:
        return [self.kept(key) for key in self.objects if namespace in (None, key[0])]

    # --- written

    async def read(self, name: str, namespace: str = "") -> Object | None:
        return copy.deepcopy(self.objects.get((namespace, name)))

    async def list(self, namespace: str = "", *, fields: str = "") -> "list[Object]":
        self.asked.append(("list", fields or namespace))
        return [
            copy.deepcopy(value)
            for key, value in self.objects.items()
            if namespace in ("", key[0]) and _has(value, fields)
        ]

    async def create(self, value: Object, namespace: str = "", *, dry_run: bool = False) -> Object:
        name = value["metadata"]["name"]
        self.asked.append(("dry-run" if dry_run else "create", name))
        self.trouble("create", value)
        if dry_run:
            return self.keeps(copy.deepcopy(value))
        if (namespace, name) in self.objects:
            raise WorldError(409, "AlreadyExists")
        place = {"namespace": namespace} if namespace else {}
        self.put({**value, "metadata": {**value["metadata"], **place}})
        return self.objects[namespace, name]

    async def replace(self, value: Object, namespace: str = "") -> Object:
        name = value["metadata"]["name"]
        self.asked.append(("replace", name))
        self.trouble("replace", value)
        now = self.objects[namespace, name]["metadata"]["resourceVersion"]
        if value["metadata"].get("resourceVersion") != now:
            raise WorldError(409, "Conflict")
        self.put(value)
        return self.objects[namespace, name]

    async def apply(self, value: Object, namespace: str = "") -> Object:
        name = value["metadata"]["name"]
        self.asked.append(("apply", name))
        self.trouble("apply", value)
        self.put({**self.objects.get((namespace, name), {}), **copy.deepcopy(value)})
        return self.objects[namespace, name]

    async def merge(self, name: str, value: Object, namespace: str = "") -> Object:
        self.asked.append(("merge", name))
        self.trouble("merge", value)
        if (namespace, name) not in self.objects:
            raise WorldError(404, "NotFound")
        self.put(_merged(self.objects[namespace, name], value))
        return self.objects[namespace, name]

    async def delete(self, name: str, namespace: str = "", *, uid: str, version: str) -> bool:
        self.asked.append(("delete", name))
        self.trouble("delete", {"metadata": {"name": name}})
        held = self.objects.get((namespace, name))
        if held is None:
            return False
        if (held["metadata"]["uid"], held["metadata"]["resourceVersion"]) != (uid, version):
            raise WorldError(409, "Conflict")
        del self.objects[namespace, name]
        return True


def _has(value: Object, fields: str) -> bool:
    """Whether an object has what a field selector says."""
    path, _, wanted = fields.partition("=")
    found: Any = value
    for part in path.split(".") if path else ():
        found = found.get(part, {})
    return not path or found == wanted


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    new = dict(old)
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = _merged(old.get(key, {}), value)
    return new


@dataclass
class Ears:
    """Remembers what was told and counted."""

    said: list[tuple[str, About]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    levels: dict[tuple[str, str], float] = field(default_factory=dict)

    def say(self, finding: Finding, about: About, action: str) -> None:
        assert action
        self.findings.append(finding)
        self.said.append((finding.code, about))

    def count(self, duty: str, what: str) -> None:
        self.counts[duty, what] = self.counts.get((duty, what), 0) + 1

    def level(self, duty: str, what: str, amount: float) -> None:
        self.levels[duty, what] = amount

    @property
    def codes(self) -> list[str]:
        return [code for code, _ in self.said]


@dataclass
class Watch:
    """A clock that stands until it is moved."""

    now: dt.datetime = START

    def __call__(self) -> dt.datetime:
        return self.now
