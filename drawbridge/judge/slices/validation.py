"""Validates a ResourceSlice like the API server, with the path of each error.

The rules are those of Kubernetes 1.37 where known, else of 1.36. Disabled features are not checked,
because their server drops the fields. `drawbridge.judge.slices.policies` checks request policies.
"""

from collections.abc import Mapping, Sequence

from drawbridge.dra import codes, formats, validation_checks
from drawbridge.dra.counted import join_words
from drawbridge.dra.decode_errors import describe_value
from drawbridge.dra.device import (
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
from drawbridge.dra.slices import KIND, Slice
from drawbridge.dra.validation_checks import ObjectValidator
from drawbridge.finding import Finding
from drawbridge.judge.slices.codes import NODE_SELECTOR_TERMS
from drawbridge.judge.slices.ordinary_devices import OrdinaryDevices, check_device_names

DEVICES, DEVICES_ADVANCED, COUNTER_SETS, COUNTERS, USES, GROUPS = 128, 64, 8, 32, 2, 2
VALUES, TAINTS = 48, 16
ALLOCATABLE, HUGE_PAGES = ("cpu", "memory"), "hugepages-"
OPERATIONS = ("NodePrepareResources", "NodeUnprepareResources", "*")

_FIELDS = Attribute.__struct_fields__
# The fields of an attribute, with their names in the wire format.
_WIRE = tuple(zip(_FIELDS, ("string", "int", "bool", "version"), strict=False)) + tuple(
    zip(_FIELDS[4:], ("strings", "ints", "bools", "versions"), strict=True)
)


def check_api_limits(slice_: Slice, ordinary: OrdinaryDevices | None = None) -> tuple[Finding, ...]:
    """Return all errors for which the API server rejects the slice."""
    validator = ObjectValidator(f"{KIND}/{slice_.name}")
    validator.check_form("metadata.name", slice_.name, formats.check_subdomain)
    validator.check_form("spec.driver", slice_.driver, formats.check_driver_name)
    _pool(validator, slice_)
    _nodes(validator, slice_)
    if slice_.devices and slice_.shared_counters:
        validator.check_choice("spec", {"devices": True, "sharedCounters": True})
    _operations(validator, slice_.skip_node_operations)
    if slice_.partition_type_attribute is not None:
        path = "spec.partitionTypeAttribute"
        validator.check_form(
            path, slice_.partition_type_attribute, formats.check_fully_qualified_name
        )
        if not any(device.consumes_counters for device in slice_.devices):
            message = "is only allowed with a device that consumes counters"
            validator.add(codes.NOT_ALLOWED, path, message)
    _counter_sets(validator, slice_.shared_counters)
    _devices(validator, slice_, ordinary or OrdinaryDevices())
    return validator.result()


def _pool(validator: ObjectValidator, slice_: Slice) -> None:
    validator.check_form("spec.pool.name", slice_.pool, formats.check_pool_name)
    if slice_.generation < 0:
        message = f"is {slice_.generation}, must not be negative"
        validator.add(codes.NOT_ALLOWED, "spec.pool.generation", message)
    if slice_.slice_count <= 0:
        message = f"is {slice_.slice_count}, must be greater than 0"
        validator.add(codes.NOT_ALLOWED, "spec.pool.resourceSliceCount", message)


def _nodes(validator: ObjectValidator, slice_: Slice) -> None:
    fields = {
        "nodeName": slice_.node_name,
        "nodeSelector": slice_.node_selector,
        "allNodes": slice_.all_nodes,
        "perDeviceNodeSelection": slice_.per_device_node_selection,
    }
    _check_node_choice(validator, "spec", fields)
    if slice_.node_selector is not None and len(slice_.node_selector.node_selector_terms) > 1:
        message = "must have exactly one term"
        validator.add(codes.NOT_ALLOWED, "spec.nodeSelector.nodeSelectorTerms", message)


def _check_node_choice(
    validator: ObjectValidator, path: str, fields: Mapping[str, str | NodeSelector | bool | None]
) -> None:
    """Check that exactly one of the node fields is set."""
    there = {name: value for name, value in fields.items() if value is not None}
    for name, value in there.items():
        at = f"{path}.{name}"
        if value is False:
            validator.add(codes.NOT_ALLOWED, at, "is false; omit it or set it to true")
        elif isinstance(value, str):
            validator.check_form(at, value, formats.check_subdomain)
        elif isinstance(value, NodeSelector):
            validation_checks.check_node_selector(validator, at, value)
    validator.check_choice(path, {name: bool(value) for name, value in fields.items()})


def _operations(validator: ObjectValidator, operations: Sequence[str]) -> None:
    path = "spec.skipNodeOperations"
    validator.check_unique(path, operations)
    for i, operation in enumerate(operations):
        validator.check_enum(f"{path}[{i}]", operation, OPERATIONS)
    if OPERATIONS[0] in operations and not {*OPERATIONS[1:]} & {*operations}:
        message = f"must contain {OPERATIONS[1]} if it contains {OPERATIONS[0]}"
        validator.add(codes.EITHER_OR, path, message)


def _counter_sets(validator: ObjectValidator, sets: Sequence[CounterSet]) -> None:
    path = "spec.sharedCounters"
    if not validator.check_count(path, sets, COUNTER_SETS):
        return
    validator.check_unique(path, (each.name for each in sets))
    for i, counter_set in enumerate(sets):
        validator.check_form(f"{path}[{i}].name", counter_set.name, formats.check_label)
        _counters(validator, f"{path}[{i}].counters", counter_set.counters)


def _counters(validator: ObjectValidator, path: str, counters: Mapping[str, Counter]) -> None:
    if not counters:
        validator.add(codes.FIELD_MISSING, path, "must have a counter")
    elif validator.check_count(path, counters, COUNTERS):
        validator.check_keys(path, counters, formats.check_label)


def _devices(validator: ObjectValidator, slice_: Slice, ordinary: OrdinaryDevices) -> None:
    others = (
        [*enumerate(slice_.devices)]
        if slice_.per_device_node_selection
        else ordinary.find_others(slice_)
    )
    why = next((reason for _, device in others if (reason := _advanced(device))), None)
    most = DEVICES_ADVANCED if why else DEVICES
    if len(slice_.devices) > most:
        because = f", because a device has {why}" if why else ""
        message = f"has {len(slice_.devices)} entries, at most {most} are allowed{because}"
        validator.add(codes.TOO_MANY, "spec.devices", message)
        return
    validator.check_unique("spec.devices", (device.name for device in slice_.devices))
    for i, device in others:
        _device(validator, f"spec.devices[{i}]", device)
        _device_nodes(validator, f"spec.devices[{i}]", device, slice_)


def _advanced(device: Device) -> str | None:
    """Return the feature of a device that halves the number of devices in its slice."""
    if device.taints:
        return "taints"
    if device.consumes_counters:
        return "consumesCounters"
    lists = (getattr(a, field) for a in device.attributes.values() for field in _FIELDS[4:])
    return "a list-valued attribute" if any(each is not None for each in lists) else None


def _device(validator: ObjectValidator, path: str, device: Device) -> None:
    check_device_names(validator, path, device)
    values = sum(max(1, _listed(attribute)) for attribute in device.attributes.values())
    if values > VALUES:
        message = f"has {values} attribute values with list items, at most {VALUES} are allowed"
        validator.add(codes.TOO_MANY, path, message)
    for name, attribute in device.attributes.items():
        _attribute(validator, f"{path}.attributes[{name}]", attribute)
    if validator.check_count(f"{path}.taints", device.taints, TAINTS):
        for i, taint in enumerate(device.taints):
            _taint(validator, f"{path}.taints[{i}]", taint)
    _uses(validator, f"{path}.consumesCounters", device.consumes_counters)
    validation_checks.check_binding_conditions(
        validator, path, device.binding_conditions, device.binding_failure_conditions
    )
    for name, resource in device.node_allocatable_resources.items():
        _allocatable(validator, f"{path}.nodeAllocatableResources[{name}]", name, resource, device)


def _listed(attribute: Attribute) -> int:
    return sum(len(getattr(attribute, field) or ()) for field in _FIELDS[4:])


def _attribute(validator: ObjectValidator, path: str, attribute: Attribute) -> None:
    values = {
        wire: value for field, wire in _WIRE if (value := getattr(attribute, field)) is not None
    }
    if len(values) != 1:
        validator.check_choice(path, {wire: wire in values for _, wire in _WIRE})
    for wire, value in values.items():
        items = value if isinstance(value, tuple) else (value,)
        if not items:
            validator.add(codes.NOT_ALLOWED, f"{path}.{wire}", "must not be an empty list")
        for i, item in enumerate(items):
            at = f"{path}.{wire}[{i}]" if isinstance(value, tuple) else f"{path}.{wire}"
            if wire.startswith("version"):
                validator.check_form(at, item, formats.check_version)
            elif wire.startswith("string"):
                validator.check_length(at, item, formats.VALUE_LENGTH)


def _taint(validator: ObjectValidator, path: str, taint: Taint) -> None:
    validator.check_form(f"{path}.key", taint.key, formats.check_label_key)
    if taint.value:
        validator.check_form(f"{path}.value", taint.value, formats.check_label_value)
    validator.check_enum(f"{path}.effect", taint.effect, validation_checks.EFFECTS)


def _uses(validator: ObjectValidator, path: str, uses: Sequence[CounterUse]) -> None:
    if not validator.check_count(path, uses, USES):
        return
    validator.check_unique(path, (use.counter_set for use in uses))
    for i, use in enumerate(uses):
        validator.check_form(f"{path}[{i}].counterSet", use.counter_set, formats.check_label)
        _counters(validator, f"{path}[{i}].counters", use.counters)
        at = f"{path}[{i}].compatibilityGroups"
        if validator.check_count(at, use.compatibility_groups, GROUPS):
            validator.check_unique(at, use.compatibility_groups)
            for j, group in enumerate(use.compatibility_groups):
                validator.check_form(f"{at}[{j}]", group, formats.check_label)


def _device_nodes(validator: ObjectValidator, path: str, device: Device, slice_: Slice) -> None:
    fields: dict[str, str | NodeSelector | bool | None] = {
        "nodeName": device.node_name,
        "nodeSelector": device.node_selector,
        "allNodes": device.all_nodes,
    }
    if slice_.per_device_node_selection:
        _check_node_choice(validator, path, fields)
    else:
        for name in (name for name, value in fields.items() if value is not None):
            message = "is only allowed with perDeviceNodeSelection in the slice"
            validator.add(codes.NOT_ALLOWED, f"{path}.{name}", message)
    terms = () if device.node_selector is None else device.node_selector.node_selector_terms
    if slice_.per_device_node_selection and len(terms) > 1:
        message = f"has {len(terms)} terms, so every allocation with this device fails"
        validator.add(NODE_SELECTOR_TERMS, f"{path}.nodeSelector.nodeSelectorTerms", message)


def _allocatable(
    validator: ObjectValidator, path: str, name: str, resource: NodeAllocatable, device: Device
) -> None:
    if name not in ALLOCATABLE and not name.startswith(HUGE_PAGES):
        message = f"must be {join_words((*ALLOCATABLE, f'{HUGE_PAGES}SIZE'), 'or')}"
        validator.add(codes.NOT_ALLOWED, path, message)
    fields = {"mapping": resource.mapping, "overhead": resource.overhead}
    _check_any(validator, path, fields)
    if resource.overhead is not None:
        overhead = resource.overhead
        amounts = {"perPod": overhead.per_pod, "perContainer": overhead.per_container}
        _check_any(validator, f"{path}.overhead", amounts)
        for field, amount in amounts.items():
            if amount is not None and amount.sign() < 0:
                message = f"is {amount}, must not be negative"
                validator.add(codes.NOT_ALLOWED, f"{path}.overhead.{field}", message)
    if resource.mapping is not None:
        _mapping(validator, f"{path}.mapping", resource.mapping, device)


def _check_any(validator: ObjectValidator, path: str, fields: Mapping[str, object]) -> None:
    """Check that at least one of some fields is set."""
    are_set = {name: value is not None for name, value in fields.items()}
    validator.check_choice(path, are_set, is_exclusive=False)


def _mapping(
    validator: ObjectValidator, path: str, mapping: AllocatableMapping, device: Device
) -> None:
    key, factor = mapping.capacity_key, mapping.capacity_multiplier
    fields = {"capacityKey": key, "deviceMultiplier": mapping.device_multiplier}
    validator.check_choice(path, {name: value is not None for name, value in fields.items()})
    if (key is None) != (factor is None):
        message = "must have both capacityKey and capacityMultiplier, or neither"
        validator.add(codes.EITHER_OR, path, message)
    if key is not None and key not in device.capacity:
        message = f"is {describe_value(key)}, which is not a capacity of the device"
        validator.add(codes.REFERENCE_UNKNOWN, f"{path}.capacityKey", message)
    factors = {"capacityMultiplier": factor, "deviceMultiplier": mapping.device_multiplier}
    for field, multiplier in factors.items():
        if multiplier is not None and multiplier.sign() <= 0:
            validator.add(
                codes.NOT_ALLOWED, f"{path}.{field}", f"is {multiplier}, must be greater than 0"
            )
