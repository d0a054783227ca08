"""Stores the objects of a cache and notifies listeners about changes.

An object that cannot be decoded is left out and logged once. It must not stop the cache, and the
cache must not keep its previous content. The same holds for one that is larger than the share of
the memory that is left for its writer. If something of an object must be known, that is kept: of
one that cannot be decoded, what can be read of it, or what its last version had.
"""

import contextlib
import gc
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from drawbridge.bounded_cache import BoundedCache
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.history import Identity
from drawbridge.cluster.resources import Resource
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder, decode_foreign
from drawbridge.kept_memory import estimate_memory, measure_memory
from drawbridge.memory_shares import MemoryShares, MissingMemory
from drawbridge.resource_version import parse_version

T = TypeVar("T")
ObjectKey = tuple[str, str]  # namespace and name
# Whatever has no version, such as the Status of a proxy, tells nothing about objects: versions
# order what a cache is told, and nothing is older than one without a number.
_Version: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]*$")]
_LOG = logging.getLogger("drawbridge.cluster.cache")
# As many as the ledger remembers, for which a deletion is final.
MAX_DELETED: Final = 65_536


class CachedObject(msgspec.Struct, Generic[T], frozen=True):
    """One object: `raw` is the complete JSON, `value` the decoded fields.

    `raw` is empty in a cache that keeps only the decoded fields. With `created`, this is the first
    version of the object: a watch told of its creation.
    """

    namespace: str
    name: str
    uid: str
    version: str
    raw: bytes
    value: T
    created: bool = False


ChangeListener = Callable[[CachedObject[T] | None, CachedObject[T] | None], None]
# Called with the version of a list and the UIDs of its objects.
ListListener = Callable[[str, Collection[str]], None]


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: _Version
    namespace: str = ""
    uid: str = ""


class ObjectHeader(msgspec.Struct):
    """The kind and the identifying metadata of an object."""

    metadata: _Metadata
    kind: str = ""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def identity(self) -> Identity:
        """The object at its version."""
        return Identity(self.metadata.uid, self.metadata.resource_version)


class _PageMetadata(msgspec.Struct, rename="camel"):
    resource_version: _Version
    continue_: str = msgspec.field(default="", name="continue")


class ObjectPage(msgspec.Struct):
    """A page of a list."""

    kind: Annotated[str, msgspec.Meta(pattern="List$")]
    metadata: _PageMetadata
    items: list[msgspec.Raw] | None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class BookmarkMetadata(msgspec.Struct, rename="camel"):
    """How far a watch has told of everything."""

    resource_version: _Version
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct):
    metadata: BookmarkMetadata


PAGE_DECODER: Final[ForeignDecoder[ObjectPage]] = ForeignDecoder(ObjectPage, any_depth=True)
EVENT_DECODER: Final[ForeignDecoder[_Event]] = ForeignDecoder(_Event, any_depth=True)
BOOKMARK_DECODER: Final = msgspec.json.Decoder(_Bookmark)
_HEADER: Final[ForeignDecoder[ObjectHeader]] = ForeignDecoder(ObjectHeader)


def read_header(raw: bytes | msgspec.Raw) -> ObjectHeader:
    """Decode the header of an object; raises one of UNDECODABLE if it has none."""
    return _HEADER.decode(raw)


class TooLargeError(ValueError):
    """Raised if nothing is kept of an object whose writer has more than its share of the memory."""


class Accounting(NamedTuple, Generic[T]):
    """Who pays for the memory that objects take, and what is kept of those beyond the share.

    What is kept of an object is measured, or with `by_text` estimated from its JSON: its values are
    too many to be walked, and most are shared. Objects are of their namespaces unless `find_writer`
    says otherwise. `reduce` returns what must be known of an object whatever it takes; without it,
    an object beyond the share is left out. `rescue` returns that of JSON that cannot be decoded,
    and None if it has nothing of it.
    """

    shares: MemoryShares
    find_writer: Callable[[T], str] | None = None
    reduce: Callable[[T], T] | None = None
    by_text: bool = False
    rescue: Callable[[bytes], T | None] | None = None


