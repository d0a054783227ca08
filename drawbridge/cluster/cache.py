"""A list-watch cache: keeps all objects of a kind in sync with the API server.

`run` lists everything once and then watches, until cancelled. It retries forever and never raises
API errors: `problem` describes the current failure, `age` tells when the server last responded.

How the cache orders versions. A list without a resourceVersion is a consistent read: the server
returns the current content of etcd, which is never older than an earlier response. A list is
therefore authoritative, also for deletions that happened while no watch was open. Two situations
can still deliver older data:

- An event that the cache already has, after a watch restarts or from an API server that lags. The
  resourceVersions of one kind are increasing numbers, so the cache ignores an event with a lower
  version than its own. Such an event must not bring back a deleted object.
- A list with a lower version than the cache. Either a proxy serves stale responses, and the next
  list is correct, or etcd was restored from a backup, and every list is like that.

After a restore, nothing that was derived from the old objects may stay, so `run` raises
HistoryChangedError, and the process ends and starts again. The third older list in a row shows it,
and so does a list that contradicts what the cache has (drawbridge.cluster.history), which also
finds a server that has passed the cached version. A watch shows neither: for a version in the
future the server waits without an error. A backup is restored while no API server runs. The cache
therefore compares the metadata of all objects before it continues a watch that ended in any other
way than in its own time, or one that opens so late that a restore fits in before; until then it is
not `verified`. A write with an older version than was seen before it was sent shows a restore by
itself: no server of the same history gives that.

A response can tell of an object before the watch does. The watch of the same history tells of it in
its turn, and so does every list from then on: a restore in between shows as soon as none does.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Final, Generic, TypeVar

import msgspec

from drawbridge.api_error import ApiError
from drawbridge.cluster.backoff import Backoff
from drawbridge.cluster.errors import UnreachableError, error_from_status, requires_list
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.history import (
    Continuity,
    ExpectedVersions,
    HistoryChangedError,
    Identity,
    check_listed,
    is_older,
)
from drawbridge.cluster.listing import ListedHeaders, Listing
from drawbridge.cluster.resources import Resource
from drawbridge.cluster.server_clock import boot_time
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import (
    BOOKMARK_DECODER,
    EVENT_DECODER,
    PAGE_DECODER,
    Accounting,
    BookmarkMetadata,
    CachedObject,
    ChangeListener,
    ListListener,
    ObjectHeader,
    ObjectIndex,
    ObjectKey,
    ObjectPage,
    pause_garbage_collection,
    read_header,
)
from drawbridge.foreign_json import UNDECODABLE
from drawbridge.resource_version import parse_version

T = TypeVar("T")
_LOG = logging.getLogger("drawbridge.cluster.cache")
# The server ends a watch after this time, so that watches move between API servers.
WATCH_SECONDS: Final = (300, 600)
LIST_SECONDS: Final = 60.0
# At most so often, the objects of a writer that has room again are read, for at most a hundredth of
# the time, and it is found out whether one has.
LIST_AGAIN_SECONDS: Final = 60.0
_PAUSE_OF_LISTS, _LOOK_SECONDS = 100, 1.0
FRESH_SECONDS: Final = 100.0  # the server sends a bookmark every minute
# A proxy does not serve so many older lists in a row.
OLDER_LISTS_OF_A_RESTORE: Final = 3
# A list of the same items without anything but their metadata; a server may send them whole.
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# If a page expires before the next request, the next attempt uses larger pages.
PAGE_ATTEMPTS: Final = 4
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _InvalidDataError(ApiError):
    """The server sent invalid data, so the cache may have missed events."""


class Cache(Generic[T]):
    """All objects of a kind, or those that a namespace and selectors select, decoded as `shape`.

    Without `keep_raw`, the JSON is dropped after decoding. `gather_seconds`: see Session.stream.

    Listeners run in the event loop after each change, in order. A listener that raises is counted
    in `listener_failures` and logged. `restarts` counts the watches and lists that ended.
    """

    restarts = 0
    problem = "not listed yet"
    refused = False  # whether the last failure is one for want of a right or of the resource
    _last_response: float | None = None
    _chunks = 0  # the number of chunks that watches delivered
    _version = ""  # the latest resourceVersion
    _listed_to = ""  # the resourceVersion of the last list
    _undone = ""  # why a response shows that the server has another history
    lists_begun = listed = 0  # the number of the latest list, and of the last one that was accepted
    _list_began = _listed_at = _looked_at = 0.0  # of the last list, and look for room
    _older_lists = 0  # older lists in a row
    _needs_list = True  # whether a watch cannot continue from `_version`
    _try_streaming = True  # whether the next list is requested as a watch stream

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
        keep_raw: bool = True,
        accounting: Accounting[T] | None = None,
        gather_seconds: float = 0,
        now: Callable[[], float] = boot_time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.resource, self._session = resource, session
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        self._selectors = {name: text for name, text in selectors.items() if text}
        self._index = ObjectIndex(
            resource,
            decode or msgspec.json.Decoder(shape).decode,
            keep_raw=keep_raw,
            is_whole=not self._selectors,
            accounting=accounting,
        )
        self._path = resource.path(namespace)
        self._page_size, self._watch_list = page, watch_list
        self._gather_seconds = gather_seconds
        self._now, self._pause = now, pause
        self._backoff = Backoff()
        self._log = FailureLog(_LOG, f"{resource.plural} are in sync again after %.0f s", now)
        self._synced = asyncio.Event()
        self._watching: asyncio.Timeout | None = None  # ends the open watch
        self._continuity = Continuity(now)
        self._expected = ExpectedVersions(self._path)

    # --- reading -------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether everything was listed once; never becomes false again."""
        return self._synced.is_set()

    @property
    def version(self) -> str:
        """The newest version that the server has told of."""
        return self._version

    @property
    def newest(self) -> str:
        """The newest version that the server has told of, also in responses (expect)."""
        return max(self._version, self._expected.newest, key=parse_version)

    @property
    def changed(self) -> str:
        """The version of the newest change, also of a deletion; no bookmark counts."""
        return self._index.changed

    @property
    def revision(self) -> int:
        """A number that grows with every change."""
        return self._index.revision

    @property
    def listener_failures(self) -> int:
        """How often a listener raised an exception."""
        return self._index.listener_failures

    @property
    def undecodable(self) -> int:
        """The number of objects that are left out: undecodable, or their writers lack memory."""
        return self._index.undecodable

    @property
    def too_large(self) -> int:
        """The number of objects that are not kept whole, because their writers have no room."""
        return self._index.too_large

    async def wait_until_synced(self) -> None:
        """Wait until everything was listed once."""
        await self._synced.wait()

    async def wait_until_verified(self) -> None:
        """Wait while the server may have another history than the cache."""
        await self._continuity.verified.wait()

    @property
    def verified(self) -> bool:
        """Whether the server certainly has the history of the cache."""
        return self._continuity.verified.is_set()

    def compare_written(self, version: str, since: str) -> None:
        """End with HistoryChangedError if a write is older than the version seen before it."""
        if is_older(version, since):
            self._undone = f"{self._path}: a write has version {version}, after {since} was seen"
            self._continuity.doubt()
            self._end_watch()

    def expect(self, key: ObjectKey, identity: Identity) -> bool:
        """Expect that the watch tells of an object at the version that a response had.

        A response with an older one, for which this returns False, does not change that: it can
        arrive late, or after a restore.
        """
        return self._expected.add(key, identity, self._version)

    def expects(self, key: ObjectKey) -> bool:
        """Whether a response has told of an object what the watch has not reached."""
        return key in self._expected

    def read_again(self) -> None:
        """List everything, instead of waiting for what the watch tells."""
        self._needs_list = True
        self._end_watch()

    def _end_watch(self) -> None:
        if self._watching is not None and not self._watching.expired():
            self._watching.reschedule(0)

    def age(self) -> float:
        """Return the seconds since the last response of the server; infinite before the first."""
        return float("inf") if self._last_response is None else self._now() - self._last_response

    @property
    def fresh(self) -> bool:
        """Whether the cache is synced, has no problem, and the server responded recently."""
        return self.synced and not self.problem and self.age() < FRESH_SECONDS

    def get(self, name: str, namespace: str = "") -> CachedObject[T] | None:
        """Return one object; None if the cache does not have it."""
        return self._index.objects.get((namespace, name))

    def all(self, namespace: str | None = None) -> Iterable[CachedObject[T]]:
        """Return a snapshot of all objects, or of the objects of a namespace."""
        objects = self._index.objects.values()
        return [each for each in objects if namespace is None or each.namespace == namespace]

    def subscribe(self, listener: ChangeListener[T]) -> Callable[[], None]:
        """Call `listener` with the object before and after each change; return what ends that."""
        return self._index.subscribe(listener)

    def subscribe_to_lists(self, listener: ListListener) -> Callable[[], None]:
        """Call `listener` for every list from now on, after its changes; return what ends that."""
        return self._index.subscribe_to_lists(listener)

    # --- list and watch ------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the cache in sync until cancelled; raises HistoryChangedError after a restore."""
        while True:
            started, chunks = self._now(), self._chunks
            try:
                if self._needs_list:
                    await self._list_and_watch()
                else:
                    if self._continuity.needs_comparison:
                        await self._verify()
                    await self._watch({"resourceVersion": self._version}, None)
            except ApiError as error:
                self._continuity.doubt()
                self._needs_list = self._needs_list or requires_list(error)
                await self._back_off(error)
            else:
                # If the server ends every watch immediately, pause before the next watch.
                if self._chunks == chunks and self._now() - started < 1:
                    await self._pause(self._backoff.pause())
            self.restarts += 1

    async def _back_off(self, error: ApiError) -> None:
        self.problem, self.refused = f"{error}", error.refused
        if error.gone:
            self._backoff.reset()  # the server answers, and what it had told is old
        pause = self._backoff.pause(error.retry_after)
        self._log.fail(error, "%s: %s; retrying in %.1f s", self.resource.plural, error, pause)
        await self._pause(pause)

    async def _list_and_watch(self) -> None:
        self.lists_begun, self._list_began = self.lists_begun + 1, self._now()
        try_streaming, self._try_streaming = self._try_streaming, True
        if self._watch_list and try_streaming:
            # If the stream breaks before its list is complete, the next attempt uses pages, because
            # a proxy may not support the stream.
            self._try_streaming = False
            initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            try:
                with Listing(self._index) as listing:
                    return await self._watch(initial, listing)
            except ApiError as error:
                if error.code not in (400, 422):
                    raise
                self._watch_list = False  # this server does not support it
        await self._list()
        await self._watch({"resourceVersion": self._version}, None)
        return None

    async def _list(self) -> None:
        with Listing(self._index) as listing:
            self._accept_list(listing, await self._read_list(listing, "application/json"))

    async def _verify(self) -> None:
        """Compare the metadata of all objects; raises HistoryChangedError.

        What the server does not have goes now: if no write of its history created it, then none
        deletes it, and a watch never tells.
        """
        listing = ListedHeaders()
        version = await self._read_list(listing, f"{_METADATA},application/json")
        self._check_history(listing.identities, version)
        self._index.keep_only(listing.identities, version)

    async def _read_list(self, listing: ListedHeaders, accept: str) -> str:
        """Read a list in pages, and return its version."""
        size = self._page_size
        for _ in range(PAGE_ATTEMPTS):
            listing.clear()
            try:
                return await self._read_pages(listing, size, accept)
            except ApiError as error:
                if not error.gone:
                    raise
                size *= 4
        # Every page size was too small for the time that the server keeps pages.
        listing.clear()
        return await self._read_pages(listing, 0, accept)

    async def _read_pages(self, listing: ListedHeaders, size: int, accept: str) -> str:
        query = {**self._selectors, **({"limit": f"{size}"} if size else {})}
        self._continuity.begin()
        while True:
            asked = self._now()
            response = await self._session.call(
                "GET", self._path, query=query, accept=accept, seconds=LIST_SECONDS
            )
            self._continuity.add(asked)
            page = self._decode_page(response)
            listing.add_page(page.items or ())
            if not page.metadata.continue_:
                return page.metadata.resource_version
            query["continue"] = page.metadata.continue_

    def _decode_page(self, response: bytes) -> ObjectPage:
        self._last_response = self._now()
        try:
            return PAGE_DECODER.decode(response)
        except UNDECODABLE as error:
            raise _InvalidDataError(0, "InvalidData", f"a list of {self._path}: {error}") from None

    def _accept_list(self, listing: Listing[T], version: str) -> None:
        """Replace all objects; rejects an older list, as the module docstring describes."""
        self._check_history(listing.identities, version)
        self._needs_list = False
        self._try_streaming = True
        self._listed_at, self.listed = self._now(), self.lists_begun
        self._expected.drop_reached(version)
        listing.replace_all(version)
        self._mark_in_sync(version)
        self._index.note_list(version, listing.identities.values())
        listing.clear()
        self._synced.set()

    def _check_history(self, listed: Mapping[ObjectKey, Identity], version: str) -> None:
        """Raise HistoryChangedError if a restore shows, and ApiError if a list may be stale."""
        if self._undone:
            raise HistoryChangedError(self._undone)
        if is_older(version, self._version):
            self._older_lists += 1
            about = f"a list of {self._path} has version {version}"
            message = f"{about}, older than the cached version {self._version}"
            if self._older_lists < OLDER_LISTS_OF_A_RESTORE:
                raise ApiError(504, "Older", message)
            raise HistoryChangedError(message)
        self._older_lists = 0
        self._listed_to = version
        cached, is_deleted = self._index.identities(), self._index.deleted.__contains__
        check_listed(self._path, cached, self._version, listed, is_deleted)
        self._expected.compare(listed, version)

    def _mark_in_sync(self, version: str) -> None:
        """Note that everything up to a version was told; raises HistoryChangedError if not."""
        self._expected.check_reached(version)
        self._version = version
        self.problem = ""
        self._backoff.reset()
        self._log.succeed()

    async def _watch(self, query: dict[str, str], listing: Listing[T] | None) -> None:
        """Process a watch until it ends; with `listing`, the first events are a list."""
        seconds, started = random.randint(*WATCH_SECONDS), self._now()  # noqa: S311  # jitter
        watch = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": f"{seconds}"}
        query = {**self._selectors, **watch, **query}
        stream = self._session.stream(self._path, query=query, gather_seconds=self._gather_seconds)
        try:
            async with asyncio.timeout(None) as self._watching, stream as chunks, aclosing(chunks):
                if listing is None:
                    if not self._continuity.reaches(started):
                        return
                    self.problem = ""
                    self._log.succeed()
                async for lines in chunks:
                    self._last_response, self._chunks = self._now(), self._chunks + 1
                    with pause_garbage_collection():
                        for line in lines:
                            listing = self._process_line(line, listing)
                    if listing is None and self._should_list_again():
                        self._needs_list = True
                        return
        except TimeoutError:  # compare_written has ended it
            self._continuity.doubt()
        finally:
            self._watching = None
            self._continuity.verified.clear()
        self._continuity.end_watch(started + seconds)
        if listing is not None:
            raise UnreachableError(f"the watch of {self._path} ended before its list was complete")

    def _should_list_again(self) -> bool:
        """Whether what was left out for its size could be kept now, after some time."""
        now, took = self._now(), self._listed_at - self._list_began
        pause = max(LIST_AGAIN_SECONDS, _PAUSE_OF_LISTS * took)
        if now - self._listed_at < pause or now - self._looked_at < _LOOK_SECONDS:
            return False
        self._looked_at = now
        return self._index.has_room_again()

    def _process_line(self, line: bytes, listing: Listing[T] | None) -> Listing[T] | None:
        """Process one event; returns the list while it is incomplete, else None."""
        try:
            event = EVENT_DECODER.decode(line)
            if event.type == "ERROR":
                raise error_from_status(500, bytes(event.object))
            if event.type == "BOOKMARK":
                return self._process_bookmark(
                    BOOKMARK_DECODER.decode(event.object).metadata, listing
                )
            header = read_header(event.object)
        except UNDECODABLE as error:
            excerpt = line[:80].decode(errors="replace")
            message = f"a watch of {self._path}: {error}: {excerpt}"
            raise _InvalidDataError(0, "InvalidData", message) from None
        if listing is not None:
            listing.add(header, bytes(event.object))
        else:
            self._process_change(event.type, header, bytes(event.object))
        return listing

    def _process_bookmark(
        self, metadata: BookmarkMetadata, listing: Listing[T] | None
    ) -> Listing[T] | None:
        if listing is None:
            if not is_older(metadata.resource_version, self._version):
                self._mark_in_sync(metadata.resource_version)
        elif metadata.annotations.get(_INITIAL_EVENTS_END) == "true":
            self._accept_list(listing, metadata.resource_version)
            self._continuity.confirm()
            return None
        return listing

    def _process_change(self, event_type: str, header: ObjectHeader, raw: bytes) -> None:
        version = header.metadata.resource_version
        if is_older(version, self._version):
            return
        self._expected.observe(header.key, version)
        if event_type == "DELETED":
            self._index.delete(header.key, version)
        elif header.metadata.uid in self._index.deleted:
            # The events up to a list can be about what the list shows as deleted.
            if is_older(self._listed_to, version):
                name = "/".join(filter(None, header.key))
                message = f"{self._path}: {name} was deleted and has version {version} now"
                raise HistoryChangedError(message)
        else:
            # With selectors, an object can also be added because it matches now.
            created = event_type == "ADDED" and not self._selectors
            self._index.put(header.key, self._index.read(header, raw, created=created))
        self._mark_in_sync(version)
