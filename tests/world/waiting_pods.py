"""Which pods wait although they could run: what must not last when the faults have ended."""

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tests.cluster.fake.kinds import JSON, named
from tests.world.asked import has_ended
from tests.world.asks import Ask, asks_of
from tests.world.fabric import is_unattachable
from tests.world.fitting import fit_together
from tests.world.gangs import (
    COSCHEDULING,
    GROUP,
    WORKLOAD,
    Gang,
    find_least,
    gang_of,
    is_reserved_for,
)
from tests.world.gates import is_gated
from tests.world.nodes import (
    Device,
    claim_names,
    consumers_of,
    count_held,
    devices_of,
    holds_of,
)
from tests.world.objects import BROKEN, NODES, is_open
from tests.world.scheduler import NAME
from tests.world.stock import NAME as STOCK
from tests.world.team_quota import EVERYTHING, find_room

if TYPE_CHECKING:
    from tests.world.world import World

Invariant = Callable[["World"], Iterator[str]]
_GROUPS = (GROUP.long_name, COSCHEDULING.long_name, WORKLOAD.long_name)
_STORED = ("pods", *_GROUPS, "resourceclaims", "nodes", "namespaces")


class Answer(NamedTuple):
    """What an invariant has found first, if anything, and the objects that it has looked at."""

    lists: tuple[Sequence[JSON], ...]
    first: str


def of_stored(invariant: Invariant) -> Invariant:
    """Find the same as before while the stored objects that an invariant depends on are the same.

    These are pods, their groups, claims and nodes; the holders of devices are among the claims.
    """

    @functools.wraps(invariant)
    def look(world: "World") -> Iterator[str]:
        lists = tuple(map(world.all, _STORED))
        answer = world.answers.get(invariant)
        if answer is None or any(map(operator.is_not, lists, answer.lists)):
            answer = world.answers[invariant] = Answer(lists, next(invariant(world), ""))
        return filter(None, [answer.first])

    return look


@of_stored
def no_pod_waits_beside_free_devices(world: "World") -> Iterator[str]:
    """Nothing is free for ever while a pod waits that fits; a gang with all that it lacks."""
    held = _count_all(world.holders.values())
    nodes = _open_nodes(world, NODES)
    for gang in _find_waiting(world):
        if fit_together(nodes, held, gang.needs, find_room(world, gang.space)):
            names = ", ".join(gang.names)
            yield f"{names} of {gang.name} wait, and devices for {len(gang.needs)} are free"


@of_stored
def no_important_pod_waits_beside_pods_that_can_go(world: "World") -> Iterator[str]:
    """Who may preempt others does so, also if an eviction has failed before; a gang as a whole.

    An allocator that forgets a pod knows of one with former gates only since when it asks again,
    so that its delay begins anew.
    """
    forgets_delays = world.conditions.forgets_pods and world.conditions.eviction_delay
    of_pods = {pod["metadata"]["uid"]: pod for pod in world.all("pods")}
    nodes = _open_nodes(world, NODES)
    held = _count_all(world.holders.values())
    for gang in _find_waiting(world):
        if not gang.priority or not any(asks for asks, _ in gang.needs):
            continue
        if forgets_delays and gang.was_gated:
            continue
        if fit_together(nodes, held, gang.needs, EVERYTHING):
            continue  # free devices are more than the quota allows, so nobody is evicted
        claims = world.all("resourceclaims")
        stay = [
            claim
            for claim in claims
            if len(users := consumers_of(claim)) != 1
            or not _can_go(of_pods.get(users[0]), claim, gang.priority)
            or claim["metadata"]["uid"] in gang.claims  # who waits needs what it has
        ]
        # An allocator finds devices at first without all pods of a lower priority.
        important = [
            claim
            for claim in claims
            if not all(_is_less(of_pods.get(uid), gang.priority) for uid in consumers_of(claim))
        ]
        room = find_room(world, gang.space)
        parts = [nodes] if room.memory == math.inf else [[node] for node in nodes]
        if any(
            fit_together(part, _count_all(stay), gang.needs, room)
            and fit_together(part, _count_all(important), gang.needs, room)
            for part in parts
        ):
            names = ", ".join(gang.names)
            yield f"{names} of {gang.name} wait, and pods with a lower priority have devices"


