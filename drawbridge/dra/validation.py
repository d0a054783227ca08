"""Validates the devices of claims, and classes, as the API server does.

The rules are those of Kubernetes 1.37 if known, else of 1.36. This module does not compile
expressions, and does not check whether a claim can be satisfied. It ignores feature gates: the API
server drops the fields of a disabled feature and does not reject them.
"""

from collections.abc import Collection, Sequence

from drawbridge.dra import codes, formats, validation_checks
from drawbridge.dra.claim import (
    ALL,
    EXACT_COUNT,
    ClaimMetadata,
    Config,
    Constraint,
    Devices,
    Request,
    RequestedDevices,
    refers_to,
    request_choices,
    request_names,
)
from drawbridge.dra.classes import KIND, DeviceClass
from drawbridge.dra.decode_errors import describe_value
from drawbridge.dra.validation_checks import ObjectValidator
from drawbridge.finding import Finding

REQUESTS, ALTERNATIVES, CONSTRAINTS, DERIVED = 32, 8, 32, 32


def validate_devices(devices: Devices, path: str, about: str) -> tuple[Finding, ...]:
    """Return a finding for every violation in the devices of a claim, without its metadata."""
    validator = ObjectValidator(about)
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
    return validator.result()


def validate_class(device_class: DeviceClass) -> tuple[Finding, ...]:
    """Return a finding for every violation in a DeviceClass."""
    metadata = device_class.metadata
    validator = ObjectValidator(format_object_name(KIND, metadata))
    if metadata.name or not metadata.generate_name:
        validator.check_form("metadata.name", metadata.name, formats.check_subdomain)
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
        validator.check_unique(at, (each.name for each in wanted.derived_attributes))
        for i, derived in enumerate(wanted.derived_attributes):
            validator.check_form(
                f"{at}[{i}].name", derived.name, formats.check_fully_qualified_name
            )
            validation_checks.check_expression(
                validator, f"{at}[{i}].expression", derived.expression
            )


def _derived_use(validator: ObjectValidator, path: str, devices: Devices) -> None:
    """Check that a constraint on the same request uses each derived attribute."""
    for i, request in enumerate(devices.requests):
        for j, choice in enumerate(request_choices(request)):
            at = "exactly" if request.exactly is not None else f"firstAvailable[{j}]"
            used = {
                each.match_attribute or each.distinct_attribute
                for each in devices.constraints
                if refers_to(each.requests, choice.name)
            }
            for k, derived in enumerate(choice.requested.derived_attributes):
                if derived.name not in used:
                    where = f"{path}.requests[{i}].{at}.derivedAttributes[{k}].name"
                    name = describe_value(derived.name)
                    message = f"is {name}, which no constraint on this request uses"
                    remedy = "Use it in a constraint on this request, or remove it."
                    validator.add(codes.NOT_ALLOWED, where, message, remedy)


def _constraint(
    validator: ObjectValidator, path: str, constraint: Constraint, requests: Collection[str]
) -> None:
    _references(validator, f"{path}.requests", constraint.requests, requests)
    names = {
        "matchAttribute": constraint.match_attribute,
        "distinctAttribute": constraint.distinct_attribute,
    }
    for field, name in names.items():
        if name is not None:
            validator.check_form(f"{path}.{field}", name, formats.check_fully_qualified_name)
    validator.check_choice(
        path, {field: name is not None for field, name in names.items()}, is_exclusive=False
    )
    if None not in names.values():
        message = "is ignored because matchAttribute is also set"
        validator.add(codes.CONSTRAINT_HALF_READ, f"{path}.distinctAttribute", message)


def _config(
    validator: ObjectValidator,
    path: str,
    config: Config,
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
            if entry not in requests:
                text = "but the claim has no request or subrequest with this name"
                message = f"is {describe_value(entry)}, {text}"
                validator.add(codes.REFERENCE_UNKNOWN, f"{path}[{i}]", message)
