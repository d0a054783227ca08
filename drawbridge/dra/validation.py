"""Validate claims, templates and classes as the API server does.

The rules are those of Kubernetes 1.37 if known, else of 1.36. This module does not compile
expressions, and does not check whether a claim can be satisfied. It ignores feature gates: the API
server drops the fields of a disabled feature and does not reject them.
"""

from collections.abc import Collection, Sequence

from drawbridge.dra import codes, formats, validation_checks
from drawbridge.dra.allocation import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocatedConfig,
    AllocationResult,
    ClaimStatus,
)
from drawbridge.dra.claim import (
    ALL,
    CLAIM,
    EXACT_COUNT,
    TEMPLATE,
    Claim,
    ClaimMetadata,
    Config,
    Constraint,
    Devices,
    Request,
    RequestedDevices,
    Template,
    request_choices,
    request_names,
)
from drawbridge.dra.classes import KIND, DeviceClass
from drawbridge.dra.decode_errors import describe_value
from drawbridge.dra.validation_checks import ObjectValidator
from drawbridge.finding import Finding

REQUESTS, ALTERNATIVES, CONSTRAINTS, DERIVED = 32, 8, 32, 32
RESULTS, ALLOCATED_CONFIGS, CONSUMERS, REPORTED_CONDITIONS = 32, 64, 256, 8


def validate_claim(claim: Claim, about: str = "") -> tuple[Finding, ...]:
    """Return a finding for every violation in a claim and its status."""
    validator = ObjectValidator(about or format_object_name(CLAIM, claim.metadata))
    _metadata(validator, claim.metadata)
    _devices(validator, "spec.devices", claim.spec.devices)
    _status(validator, claim.status, frozenset(request_names(claim.spec.devices)))
    return validator.result()


def validate_template(template: Template, about: str = "") -> tuple[Finding, ...]:
    """Return a finding for every violation in a template."""
    validator = ObjectValidator(about or format_object_name(TEMPLATE, template.metadata))
    _metadata(validator, template.metadata)
    metadata = template.spec.metadata
    validator.check_keys("spec.metadata.labels", metadata.labels, formats.check_label_key)
    validator.check_keys(
        "spec.metadata.annotations",
        (key.lower() for key in metadata.annotations),
        formats.check_label_key,
    )
    for key, value in metadata.labels.items():
        if value:
            validator.check_form(f"spec.metadata.labels[{key}]", value, formats.check_label_value)
    _devices(validator, "spec.spec.devices", template.spec.spec.devices)
    return validator.result()


def validate_devices(devices: Devices, path: str, about: str) -> tuple[Finding, ...]:
    """Return a finding for every violation in the devices of a claim, without its metadata."""
    validator = ObjectValidator(about)
    _devices(validator, path, devices)
    return validator.result()


def validate_class(device_class: DeviceClass, about: str = "") -> tuple[Finding, ...]:
    """Return a finding for every violation in a DeviceClass."""
    validator = ObjectValidator(about or format_object_name(KIND, device_class.metadata))
    _metadata(validator, device_class.metadata)
    validation_checks.check_selectors(validator, "spec.selectors", device_class.spec.selectors)
    if validator.check_count("spec.config", device_class.spec.config, validation_checks.CONFIGS):
        for i, config in enumerate(device_class.spec.config):
            validation_checks.check_opaque(validator, f"spec.config[{i}].opaque", config.opaque)
    name = device_class.spec.extended_resource_name
    if name is not None:
        validator.check_form("spec.extendedResourceName", name, formats.check_extended_resource)
    return validator.result()


def format_object_name(kind: str, metadata: ClaimMetadata) -> str:
    """Return the name of an object in findings: kind, namespace and name."""
    return "/".join(filter(None, (kind, metadata.namespace, metadata.name)))


def _metadata(validator: ObjectValidator, metadata: ClaimMetadata) -> None:
    if metadata.name or not metadata.generate_name:
        validator.check_form("metadata.name", metadata.name, formats.check_subdomain)


