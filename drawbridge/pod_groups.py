"""Tells which group a pod is a member of, and how many members must be scheduled together.

A pod names its group in a field of its spec or in a label. `find_group` reads any JSON value, and
`group_of` decoded fields. The objects of groups say how many members are the minimum
(`read_policies`). Anybody who creates pods can write all of this.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

WORKLOADS_API: Final = "scheduling.k8s.io"
COSCHEDULING_API: Final = "scheduling.x-k8s.io"
COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
_OPERATOR: Final = "training.kubeflow.org/operator-name"
_OPERATORS: Final = {"mpi-operator": "MPIJob", "pytorchjob-controller": "PyTorchJob"}


class GroupForm(enum.StrEnum):
    """How a pod names its group; the value is the kind of the object."""

    SCHEDULING_GROUP = f"PodGroup.{WORKLOADS_API}"  # Kubernetes 1.36
    WORKLOAD_REF = f"Workload.{WORKLOADS_API}"  # Kubernetes 1.35
    COSCHEDULING = f"PodGroup.{COSCHEDULING_API}"  # the plugin Coscheduling
    LEADER_WORKER_SET = "LeaderWorkerSet"
    JOB_SET = "JobSet"
    TRAINING_JOB = "TrainingJob"  # of Kubeflow, for example an MPIJob
    RAY_CLUSTER = "RayCluster"


# The labels that controllers put on all pods of an object. Their schedulers gang only pods that
# also name a group in one of the other forms.
OWNER_LABELS: Final[Mapping[str, GroupForm]] = {
    "leaderworkerset.sigs.k8s.io/name": GroupForm.LEADER_WORKER_SET,
    "jobset.sigs.k8s.io/jobset-name": GroupForm.JOB_SET,
    "training.kubeflow.org/job-name": GroupForm.TRAINING_JOB,
    "ray.io/cluster": GroupForm.RAY_CLUSTER,
}
# What selects the members of groups: fields of `spec`, and labels.
FIELDS: Final = ("schedulingGroup", "workloadRef")
LABELS: Final = (COSCHEDULING_LABEL, *OWNER_LABELS)
_GANGS: Final = (GroupForm.SCHEDULING_GROUP, GroupForm.WORKLOAD_REF, GroupForm.COSCHEDULING)


class SchedulingGroup(msgspec.Struct, frozen=True, rename="camel"):
    """The field `spec.schedulingGroup` of a pod."""

    pod_group_name: str | None = None


class WorkloadRef(msgspec.Struct, frozen=True, rename="camel"):
    """The field `spec.workloadRef` of a pod."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodGroup(NamedTuple):
    """A group of pods: the object that it belongs to, and its part of that object.

    `replica` tells groups with one policy apart. `kind` is how a person calls the object.
    """

    form: GroupForm
    namespace: str
    name: str
    part: str = ""
    replica: str = ""
    kind: str = "PodGroup"

    @property
    def is_gang(self) -> bool:
        """Whether a scheduler waits for other members before it schedules one."""
        return self.form in _GANGS

    @property
    def key(self) -> str:
        """A text that no other group has, of whatever form, and no pod as its name or UID."""
        return f"{self.form} {self.namespace}/{self.name}/{self.part}/{self.replica}"

    @property
    def policy(self) -> "PodGroup":
        """The key of the group's policy among those of `read_policies`."""
        return self._replace(replica="")

    def __str__(self) -> str:
        inner = "/".join(filter(None, (self.part, self.replica)))
        return f"{self.kind} {self.namespace}/{self.name}" + (f" ({inner})" if inner else "")


class GroupPolicy(msgspec.Struct, frozen=True):
    """How a group is scheduled: at least `min_count` members together, or each pod alone (0)."""

    min_count: int = 0


def group_of(
    namespace: str,
    labels: Mapping[str, str],
    scheduling_group: SchedulingGroup | None = None,
    workload_ref: WorkloadRef | None = None,
) -> PodGroup | None:
    """Return the group of a pod, by the form that its scheduler obeys first; None without one."""
    if scheduling_group and scheduling_group.pod_group_name:
        return PodGroup(GroupForm.SCHEDULING_GROUP, namespace, scheduling_group.pod_group_name)
    if workload_ref and workload_ref.name:
        inner = (workload_ref.pod_group, workload_ref.pod_group_replica_key)
        return PodGroup(GroupForm.WORKLOAD_REF, namespace, workload_ref.name, *inner, "Workload")
    if name := labels.get(COSCHEDULING_LABEL):
        return PodGroup(GroupForm.COSCHEDULING, namespace, name)
    for label, form in OWNER_LABELS.items():
        if name := labels.get(label):
            replica = labels.get(_INDEX, "") if form is GroupForm.LEADER_WORKER_SET else ""
            kind = _OPERATORS.get(labels.get(_OPERATOR, ""), f"{form}")
            return PodGroup(form, namespace, name, "", replica, kind)
    return None


