"""Who evicts pods by hand, as far as their budgets allow it, and what becomes of the budgets.

The API server charges an eviction to the status of a budget at once.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.cluster.fake.kinds import JSON, named
from tests.world import clock
from tests.world.asked import has_ended
from tests.world.budgets import (
    KIND,
    OF_SPACES,
    PLURAL,
    SELECTORS,
    is_healthy,
    make_budget,
    selects,
    status_of,
)
from tests.world.events import GRACE_SECONDS, event
from tests.world.objects import TEAM

if TYPE_CHECKING:
    from tests.world.world import World

_POD = named("pods")
# How often a drain tries an eviction again, as kubectl does.
_AGAIN_SECONDS = 5.0


def evict(world: "World", pod: JSON) -> bool:
    """Evict a pod as the API server does if its budget allows that; return whether it did.

    A pod that waits can go in any case, and one with several budgets never.
    """
    budgets = [each for each in world.all(PLURAL) if selects(each, pod)]
    if is_healthy(pod) and budgets:
        budget, status = budgets[0], status_of(budgets[0])
        allowed = status.get("disruptionsAllowed", 0)
        if len(budgets) > 1 or allowed < 1:
            world.network.count("eviction that a budget refuses")
            return False
        disrupted = {**(status.get("disruptedPods") or {})}
        disrupted[pod["metadata"]["name"]] = clock.now().isoformat()
        charged = {"disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
        world.server.put({**budget, "status": {**status, **charged}})
        world.network.count("eviction that a budget allows")
    world.network.store.delete(_POD, pod, GRACE_SECONDS)
    return True


def evict_until(world: "World", pods: Iterable[JSON], seconds: float) -> None:
    """Evict pods as `kubectl drain` does: who is refused, again after some time, for a while."""
    left = {pod["metadata"]["uid"] for pod in pods}
    stored = [pod for pod in world.all("pods") if pod["metadata"]["uid"] in left]
    refused = [pod for pod in stored if not has_ended(pod) and not evict(world, pod)]
    if refused and seconds > _AGAIN_SECONDS and not world.is_calm:
        loop, rest = asyncio.get_running_loop(), seconds - _AGAIN_SECONDS
        loop.call_later(_AGAIN_SECONDS, evict_until, world, refused, rest)


@event(1)
def change_budget(world: "World", drawn: int) -> str:
    """Create or delete a budget, or let it ask for another number of pods, or for other ones."""
    if not world.conditions.has_budgets:
        return ""
    names = [*OF_SPACES, ("default", "same"), (TEAM, "all")]
    space, name = names[drawn % len(names)]
    budget = world.network.store.find(KIND, space, name)
    least = drawn // 8 % 3
    if budget is None:
        world.server.put(make_budget(space, name, least))
        return f"{space}/{name} is created, {least} must run"
    if drawn // 32 % 4 == 0:
        world.network.store.delete(KIND, budget)
        return f"{space}/{name} is deleted"
    selector = budget["spec"]["selector"]
    if drawn // 32 % 4 == 1:
        selector = [*SELECTORS.values()][drawn // 128 % len(SELECTORS)]
    world.server.put({**budget, "spec": {"minAvailable": least, "selector": selector}})
    return f"{space}/{name} selects {selector}, {least} must run"