class ObjectIndex(Generic[T]):
    """Objects by namespace and name; notifies listeners of each change, in order.

    With `is_whole`, an object that is not there is deleted, and not only left out by a selector.
    """

    def __init__(
        self,
        resource: Resource,
        decode: Callable[[bytes], T],
        *,
        keep_raw: bool = True,
        is_whole: bool = True,
        accounting: Accounting[T] | None = None,
    ) -> None:
        self._resource = resource
        self._log = FailureLog(_LOG, "")  # of each writer, namespace or error, without an end
        self._accounting = accounting
        self._charged: dict[ObjectKey, tuple[str, int]] = {}
        # The objects that are not kept whole, with what their writers lack.
        self._too_large: MissingMemory[ObjectKey] = MissingMemory()
        self._keep_raw = keep_raw
        self._decode = decode
        self._listeners: list[ChangeListener[T]] = []
        self._list_listeners: list[ListListener] = []
        self._undecodable: dict[ObjectKey, tuple[Identity, str]] = {}  # with the error
        self.objects: dict[ObjectKey, CachedObject[T]] = {}
        # The UIDs of the objects that were deleted last.
        self.deleted: BoundedCache[str, None] = BoundedCache(MAX_DELETED if is_whole else 0)
        self.revision = 0
        self.changed = ""  # the version of the newest change
        self.listener_failures = 0

    @property
    def undecodable(self) -> int:
        """The number of objects that cannot be decoded."""
        return len(self._undecodable)

    @property
    def too_large(self) -> int:
        """The number of objects that are not kept whole, because their writers have no room."""
        return len(self._too_large)

    def has_room_again(self) -> bool:
        """Whether an object that is not kept whole could be now."""
        return self._accounting is not None and self._too_large.has_room(self._accounting.shares)

    def identities(self) -> dict[ObjectKey, Identity]:
        """Return which objects were seen, also undecodable ones, at which versions."""
        seen = {key: identity for key, (identity, _) in self._undecodable.items()}
        # A list reads an object that cannot be decoded any more before it is dropped here.
        return seen | {key: Identity(each.uid, each.version) for key, each in self.objects.items()}

    def subscribe(self, listener: ChangeListener[T]) -> Callable[[], None]:
        """Call `listener` for every change from now on; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def subscribe_to_lists(self, listener: ListListener) -> Callable[[], None]:
        """Call `listener` for every list from now on; return what ends that."""
        self._list_listeners.append(listener)
        return lambda: self._list_listeners.remove(listener)

    def read(
        self, header: ObjectHeader, raw: bytes, *, created: bool = False
    ) -> CachedObject[T] | None:
        """Decode an object; None if that fails, which is logged, and nothing of it is kept."""
        key, metadata = header.key, header.metadata
        now = self.objects.get(key)
        is_same = now and (now.uid, now.version) == (metadata.uid, metadata.resource_version)
        if now is not None and is_same and key not in self._too_large:
            return now  # unchanged, so a relist does not decode it again
        if not header.kind:
            # The items of a list have neither kind nor apiVersion, but a write needs both.
            raw = self._resource.add_type(raw)
        try:
            # What decodes the list or the watch can allow more levels than `decode`.
            text, value = decode_foreign(self._decode, raw)
            raw = bytes(text)
            value = self._charge(header, raw, value)
        except UNDECODABLE as error:
            self._record_decode_error(header, f"{error}")
            left = None if isinstance(error, TooLargeError) else self._rescue(header, raw)
            if left is None:
                return None
            raw, value = b"", left
        kept, version = raw if self._keep_raw else b"", metadata.resource_version
        return CachedObject(key[0], key[1], metadata.uid, version, kept, value, created)

    def _rescue(self, header: ObjectHeader, raw: bytes) -> T | None:
        """Return what must be known of an object that cannot be decoded; None if that is nothing.

        Without it, the devices of a claim would be free, and given to another one.
        """
        if self._accounting is None or self._accounting.reduce is None:
            return None
        now = self.objects.get(header.key)
        is_known = now is not None and now.uid == header.metadata.uid
        left = self._accounting.reduce(now.value) if now is not None and is_known else None
        if self._accounting.rescue is not None:
            with contextlib.suppress(*UNDECODABLE):
                left = self._accounting.rescue(raw)
        if left is not None:
            size = measure_memory(header.metadata, left, text=raw)
            self._add_charge(header.key, self._find_writer(header, left), size)
        return left

    def _find_writer(self, header: ObjectHeader, value: T) -> str:
        find = self._accounting.find_writer if self._accounting else None
        return find(value) if find else f"namespace {header.metadata.namespace}"

    def _add_charge(self, key: ObjectKey, writer: str, size: int) -> None:
        self._release(key)
        if self._accounting is not None:
            self._accounting.shares.add(writer, size)
            self._charged[key] = writer, size

    def _charge(self, header: ObjectHeader, raw: bytes, value: T) -> T:
        """Return what is kept of an object; raises TooLargeError if that is nothing."""
        if self._accounting is None:
            return value
        shares, reduce = self._accounting.shares, self._accounting.reduce
        key, writer = header.key, self._find_writer(header, value)
        size = self._measure(header, raw, value)
        is_new = key not in self._too_large
        before, had = self._charged.get(key, ("", 0))
        is_kept = is_new and before == writer and size <= had  # a change that takes nothing more
        self._release(key)
        if not is_kept and not shares.has_room(writer, size):
            message = f"{writer} has more than its share of the memory for objects"
            if reduce is None:
                self._too_large.put(key, writer, size)
                raise TooLargeError(message)
            if is_new:
                about = self._resource.kind, "/".join(key), message
                self._log.note(writer, logging.WARNING, "%s %s: %s", *about)
            value, whole = reduce(value), size
            size = self._measure(header, raw, value)
            self._too_large.put(key, writer, whole - size)
        else:
            self._too_large.pop(key)
        self._add_charge(key, writer, size)
        return value

    def _measure(self, header: ObjectHeader, raw: bytes, value: T) -> int:
        if self._accounting is not None and self._accounting.by_text:
            return estimate_memory(raw)
        kept = raw if self._keep_raw else b""
        return measure_memory(header.metadata, kept, value, text=raw)

    def _release(self, key: ObjectKey) -> None:
        charged = self._charged.pop(key, None)
        if charged is not None and self._accounting is not None:
            self._accounting.shares.add(charged[0], -charged[1])

    def put(self, after: CachedObject[T]) -> None:
        """Store a new or changed object."""
        key = after.namespace, after.name
        refused = self._undecodable.get(key)
        if refused is not None and refused[0] != Identity(after.uid, after.version):
            del self._undecodable[key]  # not before: until then, it is known as such
        before = self.objects.get(key)
        if before is not after:
            self._note_change(after.version)
            self.objects[key] = after
            self._notify(before, after)

    def drop(self, key: ObjectKey) -> None:
        """Remove an object."""
        self._release(key)
        before = self.objects.pop(key, None)
        if before is not None:
            self._notify(before, None)

    def delete(self, key: ObjectKey, version: str) -> None:
        """Remove an object that was deleted at a version or before, and its decode error."""
        self._note_change(version)
        self._undecodable.pop(key, None)
        self._too_large.pop(key)
        if key in self.objects:
            self.deleted.put(self.objects[key].uid, None)
        self.drop(key)

    def replace(
        self, objects: Iterable[CachedObject[T]], listed: Collection[ObjectKey], version: str
    ) -> None:
        """Replace all objects by a list; `listed` includes those that cannot be decoded."""
        now = {(each.namespace, each.name): each for each in objects}
        # Only a list shows what was deleted while no watch was open. Deletions come first, so that
        # a listener frees a device before it sees the device's new owner.
        self.keep_only(listed, version)
        for key in [key for key in self.objects if key not in now]:
            self.drop(key)  # it cannot be decoded any more
        for key, stored in now.items():
            before = self.objects.get(key)
            if before is not None and before.uid != stored.uid:
                # Another object has its name, whose memory is charged already.
                del self.objects[key]
                self.deleted.put(before.uid, None)
                self._notify(before, None)
        for stored in now.values():
            self.put(stored)

    def keep_only(self, listed: Collection[ObjectKey], version: str) -> None:
        """Remove the objects that a list of a version does not have."""
        for key in [key for key in self.objects if key not in listed]:
            self.delete(key, version)
        for key in [key for key in (*self._undecodable, *self._too_large) if key not in listed]:
            self._undecodable.pop(key, None)
            self._too_large.pop(key)
        for key in [key for key in self._charged if key not in listed]:
            self._release(key)

    def _note_change(self, version: str) -> None:
        self.changed = max(self.changed, version, key=parse_version)

    def _notify(self, before: CachedObject[T] | None, after: CachedObject[T] | None) -> None:
        self.revision += 1
        self._call(self._listeners, before, after)

    def note_list(self, version: str, listed: Iterable[Identity]) -> None:
        """Tell of a list after its objects have replaced the others."""
        self._call(self._list_listeners, version, {each.uid for each in listed})

    def _call(self, listeners: Iterable[Callable[..., None]], *about: object) -> None:
        for listener in listeners:
            try:
                listener(*about)
            except Exception:  # noqa: BLE001  # a bug in a listener must not stop the cache
                self.listener_failures += 1
                _LOG.exception("a listener of %s failed", self._resource.plural)

    def _record_decode_error(self, header: ObjectHeader, error: str) -> None:
        before = self._undecodable.get(header.key)
        if before is None or before[1] != error:
            name = "/".join(part for part in header.key if part)
            about = self._resource.kind, name, error
            kind = header.metadata.namespace or error
            self._log.note(kind, logging.WARNING, "cannot keep %s %s: %s", *about)
        self._undecodable[header.key] = header.identity, error
        self._note_change(header.metadata.resource_version)


@contextlib.contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector while many objects are decoded; only around synchronous code.

    None of the decoded objects can be garbage yet. Collections took two thirds of the time to
    decode 10,000 slices.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def make_decoder(shape: type[T], decode: Callable[[bytes], T] | None) -> Callable[[bytes], T]:
    """Return `decode`, or a JSON decoder for the shape."""
    if decode is not None:
        return decode
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)
    return decoder.decode
