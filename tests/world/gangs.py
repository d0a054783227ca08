"""Which gang a pod is a member of, how many members must run together, and whose its claims are.

A label of Coscheduling names a gang, and another label or a PodGroup of Coscheduling its minimum.
A PodGroup of Kubernetes is a gang as well, unless its policy says otherwise. Claims that its
members share are reserved for it. Kubernetes 1.35 has none: there, a pod names a Workload, one of
its groups, and a replica of that, each of which is a gang.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.cluster.fake.kinds import JSON, Kind, named

GROUP, COSCHEDULING = named("podgroups.scheduling.k8s.io"), named("podgroups.scheduling.x-k8s.io")
WORKLOAD = named("workloads")
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
MIN_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
# The template of a claim that members share.
TEMPLATE = "of-group"
# No member runs before there are so many.
NEVER = 1 << 30


class Gang(NamedTuple):
    """A gang, by the kind of the object that it can have.

    The name of one of a Workload has the group and the replica behind that of the object.
    """

    kind: Kind
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """The key that the plugin gives it (`groupOf` in group.go)."""
        label = f"{GROUP_LABEL}=" if self.kind is COSCHEDULING else ""
        return f"{self.namespace}/{label}{self.name}"

    @property
    def place(self) -> tuple[Kind, str, str]:
        """The kind, the namespace and the name of the object."""
        return self.kind, self.namespace, self.name.partition("/")[0]


# Returns the object of a gang, as it is or as somebody knows it.
Find = Callable[[Gang], JSON | None]


def gang_of(pod: JSON) -> Gang | None:
    """Return the gang of a pod; that of the scheduler comes first."""
    space = pod["metadata"]["namespace"]
    if name := (pod["spec"].get("schedulingGroup") or {}).get("podGroupName"):
        return Gang(GROUP, space, name)
    if named_so := pod["spec"].get("workloadRef"):
        inner = named_so["podGroup"], named_so.get("podGroupReplicaKey", "")
        return Gang(WORKLOAD, space, "/".join((named_so["name"], *inner)))
    name = (pod["metadata"].get("labels") or {}).get(GROUP_LABEL)
    return Gang(COSCHEDULING, space, name) if name else None


def find_least(pod: JSON, gang: Gang, find: Find) -> int:
    """Return how many members must run together; 0 for all that exist.

    Kubernetes schedules no member before the PodGroup exists.
    """
    if least := (pod["metadata"].get("labels") or {}).get(MIN_LABEL):
        return int(least)
    group = find(gang)
    if gang.kind is COSCHEDULING:
        return group["spec"]["minMember"] if group else 0
    if group is None:
        return NEVER
    if gang.kind is WORKLOAD:
        (part,) = group["spec"]["podGroups"]
        return int(part["policy"]["gang"]["minCount"])
    return (_find_policy(group) or {"minCount": 1})["minCount"]


def is_alone(gang: Gang, find: Find) -> bool:
    """Whether the members of a PodGroup are scheduled one by one."""
    group = find(gang)
    return gang.kind is GROUP and group is not None and _find_policy(group) is None


def _find_policy(group: JSON) -> JSON | None:
    policy: JSON | None = group["spec"]["schedulingPolicy"].get("gang")
    return policy


def list_shared(pod: JSON, group: JSON | None) -> Iterator[JSON]:
    """Yield the entries of a pod that are claims of its PodGroup: those that are equal."""
    shared = group["spec"].get("resourceClaims", ()) if group else ()
    return (entry for entry in pod["spec"].get("resourceClaims", ()) if entry in shared)


def is_reserved_for(pod: JSON, claim: JSON) -> bool:
    """Whether a claim is reserved for a pod or its PodGroup; a kubelet knows only the name."""
    gang, uid = gang_of(pod), pod["metadata"]["uid"]
    group = gang.name if gang is not None and gang.kind is GROUP else None
    return any(
        each["uid"] == uid or (each["resource"] == GROUP.plural and each["name"] == group)
        for each in (claim.get("status") or {}).get("reservedFor") or ()
    )
