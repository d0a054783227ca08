"""PodDisruptionBudgets, whom they protect from preemption, and the controller that counts for them.

It counts the pods that run some time after they changed, so that the status of a budget is behind.
"""

import asyncio
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tests.cluster.fake.kinds import JSON, named
from tests.world import clock
from tests.world.asked import has_ended
from tests.world.network import Network
from tests.world.nodes import Client, path_of
from tests.world.objects import TEAM
from tests.world.watches import Follower

PLURAL: Final = "poddisruptionbudgets"
KIND = named(PLURAL)
_BUDGETS: Final = f"/apis/policy/v1/{PLURAL}"
# The label that budgets select; each pod has one of the values.
LABEL: Final = "app"
APPS: Final = ("a", "b", "c")
_WHO = "controller-manager budgets"
# The controller counts a pod as disrupted for so long after its eviction, in seconds.
_DISRUPTED_SECONDS = 120
# One selects every pod of its namespace: preemption ignores it, and evictions do not. Two select
# the same pods, so that these are never evicted.
SELECTORS: Final[Mapping[str, JSON]] = {
    "one": {"matchLabels": {LABEL: "a"}},
    "two": {"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["b", "c"]}]},
    "same": {"matchLabels": {LABEL: "c"}},
    "all": {},
}
OF_SPACES: Final = (("default", "one"), ("default", "two"), (TEAM, "one"), (TEAM, "two"))


def app_of(name: str) -> str:
    """Return the value of the label of a pod."""
    return APPS[int(name[1:]) % len(APPS)]


def make_budgets() -> Iterator[JSON]:
    """Yield what the owners of pods have written, in two namespaces."""
    for number, (space, name) in enumerate(OF_SPACES):
        yield make_budget(space, name, 2 - number % 2)


def make_budget(space: str, name: str, least: int) -> JSON:
    """Return a budget by which so many of the pods that it selects must run."""
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": name, "namespace": space},
        "spec": {"minAvailable": least, "selector": SELECTORS[name]},
    }


def selects(budget: JSON, pod: JSON) -> bool:
    """Whether a budget is about a pod."""
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    selector, labels = budget["spec"]["selector"], pod["metadata"].get("labels") or {}
    wanted = selector.get("matchLabels") or {}
    among = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        labels.get(part["key"]) in part["values"] for part in among
    )


def find_violating(pods: Iterable[JSON], budgets: Iterable[JSON]) -> set[str]:
    """Return the UIDs of the pods whose preemption violates a budget, as kube-scheduler does.

    It charges them in their order, ignores a budget for all pods, and does not charge what the API
    server has charged.
    """
    counting = [each for each in budgets if each["spec"]["selector"]]
    left = [status_of(each).get("disruptionsAllowed", 0) for each in counting]
    violating = set[str]()
    for pod in pods:
        for number, budget in enumerate(counting):
            is_charged = pod["metadata"]["name"] in status_of(budget).get("disruptedPods", ())
            if selects(budget, pod) and not is_charged:
                left[number] -= 1
                if left[number] < 0:
                    violating.add(pod["metadata"]["uid"])
    return violating


def status_of(budget: JSON) -> JSON:
    """Return the status of a budget, which has none before it is counted."""
    status: JSON = budget.get("status") or {}
    return status


class DisruptionController:
    """Counts for each budget the pods that run, some time after they have changed."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._client = Client(network, _WHO)
        self._pods, self._budgets = (
            Follower(network, _WHO, plural, lag=lag)
            for plural, lag in (("pods", 0.3), (PLURAL, 0.1))
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._budgets.run())
            group.create_task(self._count_again())

    async def _count_again(self) -> None:
        while True:
            await asyncio.sleep(self._network.random.uniform(0.2, 3))
            for budget in tuple(self._budgets.objects.values()):
                status = self._count(budget)
                if status != budget.get("status"):
                    path = path_of(_BUDGETS, budget, "status")
                    await self._client.ask("PUT", path, {**budget, "status": status})

    def _count(self, budget: JSON) -> JSON:
        pods = (pod for pod in self._pods.objects.values() if selects(budget, pod))
        own = {pod["metadata"]["name"]: pod for pod in pods if not has_ended(pod)}
        disrupted: JSON = status_of(budget).get("disruptedPods") or {}
        since = clock.now() - dt.timedelta(seconds=_DISRUPTED_SECONDS)
        kept = {
            name: at
            for name, at in disrupted.items()
            if name in own and dt.datetime.fromisoformat(at) > since
        }
        healthy = sum(is_healthy(pod) for name, pod in own.items() if name not in kept)
        allowed = max(0, healthy - budget["spec"]["minAvailable"])
        status: JSON = {"currentHealthy": healthy, "disruptionsAllowed": allowed}
        return status | ({"disruptedPods": kept} if kept else {})


def is_healthy(pod: JSON) -> bool:
    """Whether the containers of a pod run."""
    return bool((pod.get("status") or {}).get("phase") == "Running")
