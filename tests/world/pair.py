"""One kube-scheduler and the real allocator beside it."""

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from allocator.process import AllocatorOptions, _create_caches, _Parts
from allocator.state.caches import AllocatorCaches
from allocator.state.inputs import Inputs
from allocator.writes.binding import BindingTimes
from allocator.writes.cluster_writes import Check
from drawbridge.cluster.history import HistoryChangedError
from drawbridge.cluster.store import CachedObject
from drawbridge.dra.allocation import Allocation, Consumer, gives_same_devices
from drawbridge.dra.claim import Claim
from drawbridge.ledger.pods import Pod
from drawbridge.process.run import StopSignal
from drawbridge.process.settings import Settings, watch_in_use
from tests.world.conditions import Conditions
from tests.world.large import limit_memory
from tests.world.network import SYSTEM, Network, WorldSession
from tests.world.nodes import Device
from tests.world.preemptions import list_published
from tests.world.scheduler import Scheduler
from tests.world.uses import Seen, list_consumers


class _KilledError(Exception):
    """Ends an allocator."""


class Pair:
    """The two processes on a host; `kill` ends both at once."""

    def __init__(
        self,
        network: Network,
        host: str,
        number: int,
        conditions: Conditions,
        watch_bindings: Callable[[_Parts], None],
    ) -> None:
        """Do not start yet; `watch_bindings` is called with each allocator that starts."""
        self.network, self.host, self.number = network, host, number
        self._holding, self._watch_bindings = conditions.holding, watch_bindings
        self._is_crowded = conditions.is_crowded
        self.parts: _Parts | None = None
        self.failure = ""
        self.unreserved: list[str] = []  # claims that got devices that were not reserved
        # The allocations that the allocator has seen since it started, by the UID of the claim.
        self.seen: set[Seen] = set()
        # The devices of claims, by UID, that it has not seen published since it saw them allocated.
        self.unpublished: set[tuple[str, Device]] = set()
        self.restart = asyncio.Event()
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.scheduler = Scheduler(network, host, number, lambda: self.parts, conditions)

    def start(self) -> None:
        """Run until killed."""
        for part in (*self.scheduler.parts_of(), self._allocate()):
            self._spawn(part)

    def _spawn(self, part: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(part)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            at = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{at.filename.rpartition('/')[2]}:{at.name}"
            self.failure = self.failure or f"{error!r} in {where}"

    async def kill(self) -> None:
        """End everything; what was sent still arrives."""
        ending = list(self._tasks)
        ending += self._hidden_tasks()
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, self.scheduler.fail_calls(), return_exceptions=True)
        self.parts = None

    def _hidden_tasks(self) -> list["asyncio.Task[Any]"]:
        """Return the tasks of the allocator that none of its parts waits for."""
        if self.parts is None:
            return []
        calls, undoing = self.parts.calls, self.parts.binder.undoing
        tasks = cast("list[asyncio.Task[Any]]", [*calls._releases])  # noqa: SLF001
        return tasks + [task for _, task in undoing._running.values()]  # noqa: SLF001

    def _watch_allocations(self, parts: _Parts) -> None:
        """Note what the allocator allocates without a reservation."""
        allocate = parts.binder._writes.allocate  # noqa: SLF001

        def note(
            claim: Claim, allocation: Allocation, consumers: Sequence[Consumer], check: Check
        ) -> Any:  # noqa: ANN401  # awaited by the caller
            ledger = parts.state.decisions.state.ledger
            active = ledger.reservations.get(claim.metadata.uid)
            if active is None or not gives_same_devices(active.reservation.allocation, allocation):
                self.unreserved.append(claim.metadata.name)
            return allocate(claim, allocation, consumers, check)

        parts.binder._writes.allocate = note  # type: ignore[method-assign]  # noqa: SLF001

    def _watch_publications(self, parts: _Parts) -> None:
        """Note which devices are published when the allocator begins to count, and later."""
        build = parts.state._build  # noqa: SLF001

        def note_published() -> None:
            if self.unpublished:
                published = list_published(parts)
                self.unpublished = {each for each in self.unpublished if each[1] not in published}

        def note_and_build(inputs: Inputs) -> Any:  # noqa: ANN401  # returned to the caller
            note_published()
            return build(inputs)

        def note(*_: object) -> None:
            if parts.state.ready:
                note_published()

        parts.state._build = note_and_build  # type: ignore[method-assign]  # noqa: SLF001
        parts.caches.slices.subscribe(note)

    # --- the allocator ---

    async def _allocate(self) -> None:
        """Run the allocator, and start it again when it is killed or noticed a restore."""
        while True:
            session = WorldSession(self.network, f"allocator {self.host}")
            settings = Settings([watch_in_use(session)])
            running = [asyncio.ensure_future(part) for part in settings.run()]
            try:
                await settings.wait()
                caches = await _create_caches(session, SYSTEM, StopSignal())
                assert caches is not None, "nobody stops the process"
                if self._is_crowded:
                    limit_memory(caches)
                options = AllocatorOptions(
                    process=cast("Any", None),
                    socket="",
                    host=self.host,
                    api=None,
                    binding=BindingTimes(wait=110, timeout=600),
                    holding=self._holding,
                )
                self.seen, self.unpublished = set(), set()
                self.parts = _Parts(options, settings, session, caches)
                self._watch_publications(self.parts)
                self._watch_allocations(self.parts)
                self._watch_bindings(self.parts)
                running += [asyncio.ensure_future(part) for part in self.parts.run()]
                running.append(asyncio.ensure_future(self._wait_for_kill()))
                running.append(asyncio.ensure_future(self._follow(caches)))
                await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                session.end()
                self._count_moves()
                for task in (*running, *self._hidden_tasks()):
                    task.cancel()
                ended = await asyncio.gather(*running, return_exceptions=True)
                self.parts = None
                await self.scheduler.fail_calls()
            failed = [e for e in ended if isinstance(e, Exception)]
            for error in failed:
                if isinstance(error, HistoryChangedError):
                    self.network.count("restore that an allocator noticed")
                elif not isinstance(error, _KilledError):
                    raise error
            await asyncio.sleep(1)

    def _count_moves(self) -> None:
        """Note from which state to which the pods have moved in the allocator."""
        if self.parts is not None and self.parts.state.ready:
            moves = self.parts.state.decisions.state.records.moves
            for (state, event, _), count in moves.items():
                self.network.count(f"pod that is {state} {event}", count)

    async def _follow(self, caches: AllocatorCaches) -> None:
        """Note what the allocator sees as soon as it follows changes."""
        await caches.wait_until_synced()
        for cached in caches.claims.all():
            self._see(None, cached)
        caches.claims.subscribe(self._see)
        for pod in caches.pods.all():
            self._see_pod(None, pod)
        caches.pods.subscribe(self._see_pod)

    def _see_pod(self, _: object, after: CachedObject[Pod] | None) -> None:
        if after is not None:
            self.seen.add(("pod", after.uid))

    def _see(self, _: object, after: CachedObject[Claim] | None) -> None:
        allocation = after.value.status.allocation if after else None
        if after is not None and allocation is not None:
            uid, results = after.value.metadata.uid, allocation.devices.results
            devices = frozenset((each.pool, each.device) for each in results)
            if (uid, devices) not in self.seen and self.parts is not None:
                unpublished = devices.difference(list_published(self.parts))
                self.unpublished.update((uid, each) for each in unpublished)
            self.seen.add((uid, devices))
            consumers = ((each.resource, each.uid) for each in after.value.status.reserved_for)
            self.seen.update(list_consumers(uid, consumers))

    async def _wait_for_kill(self) -> None:
        await self.restart.wait()
        self.restart.clear()
        raise _KilledError
