"""Decode a plain value to a Configuration, or return what is wrong with its structure.

Decoding is strict: it rejects fields that are unknown or not available, and values of another type.
`drawbridge.config.accept` also judges what the fields say. Each finding has the path of its field.
This module does not read files.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from drawbridge.config import codes, string_formats
from drawbridge.config.available_fields import (
    AVAILABLE_FIELDS,
    AvailableFields,
    is_available,
    is_partly_available,
)
from drawbridge.config.model import REQUIRED, Configuration, Policy
from drawbridge.config.schema import PLACES
from drawbridge.dra.codes import FIELD_MISSING
from drawbridge.dra.decode_errors import Hook, Schema, walk
from drawbridge.finding import FORMER_NAMES, Finding

OBJECT = "Configuration"


class DecodedFields(NamedTuple):
    """The fields of a Configuration without findings, the findings, and the names of the others."""

    configuration: Configuration
    findings: tuple[Finding, ...] = ()
    wrong: Collection[str] = ()


def decode_configuration(
    value: object, built: AvailableFields = AVAILABLE_FIELDS
) -> Configuration | tuple[Finding, ...]:
    """Return a Configuration that a process has accepted, or all findings about its structure."""
    decoded = decode_fields(value, built)
    return decoded.findings or decoded.configuration


def decode_fields(
    value: object, built: AvailableFields, read: Hook = string_formats.read_text
) -> DecodedFields:
    """Decode the fields that can be decoded. `read` reads strings of a format."""
    findings: list[Finding] = []
    kept = _available(_read_policies(value), built, findings)
    walked = walk(kept, Schema(Configuration, read), object=OBJECT)
    findings += walked.findings
    if not isinstance(kept, Mapping):
        return DecodedFields(Configuration(), tuple(findings), REQUIRED)
    findings += [
        FIELD_MISSING.at(name, f"{name} is required", object=OBJECT)
        for name in REQUIRED
        if kept.get(name) is None
    ]
    wrong = {finding.path.partition(".")[0].partition("[")[0] for finding in findings}
    return DecodedFields(_convert_valid(walked.value, wrong), tuple(findings), wrong)


def configuration_to_plain(
    configuration: Configuration, built: AvailableFields = AVAILABLE_FIELDS
) -> object:
    """Return the plain value with defaults, without unset and unavailable fields."""
    return _without_unset(
        _available(msgspec.to_builtins(configuration, enc_hook=string_formats.to_plain), built, [])
    )


def _without_unset(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _without_unset(item) for name, item in value.items() if item is not None}
    return [_without_unset(each) for each in value] if isinstance(value, list | tuple) else value


def _read_policies(value: object) -> object:
    """Replace former names of codes, which current ones override, and the policy `false` by `off`.

    The YAML 1.1 parser of Kubernetes reads `off` as false.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("findings"), Mapping):
        return value
    former_first = sorted(value["findings"].items(), key=lambda entry: entry[0] not in FORMER_NAMES)
    policies = {
        FORMER_NAMES.get(code, code): Policy.OFF.value if policy is False else policy
        for code, policy in former_first
    }
    return {**value, "findings": policies}


def _available(
    value: object, built: AvailableFields, findings: list[Finding], place: str = "", path: str = ""
) -> object:
    """Return the value without unavailable fields. Appends a finding for each of them."""
    if isinstance(value, list | tuple):
        return [
            _available(element, built, findings, f"{place}[]", f"{path}[{i}]")
            for i, element in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    kept: dict[object, object] = {}
    for name, item in value.items():
        field, at = (f"{place}.{name}", f"{path}.{name}") if place else (f"{name}", f"{name}")
        if is_partly_available(field, built):
            kept[name] = _available(item, built, findings, field, at)
        elif item is not None and (message := _unavailable_reason(field, item, built)):
            findings.append(codes.FIELD_UNAVAILABLE.at(at, message, object=OBJECT))
        else:
            kept[name] = item
    return kept


def _unavailable_reason(field: str, item: object, built: AvailableFields) -> str:
    """Return why this version does not accept the value of a field; empty if it does."""
    name = field.rpartition(".")[2]
    if field in PLACES and not is_available(field, built):
        return f"{name} is not available in this version: it would have no effect"
    values = built.get(field)
    if values and isinstance(item, str) and item not in values:
        return f"{name} {item[:60]} is not available in this version, only {' or '.join(values)}"
    return ""


def _convert_valid(value: object, wrong: Collection[str]) -> Configuration:
    """Convert the fields without errors, so that the consistency checks still run."""
    fields = value if isinstance(value, Mapping) else {}
    return msgspec.convert(
        {name: item for name, item in fields.items() if name not in wrong},
        Configuration,
        dec_hook=string_formats.read_text,
    )