def _devices(validator: ObjectValidator, path: str, devices: Devices) -> None:
    if validator.check_count(f"{path}.requests", devices.requests, REQUESTS):
        validator.check_unique(f"{path}.requests", (each.name for each in devices.requests))
        for i, request in enumerate(devices.requests):
            _request(validator, f"{path}.requests[{i}]", request)
        _derived_use(validator, path, devices)
    requests = frozenset(request_names(devices))
    if validator.check_count(f"{path}.constraints", devices.constraints, CONSTRAINTS):
        for i, constraint in enumerate(devices.constraints):
            _constraint(validator, f"{path}.constraints[{i}]", constraint, requests)
    if validator.check_count(f"{path}.config", devices.config, validation_checks.CONFIGS):
        for i, config in enumerate(devices.config):
            _config(validator, f"{path}.config[{i}]", config, requests)


def _request(validator: ObjectValidator, path: str, request: Request) -> None:
    validator.check_form(f"{path}.name", request.name, formats.check_label)
    alternatives = request.first_available
    has_exactly = request.exactly is not None
    validator.check_choice(path, {"exactly": has_exactly, "firstAvailable": bool(alternatives)})
    if bool(alternatives) == has_exactly:
        return
    if request.exactly is not None:
        _wanted(validator, f"{path}.exactly", request.exactly)
    elif validator.check_count(f"{path}.firstAvailable", alternatives, ALTERNATIVES):
        validator.check_unique(f"{path}.firstAvailable", (each.name for each in alternatives))
        for i, alternative in enumerate(alternatives):
            validator.check_form(
                f"{path}.firstAvailable[{i}].name", alternative.name, formats.check_label
            )
            _wanted(validator, f"{path}.firstAvailable[{i}]", alternative)


def _wanted(validator: ObjectValidator, path: str, wanted: RequestedDevices) -> None:
    validator.check_form(
        f"{path}.deviceClassName", wanted.device_class_name, formats.check_subdomain
    )
    validation_checks.check_selectors(validator, f"{path}.selectors", wanted.selectors)
    validator.check_enum(f"{path}.allocationMode", wanted.allocation_mode, (EXACT_COUNT, ALL))
    if wanted.allocation_mode == ALL and wanted.count:
        message = "must not be set with allocationMode All"
        remedy = "Remove count, or set allocationMode to ExactCount."
        validator.add(codes.NOT_ALLOWED, f"{path}.count", message, remedy)
    elif wanted.allocation_mode == EXACT_COUNT and wanted.count <= 0:
        validator.add(
            codes.NOT_ALLOWED, f"{path}.count", f"is {wanted.count}, must be greater than 0"
        )
    validation_checks.check_tolerations(validator, f"{path}.tolerations", wanted.tolerations)
    at = f"{path}.derivedAttributes"
    if validator.check_count(at, wanted.derived_attributes, DERIVED):
        for i, derived in enumerate(wanted.derived_attributes):
            validator.check_form(
                f"{at}[{i}].name", derived.name, formats.check_fully_qualified_name
            )
            validation_checks.check_expression(
                validator, f"{at}[{i}].expression", derived.expression
            )


def _derived_use(validator: ObjectValidator, path: str, devices: Devices) -> None:
    """Check that every derived attribute is used by a constraint."""
    used = {each.match_attribute for each in devices.constraints}
    used |= {each.distinct_attribute for each in devices.constraints}
    for i, request in enumerate(devices.requests):
        for j, choice in enumerate(request_choices(request)):
            at = "exactly" if request.exactly is not None else f"firstAvailable[{j}]"
            for k, derived in enumerate(choice.requested.derived_attributes):
                if derived.name not in used:
                    where = f"{path}.requests[{i}].{at}.derivedAttributes[{k}].name"
                    message = f"is {describe_value(derived.name)}, which no constraint uses"
                    validator.add(
                        codes.NOT_ALLOWED, where, message, "Use it in a constraint or remove it."
                    )


def _constraint(
    validator: ObjectValidator, path: str, constraint: Constraint, requests: Collection[str]
) -> None:
    _references(validator, f"{path}.requests", constraint.requests, requests)
    if constraint.match_attribute is not None:
        validator.check_form(
            f"{path}.matchAttribute", constraint.match_attribute, formats.check_fully_qualified_name
        )
        if constraint.distinct_attribute is not None:
            message = "is ignored because matchAttribute is also set"
            validator.add(codes.CONSTRAINT_HALF_READ, f"{path}.distinctAttribute", message)
    elif constraint.distinct_attribute is not None:
        validator.check_form(
            f"{path}.distinctAttribute",
            constraint.distinct_attribute,
            formats.check_fully_qualified_name,
        )
    else:
        validator.check_choice(path, {"matchAttribute": False, "distinctAttribute": False})


