"""A model of a fabric that attaches devices to nodes once claims have got them.

A pod is bound when the claim says that its device is attached. The fabric can be slow, and it can
say instead that it cannot attach the device.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator

from tests.cluster.fake.kinds import JSON
from tests.world.network import Network
from tests.world.nodes import CLAIMS, Client, list_results, path_of
from tests.world.objects import ATTACHED, UNATTACHABLE
from tests.world.watches import Follower

_WHO = "fabric"
# A device of a claim, or a share of it: pool, name and ID.
_Part = tuple[str, str, str]
# How many devices it cannot attach, and how many need longer than a call that binds a pod.
_FAIL, _SLOW = 0.08, 0.04
_USUAL_SECONDS, _MOST_SECONDS = 5.0, 130.0


class Fabric:
    """Reports each device that must be attached, some time after a claim has got it."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._client = Client(network, _WHO)
        self._claims = Follower(network, _WHO, "resourceclaims")
        self._changed = asyncio.Event()
        # When what is to be reported of a device of a claim, by their UID and name.
        self._due: dict[tuple[str, _Part], tuple[float, str]] = {}
        self.is_calm = False  # whether all faults have ended

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run(self._wake))
            group.create_task(self._work())

    def _wake(self, *_: JSON | None) -> None:
        self._changed.set()

    async def _work(self) -> None:
        while True:
            now = asyncio.get_running_loop().time()
            missing = {
                (uid, device): claim
                for uid, claim in self._claims.objects.items()
                for device in list_unreported(claim)
            }
            due = {key: self._due.get(key) or self._draw(now) for key in missing}
            latest = now + (_USUAL_SECONDS if self.is_calm else _MOST_SECONDS)
            self._due = {key: (min(at, latest), condition) for key, (at, condition) in due.items()}
            for key, claim in missing.items():
                at, condition = self._due[key]
                if at <= now:
                    await self._report(claim, key[1], condition)
            self._changed.clear()
            soon = min((at for at, _ in self._due.values()), default=now + _MOST_SECONDS) - now
            with contextlib.suppress(TimeoutError):
                # What failed is tried again.
                await asyncio.wait_for(self._changed.wait(), max(0.5, soon))

    def _draw(self, now: float) -> tuple[float, str]:
        """Draw when a device is attached, or cannot be."""
        random = self._network.random
        seconds, drawn = random.expovariate(1), random.random()
        if self.is_calm or drawn > _FAIL + _SLOW:
            return now + min(seconds, _USUAL_SECONDS), ATTACHED
        if drawn > _SLOW:
            return now + min(seconds, _USUAL_SECONDS), UNATTACHABLE
        return now + random.uniform(_USUAL_SECONDS, _MOST_SECONDS), ATTACHED

    async def _report(self, claim: JSON, part: _Part, condition: str) -> None:
        """Write a condition of a device to the claim as it was seen."""
        self._network.count(f"device that is {condition.partition('/')[2]}")
        reported = [each for each in _list_reported(claim) if _part_of(each) != part]
        result = next(each for each in list_results(claim) if _part_of(each) == part)
        named = ("driver", "pool", "device", "shareID")
        own = {key: result[key] for key in named if key in result}
        status = {"type": condition, "status": "True", "reason": "Fabric", "message": ""}
        devices = [*reported, {**own, "conditions": [status]}]
        about = {key: claim["metadata"][key] for key in ("resourceVersion", "uid")}
        change = {"metadata": about, "status": {"devices": devices}}
        await self._client.ask("PATCH", path_of(CLAIMS, claim, "status"), change)


def list_unreported(claim: JSON) -> Iterator[_Part]:
    """Yield the devices of a claim that must be attached, and of which nothing is reported."""
    reported = {_part_of(each) for each in _list_reported(claim)}
    for result in list_results(claim):
        if result.get("bindingConditions") and _part_of(result) not in reported:
            yield _part_of(result)


def list_unattached(claim: JSON) -> Iterator[str]:
    """Yield the devices of a claim that must be attached, and are not."""
    attached = {
        _part_of(each)
        for each in _list_reported(claim)
        if any(condition["type"] == ATTACHED for condition in each["conditions"])
    }
    for result in list_results(claim):
        if result.get("bindingConditions") and _part_of(result) not in attached:
            yield str(result["device"])


def is_unattachable(claim: JSON) -> bool:
    """Whether a device of a claim cannot be attached."""
    conditions = (condition for each in _list_reported(claim) for condition in each["conditions"])
    return any(condition["type"] == UNATTACHABLE for condition in conditions)


def _list_reported(claim: JSON) -> Iterable[JSON]:
    return (claim.get("status") or {}).get("devices") or ()


def _part_of(value: JSON) -> _Part:
    return value["pool"], value["device"], value.get("shareID", "")