class Waiting(NamedTuple):
    """The pods of a gang that wait, or one alone, and what those need that it lacks.

    That is for each of them what it asks for, and the node if it has devices already. `claims` are
    those of all of them, by UID.
    """

    name: str
    priority: int
    space: str
    names: list[str]
    needs: list[tuple[list[Ask], str]]
    claims: set[str]
    was_gated: bool


def _find_waiting(world: "World") -> Iterator[Waiting]:
    """Yield who waits and could run with devices, each gang once."""
    members_of = _find_gangs(world)
    gangs: dict[Gang | str, list[JSON]] = {}
    for pod in world.all("pods"):
        if not is_waiting(pod) or is_native(pod):
            continue
        if _can_be_bound(world, pod) and not world.large.may_wait(pod):
            gangs.setdefault(gang_of(pod) or pod["metadata"]["uid"], []).append(pod)
    for gang, pods in gangs.items():
        if lacks := _lacks(world, members_of.get(gang, ()), len(pods)):
            priority = min(pod["spec"].get("priority", 0) for pod in pods)
            names = [*map(name_of, pods)]
            needs = list_needs(world, pods[:lacks])
            name = gang.name if isinstance(gang, Gang) else gang
            of_pods = (claim for pod in pods for claim in claims_of(world, pod) if claim)
            claims = {claim["metadata"]["uid"] for claim in of_pods}
            was_gated = any(pod["metadata"]["generation"] > 1 for pod in pods)
            space = namespace_of(pods[0])
            yield Waiting(name, priority, space, names, needs, claims, was_gated)


def _can_be_bound(world: "World", pod: JSON) -> bool:
    """Whether a pod has its claims, and runs with them if they get devices.

    Nobody takes back devices that cannot be attached from pods that were created with a node.
    """
    failed = filter(is_unattachable, filter(None, claims_of(world, pod)))
    users = {uid for claim in failed for uid in consumers_of(claim)}
    pods = (each for each in world.all("pods") if each["metadata"]["uid"] in users) if users else ()
    return has_claims(world, pod) and not any("nodeName" in each["spec"] for each in pods)


def _can_go(pod: JSON | None, claim: JSON, priority: int) -> bool:
    """Whether a pod of ours is a victim of others; gangs are evicted as a whole.

    Who uses a claim can be on another node than its devices. It is no victim there.
    """
    if pod is None or is_native(pod) or gang_of(pod) is not None:
        return False
    is_there = all(pool == pod["spec"].get("nodeName") for pool, _ in devices_of(claim))
    return is_there and _is_less(pod, priority)


def _is_less(pod: JSON | None, priority: int) -> bool:
    return pod is not None and bool(pod["spec"].get("priority", 0) < priority)


@of_stored
def no_pod_waits_for_the_stock_scheduler(world: "World") -> Iterator[str]:
    """Neither does a pod of others on their nodes; without a defect of Kubernetes."""
    held = _count_all(world.holders.values())
    free = (BROKEN, "good") not in held and (BROKEN, "broken") not in held
    free = free and bool(_open_nodes(world, [BROKEN]))
    for pod in world.all("pods"):
        if not pod["spec"].get("resourceClaims"):
            continue
        is_stock = pod["spec"]["schedulerName"] == STOCK
        if not free or not is_waiting(pod) or not is_stock or not has_claims(world, pod):
            continue
        ((asks, _),) = list_needs(world, [pod])
        if not any(choice.memory for ask in asks for choice in ask.choices):
            yield f"{name_of(pod)} waits, and a device of {BROKEN} is free"


def is_native(pod: JSON) -> bool:
    return bool(pod["spec"]["schedulerName"] != NAME)


