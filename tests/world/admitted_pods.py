"""Pods of namespaces whose pods our webhook reviews: who creates them tries until it is allowed.

A namespace can come while everything runs, with pods that are created at once: the webhook may not
know it yet, and reads it then.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.cluster.fake.kinds import JSON, named
from tests.world.admission import RefusedPodError
from tests.world.events import create_legacy_in, event
from tests.world.network import Network
from tests.world.objects import MIGRATED, make_migrated
from tests.world.other_webhooks import OtherWebhooks
from tests.world.quotas import EXCEEDED, Quotas

if TYPE_CHECKING:
    from tests.world.world import World


class AdmittedPods:
    """Creates pods as soon as they are allowed; `say` tells of it."""

    def __init__(
        self, network: Network, others: OtherWebhooks, quotas: Quotas, say: Callable[[str], None]
    ) -> None:
        self._network, self._quotas, self._say = network, quotas, say
        self.others = others
        # Pods that were refused until now, with the reason.
        self.refused: dict[str, str] = {}
        self.creating: dict[asyncio.Task[None], None] = {}

    def create(self, pod: JSON, stock: str) -> None:
        """Create a pod; the stock scheduler has another name than in the reviews."""
        self.refused[pod["metadata"]["name"]] = "not answered yet"
        task = asyncio.ensure_future(self._create(pod, stock))
        self.creating[task] = None
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self.creating[task]
        if not task.cancelled():
            task.result()

    async def _create(self, pod: JSON, stock: str) -> None:
        name = pod["metadata"]["name"]
        admitted = await self._await_admission(pod)
        del self.refused[name]
        if admitted is None:
            self._network.count("pod whose namespace is gone")
            return
        spec = admitted["spec"]
        is_native = spec["schedulerName"] == "default-scheduler"
        spec["schedulerName"] = stock if is_native else spec["schedulerName"]
        self._network.fronts[0].server.put(admitted)
        self._say(f"{name} is created for {spec['schedulerName']}")

    async def _await_admission(self, pod: JSON) -> JSON | None:
        """Return a pod as it is stored; None if its namespace goes, as in a restore."""
        while self._has_namespace(pod):
            try:
                admitted = await self._admit(pod)
            except RefusedPodError as refused:
                self._network.count("pod that is refused")
                self.refused[pod["metadata"]["name"]] = f"{refused}"
                await asyncio.sleep(self._network.random.uniform(1, 4))
                continue
            return admitted if self._has_namespace(pod) else None
        return None

    def _has_namespace(self, pod: JSON) -> bool:
        space = pod["metadata"]["namespace"]
        return self._network.store.find(named("namespaces"), "", space) is not None

    async def _admit(self, pod: JSON) -> JSON:
        """Return a pod as it is stored; raises RefusedPodError. Quotas come after all webhooks."""
        admitted = await self.others.admit(pod)
        if limit := self._quotas.charge(admitted):
            raise RefusedPodError(f"{EXCEEDED}{limit}")
        return admitted


@event(0.5)
def create_namespace(world: "World", drawn: int) -> str:
    """Create a namespace whose pods are translated, and one or two pods in it."""
    space = world.next_name(f"{MIGRATED}-")
    world.server.put(make_migrated(space))
    names = [create_legacy_in(world, space) for _ in range(1 + drawn % 2)]
    return f"{space} with {', '.join(names)}"
