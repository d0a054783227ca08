"""Stores the objects of a cache and notifies listeners about changes.

An object that cannot be decoded is left out and logged once. It must not stop the cache, and the
cache must not keep its previous content. The same holds for one that is larger than the share of
the memory that is left for its writer. If something of an object must be known, that is kept: of
one that cannot be decoded, what can be read of it, or what its last version had.
"""

import contextlib
import gc
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from drawbridge.bounded_cache import BoundedCache
from drawbridge.cluster.failure_log import FailureLog
from drawbridge.cluster.history import Identity
from drawbridge.cluster.resources import Resource
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder, decode_foreign
from drawbridge.kept_memory import estimate_memory, measure_memory
from drawbridge.memory_shares import FREE, Charge, MemoryShares, MissingMemory
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


class ObjectState(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """What a cache has of an object at a version, and why that is not everything.

    An object is kept whole, or it is one of these:

    - reduced: its writer lacks memory for the rest
    - left out: the same, and nothing must be known of it; `error` says so
    - undecodable, as `error` says: `kept` is what must be known of it, if that is anything
    """

    uid: str
    version: str
    kept: CachedObject[T] | None
    charge: Charge = FREE
    error: str = ""

    def is_at(self, metadata: _Metadata) -> bool:
        """Whether this is the state of an object at the version of its metadata."""
        return self.version == metadata.resource_version and self.uid == metadata.uid


ABSENT: Final[ObjectState[Any]] = ObjectState("", "", None)


class _Received(NamedTuple, Generic[T]):
    """The JSON of an object, and the state that the object has before it is read."""

    header: ObjectHeader
    raw: bytes
    created: bool
    before: ObjectState[T]

    def state(
        self, kept: CachedObject[T] | None, charge: Charge = FREE, error: str = ""
    ) -> ObjectState[T]:
        """Return the state of which so much is kept."""
        metadata = self.header.metadata
        return ObjectState(metadata.uid, metadata.resource_version, kept, charge, error)


class ObjectIndex(Generic[T]):
    """Objects by namespace and name; notifies listeners of each change, in order.

    Each object has one state. `read` returns the next one and changes nothing. With `is_whole`, an
    object that is not there is deleted, and not only left out by a selector.
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
        self.shares: Final = accounting.shares if accounting else MemoryShares()
        self._keep_raw = keep_raw
        self._decode = decode
        self._listeners: list[ChangeListener[T]] = []
        self._list_listeners: list[ListListener] = []
        self._states: dict[ObjectKey, ObjectState[T]] = {}
        # Of the states, changed only with them: what is kept and missing, and the number of errors.
        self.objects: dict[ObjectKey, CachedObject[T]] = {}
        self._missing: MissingMemory[ObjectKey] = MissingMemory()
        self.undecodable = 0
        # The UIDs of the objects that were deleted last.
        self.deleted: BoundedCache[str, None] = BoundedCache(MAX_DELETED if is_whole else 0)
        self.revision = 0
        self.changed, self._changed_at = "", 0  # the version of the newest change
        self.listener_failures = 0

    @property
    def too_large(self) -> int:
        """The number of objects that are not kept whole, because their writers have no room."""
        return len(self._missing)

    def has_room_again(self) -> bool:
        """Whether an object that is not kept whole could be now."""
        return self._missing.has_room(self.shares)

    def identities(self) -> dict[ObjectKey, Identity]:
        """Return which objects were seen, also undecodable ones, at which versions."""
        return {key: Identity(each.uid, each.version) for key, each in self._states.items()}

    def find(self, key: ObjectKey) -> ObjectState[T]:
        """Return the state of an object; ABSENT if there is no such object."""
        return self._states.get(key, ABSENT)

    def subscribe(self, listener: ChangeListener[T]) -> Callable[[], None]:
        """Call `listener` for every change from now on; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def subscribe_to_lists(self, listener: ListListener) -> Callable[[], None]:
        """Call `listener` for every list from now on; return what ends that."""
        self._list_listeners.append(listener)
        return lambda: self._list_listeners.remove(listener)

    # --- reading -------------------------------------------------------------------------------

    def read(self, header: ObjectHeader, raw: bytes, *, created: bool = False) -> ObjectState[T]:
        """Return the next state of an object: the same one if nothing of it changes."""
        now = self._states.get(header.key, ABSENT)
        if now.is_at(header.metadata) and now.kept is not None and now.charge.missing is None:
            return now  # so a relist does not decode it again
        if not header.kind:
            # The items of a list have neither kind nor apiVersion, but a write needs both.
            raw = self._resource.add_type(raw)
        try:
            # What decodes the list or the watch can allow more levels than `decode`.
            text, value = decode_foreign(self._decode, raw)
            return self._account(_Received(header, bytes(text), created, now), value)
        except UNDECODABLE as error:
            return self._rescue(_Received(header, raw, created, now), f"{error}")

    def _account(self, received: _Received[T], value: T) -> ObjectState[T]:
        """Return the state of a decoded object, by the memory that its writer has left."""
        if self._accounting is None:
            return self._keep(received, value)
        header, before, reduce = received.header, received.before, self._accounting.reduce
        writer, size = self._find_writer(header, value), self._measure(received, value)
        charge, is_whole = Charge(writer, size), before.charge.missing is None
        more = charge.exceeds(before.charge)
        # What is kept stays unless it takes more.
        if (is_whole and more <= 0) or self.shares.has_room(writer, more):
            return self._keep(received, value, charge)
        if not is_whole and before.is_at(header.metadata):
            return before
        if reduce is None:
            return received.state(None, Charge(writer, 0, size), _explain_share(writer))
        value = reduce(value)
        left = self._measure(received, value)
        return self._keep(received, value, Charge(writer, left, size - left))

    def _rescue(self, received: _Received[T], error: str) -> ObjectState[T]:
        """Return the state of an object that cannot be decoded, with what must be known of it.

        Without that, the devices of a claim would be free, and given to another one.
        """
        metadata, before, left = received.header.metadata, received.before, None
        if self._accounting is not None and self._accounting.reduce is not None:
            if before.kept is not None and before.uid == metadata.uid:
                left = self._accounting.reduce(before.kept.value)
            if self._accounting.rescue is not None:
                with contextlib.suppress(*UNDECODABLE):
                    left = self._accounting.rescue(received.raw)
        if left is None:
            return received.state(None, error=error)
        size = measure_memory(metadata, left, text=received.raw)
        charge = Charge(self._find_writer(received.header, left), size)
        return self._keep(received._replace(raw=b""), left, charge, error)

    def _keep(
        self, received: _Received[T], value: T, charge: Charge = FREE, error: str = ""
    ) -> ObjectState[T]:
        metadata, raw = received.header.metadata, received.raw if self._keep_raw else b""
        key, uid, version = received.header.key, metadata.uid, metadata.resource_version
        kept = CachedObject(*key, uid, version, raw, value, received.created)
        return received.state(kept, charge, error)

    def _find_writer(self, header: ObjectHeader, value: T) -> str:
        find = self._accounting.find_writer if self._accounting else None
        return find(value) if find else f"namespace {header.metadata.namespace}"

    def _measure(self, received: _Received[T], value: T) -> int:
        raw = received.raw
        if self._accounting is not None and self._accounting.by_text:
            return estimate_memory(raw)
        kept = raw if self._keep_raw else b""
        return measure_memory(received.header.metadata, kept, value, text=raw)

    # --- changes -------------------------------------------------------------------------------

    def put(self, key: ObjectKey, after: ObjectState[T]) -> None:
        """Give an object a state that was read."""
        before = self.find(key)
        if before is not after:
            if after.error or after.charge.missing is not None:
                self._log_problem(key, before, after)
            self._note_change(after.version)
            self._set(key, before, after)

    def delete(self, key: ObjectKey, version: str) -> None:
        """Remove an object that was deleted at a version or before."""
        self._note_change(version)
        before = self.find(key)
        if before is not ABSENT:
            self.deleted.put(before.uid, None)
            self._set(key, before, ABSENT)

    def replace(self, listed: Mapping[ObjectKey, ObjectState[T]], version: str) -> None:
        """Give all objects the states that were read in a list."""
        # Only a list shows what was deleted while no watch was open. Deletions come first, so that
        # a listener frees a device before it sees the device's new owner.
        self.keep_only(listed, version)
        changed = [each for each in listed.items() if self._states.get(each[0]) is not each[1]]
        for key, after in changed:
            before = self.find(key)
            if before is not ABSENT and before.uid != after.uid:
                self.delete(key, version)  # another object has its name
            if after.kept is None:
                self.put(key, after)
        for key, after in changed:
            self.put(key, after)

    def keep_only(self, listed: Collection[ObjectKey], version: str) -> None:
        """Remove the objects that a list of a version does not have."""
        for key in [key for key in self._states if key not in listed]:
            self.delete(key, version)

    def _set(self, key: ObjectKey, before: ObjectState[T], after: ObjectState[T]) -> None:
        """Replace the state of an object, with all that is counted of it, and tell of that."""
        if after is ABSENT:
            del self._states[key]
        else:
            self._states[key] = after
        self.shares.add(before.charge.writer, -before.charge.size)
        self.shares.add(after.charge.writer, after.charge.size)
        self._missing.put(key, after.charge)
        self.undecodable += bool(after.error) - bool(before.error)
        if before.kept is not after.kept:
            if after.kept is None:
                del self.objects[key]
            else:
                self.objects[key] = after.kept
            self.revision += 1
            self._call(self._listeners, before.kept, after.kept)

    def _log_problem(self, key: ObjectKey, before: ObjectState[T], after: ObjectState[T]) -> None:
        writer, about = after.charge.writer, [self._resource.kind, "/".join(filter(None, key))]
        if after.error:
            if before.error != after.error:
                whose, text = key[0] or after.error, "cannot keep %s %s: %s"
                self._log.note(whose, logging.WARNING, text, *about, after.error)
        elif before.charge.missing is None:
            self._log.note(writer, logging.WARNING, "%s %s: %s", *about, _explain_share(writer))

    def _note_change(self, version: str) -> None:
        if (number := parse_version(version)) > self._changed_at:
            self.changed, self._changed_at = version, number

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


def _explain_share(writer: str) -> str:
    return f"{writer} has more than its share of the memory for objects"


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
