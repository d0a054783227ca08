"""An API server without a network: it answers requests at once, and tells watches what changes.

    server = Server()
    server.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    answer = server.answer(Seen("GET", "/api/v1/nodes/n1"))

`put`, `get`, `all` and `remove` access the objects directly and send watch events; `load` stores
many objects as they are. The server does not validate objects, set defaults or call webhooks.
"""

from collections.abc import Callable, Iterable

from tests.cluster.fake import answers, kinds
from tests.cluster.fake.answers import Answer
from tests.cluster.fake.kinds import JSON, copied
from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.store import Saved, Store, Watcher
from tests.cluster.fake.trouble import Seen

MANAGER = "test"


class Server:
    """One API server; several can have one store.

    `version` is the minor version it says; `watch_list` whether it offers initial events;
    `on_write(plural, object)` may change what is about to be kept, as an API server that drops
    fields does; `denied` are the resources that access reviews say nobody may use; with `graceful`,
    a deleted pod stays on its node until its kubelet deletes it.
    """

    def __init__(
        self, *, version: str = "1.36", watch_list: bool = True, store: Store | None = None
    ) -> None:
        self.version = version
        self.watch_list = watch_list
        self.on_write: Callable[[str, JSON], JSON] | None = None
        self.denied: set[str] = set()
        self.graceful = False
        self.store = store or Store()
        self.pages: dict[str, list[JSON]] = {}
        for name in ("default", "kube-system"):
            if self.store.find(kinds.named("namespaces"), "", name) is None:
                self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def tell(self) -> None:
        """Something was written."""

    # --- requests ------------------------------------------------------------------------------

    def answer(self, seen: Seen) -> Answer:
        """Answer a request that is no watch; raises RefusedError to reject it."""
        answer = answers.answer(self, seen)
        self.tell()
        return answer

    def watch(self, seen: Seen, deliver: Callable[[bytes | None], None]) -> Watcher:
        """Begin a watch; `end` ends it."""
        watcher = answers.watch(self, seen, deliver)
        self.store.watchers.append(watcher)
        self.tell()
        return watcher

    def end(self, watcher: Watcher) -> None:
        """Forget a watch."""
        self.store.watchers.remove(watcher)
        self.tell()

    # --- objects -------------------------------------------------------------------------------

    def load(self, values: Iterable[JSON]) -> None:
        """Store new objects as they are, without copies, events and managed fields."""
        for value in values:
            metadata, kind = value["metadata"], kinds.of_object(value)
            objects = self.store.objects.setdefault(kind, {})
            self.store.forget_listed(kind)
            objects[metadata.get("namespace", ""), metadata["name"]] = value

    def put(self, value: JSON) -> JSON:
        """Create or replace an object with its status; creates a missing namespace."""
        value = copied(value)
        kind, metadata = kinds.of_object(value), value["metadata"]
        if kind.namespaced:
            space = metadata.setdefault("namespace", "default")
            if not self.store.find(kinds.named("namespaces"), "", space):
                self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        before = self.store.find(kind, metadata.get("namespace", ""), metadata["name"])
        if before is None:
            made = self.store.create(kind, value, MANAGER)
        else:
            metadata.pop("resourceVersion", None)
            made = self.store.update(kind, before, value, MANAGER)
        self.tell()
        return copied(made)

    def get(self, kind: str, name: str, namespace: str = "") -> JSON | None:
        """Return an object by plural or kind; the default namespace is `default`."""
        which = kinds.named(kind)
        space = (namespace or "default") if which.namespaced else ""
        return copied(self.store.find(which, space, name))

    def all(self, kind: str, namespace: str = "") -> list[JSON]:
        """Return all objects of a kind, or those of one namespace."""
        return copied([*self.store.among(kinds.named(kind), namespace, "", "")])

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Delete an object; one with finalizers only gets a deletion timestamp."""
        which = kinds.named(kind)
        space = (namespace or "default") if which.namespaced else ""
        value = self.store.find(which, space, name)
        assert value is not None, f"no {kind} {space}/{name}"
        self.store.delete(which, value)
        self.tell()

    # --- watches and the history ---------------------------------------------------------------

    def say(self, line: bytes, part: str = "") -> None:
        """Send raw bytes to all watches."""
        for watcher in self.store.watchers:
            if part in watcher.kind.plural:
                watcher.deliver(line)

    def bookmark(self) -> None:
        """Send a bookmark to all watches."""
        for watcher in self.store.watchers:
            if watcher.bookmarks:
                watcher.bookmark(self.store.version)

    def end_watches(self) -> None:
        """End all watches normally."""
        for watcher in self.store.watchers:
            watcher.deliver(None)

    def expire(self) -> None:
        """Expire history and pages: lists fail at the next page, watches end with 410."""
        self.store.compact()
        self.pages.clear()
        refused = RefusedError(410, "too old resource version")
        for watcher in self.store.watchers:
            watcher.send("ERROR", refused.body)
            watcher.deliver(None)

    def saved(self) -> Saved:
        """Take a backup."""
        return self.store.saved()

    def restore(self, saved: Saved) -> None:
        """Restore a backup as after a restart: versions are assigned again."""
        self.store.restore(saved)
        self.pages.clear()
        self.end_watches()
