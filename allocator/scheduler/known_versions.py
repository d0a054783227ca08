"""Whether this process knows what the Lease of its scheduler requires, before it writes.

A watch tells of a change at some time, and nothing tells that it is late. The Lease names the
versions that count, and is read each second.
"""

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from drawbridge.agreement.required_versions import RequiredVersions
from drawbridge.resource_version import parse_version

# A watch that is behind for so many reads of the Lease is replaced by a list.
_PATIENT_READS: Final = 3


class FollowedCache(Protocol):
    """A cache, as far as it tells how much it knows."""

    lists_begun: int
    listed: int

    @property
    def version(self) -> str:
        """The newest version that the server has told of."""
        ...

    def read_again(self) -> None:
        """List everything, instead of waiting for what the watch tells."""


class _Followed:
    """One cache, and the version that it has to reach."""

    def __init__(self, cache: FollowedCache) -> None:
        self._cache = cache
        self._required = ""
        self._required_number = 0
        self._lists = 0  # that had begun when the version was read
        self._reads = 0  # of the Lease, while the cache is behind

    def require(self, version: str) -> None:
        if version != self._required:
            # What is required can change with each read: a cache that was behind still is.
            self._reads = self._reads if self.is_behind else 0
            self._required, self._lists = version, self._cache.lists_begun
            self._required_number = parse_version(version)
        # A list that has begun since is repeated by the cache itself until it ends.
        if self.is_behind and self._cache.lists_begun == self._lists:
            self._reads += 1
            if self._reads >= _PATIENT_READS:
                self._reads = 0
                self._cache.read_again()

    @property
    def is_behind(self) -> bool:
        """Whether neither the watch nor a list that began later has told of the version.

        A list counts because the version can be of a cluster from which the Lease was copied.
        """
        if not self._required_number or self._cache.listed > self._lists:
            return False
        return parse_version(self._cache.version) < self._required_number


class KnownVersions:
    """Compares caches with what the Lease requires, by the names that it uses.

    A process that is behind what is `optional` writes all the same. It must not use what that
    allows, and can be behind for ever: its role can lack the right to read it.
    """

    def __init__(self, caches: Mapping[str, FollowedCache], optional: Collection[str] = ()) -> None:
        self._followed = {name: _Followed(cache) for name, cache in caches.items()}
        self._needed = [name for name in caches if name not in optional]

    def require(self, required: RequiredVersions) -> None:
        """Follow a read of the Lease."""
        for name, followed in self._followed.items():
            followed.require(getattr(required, name))

    def is_behind(self, name: str) -> bool:
        """Whether a cache is not known yet as the Lease requires."""
        return self._followed[name].is_behind

    def find_behind(self) -> str:
        """Return what is not known yet, and must be before a write; empty if everything is."""
        return next(filter(self.is_behind, self._needed), "")
