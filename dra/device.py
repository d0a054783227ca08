"""One device as a ResourceSlice publishes it: attributes, capacity, counters, taints.

The structs are the wire form of `resource.k8s.io/v1` and the domain's own form at once, so that
ten thousand slices are decoded straight into what the solver reads. Defaults stand for absent
fields. Nothing here judges: a device that no API server would admit decodes all the same.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from dra.quantity import Quantity

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Scalar = str | int | bool


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """One attribute: exactly one field is set on a device that the API server admitted."""

    string: str | None = None
    integer: Int64 | None = msgspec.field(default=None, name="int")
    boolean: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None
    strings: tuple[str, ...] | None = None
    integers: tuple[Int64, ...] | None = msgspec.field(default=None, name="ints")
    booleans: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    versions: tuple[str, ...] | None = None


class ValidRange(msgspec.Struct, frozen=True, gc=False):
    """The amounts a request may take: from `min`, in steps, up to `max`."""

    min: Quantity
    max: Quantity | None = None
    step: Quantity | None = None


class RequestPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """How an amount asked of a shared device is defaulted and rounded."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: ValidRange | None = None


class Capacity(msgspec.Struct, frozen=True, rename="camel"):
    """One capacity of a device."""

    value: Quantity
    request_policy: RequestPolicy | None = None


class Counter(msgspec.Struct, frozen=True, gc=False):
    """An amount in a counter set, published or consumed."""

    value: Quantity


class CounterSet(msgspec.Struct, frozen=True):
    """Amounts that several devices of a pool draw from."""

    name: str
    counters: Mapping[str, Counter] = {}


class CounterUse(msgspec.Struct, frozen=True, rename="camel"):
    """What a device draws from one counter set, and the groups it may share the set with."""

    counter_set: str
    counters: Mapping[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class Taint(msgspec.Struct, frozen=True, rename="camel"):
    """A mark that keeps claims off a device unless they tolerate it."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class Requirement(msgspec.Struct, frozen=True):
    """One comparison of a node selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True, rename="camel"):
    """Comparisons that must all hold; without any, the term matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class AllocatableMapping(msgspec.Struct, frozen=True, rename="camel"):
    """How much of a node's own resource a device stands for."""

    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class AllocatableOverhead(msgspec.Struct, frozen=True, rename="camel"):
    """How much of a node's own resource a device costs beside its use."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatable(msgspec.Struct, frozen=True):
    """What a device takes of one resource that the node itself hands out."""

    mapping: AllocatableMapping | None = None
    overhead: AllocatableOverhead | None = None


class CELExpression(msgspec.Struct, frozen=True):
    """A CEL expression about another device."""

    expression: str


class Device(msgspec.Struct, frozen=True, rename="camel"):
    """A device; the names of attributes and capacities are as published, qualified or not.

    `compatible_only_with` is not a field of the Kubernetes API, whose server drops it: it is read
    from files, and stands for what the configuration or an annotation says of a live cluster.
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
