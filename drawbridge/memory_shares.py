"""The memory for what is kept of received objects, shared by those who write them.

A namespace, or a node, may add an object while it then has no more than what is left for all. So
one writer gets half of the memory, two get a third each, and there is always room for a writer that
has little: nobody displaces what others have. What nodes publish is apart from what is in
namespaces, so that neither displaces the other. Reads no clock.
"""

from collections import Counter
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

T = TypeVar("T")
K = TypeVar("K")
# Of the memory of a process: for namespaces alone, or for namespaces and for nodes each. The rest
# is for its work, and for what nobody else writes.
PART_FOR_OBJECTS: Final = 2
PART_FOR_EACH: Final = 3
# Without a limit: that of the manifests for the allocator and the judge.
DEFAULT_LIMIT: Final = 2 << 30


class NamespacedMetadata(Protocol):
    """The metadata of an object in a namespace."""

    @property
    def namespace(self) -> str:
        """The namespace."""


class NamespaceLimit(Protocol):
    """A ResourceQuota or a LimitRange."""

    @property
    def metadata(self) -> NamespacedMetadata:
        """The metadata."""


def find_limit_writer(limit: NamespaceLimit) -> str:
    """Return who pays for a ResourceQuota or a LimitRange: not whom it limits.

    The role `admin` of a namespace may not write it, and must not displace it by other objects.
    """
    return f"the administrator of namespace {limit.metadata.namespace}"


def keep_whole(value: T) -> T:
    """Return what is decoded of an object, as `reduce` for objects that are small whatever happens.

    Their namespace pays for them, so that it has less room for what is large.
    """
    return value


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What a writer pays for an object, and what it lacks to keep the whole object."""

    writer: str = ""
    size: int = 0
    missing: int | None = None  # None: the object is not reduced or left out

    def exceeds(self, before: "Charge") -> int:
        """Return how much more the writer pays than before."""
        return self.size - before.size if self.writer == before.writer else self.size


FREE: Final = Charge()


class MemoryShares:
    """How much of the memory each writer has. Not thread-safe."""

    def __init__(self, memory_limit: int | None = None, part: int = PART_FOR_OBJECTS) -> None:
        self.limit = (memory_limit or DEFAULT_LIMIT) // part
        self.used = 0  # by all writers
        self.releases = 0  # how often memory was given back
        self._by_writer: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_writer)

    def of(self, writer: str) -> int:
        """Return what a writer has."""
        return self._by_writer.get(writer, 0)

    def has_room(self, writer: str, size: int) -> bool:
        """Whether a writer may add so much."""
        return self.of(writer) + size <= self.limit - self.used - size

    def add(self, writer: str, size: int) -> None:
        """Count what a writer adds, or with a negative size, what is no longer kept."""
        if not size:
            return
        self.used += size
        self.releases += size < 0
        self._by_writer[writer] += size
        if not self._by_writer[writer]:
            del self._by_writer[writer]


class HeldMemory:
    """What writers pay in advance, for what has been read and is not kept yet."""

    def __init__(self, shares: MemoryShares) -> None:
        self._shares = shares
        self._sizes: Counter[str] = Counter()

    def add(self, before: Charge, after: Charge) -> None:
        """Hold what a charge takes more than the one that it is to replace.

        If it takes less, the difference is given back only then: before, the other one can stay.
        """
        more = after.exceeds(before)
        if more > 0:
            self._shares.add(after.writer, more)
            self._sizes[after.writer] += more

    def give_back(self) -> None:
        """Hold nothing any more."""
        for writer, size in self._sizes.items():
            self._shares.add(writer, -size)
        self._sizes.clear()


class MissingMemory(Generic[K]):
    """The memory that objects would take which are not kept whole, by writer.

    To tell whether there is room takes as long as there are writers, not objects, and nothing while
    nobody has given memory back.
    """

    def __init__(self) -> None:
        self._writers: dict[K, str] = {}
        self._sizes: dict[str, dict[K, int]] = {}
        self._smallest: dict[str, int] = {}  # of the writers where that is known
        self._releases = 0  # when nobody had room

    def __len__(self) -> int:
        return len(self._writers)

    def put(self, key: K, charge: Charge) -> None:
        """Add an object, change what it lacks, or remove it if that is nothing any more."""
        self._pop(key)
        writer, size = charge.writer, charge.missing
        if size is None:
            return
        self._writers[key] = writer
        sizes = self._sizes.setdefault(writer, {})
        if not sizes or size < self._smallest.get(writer, 0):
            self._smallest[writer] = size
        sizes[key] = size

    def _pop(self, key: K) -> None:
        writer = self._writers.pop(key, None)
        if writer is None:
            return
        sizes = self._sizes[writer]
        size = sizes.pop(key)
        if not sizes:
            del self._sizes[writer]
        if not sizes or size == self._smallest.get(writer):
            self._smallest.pop(writer, None)

    def has_room(self, shares: MemoryShares) -> bool:
        """Whether an object could be kept whole now."""
        if shares.releases == self._releases:
            return False
        for writer, sizes in self._sizes.items():
            if writer not in self._smallest:
                self._smallest[writer] = min(sizes.values())
            if shares.has_room(writer, self._smallest[writer]):
                return True
        self._releases = shares.releases
        return False


class ProcessShares(NamedTuple):
    """The memory of a process that watches what namespaces hold, and what nodes publish."""

    namespaces: MemoryShares
    nodes: MemoryShares

    @classmethod
    def of(cls, memory_limit: int | None = None) -> "ProcessShares":
        """Divide the memory that a process may take."""
        return cls(*(MemoryShares(memory_limit, PART_FOR_EACH) for _ in cls._fields))
