"""Decodes the fields of claims, pods, nodes and namespaces that tell what is stuck.

Takes plain objects or their JSON, and leaves out objects that it cannot read.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list
from drawbridge.dra.claim import EXTENDED_ANNOTATION, Owner
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.report.device_holders import find_selected_node

T = TypeVar("T")
_DEFAULT: Final = "default"
READY: Final = "Ready"
FINISHED: Final = ("Succeeded", "Failed")
# The kinds whose absence tells something.
KINDS: Final = frozenset({"Pod", "ResourceSlice", "Node", "DeviceClass"})


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of an object."""


class _Annotations(_Part, frozen=True):
    extended: str | None = msgspec.field(default=None, name=EXTENDED_ANNOTATION)


class HangingMetadata(_Part, frozen=True):
    """The metadata that tell what keeps an object.

    `finalizers_left_out` are those that a cache does not keep.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None
    finalizers_left_out: int = 0
    generate_name: str = ""
    labels: Mapping[str, str] | None = None
    annotations: _Annotations | None = None
    owner_references: tuple[Owner, ...] | None = None


class HangingCondition(_Part, frozen=True):
    """A condition of a pod, node or namespace."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _Object(_Part, frozen=True):
    metadata: HangingMetadata = HangingMetadata()

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.metadata.namespace or _DEFAULT, self.metadata.name

    @property
    def full_name(self) -> str:
        """Its namespace and name, as people write them."""
        return "/".join(self.key)


class ClaimConsumer(_Part, frozen=True):
    """An entry of `status.reservedFor`."""

    api_group: str | None = None
    resource: str = ""
    name: str = ""
    uid: str = ""

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod."""
        return self.resource == "pods" and not self.api_group


class HeldResult(_Part, frozen=True):
    """An allocated device, or a share of it. Only usage depends on the request and the share."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    # Of an administrator, who takes nothing from others.
    admin_access: bool | None = None
    request: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Mapping[str, str | int | float] | None = None

    def __str__(self) -> str:
        """Name the device."""
        return f"{self.driver}/{self.pool}/{self.device}"


class _Results(_Part, frozen=True):
    results: tuple[HeldResult, ...] | None = None


class _Allocation(_Part, frozen=True):
    devices: _Results = _Results()
    node_selector: Any = None
    allocation_timestamp: str | None = None


class _ClaimStatus(_Part, frozen=True):
    allocation: _Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] | None = None


class _Requested(_Part, frozen=True):
    name: str = ""
    device_class_name: str = ""


class _Request(_Part, frozen=True):
    name: str = ""
    exactly: _Requested | None = None
    first_available: tuple[_Requested, ...] | None = None


class _Requests(_Part, frozen=True):
    requests: tuple[_Request, ...] | None = None


class HangingClaimSpec(_Part, frozen=True):
    """What a claim asks for."""

    devices: _Requests = _Requests()


class HangingClaim(_Object, frozen=True):
    """A ResourceClaim."""

    spec: HangingClaimSpec = HangingClaimSpec()
    status: _ClaimStatus = _ClaimStatus()

    @property
    def results(self) -> tuple[HeldResult, ...]:
        """The devices that it has."""
        allocation = self.status.allocation
        return (allocation.devices.results or ()) if allocation else ()

    @property
    def node(self) -> str:
        """The node of devices that only one node has; empty if any node can use them."""
        allocation = self.status.allocation
        return find_selected_node(allocation.node_selector) if allocation else ""

    @property
    def pods(self) -> tuple[ClaimConsumer, ...]:
        """The pods that it is reserved for."""
        return tuple(each for each in self.status.reserved_for or () if each.is_pod)

    @property
    def owner_pod(self) -> Owner | None:
        """The pod that it was made for; None if a user made it."""
        owners = self.metadata.owner_references or ()
        return next((each for each in owners if each.kind == "Pod" and each.controller), None)

    @property
    def classes(self) -> tuple[str, ...]:
        """The DeviceClasses of the requests that have no alternatives."""
        requests = self.spec.devices.requests or ()
        return tuple(each.exactly.device_class_name for each in requests if each.exactly)

    @property
    def class_of(self) -> dict[str, str]:
        """The class by the name that results have for a request or one of its alternatives."""
        classes = {}
        for request in self.spec.devices.requests or ():
            if request.exactly:
                classes[request.name] = request.exactly.device_class_name
            for choice in request.first_available or ():
                classes[f"{request.name}/{choice.name}"] = choice.device_class_name
        return classes