def _config(
    validator: ObjectValidator,
    path: str,
    config: Config | AllocatedConfig,
    requests: Collection[str],
) -> None:
    _references(validator, f"{path}.requests", config.requests, requests)
    validation_checks.check_opaque(validator, f"{path}.opaque", config.opaque)


def _references(
    validator: ObjectValidator, path: str, entries: Sequence[str], requests: Collection[str]
) -> None:
    if validator.check_count(path, entries, REQUESTS):
        validator.check_unique(path, entries)
        for i, entry in enumerate(entries):
            _reference(validator, f"{path}[{i}]", entry, requests)


def _reference(validator: ObjectValidator, path: str, name: str, requests: Collection[str]) -> None:
    if name not in requests:
        message = (
            f"is {describe_value(name)}, but the claim has no request or subrequest with this name"
        )
        validator.add(codes.REFERENCE_UNKNOWN, path, message)


def _status(validator: ObjectValidator, status: ClaimStatus, requests: Collection[str]) -> None:
    allocated = set()
    if status.allocation is not None:
        path, devices = "status.allocation.devices", status.allocation.devices
        if validator.check_count(f"{path}.results", devices.results, RESULTS):
            for i, result in enumerate(devices.results):
                _result(validator, f"{path}.results[{i}]", result, requests)
        if validator.check_count(f"{path}.config", devices.config, ALLOCATED_CONFIGS):
            for i, config in enumerate(devices.config):
                validator.check_enum(
                    f"{path}.config[{i}].source", config.source, (FROM_CLASS, FROM_CLAIM)
                )
                _config(validator, f"{path}.config[{i}]", config, requests)
        if status.allocation.node_selector is not None:
            selector = status.allocation.node_selector
            validation_checks.check_node_selector(
                validator, "status.allocation.nodeSelector", selector
            )
        allocated = {
            (result.driver, result.pool, result.device, result.share_id)
            for result in devices.results
        }
    _consumers(validator, status)
    _reported(validator, status, allocated)


def _result(
    validator: ObjectValidator, path: str, result: AllocationResult, requests: Collection[str]
) -> None:
    _reference(validator, f"{path}.request", result.request, requests)
    validator.check_form(f"{path}.driver", result.driver, formats.check_driver_name)
    validator.check_form(f"{path}.pool", result.pool, formats.check_pool_name)
    validator.check_form(f"{path}.device", result.device, formats.check_label)
    validation_checks.check_binding_conditions(
        validator, path, result.binding_conditions, result.binding_failure_conditions
    )
    if result.share_id is not None:
        validator.check_form(f"{path}.shareID", result.share_id, formats.check_uuid)


def _consumers(validator: ObjectValidator, status: ClaimStatus) -> None:
    path = "status.reservedFor"
    if status.reserved_for and status.allocation is None:
        validator.add(codes.EITHER_OR, path, "must be empty without an allocation")
    if validator.check_count(path, status.reserved_for, CONSUMERS):
        validator.check_unique(path, (each.uid for each in status.reserved_for))
        for i, consumer in enumerate(status.reserved_for):
            for field, text in (
                ("resource", consumer.resource),
                ("name", consumer.name),
                ("uid", consumer.uid),
            ):
                validator.check_form(f"{path}[{i}].{field}", text, lambda _: None)


def _reported(
    validator: ObjectValidator, status: ClaimStatus, allocated: Collection[tuple[object, ...]]
) -> None:
    keys = [(each.driver, each.pool, each.device, each.share_id) for each in status.devices]
    validator.check_unique("status.devices", keys)
    for i, (device, key) in enumerate(zip(status.devices, keys, strict=True)):
        path = f"status.devices[{i}]"
        if key not in allocated:
            name = describe_value(f"{device.driver}/{device.pool}/{device.device}")
            text = f"is {name}, which is not allocated"
            validator.add(codes.REFERENCE_UNKNOWN, path, text)
        validator.check_count(f"{path}.conditions", device.conditions, REPORTED_CONDITIONS)
        if device.data is not None:
            validation_checks.check_json_object(validator, f"{path}.data", device.data)
        if device.network_data is not None:
            validation_checks.check_network_data(
                validator, f"{path}.networkData", device.network_data
            )
