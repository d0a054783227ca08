"""A list-watch cache: all objects of a kind, kept in step with the API server.

`run` reads everything once and then follows the changes, for as long as it is not cancelled. It
never gives up and never raises for what the world does: `trouble` says what is wrong now, `age`
how old the news are.

Which version counts. A list without a version is a consistent read: the server answers with what
etcd holds now, never with less than somebody was already told. So a whole list is the truth, also
about what was deleted while nobody watched. Two things can still hand us something older:

- An event that was seen before, when a watch begins again, or from a server that lags. Versions of
  one kind are numbers that grow with time, so an event below what is kept is left out; above all
  it must not bring back what was deleted.
- A list below what was seen. Either something between us and etcd answers from memory although it
  must not, and the next answer is right; or etcd was set back to a backup, and every answer will
  be like that, because the versions seen since will never have happened. One such list is
  therefore not believed and three in a row, some time apart, are: then the past is the truth, and
  keeping what we saw would be inventing objects. A watch would never tell: from a version that is
  yet to come the server waits for it in silence. So before a watch is begun again the server is
  asked how far it is. Should it have counted beyond what we saw by then, nobody can tell from
  versions, and only a restart helps; that is what Kubernetes tells administrators to do to every
  component after restoring etcd.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Final, Generic, TypeVar

import msgspec

from cluster.backoff import Backoff
from cluster.errors import ApiError, UnreachableError, from_status
from cluster.resources import Resource
from cluster.session import Session
from cluster.store import (
    UNREADABLE,
    Envelope,
    Kept,
    Key,
    Listener,
    Shelf,
    decoder,
    envelope,
    uncollected,
)

__all__ = ["Cache", "Kept"]

T = TypeVar("T")
_LOG = logging.getLogger("cluster.cache")
# A server ends a watch after this long, so that none holds on to one server forever.
WATCH_SECONDS: Final = (300, 600)
LIST_SECONDS: Final = 60.0
SILENT_SECONDS: Final = 100.0  # bookmarks come once a minute
# So many lists in a row below what was seen are the truth.
SET_BACK: Final = 3
# A page that expires before the next is asked for was too small for this server.
RESTARTS: Final = 4
_END = "k8s.io/initial-events-end"


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Mark(msgspec.Struct, rename="camel"):
    resource_version: str
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct):
    metadata: _Mark


_PAGE = msgspec.json.Decoder(_Page)
_EVENT = msgspec.json.Decoder(_Event)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)


class _GarbageError(ApiError):
    """The server sent what is no event; what else it did not send cannot be known."""


class _Listing(Generic[T]):
    """A list in the making: what was read, and what was there at all."""

    def __init__(self, shelf: Shelf[T]) -> None:
        self._shelf = shelf
        self.objects: dict[Key, Kept[T]] = {}
        self.keys: set[Key] = set()

    def add(self, head: Envelope, raw: bytes) -> None:
        self.keys.add(head.key)
        kept = self._shelf.read(head, raw)
        if kept is not None:
            self.objects[head.key] = kept

    def take(self, items: Iterable[msgspec.Raw]) -> None:
        with uncollected():
            self._take(items)

    def _take(self, items: Iterable[msgspec.Raw]) -> None:
        for raw in items:
            try:
                head = envelope(raw)
            except UNREADABLE as error:
                _LOG.warning("an object of a list says not what it is: %s", error)
                continue
            # A copy, because a view would hold the whole page as long as one of its objects lives.
            self.add(head, bytes(raw))


class Cache(Generic[T]):
    """All objects of a kind, or those chosen by namespace and selectors, as `shape`.

    Listeners are called in order of change, in the loop, after the change; one that raises is
    counted in `bugs` and logged. `restarts` counts how often it had to begin again.
    """

    restarts = 0
    trouble = "not listed yet"
    _heard: float | None = None
    _told = 0  # how often a watch said something
    _version = ""  # how far we have seen
    _older = 0  # how many lists in a row were below that
    _lost = True  # whether only a whole list can tell what is there
    _streams = True  # whether that list is asked for as a stream

    def __init__(  # noqa: PLR0913  # all but three by name
        self,
        session: Session,
        resource: Resource,
        shape: type[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        page: int = 500,
        watch_list: bool = True,
        decode: Callable[[bytes], T] | None = None,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.resource = resource
        self._session = session
        self._shelf = Shelf(resource, decoder(shape, decode))
        self._path = resource.path(namespace)
        chosen = {"labelSelector": labels, "fieldSelector": fields}
        self._chosen = {name: text for name, text in chosen.items() if text}
        self._page = page
        self._watch_list = watch_list
        self._now = now
        self._pause = pause
        self._backoff = Backoff()
        self._synced = asyncio.Event()

    # --- what it holds -------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether everything was read once; it stays so, and `age` says how well it is kept up."""
        return self._synced.is_set()

    @property
    def revision(self) -> int:
        """A number that grows with every change."""
        return self._shelf.revision

    @property
    def bugs(self) -> int:
        """How often a listener raised."""
        return self._shelf.bugs

    @property
    def undecodable(self) -> int:
        """How many objects are kept out, because they cannot be read as the shape."""
        return len(self._shelf.unreadable)

    async def until_synced(self) -> None:
        """Wait until everything was read once."""
        await self._synced.wait()

    def age(self) -> float:
        """Seconds since the server last said anything; infinite before it ever did."""
        return float("inf") if self._heard is None else self._now() - self._heard

    @property
    def fresh(self) -> bool:
        """Whether nothing is wrong, as far as can be known, and the server spoke lately."""
        return self.synced and not self.trouble and self.age() < SILENT_SECONDS

    def get(self, name: str, namespace: str = "") -> Kept[T] | None:
        """Give one object."""
        return self._shelf.objects.get((namespace, name))

    def all(self, namespace: str | None = None) -> Iterable[Kept[T]]:
        """Give all objects, or a namespace's; what changes meanwhile is not seen."""
        objects = self._shelf.objects.values()
        return [kept for kept in objects if namespace is None or kept.namespace == namespace]

    def subscribe(self, listener: Listener[T]) -> None:
        """Tell `listener` of every change from now on: the object before, and after it."""
        self._shelf.subscribe(listener)

    # --- following -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep in step until cancelled."""
        while True:
            asked, told = self._now(), self._told
            try:
                if self._lost:
                    await self._begin()
                elif await self._is_ahead():
                    await self._watch({"resourceVersion": self._version}, None)
            except ApiError as error:
                self._lost = self._lost or _needs_list(error)
                await self._rest(error)
            else:
                # A server that ends every watch at once must not be asked in a loop.
                if self._told == told and self._now() - asked < 1:
                    await self._pause(self._backoff.pause())
            self.restarts += 1

    async def _rest(self, error: ApiError) -> None:
        self.trouble = f"{error}"
        pause = self._backoff.pause(error.retry_after)
        level = logging.WARNING if error.forbidden else logging.INFO
        _LOG.log(level, "%s: %s; again in %.1f s", self.resource.plural, error, pause)
        await self._pause(pause)

    async def _begin(self) -> None:
        """Read everything and follow it from there."""
        streams, self._streams = self._streams, True
        if self._watch_list and streams:
            # Should the stream break before the list in it is whole, pages have the next turn:
            # something on the way may be unable to carry it.
            self._streams = False
            initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            try:
                return await self._watch(initial, _Listing(self._shelf))
            except ApiError as error:
                if error.code not in (400, 422):
                    raise
                self._watch_list = False  # not offered here
        await self._list()
        await self._watch({"resourceVersion": self._version}, None)
        return None

    async def _is_ahead(self) -> bool:
        """Tell whether the server is as far as we are; else what we hold is in question."""
        query = {**self._chosen, "limit": "1"}
        page = self._decoded(await self._session.call("GET", self._path, query=query))
        self._lost = _older(page.metadata.resource_version, self._version)
        return not self._lost

    async def _list(self) -> None:
        page = self._page
        for _ in range(RESTARTS):
            try:
                listing, version = await self._pages(page)
            except ApiError as error:
                if not error.gone:
                    raise
                page *= 4
            else:
                self._whole(listing, version)
                return
        # Too large for any page size within the time the server keeps them: all at once then.
        self._whole(*await self._pages(0))

    async def _pages(self, size: int) -> tuple[_Listing[T], str]:
        listing = _Listing(self._shelf)
        query = {**self._chosen, **({"limit": f"{size}"} if size else {})}
        while True:
            answer = await self._session.call("GET", self._path, query=query, seconds=LIST_SECONDS)
            page = self._decoded(answer)
            listing.take(page.items or ())
            if not page.metadata.continue_:
                return listing, page.metadata.resource_version
            query["continue"] = page.metadata.continue_

    def _decoded(self, answer: bytes) -> _Page:
        self._heard = self._now()
        try:
            return _PAGE.decode(answer)
        except UNREADABLE as error:
            raise _GarbageError(0, "Garbage", f"a list of {self._path}: {error}") from None

    def _whole(self, listing: _Listing[T], version: str) -> None:
        """Take a whole list, unless it is older than what was seen; see the top of this file."""
        if _older(version, self._version) and self._older + 1 < SET_BACK:
            self._older += 1
            told = f"a list of {self._path} is at version {version}, before {self._version}"
            raise ApiError(504, "Older", told)
        self._older = 0
        self._lost = False
        self._streams = True
        self._shelf.replace(listing.objects.values(), listing.keys)
        self._well(version)
        self._synced.set()

    def _well(self, version: str) -> None:
        self._version = version
        self.trouble = ""
        self._backoff.reset()

    async def _watch(self, query: dict[str, str], listing: _Listing[T] | None) -> None:
        """Follow a watch to its end; with `listing`, what comes first is a list."""
        seconds = random.randint(*WATCH_SECONDS)  # noqa: S311  # jitter
        usual = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": f"{seconds}"}
        stream = self._session.stream(self._path, query={**self._chosen, **usual, **query})
        async with stream as chunks, aclosing(chunks):
            if listing is None:
                self.trouble = ""
            async for lines in chunks:
                self._heard = self._now()
                self._told += 1
                with uncollected():
                    for line in lines:
                        listing = self._event(line, listing)
        if listing is not None:
            raise UnreachableError(f"the list of {self._path} ended in the middle")

    def _event(self, line: bytes, listing: _Listing[T] | None) -> _Listing[T] | None:
        try:
            event = _EVENT.decode(line)
            if event.type == "ERROR":
                raise from_status(500, bytes(event.object))
            if event.type == "BOOKMARK":
                return self._bookmark(_BOOKMARK.decode(event.object).metadata, listing)
            head = envelope(event.object)
        except UNREADABLE as error:
            shown = line[:80].decode(errors="replace")
            raise _GarbageError(
                0, "Garbage", f"a watch of {self._path}: {error}: {shown}"
            ) from None
        if listing is not None:
            listing.add(head, bytes(event.object))
        else:
            self._change(event.type, head, bytes(event.object))
        return listing

    def _bookmark(self, mark: _Mark, listing: _Listing[T] | None) -> _Listing[T] | None:
        if listing is None:
            if not _older(mark.resource_version, self._version):
                self._well(mark.resource_version)
        elif mark.annotations.get(_END) == "true":
            self._whole(listing, mark.resource_version)
            return None
        return listing

    def _change(self, event: str, head: Envelope, raw: bytes) -> None:
        version = head.metadata.resource_version
        if _older(version, self._version):
            return
        if event == "DELETED":
            self._shelf.gone(head.key)
        else:
            kept = self._shelf.read(head, raw)
            if kept is None:
                self._shelf.drop(head.key)
            else:
                self._shelf.put(kept)
        self._well(version)


def _needs_list(error: ApiError) -> bool:
    """Tell whether a watch cannot go on from where it was.

    Gone: the version was forgotten. 504: the server says that the version is yet to come. What was
    garbled or is refused may be anything. A server that cannot be reached, is busy or just starts
    (429, 500, 503) keeps its history: thousands of clients that all list would keep it down.
    """
    if isinstance(error, UnreachableError):
        return False
    return error.gone or error.code not in (429, 500, 502, 503)


def _older(version: str, than: str) -> bool:
    """Compare versions; what is no number cannot be told apart and counts as new."""
    if version.isdecimal() and than.isdecimal():
        return int(version) < int(than)
    return False
