"""The parts of pods that decide where they run: claims, resource requests, selectors, priorities.

The API server validates everything else.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from drawbridge.dra.claim import ClaimMetadata
from drawbridge.dra.decode import Object, Reader
from drawbridge.dra.device import NodeSelector
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.taints import Toleration
from drawbridge.names import RELEASED_CONDITION, SCHEDULER_NAME
from drawbridge.pod_groups import PodGroup, SchedulingGroup, WorkloadRef, group_of

SIDECAR = "Always"
FINISHED = ("Succeeded", "Failed")  # the phases of pods that hold nothing any more
SCHEDULED = "PodScheduled"  # the condition in which the scheduler says whether there is a node


class PodClaim(msgspec.Struct, frozen=True, rename="camel"):
    """A claim reference of a pod: an existing claim or a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ContainerClaim(msgspec.Struct, frozen=True):
    """A claim of the pod that a container uses."""

    name: str
    request: str = ""


class ContainerResources(msgspec.Struct, frozen=True):
    """The resources of a container, or of a pod as a whole."""

    requests: Mapping[str, Quantity] = {}
    limits: Mapping[str, Quantity] = {}
    claims: tuple[ContainerClaim, ...] = ()

    def effective_requests(self) -> Mapping[str, Quantity]:
        """Return the requests; a limit without a request is the request, as API defaults set it."""
        return {**self.limits, **self.requests}


class PodContainer(msgspec.Struct, frozen=True, rename="camel"):
    """A container or an init container."""

    name: str = ""
    resources: ContainerResources = ContainerResources()
    restart_policy: str | None = None


class NodeAffinity(msgspec.Struct, frozen=True, rename="camel"):
    """The node affinity of a pod; preferences do not exclude a node."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(msgspec.Struct, frozen=True, rename="camel"):
    """The affinity of a pod; affinity to other pods is not read."""

    node_affinity: NodeAffinity | None = None


class SchedulingGate(msgspec.Struct, frozen=True):
    """What keeps a pod from being scheduled."""

    name: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a pod that decide its nodes, its devices and its preemption."""

    scheduler_name: str = ""
    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    init_containers: tuple[PodContainer, ...] = ()
    containers: tuple[PodContainer, ...] = ()
    resources: ContainerResources | None = None
    overhead: Mapping[str, Quantity] = {}
    termination_grace_period_seconds: int | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The resources that a container has; they differ from its spec while it is resized."""

    name: str = ""
    resources: ContainerResources | None = None
    allocated_resources: Mapping[str, Quantity] = {}


class PodCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class GeneratedClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The claim generated for a reference; without a name, no claim was needed."""

    name: str
    resource_claim_name: str | None = None


class ClassClaimMapping(msgspec.Struct, frozen=True, rename="camel"):
    """An extended resource for which the scheduler created a claim."""

    resource_name: str = ""


class ClassClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What the scheduler says of the claim that it created for extended resources of classes."""

    resource_claim_name: str = ""
    request_mappings: tuple[ClassClaimMapping, ...] = ()


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a pod."""

    phase: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    resource_claim_statuses: tuple[GeneratedClaimStatus, ...] = ()
    class_claim: ClassClaimStatus = msgspec.field(
        default=ClassClaimStatus(), name="extendedResourceClaimStatus"
    )
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ContainerResources | None = None
    allocated_resources: Mapping[str, Quantity] = {}


