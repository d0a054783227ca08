"""A namespace with a quota on a name that no class maps, and the mirror of it by our controller.

No pods run there: what pods and claims use is a number each, of which quotas can count too little
for a while. Administrators change the quota, and change or delete the mirror.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller.mirrored_quota import RECOUNT
from drawbridge.names import MIRRORED_QUOTA
from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.trouble import Seen
from tests.world.events import event
from tests.world.network import Network
from tests.world.nodes import Client, path_of
from tests.world.objects import ENFORCED, make_migrated
from tests.world.watches import Follower

if TYPE_CHECKING:
    from tests.world.world import World

SPACE: Final = "mirrored"
# A policy of others refuses the mirror here, so that there is always a namespace with work to do.
REFUSING: Final = "refusing"
_NAMESPACE, _QUOTA = named("namespaces"), named("resourcequotas")
_CLASS: Final = "gpu.nvidia.com"
_PODS: Final = "requests.nvidia.com/gpu"
_CLAIMS: Final = f"{_CLASS}.deviceclass.resource.k8s.io/devices"
_NAME: Final = "theirs"
_QUOTAS: Final = "/api/v1/resourcequotas"
_WHO: Final = "controller-manager quotas"
# A count that misses something misses what was created less than this before, in seconds.
_LATE_SECONDS: Final = 1.0
# Between what is created one after the other.
_PAUSES: Final = (0.05, 0.3, 0.8, 1.3)


def make_mirrored(*, refuses: bool) -> Iterator[JSON]:
    """Yield the class, and each namespace with its quota."""
    selectors = [{"cel": {"expression": f'device.driver == "{_CLASS}"'}}]
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": _CLASS},
        "spec": {"selectors": selectors},
    }
    for space in (SPACE, REFUSING) if refuses else (SPACE,):
        yield make_migrated(space)
        yield _make_quota(4, space)


def refuse_mirror(seen: Seen) -> None:
    """Raise RefusedError if a request writes a quota where a policy of others refuses that."""
    if seen.method != "GET" and f"/namespaces/{REFUSING}/resourcequotas/" in seen.path:
        raise RefusedError(403, "nobody else writes quotas here")


def _make_quota(most: int, space: str = SPACE) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": _NAME, "namespace": space},
        "spec": {"hard": {_PODS: f"{most}", "pods": "9"}},
    }


class QuotaController:
    """Counts what is used of the quotas as the one of Kubernetes does.

    The API server charges what is created at once. Some time after something has ended, all is
    counted, and a quota when its limits change: what has just been created is missing then. The
    real one counts again after minutes, so this one does not, but after a restore all the time. A
    count that our controller asks for misses nothing, because it sees nothing of it if one does.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._client = Client(network, _WHO)
        self._quotas = Follower(network, _WHO, "resourcequotas", lag=0.05)
        self.used = {_PODS: 0, _CLAIMS: 0}
        self._created: deque[tuple[float, str]] = deque(maxlen=20)
        self._due = set[str]()  # the names of quotas that count what has ended

    def change_use(self, name: str, number: int, pause: float) -> None:
        """Let so many be used: others are created one after the other, or some end."""
        more, loop = number - self.used[name], asyncio.get_running_loop()
        for each in range(more):
            loop.call_later(each * pause, self._create, name)
        if more < 0:
            self.used[name] = number
            self._due.update(quota["metadata"]["name"] for quota in self._list())

    def _create(self, name: str) -> None:
        self.used[name] += 1
        self._created.append((asyncio.get_running_loop().time(), name))
        for quota in self._list():
            status = quota.get("status") or {"used": {}}
            if (before := status["used"].get(name)) is not None:
                used = {**status["used"], name: f"{int(before) + 1}"}
                server = self._network.fronts[0].server
                server.put({**quota, "status": {**status, "used": used}})

    def _list(self) -> Sequence[JSON]:
        return [*self._network.store.among(_QUOTA, SPACE, "", "")]

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._quotas.run())
            group.create_task(self._count_again())

    async def _count_again(self) -> None:
        while True:
            await asyncio.sleep(self._network.random.uniform(0.05, 0.8))
            for quota in tuple(self._quotas.objects.values()):
                if quota["metadata"]["namespace"] == SPACE:
                    await self._count(quota)

    async def _count(self, quota: JSON) -> None:
        hard, name, before = quota["spec"]["hard"], quota["metadata"]["name"], quota.get("status")
        counted = before["hard"] if before else {}
        is_due, is_asked = name in self._due, RECOUNT in hard and RECOUNT not in counted
        missing = Counter[str]()
        if not is_due and not is_asked and "restore" not in self._network.counted:
            if hard == counted:
                return
            missing = self._find_missing()
        used = {key: f"{max(0, self.used.get(key, 0) - missing[key])}" for key in hard}
        status = {"hard": hard, "used": used}
        if status != before or is_due:
            self._due.discard(name)
            path = path_of(_QUOTAS, quota, "status")
            answer = await self._client.ask("PUT", path, {**quota, "status": status})
            self._due.update({name} if is_due and answer is None else ())
            self._network.count("count of a quota that misses something", bool(missing.total()))

    def _find_missing(self) -> Counter[str]:
        """Return what has been created too late to be counted."""
        now = asyncio.get_running_loop().time()
        since = now - self._network.random.uniform(0, _LATE_SECONDS)
        return Counter(name for at, name in self._created if at >= since)


@event(2)
def change_mirrored(world: "World", drawn: int) -> str:
    """Let pods or claims use more or less, or change the quota, its mirror or the namespace."""
    if not world.conditions.has_mirror:
        return ""
    number, change, pause = drawn // 8 % 6, drawn % 8, _PAUSES[drawn // 64 % len(_PAUSES)]
    if change < 4:
        return _change_use(world, (_PODS, _CLAIMS)[change // 2], number, pause)
    changes = (_change_mode, _change_mirror, _change_quota, _change_quota)
    more = ""
    if change == 7:
        # Who raises a limit does so because pods wait, and some are created then.
        used = world.quotas.mirrored.used[_PODS] + 2
        more = f", {_change_use(world, _PODS, used, pause)}"
    return f"{changes[change - 4](world, number)}{more}"


def _change_use(world: "World", name: str, number: int, pause: float) -> str:
    world.quotas.mirrored.change_use(name, number, pause)
    return f"{name}: {number} are used, one more each {pause:.2f} s"


@event(2)
def use_mirrored(world: "World", drawn: int) -> str:
    """Create pods and claims at the same time, one after the other."""
    if not world.conditions.has_mirror:
        return ""
    mirrored, chosen, told = world.quotas.mirrored, random.Random(drawn), list[str]()
    for name, most in ((_PODS, 2), (_CLAIMS, 6)):
        number, pause = mirrored.used[name] + chosen.randint(0, most), chosen.uniform(0.2, 1)
        told.append(_change_use(world, name, number, pause))
    return "; ".join(told)


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
    quota = _make_quota(3 * number)
    world.server.put(quota if theirs is None else {**theirs, "spec": quota["spec"]})
    return f"the quota is {3 * number}"


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
