"""Would the API server take this slice? Its limits and forms, each finding with its path.

One slice at a time, the rules of 1.37 where they are known and of 1.36 elsewhere. Features that a
cluster has off are not looked at, because its server drops their fields; nor is a request policy,
which is a question of its own.
"""

from collections.abc import Mapping, Sequence

from dra import codes, formats, validation_checks
from dra.decode_errors import shown
from dra.device import (
    AllocatableMapping,
    Attribute,
    Counter,
    CounterSet,
    CounterUse,
    Device,
    NodeAllocatable,
    NodeSelector,
    Taint,
)
from dra.finding import Finding
from dra.slices import KIND, Slice
from dra.validation_checks import Check
from judge.codes import NODE_SELECTOR_TERMS

DEVICES, DEVICES_ADVANCED, COUNTER_SETS, COUNTERS, USES, GROUPS = 128, 64, 8, 32, 2, 2
NAMES, VALUES, TAINTS = 32, 48, 16
OPERATIONS = ("NodePrepareResources", "NodeUnprepareResources", "*")

_FIELDS = Attribute.__struct_fields__
# The wire's names of an attribute's fields, beside ours.
_WIRE = tuple(zip(_FIELDS, ("string", "int", "bool", "version"), strict=False)) + tuple(
    zip(_FIELDS[4:], ("strings", "ints", "bools", "versions"), strict=True)
)


def limits(each: Slice) -> tuple[Finding, ...]:
    """Give everything for which the API server would refuse this slice."""
    check = Check(f"{KIND}/{each.name}")
    check.form("metadata.name", each.name, formats.subdomain)
    check.form("spec.driver", each.driver, formats.driver)
    _pool(check, each)
    _nodes(check, each)
    if each.devices and each.shared_counters:
        check.tell(codes.EITHER_OR, "spec", "must have one of devices, sharedCounters, not both")
    _operations(check, each.skip_node_operations)
    if each.partition_type_attribute is not None:
        path = "spec.partitionTypeAttribute"
        check.form(path, each.partition_type_attribute, formats.fully_qualified)
    _counter_sets(check, each.shared_counters)
    _devices(check, each)
    return check.told()


def _pool(check: Check, each: Slice) -> None:
    check.form("spec.pool.name", each.pool, formats.pool)
    if each.generation < 0:
        message = f"is {each.generation}, must not be below zero"
        check.tell(codes.NOT_ALLOWED, "spec.pool.generation", message)
    if each.slice_count <= 0:
        message = f"is {each.slice_count}, must be above zero"
        check.tell(codes.NOT_ALLOWED, "spec.pool.resourceSliceCount", message)


def _nodes(check: Check, each: Slice) -> None:
    fields = {
        "nodeName": each.node_name,
        "nodeSelector": each.node_selector,
        "allNodes": each.all_nodes,
        "perDeviceNodeSelection": each.per_device_node_selection,
    }
    _one_way(check, "spec", fields)
    if each.node_selector is not None and len(each.node_selector.node_selector_terms) > 1:
        message = "must be exactly one"
        check.tell(codes.NOT_ALLOWED, "spec.nodeSelector.nodeSelectorTerms", message)


def _one_way(
    check: Check, path: str, fields: Mapping[str, str | NodeSelector | bool | None]
) -> None:
    """Check that exactly one of the fields that say for which nodes something is, is set."""
    there = {name: value for name, value in fields.items() if value is not None}
    for name, value in there.items():
        at = f"{path}.{name}"
        if value is False:
            check.tell(codes.NOT_ALLOWED, at, "is false: leave it out or set it to true")
        elif isinstance(value, str):
            check.form(at, value, formats.subdomain)
        elif isinstance(value, NodeSelector):
            validation_checks.node_selector(check, at, value)
    chosen = [name for name, value in there.items() if value]
    if len(chosen) != 1:
        message = (
            f"must have exactly one of {', '.join(fields)}, not {' and '.join(chosen) or 'none'}"
        )
        check.tell(codes.EITHER_OR, path, message)


