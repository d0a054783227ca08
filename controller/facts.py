"""Facts, counted anew when something changed and published for everybody.

All replicas answer from what stands in one ConfigMap, so that each says the same; the last few
versions stay there, because a pod notes which it was translated with. Knows nothing of watches.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from config.model import Configuration
from controller.field_probe import Probed
from controller.protocols import About, Kept, Object, Store, Told, Watched
from controller.watched_objects import Named
from dra.classes import class_reader
from dra.decode import Reader
from dra.finding import Finding
from dra.names import FACTS_CONFIG_MAP, FACTS_ORDER_ANNOTATION
from dra.nodes import node_reader
from dra.slices import slice_reader
from facts import serialized
from facts.gather import Gathered, Objects, gather
from facts.model import Facts
from facts.served_names import Twice
from translate.pods import Given, given

CURRENT: Final = "current"
# The newest first; the keys of a ConfigMap have no order.
VERSIONS: Final = 3
# The API server takes a MiB for all of it.
ROOM: Final = 900 * 1024
DUTY: Final = "facts"
_PREFIX: Final = "sha256:"
_SHOWN: Final = 20

T = TypeVar("T")


def key_of(digest: str) -> str:
    """Where the version with this hash stands."""
    return f"facts-{digest.removeprefix(_PREFIX)[:16]}.json"


def publication(facts: bytes, digest: str, live: Object | None) -> Object | None:
    """What the ConfigMap has to become; None where it is so already."""
    metadata = {**((live or {}).get("metadata") or {})}
    data: Mapping[str, str] = (live or {}).get("data") or {}
    if data.get(CURRENT) == digest and data.get(key_of(digest)) == facts.decode():
        return None
    annotations = {**(metadata.get("annotations") or {})}
    before = [
        each
        for each in annotations.get(FACTS_ORDER_ANNOTATION, "").split(",")
        if key_of(each) in data
    ]
    order, room = [digest], ROOM - len(facts)
    for each in dict.fromkeys((data.get(CURRENT, ""), *before)):
        room -= len(data.get(key_of(each), "").encode())
        if each not in order and key_of(each) in data and len(order) < VERSIONS and room >= 0:
            order.append(each)
    kept = {key_of(each): data[key_of(each)] for each in order[1:]}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            **metadata,
            "name": FACTS_CONFIG_MAP,
            "annotations": {**annotations, FACTS_ORDER_ANNOTATION: ",".join(order)},
        },
        "data": {CURRENT: digest, key_of(digest): facts.decode(), **kept},
    }


def version(data: Mapping[str, str], digest: str) -> Facts | None:
    """The facts with this hash; None where they are forgotten, or are not what they say."""
    written = data.get(key_of(digest))
    if written is None:
        return None
    try:
        found = serialized.read(msgspec.json.decode(written))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found if isinstance(found, Facts) and serialized.digest(found) == digest else None


class Sources(NamedTuple):
    """Where the objects come from."""

    slices: Watched[Named]
    classes: Watched[Named]
    nodes: Watched[Named]


class _Memory(Generic[T]):
    """Objects of one kind as last read; what has not changed is not read again."""

    def __init__(self, reader: Reader[T]) -> None:
        self._reader = reader
        self._known: dict[str, tuple[str, T | tuple[Finding, ...]]] = {}

    def read(self, kept: Iterable[Kept[Named]]) -> tuple[tuple[T, ...], tuple[Finding, ...]]:
        found = {}
        for each in kept:
            known = self._known.get(each.name)
            if known is None or known[0] != each.version:
                known = (each.version, self._reader.one(each.raw))
            found[each.name] = known
        self._known = found
        objects = tuple(one for _, one in found.values() if not isinstance(one, tuple))
        findings = (f for _, one in found.values() if isinstance(one, tuple) for f in one)
        return objects, tuple(findings)


class FactsDuty:
    """Gathers, publishes, and remembers what was published."""

    name = DUTY

    def __init__(  # noqa: PLR0913  # what facts are made of, and where they go
        self,
        sources: Sources,
        store: Store,
        namespace: str,
        *,
        configuration: Callable[[], Configuration],
        probed: Callable[[], Awaitable[Probed]],
        told: Told,
    ) -> None:
        self.given: Given | None = None
        self.twice: tuple[Twice, ...] | None = None
        self.listeners: list[Callable[[], None]] = []
        self._sources = sources
        self._store = store
        self._namespace = namespace
        self._configuration = configuration
        self._probed = probed
        self._told = told
        self._data: Mapping[str, str] = {}
        self._findings: tuple[Finding, ...] = ()
        self._slices = _Memory(slice_reader())
        self._classes = _Memory(class_reader())
        self._nodes = _Memory(node_reader())

    async def step(self) -> None:
        """Publish the facts of now; nothing before it is known which fields the server keeps."""
        probed, configuration = await self._probed(), self._configuration()
        live = await self._store.read(FACTS_CONFIG_MAP, self._namespace)
        self._data = (live or {}).get("data") or {}
        kept = tuple(tuple(each.all()) for each in self._sources)
        # Thousands of slices take seconds; the lease must be renewed meanwhile.
        gathered, unread = await asyncio.to_thread(self._gather, kept, configuration, probed)
        digest = serialized.digest(gathered.facts)
        change = publication(serialized.canonical(gathered.facts), digest, live)
        if change is not None:
            await self._write(change, live)
        self._tell((*gathered.findings, *unread[:_SHOWN]))
        same = self.given is not None and (
            self.given.digest == digest and self.given.configuration is configuration
        )
        twice, self.twice = self.twice, gathered.twice
        if not same:
            self.given = given(configuration, gathered.facts)
        if not same or twice != gathered.twice:
            for listener in self.listeners:
                listener()

    def version(self, digest: str) -> Facts | None:
        """The facts with this hash, if they are among the last few."""
        if self.given is not None and self.given.digest == digest:
            return self.given.facts
        return version(self._data, digest)

    async def _write(self, change: Object, live: Object | None) -> None:
        if live is None:
            await self._store.create(change, self._namespace)
        else:
            await self._store.replace(change, self._namespace)
        self._data = change["data"]
        self._told.count(DUTY, "published")

    def _gather(
        self,
        kept: tuple[tuple[Kept[Named], ...], ...],
        configuration: Configuration,
        probed: Probed,
    ) -> tuple[Gathered, tuple[Finding, ...]]:
        slices, bad_slices = self._slices.read(kept[0])
        classes, bad_classes = self._classes.read(kept[1])
        nodes, bad_nodes = self._nodes.read(kept[2])
        objects = Objects(slices, classes, nodes)
        gathered = gather(objects, configuration, probed.gates, probed.keeps)
        return gathered, (*bad_slices, *bad_classes, *bad_nodes)

    def _tell(self, findings: tuple[Finding, ...]) -> None:
        """Tell what is new; the same finding again is no news."""
        for finding in findings:
            if finding not in self._findings:
                self._told.say(
                    finding, About("ConfigMap", FACTS_CONFIG_MAP, self._namespace), "GatherFacts"
                )
        self._findings = findings
