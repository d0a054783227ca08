"""Watches the objects of the page with the rights of the caller, and follows these rights.

A kind that the caller may not read in the whole cluster is read in one namespace, or not at all.
The rights are asked again each minute, and as soon as a watch fails: what the caller may not read
any more is not kept.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from cli.served_page.objects import KINDS, Decode, gather
from drawbridge.api_error import ApiError
from drawbridge.cluster import resources
from drawbridge.cluster.cache import FRESH_SECONDS, Cache
from drawbridge.cluster.history import HistoryChangedError
from drawbridge.cluster.resources import Resource
from drawbridge.cluster.session import Session
from drawbridge.report.page.model import Extent, PageObjects, Watched

RIGHTS_SECONDS: Final = 60.0
# After a watch has failed.
SOON_SECONDS: Final = 5.0
_FORBIDDEN: Final = (401, 403)
_RESOURCES: Final = {each.plural: each for each in resources.ALL if each.plural in KINDS}


class WatchedKind:
    """One kind, as far as the caller may read it; without a cache it is not read yet."""

    def __init__(
        self,
        session: Session,
        resource: Resource,
        namespace: str,
        decode: Decode,
        on_change: Callable[[], None],
    ) -> None:
        self.resource = resource
        self.extent: Extent | None = None
        self.asked = 0.0  # when the rights were asked
        self._session = session
        self._namespace = namespace  # the only one that is read, if it is given
        self._decode = decode
        self._on_change = on_change
        self._cache: Cache[Any] | None = None
        self._task: asyncio.Task[None] | None = None

    async def ask_rights(self) -> None:
        """Find out how much may be read, and read that much from now on."""
        extent = await self._find_extent()
        if extent is not self.extent:
            await self.close()
            self.extent = extent
            if extent is not Extent.NOTHING:
                self._start(extent)
            self._on_change()

    async def _find_extent(self) -> Extent:
        only = bool(self._namespace) and self.resource.namespaced
        if not only and await self._may_list(""):
            return Extent.CLUSTER
        if self.resource.namespaced and await self._may_list(self.own_namespace):
            return Extent.NAMESPACE
        return Extent.NOTHING

    @property
    def own_namespace(self) -> str:
        """The namespace that is read if the cluster is not."""
        return self._namespace or self._session.namespace

    async def _may_list(self, namespace: str) -> bool:
        try:
            await self._session.call("GET", self.resource.path(namespace), query={"limit": "1"})
        except ApiError as error:
            if error.code not in _FORBIDDEN:
                raise
            return False
        return True

    def _start(self, extent: Extent) -> None:
        namespace = self.own_namespace if extent is Extent.NAMESPACE else ""
        cache = Cache[Any](
            self._session,
            self.resource,
            object,
            namespace=namespace,
            decode=self._decode,
            keep_raw=False,
        )
        cache.subscribe(lambda _before, _after: self._on_change())
        self._cache = cache
        self._task = asyncio.create_task(self._follow(cache))

    async def _follow(self, cache: Cache[Any]) -> None:
        """Keep a cache in sync; after a restore of the API server, the rights are asked again."""
        try:
            await cache.run()
        except HistoryChangedError:
            self.extent = None

    async def close(self) -> None:
        """Forget what was read."""
        task, self._task, self._cache = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))  # a cancellation of the caller ends it

    @property
    def has_failed(self) -> bool:
        """Whether the watch does not work now."""
        return self._cache is None or bool(self._cache.problem)

    @property
    def is_read(self) -> bool:
        """Whether the objects have been listed."""
        return self._cache is not None and self._cache.synced

    def objects(self) -> list[Any]:
        """Return what was decoded."""
        return [] if self._cache is None else [each.value for each in self._cache.all()]

    @property
    def unread(self) -> int:
        """The number of objects that cannot be decoded."""
        return 0 if self._cache is None else self._cache.undecodable

    def describe(self, problem: str) -> Watched:
        """Describe the watch; `problem` is why the rights could not be asked."""
        cache, name = self._cache, self.resource.kind + "s"
        namespace = self.own_namespace
        if self.extent is None or cache is None:
            extent = self.extent or Extent.CLUSTER
            return Watched(name, extent, namespace, is_read=False, failing=problem)
        failing, seconds = cache.problem, cache.age()
        if not failing and seconds > FRESH_SECONDS:
            failing = "the API server sends nothing"
        is_read = cache.synced
        shown = failing if is_read or failing != Cache.problem else ""
        return Watched(name, self.extent, namespace, is_read, shown, seconds if failing else 0.0)


class PageWatches:
    """All kinds of the page; `changed` is set by each change."""

    def __init__(
        self, session: Session, decoders: Mapping[str, Decode], namespace: str = ""
    ) -> None:
        self._session = session
        self.changed = asyncio.Event()
        self.problem = ""  # why the rights cannot be asked
        self._kinds = [
            WatchedKind(session, _RESOURCES[each], namespace, decoders[each], self.changed.set)
            for each in KINDS
        ]

    async def follow_rights(self, seconds: float = RIGHTS_SECONDS) -> None:
        """Ask the rights again and again, and read what they allow; until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                for kind in self._kinds:
                    wait = min(seconds, SOON_SECONDS) if kind.has_failed else seconds
                    if kind.extent is Extent.NOTHING:
                        wait = seconds
                    if kind.extent is None or loop.time() - kind.asked >= wait:
                        await self._ask(kind)
                        kind.asked = loop.time()
                await asyncio.sleep(min(1.0, seconds))
        finally:
            for kind in self._kinds:
                await kind.close()

    async def _ask(self, kind: WatchedKind) -> None:
        try:
            await kind.ask_rights()
            self.problem = ""
        except ApiError as error:
            # What was read stays, and the page says since when it is not current.
            self.problem = f"{error}"

    def now(self) -> float:
        """Return the time of the API server in Unix seconds."""
        return self._session.clock.now()

    def objects(self) -> PageObjects:
        """Return what was read now. What was not listed yet is not known."""
        decoded = {each.resource.plural: each.objects() for each in self._kinds}
        extents = {
            each.resource.plural: (each.extent if each.is_read else None) or Extent.NOTHING
            for each in self._kinds
        }
        return gather(decoded, extents)

    def describe(self) -> Iterator[Watched]:
        """Yield how each kind is read."""
        return (each.describe(self.problem) for each in self._kinds)

    @property
    def only_namespace(self) -> str:
        """The only namespace whose pods are read; empty for all."""
        pods = self._kinds[-1]
        return pods.own_namespace if pods.extent is Extent.NAMESPACE else ""

    @property
    def unread(self) -> int:
        """The number of objects that cannot be decoded."""
        return sum(each.unread for each in self._kinds)
