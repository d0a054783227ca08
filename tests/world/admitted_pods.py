"""Pods of namespaces whose pods our webhook reviews: who creates them tries until it is allowed."""

import asyncio
from collections.abc import Callable

from tests.cluster.fake.kinds import JSON
from tests.world.admission import RefusedPodError, Webhook
from tests.world.network import Network
from tests.world.quotas import EXCEEDED, Quotas


class AdmittedPods:
    """Creates pods as soon as they are allowed; `say` tells of it."""

    def __init__(
        self, network: Network, webhook: Webhook, quotas: Quotas, say: Callable[[str], None]
    ) -> None:
        self._network, self._webhook, self._quotas = network, webhook, quotas
        self._say = say
        # Pods that were refused until now, with the reason.
        self.refused: dict[str, str] = {}
        self.creating: dict[asyncio.Task[None], None] = {}

    def create(self, pod: JSON, stock: str) -> None:
        """Create a pod; the stock scheduler has another name than in the reviews."""
        self.refused[pod["metadata"]["name"]] = "not answered yet"
        task = asyncio.ensure_future(self._create(pod, stock))
        self.creating[task] = None
        task.add_done_callback(self.creating.pop)

    async def _create(self, pod: JSON, stock: str) -> None:
        name = pod["metadata"]["name"]
        while True:
            try:
                admitted = await self._admit(pod)
                break
            except RefusedPodError as refused:
                self._network.count("pod that is refused")
                self.refused[name] = f"{refused}"
                await asyncio.sleep(self._network.random.uniform(1, 4))
        del self.refused[name]
        spec = admitted["spec"]
        is_native = spec["schedulerName"] == "default-scheduler"
        spec["schedulerName"] = stock if is_native else spec["schedulerName"]
        self._network.fronts[0].server.put(admitted)
        self._say(f"{name} is created for {spec['schedulerName']}")

    async def _admit(self, pod: JSON) -> JSON:
        """Return a pod as it is stored; raises RefusedPodError. Quotas come after all webhooks."""
        admitted = await self._webhook.admit(pod)
        if limit := self._quotas.charge(admitted):
            raise RefusedPodError(f"{EXCEEDED}{limit}")
        return admitted