def find_group(pod: object) -> PodGroup | None:
    """Return the group of a pod or pod template; accepts any JSON value."""
    metadata, spec = _mapping(_mapping(pod).get("metadata")), _mapping(_mapping(pod).get("spec"))
    group, workload = (_texts(spec.get(name)) for name in FIELDS)
    return group_of(
        f"{metadata.get('namespace') or 'default'}",
        _texts(metadata.get("labels")),
        SchedulingGroup(group.get("podGroupName")),
        WorkloadRef(
            workload.get("name", ""),
            workload.get("podGroup", ""),
            workload.get("podGroupReplicaKey", ""),
        ),
    )


def read_policies(values: Iterable[object]) -> dict[PodGroup, GroupPolicy]:
    """Return the policies of PodGroups and Workloads by group, from objects of any kind."""
    return {group: policy for value in values for group, policy in _read_policies(value)}


def _read_policies(value: object) -> Iterator[tuple[PodGroup, GroupPolicy]]:
    fields = _mapping(value)
    metadata, spec = _mapping(fields.get("metadata")), _mapping(fields.get("spec"))
    api = f"{fields.get('apiVersion')}".partition("/")[0]
    name, namespace = f"{metadata.get('name')}", f"{metadata.get('namespace') or 'default'}"
    if (api, fields.get("kind")) == (WORKLOADS_API, "PodGroup"):
        policy = _read_gang(spec.get("schedulingPolicy"))
        yield PodGroup(GroupForm.SCHEDULING_GROUP, namespace, name), policy
    elif (api, fields.get("kind")) == (COSCHEDULING_API, "PodGroup"):
        policy = GroupPolicy(read_min_member(spec))
        yield PodGroup(GroupForm.COSCHEDULING, namespace, name), policy
    elif (api, fields.get("kind")) == (WORKLOADS_API, "Workload"):
        parts = spec.get("podGroups")
        for part in map(_mapping, parts if isinstance(parts, list) else ()):
            inner = f"{part.get('name')}"
            group = PodGroup(GroupForm.WORKLOAD_REF, namespace, name, inner, "", "Workload")
            yield group, _read_gang(part.get("policy"))


def read_min_member(spec: object) -> int:
    """Return the minimum of a PodGroup of Coscheduling, from any JSON value; 0 without one."""
    return _number(_mapping(spec).get("minMember"))


def _read_gang(policy: object) -> GroupPolicy:
    return GroupPolicy(_number(_mapping(_mapping(policy).get("gang")).get("minCount")))


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> dict[str, str]:
    return {key: text for key, text in _mapping(value).items() if isinstance(text, str)}


class Member(NamedTuple):
    """A pod of a group, its scheduler, and whether it has no node yet."""

    group: PodGroup
    pod: str
    scheduler: str
    waits: bool = True


class SplitGang(NamedTuple):
    """A gang whose members have several schedulers, each of which waits for all of them."""

    group: PodGroup
    pods: Mapping[str, tuple[str, ...]]  # by scheduler, the one with the most members first


def find_split_gangs(members: Iterable[Member]) -> tuple[SplitGang, ...]:
    """Return the gangs that have several schedulers while a member waits, in order of members."""
    by_group: dict[PodGroup, list[Member]] = {}
    for member in members:
        if member.group.is_gang:
            by_group.setdefault(member.group, []).append(member)
    split = []
    for group, listed in by_group.items():
        pods: dict[str, list[str]] = {}
        for member in listed:
            pods.setdefault(member.scheduler, []).append(member.pod)
        if len(pods) > 1 and any(each.waits for each in listed):
            ordered = sorted(pods.items(), key=lambda each: (-len(each[1]), each[0]))
            split.append(SplitGang(group, {name: tuple(each) for name, each in ordered}))
    return tuple(split)
