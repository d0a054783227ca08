"""What the claim controller does for a pod that has a node: it reserves what is allocated.

That is mostly done before, by the scheduler; not of a pod that a user has created with its node.
"""

from collections.abc import Iterable, Mapping

from tests.cluster.fake.kinds import JSON
from tests.world.gangs import is_reserved_for
from tests.world.network import Network
from tests.world.nodes import CLAIMS, Client, claim_names, devices_of, path_of
from tests.world.objects import is_over


class Reserver:
    """Reserves the claims of pods with a node that do not run yet."""

    def __init__(self, network: Network, client: Client) -> None:
        self._network, self._client = network, client

    async def reserve(self, pods: Iterable[JSON], claims: Mapping[str, JSON]) -> None:
        """Reserve what is allocated, as the controller knows it."""
        waiting = [pod for pod in pods if _lacks_start(pod)]
        if not waiting:
            return
        by_name = {(e["metadata"]["namespace"], e["metadata"]["name"]): e for e in claims.values()}
        for pod in waiting:
            space = pod["metadata"]["namespace"]
            for name in claim_names(pod):
                claim = by_name.get((space, name))
                if claim and devices_of(claim) and not is_reserved_for(pod, claim):
                    await self._reserve(claim, pod)

    async def _reserve(self, claim: JSON, pod: JSON) -> None:
        about = pod["metadata"]
        consumer = {"resource": "pods", "name": about["name"], "uid": about["uid"]}
        consumers = [*(claim["status"].get("reservedFor") or ()), consumer]
        version = {key: claim["metadata"][key] for key in ("resourceVersion", "uid")}
        change = {"metadata": version, "status": {"reservedFor": consumers}}
        if await self._client.ask("PATCH", path_of(CLAIMS, claim, "status"), change) is not None:
            self._network.count("claim that a controller reserves")


def _lacks_start(pod: JSON) -> bool:
    """Whether a pod has a node, and its kubelet has not told of its containers."""
    phase = (pod.get("status") or {}).get("phase", "")
    has_place = "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
    return has_place and not is_over(pod) and phase != "Running"
