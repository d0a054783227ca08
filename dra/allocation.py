"""What became of a claim: the devices it holds, who may use them, what drivers report of them.

The structs are the wire form of a ResourceClaim's status. Who decides on an allocation, and
whether it is a good one, is not known here.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import force_setattr, replace

from dra.device import NodeSelector
from dra.quantity import Quantity
from dra.taints import Toleration

EQUAL = "Equal"
EXISTS = "Exists"
FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def with_default_operators(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Fill in the operator where none is written, as the API server does."""
    return tuple(each if each.operator else replace(each, operator=EQUAL) for each in tolerations)


class Opaque(msgspec.Struct, frozen=True):
    """What a driver, and nobody else, understands."""

    driver: str
    parameters: Any = None


class AllocationResult(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One device that a claim holds, or a share of one."""

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
    """Configuration as the driver gets it; a later entry overrides an earlier one."""

    source: str
    requests: tuple[str, ...] = ()
    opaque: Opaque | None = None


class AllocatedDevices(msgspec.Struct, frozen=True):
    """The devices of an allocation and what configures them."""

    results: tuple[AllocationResult, ...] = ()
    config: tuple[AllocatedConfig, ...] = ()


class Allocation(msgspec.Struct, frozen=True, rename="camel"):
    """What was allocated; without `node_selector` it is usable everywhere."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class Consumer(msgspec.Struct, frozen=True):
    """Who may use a claim: a pod, or a group of pods."""

    resource: str
    name: str
    uid: str
    api_group: str = msgspec.field(default="", name="apiGroup")


class Condition(msgspec.Struct, frozen=True):
    """One condition that a driver reports of a device."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class NetworkData(msgspec.Struct, frozen=True, rename="camel"):
    """What a driver reports of a network device."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


class DeviceStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What a driver reports of one allocated device."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()
    data: Any = None
    network_data: NetworkData | None = None


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What became of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()
