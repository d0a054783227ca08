"""Pods with scheduling gates, which a queue removes after a while, as Kueue does.

No scheduler tries such a pod, and the API server refuses its binding. From its creation on, it has
the condition of a pod that waits. A restore can bring the gates back.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from tests.cluster.fake.kinds import JSON, named
from tests.world import clock
from tests.world.network import Network
from tests.world.nodes import PODS, Client, path_of

if TYPE_CHECKING:
    from tests.world.world import World

_POD: Final = named("pods")
_GATE: Final = "d.io/queue"
_LONGEST: Final = 25.0


def is_gated(pod: JSON) -> bool:
    """Whether a pod has scheduling gates."""
    return bool(pod["spec"].get("schedulingGates"))


def is_let_in(before: JSON, after: JSON) -> bool:
    """Whether the last gate of a pod is gone."""
    return is_gated(before) and not is_gated(after)


def add_gates(world: "World", pod: JSON) -> JSON:
    """Return a new pod, in some seeds often with a gate."""
    part = world.conditions.gated
    if not part or world.random.random() >= part:
        return pod
    world.network.count("pod with a gate")
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    condition["lastTransitionTime"] = f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"
    spec = {**pod["spec"], "schedulingGates": [{"name": _GATE}]}
    return {**pod, "spec": spec, "status": {"phase": "Pending", "conditions": [condition]}}


class Queue:
    """Removes the gates of each pod some time after it has seen them."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._client = Client(network, "queue of others")
        self._until: dict[str, float] = {}  # by UID

    async def run(self) -> None:
        """Work until cancelled."""
        random, loop = self._network.random, asyncio.get_running_loop()
        while True:
            await asyncio.sleep(random.uniform(0.3, 2))
            for pod in filter(is_gated, self._network.store.listed(_POD)):
                metadata = pod["metadata"]
                if metadata["uid"] not in self._until:
                    until = loop.time() + random.choice((0.0, random.uniform(0, _LONGEST)))
                    self._until[metadata["uid"]] = until
                elif self._until[metadata["uid"]] <= loop.time():
                    version = {key: metadata[key] for key in ("resourceVersion", "uid")}
                    change = {"metadata": version, "spec": {"schedulingGates": None}}
                    await self._client.ask("PATCH", path_of(PODS, pod), change)
