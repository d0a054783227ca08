"""The status of a ResourceClaim: allocated devices, consumers and device status.

The structs are the wire format of the API.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import force_setattr, replace

from drawbridge.dra.device import NodeSelector
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.taints import Toleration

EQUAL = "Equal"
EXISTS = "Exists"
FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def with_default_operators(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Return tolerations with the default operator set, as the API server stores them."""
    return tuple(each if each.operator else replace(each, operator=EQUAL) for each in tolerations)


class Opaque(msgspec.Struct, frozen=True):
    """Configuration parameters that only the driver interprets."""

    driver: str
    parameters: Any = None


class AllocationResult(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
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


class AllocatedConfig(msgspec.Struct, frozen=True):
    """Configuration passed to the driver. Later entries override earlier ones."""

    source: str
    requests: tuple[str, ...] = ()
    opaque: Opaque | None = None


class AllocatedDevices(msgspec.Struct, frozen=True):
    """The devices of an allocation and their configuration."""

    results: tuple[AllocationResult, ...] = ()
    config: tuple[AllocatedConfig, ...] = ()


class Allocation(msgspec.Struct, frozen=True, rename="camel"):
    """An allocation. Without `node_selector`, it is available on all nodes."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class Consumer(msgspec.Struct, frozen=True):
    """A pod or group of pods that may use a claim."""

    resource: str
    name: str
    uid: str
    api_group: str = msgspec.field(default="", name="apiGroup")


class Condition(msgspec.Struct, frozen=True):
    """One condition of a device, as reported by the driver."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class NetworkData(msgspec.Struct, frozen=True, rename="camel"):
    """Network data of a device, as reported by the driver."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


class DeviceStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of one allocated device, as reported by the driver."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()
    data: Any = None
    network_data: NetworkData | None = None


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()
