"""The gangs as a scheduler with our plugin sees them, and what it tells of them."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from allocator.scheduler.protocol import ClaimsOfGroup, GroupMember, GroupReference, SchedulingPod
from tests.cluster.fake.kinds import JSON
from tests.world.asked import describe, encode, has_ended
from tests.world.gangs import COSCHEDULING, Gang, find_least, gang_of, is_alone, list_shared
from tests.world.gates import is_gated
from tests.world.watches import Follower


class SeenGangs:
    """The gangs of the pods that a scheduler watches.

    `find_claims` returns the claims of a pod, or None while it cannot be scheduled. `is_placed`
    says of a pod without a node whether it gets one.
    """

    def __init__(
        self,
        pods: Follower,
        groups: Follower,
        find_claims: Callable[[JSON], list[JSON] | None],
        is_placed: Callable[[str], bool],
    ) -> None:
        self._pods, self._groups = pods, groups
        self._find_claims, self._is_placed = find_claims, is_placed

    def _find(self, gang: Gang) -> JSON | None:
        """Return an object of Kubernetes; only the allocator reads those of Coscheduling."""
        _, *about = gang.place
        if gang.kind is not COSCHEDULING:
            for value in self._groups.objects.values():
                if [value["metadata"]["namespace"], value["metadata"]["name"]] == about:
                    return value
        return None

    def members(self, gang: Gang) -> Iterator[JSON]:
        """Yield the members that have not ended."""
        pods = self._pods.objects.values()
        return (pod for pod in pods if not has_ended(pod) and gang_of(pod) == gang)

    def find_affected(self, group: JSON) -> list[str]:
        """Return the pods, by UID, that name a PodGroup or a Workload."""
        about = [group["metadata"]["namespace"], group["metadata"]["name"]]
        gangs = ((uid, gang_of(pod)) for uid, pod in self._pods.objects.items())
        return [
            uid
            for uid, gang in gangs
            if gang and gang.kind is not COSCHEDULING and [*gang.place[1:]] == about
        ]

    def is_held_back(self, pod: JSON) -> bool:
        """Whether Kubernetes does not try a pod: fewer members exist than must run together."""
        gang = gang_of(pod)
        if gang is None or gang.kind is COSCHEDULING:
            return False
        return len([*self.members(gang)]) < find_least(pod, gang, self._find)

    def describe(self, pod: JSON) -> SchedulingPod:
        """Return what the allocator is told of a pod."""
        described, gang = describe(pod), gang_of(pod)
        group = self._find(gang) if gang else None
        entries = [*list_shared(pod, group)]
        if group is None or not entries:
            return described
        by_entry = zip(pod["spec"]["resourceClaims"], self._find_claims(pod) or (), strict=False)
        uids = tuple(claim["metadata"]["uid"] for entry, claim in by_entry if entry in entries)
        about = group["metadata"]
        return replace(
            described,
            claims_of_group=ClaimsOfGroup(name=about["name"], uid=about["uid"], claims=uids),
        )

    def _can_be_tried(self, pod: JSON) -> bool:
        return not is_gated(pod) and self._find_claims(pod) is not None

    def is_member(self, pod: JSON) -> bool:
        """Whether a pod is scheduled as a member of a gang."""
        group, members = self.find(pod)
        return group is not None and (len(members) > 1 or group.min_count > 0)

    def find(self, pod: JSON) -> tuple[GroupReference | None, tuple[GroupMember, ...]]:
        """Return the gang of a pod, and its members that wait; nothing for a pod alone."""
        gang = gang_of(pod)
        if gang is None or is_alone(gang, self._find):
            return None, ()
        least, scheduled, waiting = find_least(pod, gang, self._find), 0, [pod]
        for other in self.members(gang):
            uid = other["metadata"]["uid"]
            if "nodeName" in other["spec"] or self._is_placed(uid):
                scheduled += 1
            elif uid != pod["metadata"]["uid"] and self._can_be_tried(other):
                waiting.append(other)
        if len(waiting) == 1 and 0 < least <= scheduled + 1:
            return None, ()
        members = tuple(
            GroupMember(pod=self.describe(other), claims=encode(self._find_claims(other) or ()))
            for other in waiting
        )
        return GroupReference(key=gang.key, min_count=least, scheduled=scheduled), members
