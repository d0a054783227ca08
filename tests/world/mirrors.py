"""A namespace with a quota on a name that no class maps, and the mirror of it by our controller.

No pods run there: what pods and claims use is a number each, which the quota controller counts
some time after it has changed. Administrators change the quota, and change or delete the mirror.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from drawbridge.names import MIRRORED_QUOTA
from tests.cluster.fake.kinds import JSON, named
from tests.world.events import event
from tests.world.network import Network
from tests.world.nodes import Client, path_of
from tests.world.objects import ENFORCED, make_migrated
from tests.world.watches import Follower

if TYPE_CHECKING:
    from tests.world.world import World

SPACE: Final = "mirrored"
_NAMESPACE, _QUOTA = named("namespaces"), named("resourcequotas")
_CLASS: Final = "gpu.nvidia.com"
_PODS: Final = "requests.nvidia.com/gpu"
_CLAIMS: Final = f"{_CLASS}.deviceclass.resource.k8s.io/devices"
_NAME: Final = "theirs"
_QUOTAS: Final = "/api/v1/resourcequotas"
_WHO: Final = "controller-manager quotas"


def make_mirrored() -> Iterator[JSON]:
    """Yield the class, the namespace and its quota."""
    selectors = [{"cel": {"expression": f'device.driver == "{_CLASS}"'}}]
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": _CLASS},
        "spec": {"selectors": selectors},
    }
    yield make_migrated(SPACE)
    yield _make_quota(4)


def _make_quota(most: int) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": _NAME, "namespace": SPACE},
        "spec": {"hard": {_PODS: f"{most}", "pods": "9"}},
    }


class QuotaController:
    """Counts what is used of the quotas, some time after it has changed."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._client = Client(network, _WHO)
        self._quotas = Follower(network, _WHO, "resourcequotas", lag=0.2)
        self.used = {_PODS: 0, _CLAIMS: 0}

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._quotas.run())
            group.create_task(self._count_again())

    async def _count_again(self) -> None:
        while True:
            await asyncio.sleep(self._network.random.uniform(0.3, 4))
            for quota in tuple(self._quotas.objects.values()):
                if quota["metadata"]["namespace"] != SPACE:
                    continue
                hard = quota["spec"]["hard"]
                used = {key: f"{self.used.get(key, 0)}" for key in hard}
                if quota.get("status") != (status := {"hard": hard, "used": used}):
                    path = path_of(_QUOTAS, quota, "status")
                    await self._client.ask("PUT", path, {**quota, "status": status})


@event(1.2)
def change_mirrored(world: "World", drawn: int) -> str:
    """Let pods or claims use more or less, or change the quota, its mirror or the namespace."""
    if not world.conditions.has_mirror:
        return ""
    number, change = drawn // 8 % 6, drawn % 8
    if change < 4:
        name = (_PODS, _CLAIMS)[change // 2]
        world.quotas.mirrored.used[name] = number
        return f"{name}: {number} are used"
    changes = (_change_mode, _change_mirror, _change_quota, _change_quota)
    return changes[change - 4](world, number)


def _change_mode(world: "World", _number: int) -> str:
    namespace = world.network.store.find(_NAMESPACE, "", SPACE)
    assert namespace is not None, "nobody deletes it"
    labels = {} if namespace["metadata"]["labels"] == ENFORCED else {**ENFORCED}
    world.server.put({**namespace, "metadata": {**namespace["metadata"], "labels": labels}})
    return f"{SPACE} is translated: {bool(labels)}"


def _change_mirror(world: "World", number: int) -> str:
    """Do what administrators should not."""
    ours = world.network.store.find(_QUOTA, SPACE, MIRRORED_QUOTA)
    if ours is None:
        return ""
    if number % 2:
        world.network.store.delete(_QUOTA, ours)
        return "the mirror is deleted"
    hard = {**ours["spec"]["hard"], _CLAIMS: f"{number + 9}"}
    world.server.put({**ours, "spec": {"hard": hard}})
    return f"the mirror lets claims use {number + 9}"


def _change_quota(world: "World", number: int) -> str:
    theirs = world.network.store.find(_QUOTA, SPACE, _NAME)
    if theirs is not None and number == 0:
        world.network.store.delete(_QUOTA, theirs)
        return "the quota is deleted"
    quota = _make_quota(number)
    world.server.put(quota if theirs is None else {**theirs, "spec": quota["spec"]})
    return f"the quota is {number}"


def the_mirror_says_what_the_other_side_leaves(world: "World") -> Iterator[str]:
    """Pods get what claims leave of the quota, and the other way round; without it nothing is left.

    A namespace that is not translated any more keeps its mirror while claims use something.
    """
    if not world.conditions.has_mirror:
        return
    find = world.network.store.find
    namespace, ours = find(_NAMESPACE, "", SPACE), find(_QUOTA, SPACE, MIRRORED_QUOTA)
    theirs = find(_QUOTA, SPACE, _NAME)
    pods, claims = world.quotas.mirrored.used.values()
    is_enforced = namespace is not None and namespace["metadata"]["labels"] == ENFORCED
    is_needed = theirs is not None and (is_enforced or (ours is not None and claims > 0))
    wanted: dict[str, str] = {}
    if theirs is not None and is_needed:
        most = int(theirs["spec"]["hard"][_PODS])
        wanted = {_PODS: f"{max(0, most - claims)}", _CLAIMS: f"{max(0, most - pods)}"}
    hard = {} if ours is None else ours["spec"]["hard"]
    if {key: hard[key] for key in (_PODS, _CLAIMS) if key in hard} != wanted:
        yield f"{pods} of pods and {claims} of claims: the mirror is {hard}, and not {wanted}"
