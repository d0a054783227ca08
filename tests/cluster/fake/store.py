"""The storage of the fake API server: objects, versions, history and watchers.

Nothing waits here and nothing is drawn but from `drawn`, so that a clock and a seed decide all.
"""

import copy
import datetime as dt
import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from tests.cluster.fake import fields, status
from tests.cluster.fake.kinds import JSON, Kind, copied
from tests.cluster.fake.selectors import selects

Key = tuple[str, str]


class Change(NamedTuple):
    """One write: the object before and after it; None for a create or a delete."""

    version: int
    before: JSON | None
    after: JSON | None


@dataclass(eq=False)
class Watcher:
    """A watch; `deliver` gets lines to send unchanged, and None at the end of the watch."""

    kind: Kind
    chosen: Callable[[JSON], bool]
    bookmarks: bool
    deliver: Callable[[bytes | None], None]
    after: int = 0

    def tell(self, change: Change, lines: dict[str, bytes]) -> None:
        """Send the event of a change to a watch with selectors.

        Who asks for what is yet to come hears nothing before it comes: no error tells them. All
        watches have the same `lines`, by the type of the event.
        """
        if change.version <= self.after:
            return
        before = change.before if change.before and self.chosen(change.before) else None
        after = change.after if change.after and self.chosen(change.after) else None
        if after is not None:
            self.send("MODIFIED" if before else "ADDED", after, lines)
        elif before is not None:
            gone = copy.copy(change.after or before)
            gone["metadata"] = {**gone["metadata"], "resourceVersion": f"{change.version}"}
            self.send("DELETED", gone, lines)

    def send(self, event: str, value: JSON, lines: dict[str, bytes] | None = None) -> None:
        """Send an event."""
        lines = {} if lines is None else lines
        if event not in lines:
            lines[event] = encoded({"type": event, "object": value}) + b"\n"
        self.deliver(lines[event])

    def bookmark(self, version: int, **annotations: str) -> None:
        """Send a bookmark, unless the watch started at a later version."""
        if version < self.after:
            return
        metadata: JSON = {"resourceVersion": f"{version}"}
        if annotations:
            metadata["annotations"] = {
                f"k8s.io/{name.replace('_', '-')}": text for name, text in annotations.items()
            }
        shown = {"kind": self.kind.kind, "apiVersion": self.kind.api_version}
        self.send("BOOKMARK", {**shown, "metadata": metadata})


class ObjectWatcher(Watcher):
    """A watch that hands over the events as objects, which nobody changes, and None at its end."""

    def __init__(
        self,
        kind: Kind,
        chosen: Callable[[JSON], bool],
        show: Callable[[str, JSON | None], None],
    ) -> None:
        super().__init__(kind, chosen, bookmarks=False, deliver=self._end)
        self._show = show
        self._has_ended = False

    def send(self, event: str, value: JSON, _: dict[str, bytes] | None = None) -> None:
        """Hand over an event."""
        if not self._has_ended:
            self._show(event, value)

    def _end(self, _: bytes | None) -> None:
        self._has_ended = True
        self._show("", None)


class Saved(NamedTuple):
    """A state to restore, like a backup of etcd."""

    version: int
    objects: dict[Kind, dict[Key, JSON]]


