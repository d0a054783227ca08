"""The types of a device in a ResourceSlice: attributes, capacity, counters, taints.

The structs are the wire format of `resource.k8s.io/v1`, so that slices are decoded without
conversion. Absent fields have default values. The types do not validate their content.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from drawbridge.dra.quantity import Quantity

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Scalar = str | int | bool
# What the API server reads where an amount is missing.
ZERO = Quantity.of(0)


class Attribute(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One attribute. The API server requires exactly one of the fields."""

    string: str | None = None
    integer: Int64 | None = msgspec.field(default=None, name="int")
    boolean: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None
    strings: tuple[str, ...] | None = None
    integers: tuple[Int64, ...] | None = msgspec.field(default=None, name="ints")
    booleans: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    versions: tuple[str, ...] | None = None


class ValidRange(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The amounts that a request can consume: from `min`, in steps, up to `max`."""

    min: Quantity
    max: Quantity | None = None
    step: Quantity | None = None


class RequestPolicy(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """The default and the rounding of requested amounts of a shared device."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: ValidRange | None = None


class Capacity(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """One capacity of a device."""

    value: Quantity = ZERO
    request_policy: RequestPolicy | None = None


class Counter(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An amount in a counter set, published or consumed."""

    value: Quantity = ZERO


class CounterSet(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Counters that several devices of a pool consume."""

    name: str
    counters: Mapping[str, Counter] = {}


class CounterUse(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """The counters that a device consumes, and its compatibility groups on the counter set."""

    counter_set: str
    counters: Mapping[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class Taint(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """A taint that repels claims without a matching toleration."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class Requirement(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One requirement of a node selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Requirements that must all be met. A term without requirements matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """A node selector: at least one term must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class AllocatableMapping(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """The amount of a node resource that a device represents."""

    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class AllocatableOverhead(
    msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False
):
    """The additional amount of a node resource that a device consumes."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatable(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The amount of one allocatable resource of the node that a device consumes."""

    mapping: AllocatableMapping | None = None
    overhead: AllocatableOverhead | None = None


class CELExpression(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A CEL expression."""

    expression: str


class Device(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """A device. Names of attributes and capacities are as published, qualified or not.

    `compatible_only_with` is not a field of the Kubernetes API. It is read from files. In a live
    cluster, use the configuration or the annotation of the slice.
    """

    name: str
    attributes: Mapping[str, Attribute] = {}
    capacity: Mapping[str, Capacity] = {}
    consumes_counters: tuple[CounterUse, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False
    node_allocatable_resources: Mapping[str, NodeAllocatable] = {}
    compatible_only_with: CELExpression | None = None
