"""Large objects of one tenant: pods that are read in parts, and claims beyond its share of memory.

An allocator reads less of a pod that is large. In some seeds, its memory has room for one large
claim of a namespace. Of others it keeps which devices they hold, and their pods wait until there is
room again. Everybody else gets devices as before.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from allocator.state.caches import AllocatorCaches
from allocator.state.large_pods import MAX_WHOLE
from drawbridge.cluster.cache import LIST_AGAIN_SECONDS
from drawbridge.kept_memory import measure_memory
from tests.cluster.fake.kinds import JSON, Kind
from tests.cluster.fake.store import Change
from tests.world.events import create_claim, create_pod, event
from tests.world.network import Network
from tests.world.objects import RESOURCE
from tests.world.stock import NAME as STOCK

if TYPE_CHECKING:
    from tests.world.world import World

SPACE: Final = "large"
# One such claim fits beside what all others have, and two do not.
_NOTE: Final = "x" * 1_000_000
_ROOM: Final = 3 * measure_memory(_NOTE, text=b"")
# API servers send bookmarks this often, and a watch looks then whether there is room again.
_BOOKMARK_SECONDS: Final = 60.0


def limit_memory(caches: AllocatorCaches) -> None:
    """Leave room for one large claim of a namespace."""
    caches.shares.limit = _ROOM


class LargeClaims:
    """Follows the large claims."""

    def __init__(self, network: Network, *, is_crowded: bool) -> None:
        self._network, self._is_crowded = network, is_crowded
        self._names: set[str] = set()
        self._crowded_at = float("-inf")  # when there were several for the last time

    async def run(self) -> None:
        """Send bookmarks, until cancelled."""
        while True:
            await asyncio.sleep(_BOOKMARK_SECONDS)
            for front in self._network.fronts:
                front.server.bookmark()

    def follow(self, kind: Kind, change: Change) -> None:
        """Note a large claim that comes or goes."""
        metadata = (change.after or change.before or {})["metadata"]
        if kind.plural != "resourceclaims" or metadata["namespace"] != SPACE:
            return
        if len(self._names) > 1:
            self._crowded_at = asyncio.get_running_loop().time()
        self._names.discard(metadata["name"])
        if change.after is not None:
            self._names.add(metadata["name"])

    def may_wait(self, pod: JSON) -> bool:
        """Whether a pod of the tenant can wait for memory: at least until its claim is read again.

        A list can fail once, and comes after the next bookmark.
        """
        since = asyncio.get_running_loop().time() - self._crowded_at
        is_recent = len(self._names) > 1 or since < LIST_AGAIN_SECONDS + 2 * _BOOKMARK_SECONDS
        return self._is_crowded and pod["metadata"]["namespace"] == SPACE and is_recent


@event(0.8)
def create_large(world: "World", drawn: int) -> str:
    """Create a pod with a large claim, or one that is large and has a claim or uses a plugin."""
    name, kind = world.next_name("c"), ("claim", "pod", "plugin")[drawn % 3]
    space = SPACE if kind == "claim" else "default"
    if kind == "plugin":
        pod = create_pod(world, [], scheduler=STOCK)
    else:
        pod = create_pod(world, [name], space=space)
        claim = create_claim(world, name, pod, drawn)
    if kind == "claim":
        metadata = {**claim["metadata"], "annotations": {"note": _NOTE}}
        world.server.put({**claim, "metadata": metadata})
    else:
        container: JSON = {"name": "main", "env": [{"name": "LARGE", "value": "x" * MAX_WHOLE}]}
        container |= {"resources": {"limits": {RESOURCE: "1"}}} if kind == "plugin" else {}
        world.server.put({**pod, "spec": {**pod["spec"], "containers": [container]}})
    return f"{pod['metadata']['name']} with a large {kind} in {space}"