class Store:
    """Objects by kind, namespace and name; every write has a version and stays in the history.

    `follows` says which kinds have `metadata.managedFields`; only these can be applied.
    """

    def __init__(
        self,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
        drawn: random.Random | None = None,
        follows: Callable[[Kind], bool] = lambda _: True,
    ) -> None:
        self.now = now
        self._follows = follows
        self.drawn = drawn or random.Random()
        self.version = 100
        self.oldest = self.version  # watches from before it are too old
        self.objects: dict[Kind, dict[Key, JSON]] = {}
        self._listed: dict[Kind, list[JSON]] = {}  # until one of the kind changes
        self.history: list[tuple[Kind, Change]] = []
        self.watchers: list[Watcher] = []
        self.listeners: list[Callable[[Kind, Change], None]] = []
        self._owners: dict[tuple[Kind, Key], fields.Owned] = {}

    # --- reading -------------------------------------------------------------------------------

    def find(self, kind: Kind, namespace: str, name: str) -> JSON | None:
        """Return an object."""
        return self.objects.get(kind, {}).get((namespace, name))

    def listed(self, kind: Kind) -> Sequence[JSON]:
        """Return all objects of a kind in order; the same list until one of them changes."""
        listed = self._listed.get(kind)
        if listed is None:
            objects = self.objects.get(kind, {})
            listed = self._listed[kind] = [objects[key] for key in sorted(objects)]
        return listed

    def among(self, kind: Kind, namespace: str, labels: str, chosen: str) -> Iterator[JSON]:
        """Return the matching objects, sorted by namespace and name."""
        listed = self.listed(kind)
        if not namespace and not labels and not chosen:
            return iter(listed)
        return (
            value
            for value in listed
            if namespace in ("", value["metadata"].get("namespace", ""))
            and selects(labels, chosen, value)
        )

    def forget_listed(self, kind: Kind) -> None:
        """Note that an object of a kind has changed."""
        self._listed.pop(kind, None)

    def since(self, kind: Kind, version: int) -> Iterable[Change]:
        """Return the changes since a version."""
        if version < self.oldest:
            raise status.expired(f"too old resource version: {version} ({self.oldest})")
        return [c for which, c in self.history if which is kind and c.version > version]

    # --- writing -------------------------------------------------------------------------------

    def create(self, kind: Kind, value: JSON, manager: str, *, dry: bool = False) -> JSON:
        """Store a new object."""
        metadata = value["metadata"]
        key = metadata.get("namespace", ""), metadata["name"]
        if self.find(kind, *key):
            raise status.exists(kind, metadata["name"])
        metadata["uid"] = f"{uuid.UUID(int=self.drawn.getrandbits(128), version=4)}"
        metadata["creationTimestamp"] = f"{self.now():%Y-%m-%dT%H:%M:%SZ}"
        if kind.status or kind.group == "resource.k8s.io":
            metadata["generation"] = 1
        owners: fields.Owned = {}
        if self._follows(kind):
            fields.written(None, value, f"{manager}/Update", owners)
        return self._keep(kind, key, None, value, owners, dry=dry)

    def update(
        self, kind: Kind, before: JSON, after: JSON, manager: str, *, dry: bool = False
    ) -> JSON:
        """Store the result of a PUT or a patch."""
        key = self._fixed(kind, before, after)
        owners = dict(self._owners.get((kind, key), {}))
        if self._follows(kind):
            fields.keep_listed(before, after, owners)
            fields.written(before, after, f"{manager}/Update", owners)
        return self._keep(kind, key, before, after, owners, dry=dry)

    def apply(
        self,
        kind: Kind,
        key: Key,
        value: JSON,
        manager: str,
        *,
        force: bool,
        dry: bool = False,
    ) -> JSON:
        """Apply the fields of a manager."""
        assert self._follows(kind), f"nobody applies {kind.plural} here"
        before = self.find(kind, *key)
        if before is None:
            made = self.create(kind, value, manager, dry=True)
            owners = {f"{manager}/Apply": fields.fields(value)}
            return self._keep(kind, key, None, made, owners, dry=dry)
        self._same_version(kind, value, before)
        owners = dict(self._owners.get((kind, key), {}))
        fights = fields.fight(before, value, f"{manager}/Apply", owners)
        if fights and not force:
            raise _fought(fights)
        after = fields.applied(before, value, f"{manager}/Apply", owners)
        self._fixed(kind, before, after)
        return self._keep(kind, key, before, after, owners, dry=dry)

    def delete(self, kind: Kind, value: JSON, grace_seconds: int = 0) -> JSON | None:
        """Delete an object; returns the object if its finalizers or a grace period keep it.

        No kubelet has to end a pod without a node, so that it has no grace period.
        """
        metadata = value["metadata"]
        grace_seconds = grace_seconds if (value.get("spec") or {}).get("nodeName") else 0
        key = metadata.get("namespace", ""), metadata["name"]
        if metadata.get("finalizers") or grace_seconds:
            if metadata.get("deletionTimestamp"):
                return value
            end = self.now() + dt.timedelta(seconds=grace_seconds)
            marks: JSON = {"deletionTimestamp": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
            if grace_seconds:
                marks["deletionGracePeriodSeconds"] = grace_seconds
            marked = {**value, "metadata": {**metadata, **marks}}
            return self._keep(kind, key, value, marked, self._owners.get((kind, key), {}))
        del self.objects[kind][key]
        self.forget_listed(kind)
        self._owners.pop((kind, key), None)
        self.version += 1
        self._tell(kind, Change(self.version, value, None))
        return None

    def _same_version(self, kind: Kind, value: JSON, before: JSON) -> None:
        said = value["metadata"].get("resourceVersion")
        if said and said != before["metadata"]["resourceVersion"]:
            why = (
                "the object has been modified; "
                "please apply your changes to the latest version and try again"
            )
            raise status.conflict(kind, before["metadata"]["name"], why)

    def _fixed(self, kind: Kind, before: JSON, after: JSON) -> Key:
        """Restore the fields that clients cannot set, and reject changes of immutable fields."""
        metadata, old = after["metadata"], before["metadata"]
        self._same_version(kind, after, before)
        if metadata.get("uid") not in (None, old["uid"]):
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, "
            raise status.conflict(kind, old["name"], f"{why}UID in object meta: {old['uid']}")
        for name in ("uid", "creationTimestamp", "generation", "resourceVersion"):
            if name in old:
                metadata[name] = old[name]
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "namespace"):
            if name in old:
                metadata[name] = old[name]
        for part in kind.frozen:
            if before.get(part) != after.get(part):
                raise status.invalid(kind, old["name"], part, "field is immutable")
        for part, name in kind.once:
            was, now = ((each.get(part) or {}).get(name) for each in (before, after))
            if was is not None and now is not None and was != now:
                raise status.invalid(kind, old["name"], f"{part}.{name}", "field is immutable")
        return old.get("namespace", ""), old["name"]

    def _keep(
        self,
        kind: Kind,
        key: Key,
        before: JSON | None,
        after: JSON,
        owners: fields.Owned,
        *,
        dry: bool = False,
    ) -> JSON:
        after = copied(after)
        metadata = after["metadata"]
        stay = self._owners.get((kind, key), {}).keys() <= owners.keys()
        if stay and before is not None and _content(before) == _content(after):
            if not dry:
                self._owners[kind, key] = owners
            return before  # a write without changes keeps the version
        if before is not None and "generation" in metadata:
            metadata["generation"] += before.get("spec") != after.get("spec")
        if self._follows(kind):
            metadata["managedFields"] = fields.managed(owners, kind.api_version)
        if dry:
            return after
        self.version += 1
        metadata["resourceVersion"] = f"{self.version}"
        self._owners[kind, key] = owners
        stays = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        gone = before is not None and metadata.get("deletionTimestamp") and not stays
        self.forget_listed(kind)
        if gone:
            del self.objects[kind][key]
        else:
            self.objects.setdefault(kind, {})[key] = after
        self._tell(kind, Change(self.version, before, None if gone else after))
        return after

    # --- watches and faults --------------------------------------------------------------------

    def _tell(self, kind: Kind, change: Change) -> None:
        self.history.append((kind, change))
        lines: dict[str, bytes] = {}
        for watcher in self.watchers:
            if watcher.kind is kind:
                watcher.tell(change, lines)
        for listener in self.listeners:
            listener(kind, change)

    def compact(self) -> None:
        """Delete the history: a watch can only start at the newest version."""
        self.oldest = self.version
        self.history.clear()

    def saved(self) -> Saved:
        """Take a backup."""
        return Saved(self.version, {kind: dict(held) for kind, held in self.objects.items()})

    def restore(self, saved: Saved) -> None:
        """Restore a backup: later versions are assigned again."""
        self.version = saved.version
        self.objects = {kind: dict(held) for kind, held in saved.objects.items()}
        self._listed.clear()
        self.oldest = saved.version
        self.history.clear()


def _fought(fights: dict[fields.Path, str]) -> status.RefusedError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{other}"',
            "field": "." + ".".join(path),
        }
        for path, other in fights.items()
    ]
    word = "conflict" if len(causes) == 1 else "conflicts"
    told = f"Apply failed with {len(causes)} {word}: {causes[0]['message']}"
    return status.RefusedError(409, told, causes=causes)


def _content(value: JSON) -> JSON:
    metadata = {k: v for k, v in value["metadata"].items() if k != "managedFields"}
    return {**value, "metadata": metadata}


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)
