"""The configuration in use: the last one that the controller has accepted, in its own ConfigMap.

All processes use it, so that they agree, and so that a restart needs no other configuration than
the one that worked before. Administrators edit another ConfigMap, the offered configuration. The
leading controller copies its text once it is valid. So the other processes only decode the copy:
that needs neither the compiler of expressions nor the codes of all packages. A hash shows that
nobody else has edited the copy, and a condition says whether the offered configuration is the one
in use. Only the right to write the copy, which the controller has, keeps others from a copy with
a hash of their own.

Hash and condition are annotations, so that the copy fits wherever the original does. The copy has
no label: tools that prune objects by the labels of an installation do not know it.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

import drawbridge.config.codes
from drawbridge.config.load import decode_configuration
from drawbridge.config.model import Configuration
from drawbridge.documents.document import Source
from drawbridge.documents.read import read_documents
from drawbridge.finding import Finding
from drawbridge.names import (
    CONDITIONS_ANNOTATION,
    CONFIGURATION_CONFIG_MAP,
    CONFIGURATION_IN_USE_CONFIG_MAP,
    CONFIGURATION_KEY,
    HASH_ANNOTATION,
)

_ACCEPTED: Final = "Accepted"
_MAX_MESSAGE: Final = 1024


class _Metadata(msgspec.Struct, frozen=True):
    annotations: Mapping[str, str] | None = None


class ConfigurationConfigMap(msgspec.Struct, frozen=True, rename="camel"):
    """A ConfigMap with a Configuration in its wire format."""

    data: Mapping[str, str] | None = None
    binary_data: Mapping[str, str] | None = None
    metadata: _Metadata = _Metadata()


class AcceptedCondition(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the offered configuration is in use, in the format of Kubernetes' conditions."""

    status: str
    reason: str
    message: str
    type: str = _ACCEPTED
    last_transition_time: str = ""


class ConfigurationReading(NamedTuple):
    """A Configuration and its text, or the findings why there is none.

    `exists` tells whether a ConfigMap has a text, and `refusal` why the offered configuration is
    not in use.
    """

    text: str = ""
    configuration: Configuration | None = None
    findings: tuple[Finding, ...] = ()
    exists: bool = True
    refusal: str = ""


# Reads the value of a document: as one that is accepted, or as one that must be.
ValueReader: TypeAlias = Callable[[object], Configuration | tuple[Finding, ...]]


def parse_text(text: str, name: str, read: ValueReader) -> Configuration | tuple[Finding, ...]:
    """Read the one Configuration of a text, or return all findings."""
    source = Source(name, text.encode(errors="replace"))
    documents = [each for each in read_documents(source) if not each.empty]
    if unread := tuple(located.finding for each in documents for located in each.findings):
        return unread
    if len(documents) != 1:
        message = f"expected one Configuration, but {name} has {len(documents)} documents"
        return (drawbridge.config.codes.CONFIGURATION_NOT_ONE.at("", message),)
    return read(documents[0].value)


def read_in_use(
    config_map: ConfigurationConfigMap | None, read: ValueReader = decode_configuration
) -> ConfigurationReading:
    """Read the configuration in use. One with another hash is not what the controller accepted."""
    if config_map is not None and CONFIGURATION_KEY in (config_map.data or {}):
        annotations = config_map.metadata.annotations or {}
        text = (config_map.data or {})[CONFIGURATION_KEY]
        if annotations.get(HASH_ANNOTATION) != configuration_hash(text):
            message = f"the text in ConfigMap {CONFIGURATION_IN_USE_CONFIG_MAP} has another hash"
            remedy = f"Edit ConfigMap {CONFIGURATION_CONFIG_MAP}. The controller repairs the other."
            return ConfigurationReading(findings=_not_one(message, remedy))
    reading = read_config_map(config_map, CONFIGURATION_IN_USE_CONFIG_MAP, read)
    condition = None if config_map is None else read_condition(config_map)
    if condition is None or condition.status == "True":
        return reading
    return reading._replace(refusal=condition.message)