def _find_gangs(world: "World") -> Mapping[Gang | str, list[JSON]]:
    """Return the members of each gang."""
    gangs: dict[Gang | str, list[JSON]] = {}
    for pod in world.all("pods"):
        if gang := gang_of(pod):
            gangs.setdefault(gang, []).append(pod)
    return gangs


def _lacks(world: "World", members: Sequence[JSON], waiting: int) -> int:
    """Return how many of the waiting members must have devices together; 0 if not enough exist.

    A member that has ended counts no more, as for kube-scheduler, which does not see it. A pod
    alone has no members.
    """
    if not members:
        return 1
    gang = gang_of(members[0])
    assert gang is not None
    least = find_least(members[0], gang, lambda gang: world.network.store.find(*gang.place))
    if not least:  # as many as exist
        return waiting if waiting == sum(map(is_waiting, members)) else 0
    bound = sum("nodeName" in pod["spec"] and not has_ended(pod) for pod in members)
    lacks = max(1, least - bound)
    return lacks if lacks <= waiting else 0


def list_needs(world: "World", pods: Iterable[JSON]) -> list[tuple[list[Ask], str]]:
    """Return what pods still ask for, and the node of the devices that they have.

    Pods that share a claim without devices need one node.
    """
    needs, asking = list[tuple[list[Ask], str]](), dict[str, int]()
    for pod in pods:
        asks, node, place, own = list[Ask](), "", len(needs), list[str]()
        for claim in filter(None, claims_of(world, pod)):
            devices, uid = devices_of(claim), claim["metadata"]["uid"]
            node = next((pool for pool, _ in devices), node)
            if not devices and uid in asking:
                place = asking[uid]
            elif not devices:
                asks, own = asks + asks_of(claim), [*own, uid]
        earlier, only = needs[place] if place < len(needs) else ([], "")
        needs[place : place + 1] = [([*earlier, *asks], only or node)]
        asking |= dict.fromkeys(own, place)
    return needs


def claims_of(world: "World", pod: JSON) -> list[JSON | None]:
    find, kind = world.network.store.find, named("resourceclaims")
    return [find(kind, namespace_of(pod), name) for name in claim_names(pod)]


def _open_nodes(world: "World", names: Iterable[str]) -> list[str]:
    """Return the nodes on which pods can start."""
    find, kind, full = world.network.store.find, named("nodes"), world.network.full
    return [
        name
        for name in names
        if name not in full and (node := find(kind, "", name)) and is_open(node)
    ]


def _count_all(claims: Iterable[JSON]) -> Mapping[Device, int]:
    """Return how much claims hold of each device."""
    return count_held(hold for claim in claims for hold in holds_of(claim))


def is_waiting(pod: JSON) -> bool:
    is_alive = "deletionTimestamp" not in pod["metadata"]
    return is_alive and "nodeName" not in pod["spec"] and not is_gated(pod)


def name_of(value: JSON) -> str:
    return str(value["metadata"]["name"])


def namespace_of(value: JSON) -> str:
    return str(value["metadata"]["namespace"])


def has_claims(world: "World", pod: JSON) -> bool:
    """Whether nobody has deleted, refused or replaced a claim of a pod, without which it waits."""
    if _names_another(world, pod):
        return False
    claims = claims_of(world, pod)
    if len(claims) < len(pod["spec"].get("resourceClaims", ())):
        return False
    return all(claim and "deletionTimestamp" not in claim["metadata"] for claim in claims)


def _names_another(world: "World", pod: JSON) -> bool:
    """Whether a pod names another claim, since it was bound, than the one that is reserved for it.

    The answer to the controller that changed the name can be lost.
    """
    uid, names = pod["metadata"]["uid"], claim_names(pod)
    return uid in world.claims.renamed or any(
        owner["uid"] == uid and is_reserved_for(pod, claim) and name_of(claim) not in names
        for claim in (world.all("resourceclaims") if "nodeName" in pod["spec"] else ())
        for owner in claim["metadata"].get("ownerReferences", ())
    )
