"""The real controller in the world: its caches, its election and all its reconcilers."""

import asyncio
from typing import Any

from controller.api_server import EventReporter
from controller.caches import ControllerCaches
from controller.fence_rules import FenceRuleReconciler
from controller.process import _run_reconcilers, _watch_configurations
from controller.reconcilers import ControllerContext, Reconcilers
from controller.watched_objects import WatchedNode
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.client import ResourceClient, decode_object
from drawbridge.cluster.events import EventRecorder
from drawbridge.cluster.history import HistoryChangedError
from drawbridge.cluster.lease import LeaderElector
from drawbridge.cluster.resources import EVENTS
from drawbridge.cluster.store import CachedObject
from drawbridge.names import CONTROLLER_LEASE
from drawbridge.process.settings import Settings
from tests.world.network import LATEST_SECONDS, SYSTEM, Network, WorldSession


class ControllerProcess:
    """One replica; `restart` ends it at once, and another one starts in its place."""

    def __init__(self, network: Network, host: str) -> None:
        self.network, self.host = network, host
        self.restart = asyncio.Event()
        self.leads, self.terms = False, 0
        self._nodes: Cache[WatchedNode] | None = None
        self._rules: FenceRuleReconciler | None = None
        self._decided_at = float("-inf")  # when the process began, or found another fence

    def find_node(self, name: str) -> CachedObject[WatchedNode] | None:
        """Return a node as it knows it; None if it does not lead, or stands still."""
        return (
            self._nodes.get(name) if self._nodes and self.leads and not self._is_still() else None
        )

    def trusts_policy(self, node: str) -> bool:
        """Whether it takes the policy for the fence of a node, or what it sent then can arrive."""
        if self._rules is None:
            return False
        now = asyncio.get_running_loop().time()
        return bool(self._rules.holds(node)) or now - self._decided_at < LATEST_SECONDS

    def _is_still(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self.network.find_still(f"controller {self.host}") > now

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self.restart.clear()
            running = asyncio.ensure_future(self._serve())
            killed = asyncio.ensure_future(self.restart.wait())
            try:
                await asyncio.wait((running, killed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (running, killed):
                    task.cancel()
                ended = await asyncio.gather(running, killed, return_exceptions=True)
                self.leads = False
            if isinstance(ended[0], BaseExceptionGroup):
                _, others = ended[0].split(HistoryChangedError)
                if others is not None:
                    raise others
            elif isinstance(ended[0], Exception) and not isinstance(ended[0], HistoryChangedError):
                raise ended[0]
            await asyncio.sleep(1)

    async def _serve(self) -> None:
        session: Any = WorldSession(self.network, f"controller {self.host}")
        settings = Settings(_watch_configurations(session))
        async with asyncio.TaskGroup() as group:
            for part in settings.run():
                group.create_task(part)
            await settings.wait_unless_first()
            elector = LeaderElector(session, SYSTEM, CONTROLLER_LEASE, self.host)
            events = ResourceClient(session, EVENTS, decode_object)
            recorder = EventRecorder(events, "drawbridge.dev/controller", elector.identity)
            reporter = EventReporter(recorder, lambda: settings.current)
            caches = ControllerCaches(session)
            self._nodes = caches.nodes
            context = ControllerContext(session, SYSTEM, settings, None)
            reconcilers = Reconcilers(context, caches, elector, reporter)
            self._follow_rules(reconcilers.rules)

            async def lead() -> None:
                reconcilers.leads = self.leads = True
                self.terms += 1
                try:
                    await _run_reconcilers(caches, reconcilers, settings, elector.identity)
                finally:
                    reconcilers.leads = self.leads = False

            for part in (recorder.run(), reconcilers.observer.run(), *caches.run()):
                group.create_task(part)
            group.create_task(elector.run(lead))

    def _follow_rules(self, rules: FenceRuleReconciler) -> None:
        listener = rules.listener

        def note() -> None:
            self._decided_at = asyncio.get_running_loop().time()
            listener()

        self._rules, rules.listener = rules, note
        self._decided_at = asyncio.get_running_loop().time()
