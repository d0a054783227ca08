"""Decode a plain value to a Configuration, or return what is wrong with its structure.

Decoding is strict: it rejects unknown fields, and values of another type.
`drawbridge.config.accept` also judges what the fields say. Each finding has the path of its field.
This module does not read files.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from drawbridge.config import string_formats
from drawbridge.config.model import REQUIRED, Configuration, Policy
from drawbridge.dra.codes import FIELD_MISSING
from drawbridge.dra.decode_errors import Hook, Schema, walk
from drawbridge.finding import Finding

OBJECT = "Configuration"


class DecodedFields(NamedTuple):
    """The fields of a Configuration without findings, the findings, and the names of the others."""

    configuration: Configuration
    findings: tuple[Finding, ...] = ()
    wrong: Collection[str] = ()


def decode_configuration(value: object) -> Configuration | tuple[Finding, ...]:
    """Return a Configuration that a process has accepted, or all findings about its structure."""
    decoded = decode_fields(value)
    return decoded.findings or decoded.configuration


def decode_fields(value: object, read: Hook = string_formats.read_text) -> DecodedFields:
    """Decode the fields that can be decoded. `read` reads strings of a format."""
    kept = _read_policies(value)
    walked = walk(kept, Schema(Configuration, read), object=OBJECT)
    findings = list(walked.findings)
    if not isinstance(kept, Mapping):
        return DecodedFields(Configuration(), tuple(findings), REQUIRED)
    findings += [
        FIELD_MISSING.at(name, f"{name} is required", object=OBJECT)
        for name in REQUIRED
        if kept.get(name) is None
    ]
    wrong = {finding.path.partition(".")[0].partition("[")[0] for finding in findings}
    return DecodedFields(_convert_valid(walked.value, wrong), tuple(findings), wrong)


def configuration_to_plain(configuration: Configuration) -> object:
    """Return the plain value with defaults, without unset fields."""
    return _without_unset(msgspec.to_builtins(configuration, enc_hook=string_formats.to_plain))


def _without_unset(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _without_unset(item) for name, item in value.items() if item is not None}
    return [_without_unset(each) for each in value] if isinstance(value, list | tuple) else value


def _read_policies(value: object) -> object:
    """Replace the policy `false` by `off`, which a YAML 1.1 parser reads as false."""
    if not isinstance(value, Mapping) or not isinstance(value.get("findings"), Mapping):
        return value
    policies = {
        code: Policy.OFF.value if policy is False else policy
        for code, policy in value["findings"].items()
    }
    return {**value, "findings": policies}


def _convert_valid(value: object, wrong: Collection[str]) -> Configuration:
    """Convert the fields without errors, so that the consistency checks still run."""
    fields = value if isinstance(value, Mapping) else {}
    return msgspec.convert(
        {name: item for name, item in fields.items() if name not in wrong},
        Configuration,
        dec_hook=string_formats.read_text,
    )
