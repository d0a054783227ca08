"""The caches that a process keeps in sync, and what is not synced yet."""

from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from drawbridge.cluster.cache import Cache

T = TypeVar("T")


class CacheSet:
    """Caches that run and are measured together."""

    def __init__(self) -> None:
        self._required: list[Cache[Any]] = []
        self._optional: list[Cache[Any]] = []
        self._names: dict[Cache[Any], str] = {}

    def add(self, cache: Cache[T], *, required: bool = True, name: str = "") -> Cache[T]:
        """Add a cache and return it; the process is ready without one that is not required.

        A second cache of a resource needs a name of its own in metrics.
        """
        self._names[cache] = name or cache.resource.plural
        (self._required if required else self._optional).append(cache)
        return cache

    @property
    def required(self) -> tuple[Cache[Any], ...]:
        """The caches without which the process is not ready."""
        return tuple(self._required)

    @property
    def all(self) -> tuple[Cache[Any], ...]:
        """All caches."""
        return (*self._required, *self._optional)

    def by_resource(self) -> Iterator[tuple[str, Cache[Any]]]:
        """Return all caches with the name that metrics use."""
        return ((self._names[cache], cache) for cache in self.all)

    def run(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Return the watches of all caches."""
        return (cache.run() for cache in self.all)

    @property
    def synced(self) -> bool:
        """Whether all required caches were listed once; never becomes false again."""
        return all(cache.synced for cache in self._required)

    async def wait_until_synced(self) -> None:
        """Wait until all required caches were listed once."""
        for cache in self._required:
            await cache.wait_until_synced()

    def find_missing(self) -> list[str]:
        """Return one line for each required cache that is not synced."""
        unsynced = (cache for cache in self._required if not cache.synced)
        return [f"{cache.resource.plural} are not synced: {cache.problem}" for cache in unsynced]