class _PodClaim(_Part, frozen=True):
    name: str = ""
    resource_claim_template_name: str | None = None
    resource_claim_name: str | None = None


class _ClaimUse(_Part, frozen=True):
    name: str = ""
    request: str | None = None


class _Resources(_Part, frozen=True):
    limits: Mapping[str, Any] | None = None
    claims: tuple[_ClaimUse, ...] | None = None


class HangingContainer(_Part, frozen=True):
    """A container, with the devices that it uses."""

    name: str = ""
    resources: _Resources = _Resources()
    restart_policy: str | None = None


class _PodSpec(_Part, frozen=True):
    node_name: str = ""
    restart_policy: str = "Always"
    scheduler_name: str = ""
    scheduling_gates: tuple[Any, ...] | None = None
    resource_claims: tuple[_PodClaim, ...] | None = None
    containers: tuple[HangingContainer, ...] | None = None
    init_containers: tuple[HangingContainer, ...] | None = None


class _Terminated(_Part, frozen=True):
    exit_code: int = 0
    finished_at: str | None = None


class _ContainerState(_Part, frozen=True):
    terminated: _Terminated | None = None


class _ContainerStatus(_Part, frozen=True):
    state: _ContainerState = _ContainerState()


class _RequestMapping(_Part, frozen=True):
    container_name: str = ""
    request_name: str = ""


class _ExtendedClaim(_Part, frozen=True):
    resource_claim_name: str = ""
    request_mappings: tuple[_RequestMapping, ...] | None = None


