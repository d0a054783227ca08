"""The status of a ResourceClaim: allocated devices, consumers and device status.

The structs are the wire format of the API. Allocations and consumers are also written: `to_json`
omits empty fields, as the API does.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec.structs import force_setattr, replace

from drawbridge.dra.device import NodeSelector
from drawbridge.dra.opaque_json import OpaqueJSON, keep_raw
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.taints import Toleration

EQUAL = "Equal"
EXISTS = "Exists"
FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"
# The limit of the API server for status.reservedFor.
MAX_CONSUMERS = 256
# And for status.allocation.devices.results and config.
MAX_RESULTS = 32
MAX_CONFIGS = 64
# The resources of consumers, and the API group of one that is not a pod.
_PODS = "pods"
_POD_GROUPS = "podgroups"
_SCHEDULING = "scheduling.k8s.io"


def with_default_operators(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Return tolerations with the default operator set, as the API server stores them."""
    if all(toleration.operator for toleration in tolerations):
        return tolerations
    return tuple(each if each.operator else replace(each, operator=EQUAL) for each in tolerations)


class Opaque(msgspec.Struct, frozen=True, gc=False):
    """Configuration parameters that only the driver interprets."""

    driver: str
    sent: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="parameters")

    def __post_init__(self) -> None:
        force_setattr(self, "sent", keep_raw(self.sent))

    @property
    def parameters(self) -> OpaqueJSON | None:
        """The parameters; None without any."""
        return OpaqueJSON(bytes(self.sent)) if self.sent else None


class ConfigEntry(Protocol):
    """An entry in the configuration of a claim, a class or an allocation."""

    @property
    def opaque(self) -> Opaque | None:
        """The parameters of a driver."""


class AllocationResult(
    msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True, gc=False
):
    """One allocated device, or one share of a device."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Mapping[str, Quantity] = {}
    skip_node_operations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "tolerations", with_default_operators(self.tolerations))


class AllocatedConfig(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Configuration passed to the driver. Later entries override earlier ones."""

    source: str
    requests: tuple[str, ...] = ()
    opaque: Opaque | None = None


class AllocatedDevices(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The devices of an allocation and their configuration."""

    results: tuple[AllocationResult, ...] = ()
    config: tuple[AllocatedConfig, ...] = ()


class Allocation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """An allocation. Without `node_selector`, it is available on all nodes."""

    devices: AllocatedDevices = msgspec.field(default_factory=AllocatedDevices)
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class Consumer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A pod or group of pods that may use a claim."""

    resource: str
    name: str
    uid: str
    api_group: str = msgspec.field(default="", name="apiGroup")

    @classmethod
    def of_pod(cls, name: str, uid: str) -> "Consumer":
        """Return a pod as a consumer."""
        return cls(_PODS, name, uid)

    @classmethod
    def of_pod_group(cls, name: str, uid: str) -> "Consumer":
        """Return a PodGroup of Kubernetes as a consumer."""
        return cls(_POD_GROUPS, name, uid, _SCHEDULING)

    @property
    def is_pod(self) -> bool:
        """Whether this is a pod."""
        return self.resource == _PODS and not self.api_group

    @property
    def is_pod_group(self) -> bool:
        """Whether this is a PodGroup of Kubernetes, for whose members the claim is."""
        return self.resource == _POD_GROUPS and self.api_group == _SCHEDULING


def to_json(status: Allocation | Consumer) -> dict[str, Any]:
    """Return a part of a status as the API has it."""
    written: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(status, enc_hook=str))
    return written


def gives_same_devices(allocation: Allocation, other: Allocation) -> bool:
    """Return whether two allocations give the same devices to the same requests."""
    first, second = (
        [
            (r.request, r.driver, r.pool, r.device, r.share_id, r.admin_access)
            for r in side.devices.results
        ]
        for side in (allocation, other)
    )
    return first == second


def with_share_ids(
    allocation: Allocation, make_id: Callable[[int, AllocationResult], str]
) -> Allocation:
    """Return an allocation whose shares have new IDs, each made from its number and its result."""
    results = tuple(
        result if result.share_id is None else replace(result, share_id=make_id(number, result))
        for number, result in enumerate(allocation.devices.results)
    )
    return replace(allocation, devices=replace(allocation.devices, results=results))


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One condition of a device, as reported by the driver."""

    type: str
    status: str = ""


class DeviceStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of one allocated device, as reported by the driver."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The status of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()