def _operations(check: Check, operations: Sequence[str]) -> None:
    path = "spec.skipNodeOperations"
    check.distinct(path, operations)
    for i, operation in enumerate(operations):
        check.among(f"{path}[{i}]", operation, OPERATIONS)
    if OPERATIONS[0] in operations and not {*OPERATIONS[1:]} & {*operations}:
        message = f"must have {OPERATIONS[1]} where it has {OPERATIONS[0]}"
        check.tell(codes.EITHER_OR, path, message)


def _counter_sets(check: Check, sets: Sequence[CounterSet]) -> None:
    path = "spec.sharedCounters"
    if not check.at_most(path, sets, COUNTER_SETS):
        return
    check.distinct(path, (each.name for each in sets))
    for i, each in enumerate(sets):
        check.form(f"{path}[{i}].name", each.name, formats.label)
        _counters(check, f"{path}[{i}].counters", each.counters)


def _counters(check: Check, path: str, counters: Mapping[str, Counter]) -> None:
    if not counters:
        check.tell(codes.FIELD_MISSING, path, "must have a counter")
    elif check.at_most(path, counters, COUNTERS):
        check.keys(path, counters, formats.label)


def _devices(check: Check, each: Slice) -> None:
    why = next((reason for device in each.devices if (reason := _advanced(device))), None)
    most = DEVICES_ADVANCED if why else DEVICES
    if len(each.devices) > most:
        because = f", because a device has {why}" if why else ""
        message = f"has {len(each.devices)} entries, at most {most} are allowed{because}"
        check.tell(codes.TOO_MANY, "spec.devices", message)
        return
    check.distinct("spec.devices", (device.name for device in each.devices))
    for i, device in enumerate(each.devices):
        _device(check, f"spec.devices[{i}]", device)
        _device_nodes(check, f"spec.devices[{i}]", device, each)


def _advanced(device: Device) -> str | None:
    """Say what about a device halves the number of devices in its slice."""
    if device.taints:
        return "taints"
    if device.consumes_counters:
        return "consumesCounters"
    lists = (getattr(a, field) for a in device.attributes.values() for field in _FIELDS[4:])
    return "a list-valued attribute" if any(each is not None for each in lists) else None


def _device(check: Check, path: str, device: Device) -> None:
    check.form(f"{path}.name", device.name, formats.label)
    number = len(device.attributes) + len(device.capacity)
    if number > NAMES:
        message = f"has {number} attributes and capacities, at most {NAMES} are allowed"
        check.tell(codes.TOO_MANY, path, message)
    values = sum(max(1, _listed(attribute)) for attribute in device.attributes.values())
    if values > VALUES:
        message = f"has {values} attribute values, list items counted, at most {VALUES} are allowed"
        check.tell(codes.TOO_MANY, path, message)
    check.keys(f"{path}.attributes", device.attributes, formats.qualified)
    check.keys(f"{path}.capacity", device.capacity, formats.qualified)
    for name, attribute in device.attributes.items():
        _attribute(check, f"{path}.attributes[{name}]", attribute)
    if check.at_most(f"{path}.taints", device.taints, TAINTS):
        for i, taint in enumerate(device.taints):
            _taint(check, f"{path}.taints[{i}]", taint)
    _uses(check, f"{path}.consumesCounters", device.consumes_counters)
    validation_checks.binding(
        check, path, device.binding_conditions, device.binding_failure_conditions
    )
    for name, resource in device.node_allocatable_resources.items():
        _allocatable(check, f"{path}.nodeAllocatableResources[{name}]", name, resource, device)


def _listed(attribute: Attribute) -> int:
    return sum(len(getattr(attribute, field) or ()) for field in _FIELDS[4:])