def read_config_map(
    config_map: ConfigurationConfigMap | None, name: str, read: ValueReader
) -> ConfigurationReading:
    """Read the configuration in the ConfigMap with this name."""
    text = None if config_map is None else (config_map.data or {}).get(CONFIGURATION_KEY)
    if text is None:
        what = "does not exist" if config_map is None else f"has no key {CONFIGURATION_KEY}"
        remedy = f"Set the key {CONFIGURATION_KEY} in ConfigMap {CONFIGURATION_CONFIG_MAP}."
        if config_map is not None and CONFIGURATION_KEY in (config_map.binary_data or {}):
            what = f"has the key {CONFIGURATION_KEY} in binaryData, as for a file that is not UTF-8"
            remedy = "Save the file as UTF-8, and create the ConfigMap again."
        findings = _not_one(f"ConfigMap {name} {what}", remedy)
        return ConfigurationReading(findings=findings, exists=False)
    parsed = parse_text(text, f"ConfigMap {name}", read)
    if isinstance(parsed, Configuration):
        return ConfigurationReading(text, parsed)
    return ConfigurationReading(text, findings=parsed)


def _not_one(message: str, remedy: str) -> tuple[Finding, ...]:
    return (drawbridge.config.codes.CONFIGURATION_NOT_ONE.at("", message, remedy=remedy),)


def configuration_hash(text: str) -> str:
    """Return the hash of the exact text."""
    return f"sha256:{hashlib.sha256(text.encode(errors='replace')).hexdigest()}"


def describe_findings(findings: Sequence[Finding]) -> str:
    """Write why a configuration is refused in one bounded line."""
    lines = [f"{each.path}: {each.message}" if each.path else each.message for each in findings]
    text = "; ".join(dict.fromkeys(lines))
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE - 3]}..."


def read_condition(config_map: ConfigurationConfigMap) -> AcceptedCondition | None:
    """Read the condition; None if the ConfigMap has no readable one."""
    text = (config_map.metadata.annotations or {}).get(CONDITIONS_ANNOTATION, "")
    try:
        conditions = msgspec.json.decode(text, type=tuple[AcceptedCondition, ...])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return next((each for each in conditions if each.type == _ACCEPTED), None)


def compose_in_use(
    text: str, offered: ConfigurationReading, live: Mapping[str, Any] | None, now: str
) -> dict[str, Any] | None:
    """Compose the ConfigMap with this text as the configuration in use; None if it is right.

    An empty text stands for none.
    """
    metadata = (live or {}).get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    condition = _describe_offered(offered)
    before = read_condition(ConfigurationConfigMap(metadata=_Metadata(annotations)))
    is_same = before is not None and before.status == condition.status
    time = before.last_transition_time if before is not None and is_same else now
    condition = msgspec.structs.replace(condition, last_transition_time=time)
    wanted = {
        HASH_ANNOTATION: configuration_hash(text),
        CONDITIONS_ANNOTATION: msgspec.json.encode((condition,)).decode(),
    }
    # Of the first installation, as long as its configuration is refused.
    data = {CONFIGURATION_KEY: text} if text else {}
    has_content = live is not None and (live.get("data") or {}) == data
    if has_content and wanted.items() <= annotations.items():
        return None
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            **metadata,
            "name": CONFIGURATION_IN_USE_CONFIG_MAP,
            "annotations": {**annotations, **wanted},
        },
        "data": data,
    }


def _describe_offered(offered: ConfigurationReading) -> AcceptedCondition:
    if offered.configuration is not None:
        message = f"The configuration in ConfigMap {CONFIGURATION_CONFIG_MAP} is in use."
        return AcceptedCondition("True", "Valid", message)
    return AcceptedCondition("False", offered.findings[0].code, describe_findings(offered.findings))