class _PodStatus(_Part, frozen=True):
    phase: str = ""
    start_time: str | None = None
    conditions: tuple[HangingCondition, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    resource_claim_statuses: tuple[_PodClaim, ...] | None = None
    extended_resource_claim_status: _ExtendedClaim | None = None


class HangingPod(_Object, frozen=True):
    """A pod."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def claim_names(self) -> frozenset[str]:
        """The names of the claims that exist for it."""
        extended = self.status.extended_resource_claim_status
        entries = (*(self.spec.resource_claims or ()), *(self.status.resource_claim_statuses or ()))
        names = {each.resource_claim_name for each in entries if each.resource_claim_name}
        return frozenset(names | ({extended.resource_claim_name} if extended else set()))

    @property
    def ended(self) -> tuple[_Terminated, ...]:
        """How its containers ended; empty while one of them has not."""
        states = [each.state.terminated for each in self.status.container_statuses or ()]
        return tuple(each for each in states if each) if all(states) else ()

    def condition(self, kind: str) -> HangingCondition | None:
        """Return a condition; None if it has none of this type."""
        return find_condition(self.status.conditions, kind)


class _Conditions(_Part, frozen=True):
    conditions: tuple[HangingCondition, ...] | None = None
    allocatable: Mapping[str, Any] | None = None


class HangingNode(_Object, frozen=True):
    """A Node."""

    status: _Conditions = _Conditions()


class HangingNamespace(_Object, frozen=True):
    """A Namespace."""

    status: _Conditions = _Conditions()


@dataclass(frozen=True)
class HangingObjects:
    """What was read of a cluster. Absence tells something only of kinds in `complete`.

    `only_node` is the node whose slices were read, if they were read of one only. `classes` has the
    selectors of DeviceClasses, and `events` are plain objects. `now` is when they were read: Unix
    seconds of the API server.
    """

    now: float
    claims: tuple[HangingClaim, ...] = ()
    pods: tuple[HangingPod, ...] = ()
    slices: tuple[Slice, ...] = ()
    nodes: tuple[HangingNode, ...] = ()
    namespaces: tuple[HangingNamespace, ...] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Value, ...] = ()
    complete: frozenset[str] = KINDS
    only_node: str = ""


def decode_each(values: Iterable[object], kind: type[T]) -> tuple[T, ...]:
    """Decode plain objects; those that cannot be read are left out."""
    return tuple(_decode_each(values, kind))


def _decode_each(values: Iterable[object], kind: type[T]) -> Iterator[T]:
    for value in values:
        try:
            yield msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            continue


def decode_slices(values: Iterable[Value]) -> tuple[Slice, ...]:
    """Decode slices; those that cannot be read are left out."""
    reader = slice_reader()
    return tuple(each for each in map(reader.read, values) if isinstance(each, Slice))


def class_selectors(value: Value) -> str:
    """Return the selectors of a DeviceClass as one text."""
    selectors = as_list(get_value(value, ("spec", "selectors")))
    return " && ".join(f"{get_value(each, ('cel', 'expression'))}" for each in selectors)


def select_text(device_class: DeviceClass) -> str:
    """Return the selectors of a decoded DeviceClass as one text."""
    selectors = (each.cel for each in device_class.spec.selectors)
    return " && ".join(each.expression for each in selectors if each is not None)


def from_values(
    values: Iterable[Value],
    *,
    now: float | None = None,
    complete: frozenset[str] = KINDS,
    slices: tuple[Slice, ...] | None = None,
    only_node: str = "",
) -> HangingObjects:
    """Sort plain objects; slices that are decoded already replace those among them.

    Without `now`, the latest time in the objects tells when they were written to a file.
    """
    by_kind: dict[str, list[Value]] = {}
    for value in values:
        by_kind.setdefault(f"{get_value(value, ('kind',))}", []).append(value)
    classes = by_kind.get("DeviceClass", ())
    names = (f"{get_value(each, ('metadata', 'name'))}" for each in classes)
    return HangingObjects(
        now=find_latest_time(by_kind) if now is None else now,
        claims=decode_each(by_kind.get("ResourceClaim", ()), HangingClaim),
        pods=decode_each(by_kind.get("Pod", ()), HangingPod),
        slices=decode_slices(by_kind.get("ResourceSlice", ())) if slices is None else slices,
        nodes=decode_each(by_kind.get("Node", ()), HangingNode),
        namespaces=decode_each(by_kind.get("Namespace", ()), HangingNamespace),
        classes=dict(zip(names, map(class_selectors, classes), strict=True)),
        events=tuple(by_kind.get("Event", ())),
        complete=complete,
        only_node=only_node,
    )


def find_latest_time(by_kind: Mapping[str, Iterable[Value]]) -> float:
    """Return the latest time that somebody wrote into the objects; 0 if there is none."""
    times = (each for values in by_kind.values() for value in values for each in _times(value))
    latest = max((each for each in times if isinstance(each, str)), default="")
    return seconds_of(latest) or 0.0


def _times(value: Value) -> Iterator[Value]:
    """Yield the times of the past in an object; the end of a grace period can be in the future."""
    yield get_value(value, ("metadata", "creationTimestamp"))
    yield get_value(value, ("spec", "renewTime"))
    for key in ("lastTimestamp", "eventTime"):
        yield get_value(value, (key,))
    for write in as_list(get_value(value, ("metadata", "managedFields"))):
        yield get_value(write, ("time",))
    for condition in as_list(get_value(value, ("status", "conditions"))):
        yield get_value(condition, ("lastTransitionTime",))
        yield get_value(condition, ("lastHeartbeatTime",))


def find_condition(
    conditions: Iterable[HangingCondition] | None, kind: str
) -> HangingCondition | None:
    """Return the condition of a type; None if there is none."""
    return next((each for each in conditions or () if each.type == kind), None)


def seconds_of(text: str | None) -> float | None:
    """Return a time in Unix seconds; None for anything else."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time.replace(tzinfo=time.tzinfo or UTC).timestamp()