def _attribute(check: Check, path: str, attribute: Attribute) -> None:
    there = [(wire, getattr(attribute, field)) for field, wire in _WIRE]
    there = [(wire, value) for wire, value in there if value is not None]
    if len(there) != 1:
        names = " and ".join(wire for wire, _ in there) or "none"
        check.tell(codes.EITHER_OR, path, f"must have exactly one value, not {names}")
    for wire, value in there:
        items = value if isinstance(value, tuple) else (value,)
        if not items:
            check.tell(codes.NOT_ALLOWED, f"{path}.{wire}", "must not be an empty list")
        for i, item in enumerate(items):
            at = f"{path}.{wire}[{i}]" if isinstance(value, tuple) else f"{path}.{wire}"
            if wire.startswith("version"):
                check.form(at, item, formats.version)
            elif wire.startswith("string"):
                check.fits(at, item, formats.VALUE_LENGTH)


def _taint(check: Check, path: str, taint: Taint) -> None:
    check.form(f"{path}.key", taint.key, formats.label_key)
    if taint.value:
        check.form(f"{path}.value", taint.value, formats.label_value)
    check.among(f"{path}.effect", taint.effect, validation_checks.EFFECTS)


def _uses(check: Check, path: str, uses: Sequence[CounterUse]) -> None:
    if not check.at_most(path, uses, USES):
        return
    check.distinct(path, (use.counter_set for use in uses))
    for i, use in enumerate(uses):
        check.form(f"{path}[{i}].counterSet", use.counter_set, formats.label)
        _counters(check, f"{path}[{i}].counters", use.counters)
        at = f"{path}[{i}].compatibilityGroups"
        if check.at_most(at, use.compatibility_groups, GROUPS):
            check.distinct(at, use.compatibility_groups)
            for j, group in enumerate(use.compatibility_groups):
                check.form(f"{at}[{j}]", group, formats.label)


def _device_nodes(check: Check, path: str, device: Device, each: Slice) -> None:
    fields: dict[str, str | NodeSelector | bool | None] = {
        "nodeName": device.node_name,
        "nodeSelector": device.node_selector,
        "allNodes": device.all_nodes,
    }
    if each.per_device_node_selection:
        _one_way(check, path, fields)
    else:
        for name in (name for name, value in fields.items() if value is not None):
            message = "is only allowed with perDeviceNodeSelection in the slice"
            check.tell(codes.NOT_ALLOWED, f"{path}.{name}", message)
    terms = () if device.node_selector is None else device.node_selector.node_selector_terms
    if each.per_device_node_selection and len(terms) > 1:
        message = f"has {len(terms)} terms: whatever is allocated with this device fails"
        check.tell(NODE_SELECTOR_TERMS, f"{path}.nodeSelector.nodeSelectorTerms", message)


def _allocatable(
    check: Check, path: str, name: str, resource: NodeAllocatable, device: Device
) -> None:
    if "/" in name and "kubernetes.io/" not in name:
        message = "is an extended resource, which a node does not hand out itself"
        check.tell(codes.NOT_ALLOWED, path, message)
    if resource.mapping is None and resource.overhead is None:
        check.tell(codes.EITHER_OR, path, "must have mapping or overhead")
    if resource.overhead is not None:
        overhead = resource.overhead
        if overhead.per_pod is None and overhead.per_container is None:
            check.tell(codes.EITHER_OR, f"{path}.overhead", "must have perPod or perContainer")
    if resource.mapping is not None:
        _mapping(check, f"{path}.mapping", resource.mapping, device)


def _mapping(check: Check, path: str, mapping: AllocatableMapping, device: Device) -> None:
    key, factor = mapping.capacity_key, mapping.capacity_multiplier
    if (key is None) == (mapping.device_multiplier is None):
        check.tell(codes.EITHER_OR, path, "must have one of capacityKey, deviceMultiplier")
    if (key is None) != (factor is None):
        message = "must have both of capacityKey, capacityMultiplier, or none"
        check.tell(codes.EITHER_OR, path, message)
    if key is not None and key not in device.capacity:
        message = f"is {shown(key)}, which is no capacity of the device"
        check.tell(codes.REFERENCE_UNKNOWN, f"{path}.capacityKey", message)
    factors = {"capacityMultiplier": factor, "deviceMultiplier": mapping.device_multiplier}
    for field, each in factors.items():
        if each is not None and each.sign() <= 0:
            check.tell(codes.NOT_ALLOWED, f"{path}.{field}", f"is {each}, must be above zero")
