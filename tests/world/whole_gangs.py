"""Which gangs came while nothing failed, and are bound in part all the same.

The allocator promises devices to as many members as must run, or to none. A fault can take the
promise of some of them, and so can who closes a node, takes devices, or leads from now on: what is
bound stays bound then, and the others wait.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tests.cluster.fake.kinds import JSON, Kind
from tests.cluster.fake.store import Change
from tests.world.asked import has_ended
from tests.world.gangs import COSCHEDULING, MIN_LABEL, Gang, find_least, gang_of
from tests.world.waiting_pods import has_claims, is_waiting, name_of

if TYPE_CHECKING:
    from tests.world.world import World

# What takes promises without a fault.
_INTERRUPTING: Final = frozenset(
    {"resize gang", "cordon", "kill scheduler", "allocate as rival", "end rivals"}
)


class WholeGangs:
    """Follows when gangs came, and which members have come to be bound, also if they have ended.

    Before an allocator knows the PodGroup of Coscheduling that says how many must run, as many must
    as exist: such a gang is left out.
    """

    def __init__(self) -> None:
        self._came: dict[Gang, float] = {}
        self._bound: dict[Gang, set[str]] = {}
        self._calm_since = float("inf")

    def begin(self, event: str = "") -> None:
        """Note that the faults end, or an event after that."""
        if not event or event in _INTERRUPTING:
            self._calm_since = asyncio.get_running_loop().time()

    def follow(self, kind: Kind, change: Change) -> None:
        """Note a member that comes, or is bound."""
        after = change.after or {}
        if kind.plural != "pods" or not after or (gang := gang_of(after)) is None:
            return
        if gang.kind is COSCHEDULING and MIN_LABEL not in after["metadata"]["labels"]:
            return
        self._came.setdefault(gang, asyncio.get_running_loop().time())
        if "nodeName" in after["spec"]:
            self._bound.setdefault(gang, set()).add(after["metadata"]["uid"])

    def list_bound(self) -> Iterator[tuple[Gang, int]]:
        """Yield the gangs that came without a fault and of which members were bound, how many."""
        for gang, uids in self._bound.items():
            if self._came[gang] > self._calm_since:
                yield gang, len(uids)


def a_gang_is_bound_as_a_whole(world: "World") -> Iterator[str]:
    """As many members as must run, or none. Others can use the quota of the team meanwhile."""
    for gang, bound in world.whole_gangs.list_bound():
        members = [pod for pod in world.all("pods") if gang_of(pod) == gang and not has_ended(pod)]
        waiting = [pod for pod in members if is_waiting(pod) and _can_run(world, pod)]
        if not waiting or gang.namespace in world.spaces.limited:
            continue
        least = find_least(waiting[0], gang, lambda gang: world.network.store.find(*gang))
        if bound < (least or len(members)) <= bound + len(waiting):
            names = ", ".join(map(name_of, waiting))
            yield f"{bound} members of {gang.name} are bound, and {names} wait"


def _can_run(world: "World", pod: JSON) -> bool:
    return has_claims(world, pod) and not world.large.may_wait(pod)