class OwnerReference(msgspec.Struct, frozen=True):
    """An owner of a pod."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class NamedPodMetadata(ClaimMetadata, frozen=True, rename="camel"):
    """The metadata of a pod."""

    owner_references: tuple[OwnerReference, ...] = ()
    deletion_grace_period_seconds: int | None = None
    generation: int = 0


def find_generated(statuses: Iterable[GeneratedClaimStatus]) -> Mapping[str, str | None]:
    """Return the names of generated claims by their references; None where none was needed."""
    return {each.name: each.resource_claim_name for each in statuses}


def find_claim_names(
    references: Iterable[PodClaim], generated: Mapping[str, str | None]
) -> tuple[str, ...]:
    """Return the names of the claims of a pod; what is still to be generated has none.

    A pod may name one claim twice.
    """
    names = (each.resource_claim_name or generated.get(each.name) for each in references)
    return tuple(dict.fromkeys(filter(None, names)))


class Pod(Object, frozen=True, rename="camel", kw_only=True):
    """A Pod."""

    metadata: NamedPodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def namespace(self) -> str:
        """The namespace; `default` if a file omits it."""
        return self.metadata.namespace or "default"

    @property
    def full_name(self) -> str:
        """The namespace and the name: `namespace/name`."""
        return f"{self.namespace}/{self.metadata.name}"

    @property
    def group(self) -> PodGroup | None:
        """The group that the pod is a member of."""
        spec = self.spec
        labels = self.metadata.labels
        return group_of(self.namespace, labels, spec.scheduling_group, spec.workload_ref)

    @property
    def generated(self) -> Mapping[str, str | None]:
        """The names of its generated claims by their references; None where none was needed."""
        return find_generated(self.status.resource_claim_statuses)

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The names of its claims; what is still to be generated has none."""
        return find_claim_names(self.spec.resource_claims, self.generated)

    @property
    def owner_kind(self) -> str:
        """The kind of the owner that controls the pod; empty if none does."""
        owners = (each.kind for each in self.metadata.owner_references if each.controller)
        return next(owners, "")

    @property
    def required_nodes(self) -> NodeSelector | None:
        """The required node affinity."""
        affinity = self.spec.affinity and self.spec.affinity.node_affinity
        return affinity.required_during_scheduling_ignored_during_execution if affinity else None

    @property
    def is_of_our_scheduler(self) -> bool:
        """Whether the scheduler of Drawbridge places the pod."""
        return self.spec.scheduler_name in {"", SCHEDULER_NAME}

    @property
    def is_running(self) -> bool:
        """Whether the pod has a node and has not ended."""
        return bool(self.spec.node_name) and self.status.phase not in FINISHED

    @property
    def is_bound(self) -> bool:
        """Whether a scheduler gave the pod its node; the API server says so with the binding."""
        told = (each.status for each in self.status.conditions if each.type == SCHEDULED)
        return bool(self.spec.node_name) and "True" in told

    @property
    def is_admitted(self) -> bool:
        """Whether the kubelet has admitted the pod, as far as its status says."""
        return bool(self.status.start_time) or self.status.phase not in {"Pending", *FINISHED}

    @property
    def is_resize_infeasible(self) -> bool:
        """Whether the node can never give the pod the resources that it was resized to."""
        pending = (each for each in self.status.conditions if each.type == "PodResizePending")
        return any(each.reason == "Infeasible" for each in pending)

    @property
    def unschedulable_since(self) -> str | None:
        """When the scheduler first found no node; None while that is not known.

        A pod that was gated has the time of its creation in the condition. That its gates are gone
        is a change of its spec, so it has another generation than the first. The clock of the
        scheduler, which writes the condition, can be behind that of the API server.
        """
        if self.metadata.generation != 1 or self.spec.scheduling_gates:
            return None
        told = (each for each in self.status.conditions if each.type == SCHEDULED)
        since = next((each.last_transition_time for each in told if each.status == "False"), None)
        return since and max(since, self.metadata.creation_timestamp or "")

    @property
    def release(self) -> str:
        """Which allocation of a claim was released for the pod last; empty if none was."""
        told = (each for each in self.status.conditions if each.type == RELEASED_CONDITION)
        return next((each.message for each in told), "")

    def with_node(self, name: str) -> "Pod":
        """Return the pod as if it were bound to a node, or to none without a name."""
        return replace(self, spec=replace(self.spec, node_name=name))

    def containers(self) -> tuple[PodContainer, ...]:
        """Return the init containers, then the containers."""
        return (*self.spec.init_containers, *self.spec.containers)


def pod_reader() -> Reader[Pod]:
    """Return a reader of pods."""
    return Reader("Pod", {"v1": Pod})
