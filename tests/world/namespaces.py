"""The namespaces that the quota of the team selects by a label, which come, go and change.

The namespace controller deletes what is in a namespace that is being deleted, and then this. Of a
namespace that is new, nobody knows the labels before they are seen.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from allocator.process import _Parts
from tests.cluster.fake.kinds import JSON, KINDS, Kind, named
from tests.cluster.fake.store import Change
from tests.world.events import GRACE_SECONDS, event
from tests.world.network import Network
from tests.world.objects import CHOOSING, SECOND, TEAM

if TYPE_CHECKING:
    from tests.world.world import World

_NAMESPACE = named("namespaces")
# What keeps a namespace until it is empty.
_FINALIZER = "kubernetes"
# What is in the namespaces of pods.
_WITHIN = tuple(
    kind
    for kind in KINDS
    if kind.plural
    in {
        *("pods", "resourceclaims", "resourceclaimtemplates", "podgroups", "workloads"),
        "poddisruptionbudgets",
    }
)
# The namespaces whose label changes.
SPACES: Final = (TEAM, SECOND, "default")


def make_namespaces() -> Iterator[JSON]:
    """Yield the namespaces of the team."""
    for name in (TEAM, SECOND):
        yield make_namespace(name, is_chosen=True)


def make_namespace(name: str, *, is_chosen: bool) -> JSON:
    """Return a namespace, with the label by which the quota selects it or without."""
    metadata = {"name": name, "labels": {**CHOOSING} if is_chosen else {}}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {**metadata, "finalizers": [_FINALIZER]},
    }


def is_chosen(namespace: JSON) -> bool:
    """Whether a namespace has the label."""
    return bool((namespace["metadata"].get("labels") or {}).items() >= CHOOSING.items())


class Namespaces:
    """Which namespaces the quota selects now, and has selected; and the namespace controller."""

    def __init__(self, network: Network, selects: str) -> None:
        self._network, self.selects = network, selects
        # The namespaces that the quota has selected at some time, as both at the start.
        self.limited = {TEAM, SECOND} if selects else {TEAM}
        # The claims by UID, also those that are gone.
        self.claims: dict[str, JSON] = {}
        self.beyond: list[str] = []  # what allocators have promised although a quota has no room

    def follow(self, kind: Kind, change: Change) -> None:
        """Note which namespaces are selected, and the claims."""
        value = change.after or {}
        if kind is _NAMESPACE and value and self.selects and is_chosen(value):
            self.limited.add(value["metadata"]["name"])
        if kind.plural == "resourceclaims" and value:
            self.claims[value["metadata"]["uid"]] = value

    def of_claim(self, uid: str) -> str:
        """Return the namespace of a claim; "" of what is no claim."""
        claim = self.claims.get(uid)
        return str(claim["metadata"]["namespace"]) if claim else ""

    def list_chosen(self) -> set[str]:
        """Return the namespaces that the quota selects."""
        if not self.selects:
            return {TEAM}
        stored = self._network.store.listed(_NAMESPACE)
        return {each["metadata"]["name"] for each in stored if is_chosen(each)}

    def list_seen(self, parts: _Parts) -> set[str]:
        """Return the namespaces that the quota selects as far as an allocator sees."""
        if not self.selects:
            return {TEAM}
        cached = parts.caches.namespaces.all()
        chosen = CHOOSING.items()
        return {each.name for each in cached if each.value.metadata.labels.items() >= chosen}

    def counted_with(self, space: str, chosen: set[str]) -> set[str]:
        """Return the namespaces that count together with one; none if nothing limits it."""
        if space not in chosen:
            return set()
        return chosen if self.selects == "selection" else {space}

    def is_open(self, name: str) -> bool:
        """Whether something can be created in a namespace."""
        namespace = self._network.store.find(_NAMESPACE, "", name)
        return namespace is not None and "deletionTimestamp" not in namespace["metadata"]

    async def run(self) -> None:
        """Empty and remove the namespaces that are being deleted, until cancelled."""
        store, random = self._network.store, self._network.random
        while True:
            await asyncio.sleep(random.uniform(0.3, 3))
            for namespace in (store.find(_NAMESPACE, "", name) for name in SPACES):
                if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
                    continue
                if not self._empty(namespace["metadata"]["name"]):
                    self._network.count("namespace that is gone")
                    metadata = {**namespace["metadata"], "finalizers": []}
                    self._network.fronts[0].server.put({**namespace, "metadata": metadata})

    def _empty(self, name: str) -> bool:
        """Delete what is in a namespace; return whether something was there."""
        store = self._network.store
        within = [(kind, each) for kind in _WITHIN for each in store.among(kind, name, "", "")]
        for kind, value in within:
            if "deletionTimestamp" not in value["metadata"]:
                store.delete(kind, value, GRACE_SECONDS if kind.plural == "pods" else 0)
        return bool(within)


@event(1)
def label_namespace(world: "World", drawn: int) -> str:
    """Let the quota select another namespace, or one fewer."""
    name = SPACES[drawn % len(SPACES)]
    namespace = world.network.store.find(_NAMESPACE, "", name)
    if not world.spaces.selects or namespace is None:
        return ""
    chosen = not is_chosen(namespace)
    labels = {**CHOOSING} if chosen else {}
    world.server.put({**namespace, "metadata": {**namespace["metadata"], "labels": labels}})
    return f"{name} is selected: {chosen}"


@event(0.6)
def change_namespaces(world: "World", drawn: int) -> str:
    """Delete a namespace with all that is in it, or create it again, sometimes with the label."""
    if not world.spaces.selects:
        return ""
    namespace = world.network.store.find(_NAMESPACE, "", SECOND)
    if namespace is None:
        chosen = bool(drawn % 4)
        world.server.put(make_namespace(SECOND, is_chosen=chosen))
        return f"{SECOND} is created, and selected: {chosen}"
    if drawn % 2:
        return ""
    # One that somebody's pod has created has no finalizer.
    kept = {**namespace["metadata"], "finalizers": [_FINALIZER]}
    world.server.put({**namespace, "metadata": kept})
    if (namespace := world.network.store.find(_NAMESPACE, "", SECOND)) is not None:
        world.network.store.delete(_NAMESPACE, namespace)
    return f"{SECOND} is deleted"
