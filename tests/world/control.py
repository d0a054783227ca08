"""The real controllers in the world: their caches, their election and all their reconcilers.

In some runs there are two replicas, as an installation has them; the Lease says which one leads.
"""

import asyncio
import functools
import math
from collections.abc import Callable
from typing import Any

from controller.api_server import EventReporter
from controller.caches import ControllerCaches
from controller.fence_rules import FenceRuleReconciler
from controller.process import Leader, _watch_configurations
from controller.reconcilers import ControllerContext, Reconcilers
from controller.watched_objects import WatchedNode
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.client import ResourceClient, decode_object
from drawbridge.cluster.errors import UnreachableError
from drawbridge.cluster.events import EventRecorder
from drawbridge.cluster.history import HistoryChangedError
from drawbridge.cluster.lease import LeaderElector
from drawbridge.cluster.resources import EVENTS
from drawbridge.cluster.store import CachedObject
from drawbridge.names import CONTROLLER_LEASE
from drawbridge.process.settings import Settings
from tests.cluster.fake.trouble import Seen
from tests.world import clock
from tests.world.network import LATEST_SECONDS, SYSTEM, Network, WorldSession

HearClaim = Callable[[float, CachedObject[Any] | None, CachedObject[Any] | None], None]
_HOSTS = ("control-a", "control-b")
_RUN_SECONDS = 1.0


class _Session(WorldSession):
    """The session of a replica; `note` is called with each request that it is about to send."""

    def __init__(self, network: Network, who: str, note: Callable[[Seen], None]) -> None:
        super().__init__(network, who)
        self._note = note

    async def answer(self, seen: Seen) -> bytes:
        """Send a request, unless the process has ended."""
        if not self._runs:
            raise UnreachableError(f"{seen.method} {seen.path}: the process has ended")
        self._note(seen)
        return await super().answer(seen)


class _Leader(Leader):
    """What runs while a replica leads; the replica follows the rules of each term."""

    def __init__(self, process: "ControllerProcess", *parts: Any) -> None:  # noqa: ANN401  # all of Leader
        super().__init__(*parts)
        self._process = process

    async def _run(self, reconcilers: Reconcilers) -> None:
        self._process.follow_rules(reconcilers.rules)
        await super()._run(reconcilers)


