"""A model of the API server's own quotas: a limit of pods, and one of devices.

What is created is charged at once, and refused beyond a limit. What has gone is found by the quota
controller, which counts some time later. A claim is charged to the old name of its class.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from tests.cluster.fake.kinds import JSON, named
from tests.world.mirrors import QuotaController
from tests.world.network import Network
from tests.world.nodes import count_legacy
from tests.world.objects import MIGRATED, RESOURCE, is_over

PODS, DEVICES = "pods", f"requests.{RESOURCE}"
HARD: Final[Mapping[str, int]] = {PODS: 6, DEVICES: 3}
EXCEEDED = "exceeded quota: "  # and the limit


class Quotas:
    """The quota of the namespace whose pods are translated."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.mirrored = QuotaController(network)
        self._used: Counter[str] = Counter()

    async def run(self) -> None:
        """Count anew from time to time, until cancelled."""
        while True:
            self._used = Counter(dict(self._count()))
            await asyncio.sleep(self._network.random.uniform(0.5, 3))

    def charge(self, value: JSON) -> str:
        """Charge an object that is to be created, or return the limit that has no room for it."""
        if value["metadata"]["namespace"] != MIGRATED:
            return ""
        needed = Counter(dict(_charges_of(value)))
        for name, count in needed.items():
            if self._used[name] + count > HARD[name]:
                self._network.count("object beyond a quota")
                return name
        self._used += needed
        return ""

    def has_room(self, name: str) -> bool:
        """Whether one more is allowed."""
        return self._used[name] < HARD[name]

    def _count(self) -> Iterator[tuple[str, int]]:
        objects = [
            value
            for plural in ("pods", "resourceclaims")
            for value in self._network.store.among(named(plural), MIGRATED, "", "")
        ]
        for name in HARD:
            yield name, sum(dict(_charges_of(value)).get(name, 0) for value in objects)


def make_quota() -> JSON:
    """Return the object that an administrator has written."""
    hard = {name: f"{count}" for name, count in HARD.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "limits", "namespace": MIGRATED},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": dict.fromkeys(hard, "0")},
    }


def _charges_of(value: JSON) -> Iterator[tuple[str, int]]:
    if value["kind"] == "Pod":
        if not is_over(value):
            yield PODS, 1
            yield DEVICES, count_legacy(value)
        return
    requests = value["spec"]["devices"]["requests"]
    yield DEVICES, sum(each["exactly"].get("count", 1) for each in requests)