class ControllerProcess:
    """One replica; `stop` ends it, and another one starts in its place."""

    def __init__(self, controllers: "Controllers", host: str) -> None:
        self._all, self.network, self.host = controllers, controllers.network, host
        self._restart = asyncio.Event()
        self._session: _Session | None = None
        self._elector: LeaderElector | None = None
        self._nodes: Cache[WatchedNode] | None = None
        self._rules: FenceRuleReconciler | None = None
        # When the process began, found another fence, or led no more.
        self._decided_at = float("-inf")

    @property
    def leads(self) -> bool:
        """Whether the process believes that it has the Lease."""
        return self._elector is not None and self._elector.leading

    def stop(self, *, releases: bool) -> None:
        """End the process, which can release its Lease before."""
        if self._session is not None and not releases:
            self._session.end()
        self._restart.set()

    def find_node(self, name: str) -> CachedObject[WatchedNode] | None:
        """Return a node as it knows it; None if it does not lead, or can write nothing."""
        trouble, now = self._find_trouble(), asyncio.get_running_loop().time()
        return self._nodes.get(name) if self._nodes and self.leads and trouble <= now else None

    def trusts_policy(self, node: str) -> bool:
        """Whether it takes the policy for the fence of a node, or what it sent then can arrive."""
        if self._rules is None:
            return False
        now = asyncio.get_running_loop().time()
        sent_at = max(self._decided_at, self.network.find_still(f"controller {self.host}"))
        return (self.leads and bool(self._rules.holds(node))) or now - sent_at < LATEST_SECONDS

    def _find_trouble(self) -> float:
        """Return until when it is still or cut off, or waits for an answer and its next run."""
        who = f"controller {self.host}"
        late = self.network.late.get(who, float("-inf")) + _RUN_SECONDS
        return max(self.network.find_still(who), self.network.trouble_of(who).cut, late)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._restart.clear()
            running = asyncio.ensure_future(self._serve())
            killed = asyncio.ensure_future(self._restart.wait())
            try:
                await asyncio.wait((running, killed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (running, killed):
                    task.cancel()
                ended = await asyncio.gather(running, killed, return_exceptions=True)
                self._session = self._elector = None
                self._all.note_end(self.host)
            if isinstance(ended[0], BaseExceptionGroup):
                _, others = ended[0].split(HistoryChangedError)
                if others is not None:
                    raise others
            elif isinstance(ended[0], Exception) and not isinstance(ended[0], HistoryChangedError):
                raise ended[0]
            await asyncio.sleep(1)

    async def _serve(self) -> None:
        note = functools.partial(self._all.note_sent, self.host)
        session: Any = _Session(self.network, f"controller {self.host}", note)
        self._session = session
        settings = Settings(_watch_configurations(session))
        async with asyncio.TaskGroup() as group:
            for part in settings.run():
                group.create_task(part)
            await settings.wait_unless_first()
            elector = LeaderElector(session, SYSTEM, CONTROLLER_LEASE, self.host)
            self._elector = elector
            events = ResourceClient(session, EVENTS, decode_object)
            recorder = EventRecorder(events, "drawbridge.dev/controller", elector.identity)
            reporter = EventReporter(recorder, lambda: settings.current)
            caches = ControllerCaches(session)
            self._nodes = caches.nodes
            since = self._all.note_start(self.host)
            caches.claims.subscribe(functools.partial(self._all.hear_claim, since))
            context = ControllerContext(session, settings, None)
            leader = _Leader(self, context, caches, elector, reporter)
            self._note_decision()

            async def lead() -> None:
                self._all.terms += 1
                self.network.count("term of a controller")
                try:
                    await leader.lead()
                finally:
                    self._note_decision()

            for part in (recorder.run(), leader.observations.usage.run(), *caches.run()):
                group.create_task(part)
            group.create_task(elector.run(lead))

    def follow_rules(self, rules: FenceRuleReconciler) -> None:
        """Note when the fence of a term holds, or does not any more."""
        listener = rules.listener

        def note() -> None:
            self._note_decision()
            listener()

        self._rules, rules.listener = rules, note
        self._note_decision()

    def _note_decision(self) -> None:
        self._decided_at = asyncio.get_running_loop().time()


class Controllers:
    """All replicas."""

    def __init__(self, network: Network, replicas: int = 1) -> None:
        self.network = network
        self.replicas = [ControllerProcess(self, host) for host in _HOSTS[:replicas]]
        self.terms = 0  # of all of them
        self.hear_claim: HearClaim = lambda *_: None  # with each change that one hears of
        # Until when processes have followed claims, by host and the time of the start.
        self.followed: dict[tuple[str, float], float] = {}
        self.beside: list[str] = []  # what one was about to write while another one led

    def note_start(self, host: str) -> float:
        """Note that a process follows claims from now on, and return the time."""
        self.followed[host, clock.wall()] = math.inf
        return clock.wall()

    def note_end(self, host: str) -> None:
        """Note that a process follows claims no more."""
        own = {key: end for key, end in self.followed.items() if key[0] == host}
        self.followed |= {key: min(end, clock.wall()) for key, end in own.items()}

    def choose(self, drawn: int) -> ControllerProcess:
        """Return the one that leads, if any, or sometimes another one."""
        leading = [each for each in self.replicas if each.leads]
        return (leading if leading and drawn % 4 else self.replicas)[drawn // 4 % 2 - 1]

    def find_node(self, name: str) -> CachedObject[WatchedNode] | None:
        """Return a node as the leading one knows it; None if nobody can write now."""
        return next(filter(None, (each.find_node(name) for each in self.replicas)), None)

    def trusts_policy(self, node: str) -> bool:
        """Whether one takes the policy for the fence of a node, or what it sent can arrive."""
        return any(each.trusts_policy(node) for each in self.replicas)

    def note_sent(self, host: str, seen: Seen) -> None:
        """Note what one is about to write while another one leads."""
        is_event = "events" in seen.path.split("/")[-2:]
        name = CONTROLLER_LEASE.encode()
        is_own = "/leases" in seen.path and (name in seen.path.encode() or name in seen.body)
        if seen.method == "GET" or is_event or is_own:
            return
        others = [each.host for each in self.replicas if each.leads and each.host != host]
        self.beside += [f"{host} sends {seen.method} {seen.path}, {each} leads" for each in others]

    async def run(self) -> None:
        """Run until cancelled."""
        await asyncio.gather(*(each.run() for each in self.replicas))
