"""A plain value to a Configuration, or to everything that is wrong with it.

Strict: what is not known, not available or without effect is refused, all of it at once and each
with its path. Does not read files: whoever does hands in the plain value.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping

import msgspec

from config import codes, string_formats
from config.available_fields import (
    AVAILABLE_FIELDS,
    AvailableFields,
    is_available,
    is_partly_available,
)
from config.model import (
    ATTRIBUTE_WORDS,
    CAPACITY_WORDS,
    REQUIRED,
    Compatibility,
    Configuration,
    LabelSelector,
    Operator,
    Policy,
    Target,
)
from config.schema import PLACES
from dra.codes import FIELD_MISSING
from dra.decode_errors import Hook, Schema, walk
from dra.finding import Finding
from dra.gates import NEWEST

OBJECT = "Configuration"


def load_configuration(
    value: object, known: Collection[str], built: AvailableFields = AVAILABLE_FIELDS
) -> Configuration | tuple[Finding, ...]:
    """Turn `value` into a Configuration, or into all findings; `known` are the codes there are."""
    found: list[Finding] = []
    kept = _available(_off_is_text(value), built, found)
    walked = walk(kept, Schema(Configuration, _reader(known)), object=OBJECT)
    found += walked.findings
    if not isinstance(kept, Mapping):
        return tuple(found)
    found += [
        FIELD_MISSING.at(name, f"{name} is required and not there", object=OBJECT)
        for name in REQUIRED
        if kept.get(name) is None
    ]
    configuration = _sound(walked.value, found)
    found += _contradictions(configuration)
    return tuple(found) or configuration


def configuration_to_plain(
    configuration: Configuration, built: AvailableFields = AVAILABLE_FIELDS
) -> object:
    """The reverse of `load`: what is honoured, defaults filled in, what is not set left out."""
    return _set(
        _available(msgspec.to_builtins(configuration, enc_hook=string_formats.to_plain), built, [])
    )


def _set(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _set(item) for name, item in value.items() if item is not None}
    return [_set(each) for each in value] if isinstance(value, list | tuple) else value


def _off_is_text(value: object) -> object:
    """In YAML as Kubernetes reads it a bare `off` is false; as a policy it can only mean off."""
    if not isinstance(value, Mapping) or not isinstance(value.get("findings"), Mapping):
        return value
    policies = {
        code: Policy.OFF.value if policy is False else policy
        for code, policy in value["findings"].items()
    }
    return {**value, "findings": policies}


def _available(
    value: object, built: AvailableFields, found: list[Finding], place: str = "", path: str = ""
) -> object:
    """Leave out, and tell, what this version does not honour."""
    if isinstance(value, list | tuple):
        return [
            _available(each, built, found, f"{place}[]", f"{path}[{i}]")
            for i, each in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    kept: dict[object, object] = {}
    for name, item in value.items():
        field, at = (f"{place}.{name}", f"{path}.{name}") if place else (f"{name}", f"{name}")
        if is_partly_available(field, built):
            kept[name] = _available(item, built, found, field, at)
        elif item is not None and (message := _refused(field, item, built)):
            found.append(codes.FIELD_UNAVAILABLE.at(at, message, object=OBJECT))
        else:
            kept[name] = item
    return kept


def _refused(field: str, item: object, built: AvailableFields) -> str:
    """Say why a field cannot have this value in this version, if it cannot."""
    name = field.rpartition(".")[2]
    if field in PLACES and not is_available(field, built):
        return f"{name} is not available in this version: it would have no effect"
    values = built.get(field)
    if values and isinstance(item, str) and item not in values:
        return f"{name} {item[:60]} is not available in this version, only {' or '.join(values)}"
    return ""


def _reader(known: Collection[str]) -> Hook:
    """Read texts of a form; codes of findings must moreover be `known`."""

    def read(kind: type, value: object) -> object:
        if kind is string_formats.FindingCode and isinstance(value, str) and value not in known:
            near = difflib.get_close_matches(value, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"no finding has this code{hint}")
        return string_formats.read_text(kind, value)

    return read


def _sound(value: object, found: list[Finding]) -> Configuration:
    """Make a Configuration of the fields without an error, so that the others are still checked."""
    wrong = {finding.path.partition(".")[0].partition("[")[0] for finding in found}
    fields = value if isinstance(value, Mapping) else {}
    return msgspec.convert(
        {name: item for name, item in fields.items() if name not in wrong},
        Configuration,
        dec_hook=string_formats.read_text,
    )


def _contradictions(configuration: Configuration) -> Iterator[Finding]:
    """What is wrong though every value for itself is right."""
    yield from _selector(configuration.scope.namespace_selector, "scope.namespaceSelector")
    for i, quota in enumerate(configuration.quotas):
        yield from _selector(quota.namespace_selector, f"quotas[{i}].namespaceSelector")
    for i, target in enumerate(configuration.targets):
        yield from _words(target, f"targets[{i}]")
    for i, pool in enumerate(configuration.owned_pools):
        yield from _selector(pool.pool_selector, f"ownedPools[{i}].poolSelector")
    for i, entry in enumerate(configuration.compatibility):
        yield from _compatibility(entry, f"compatibility[{i}]")


def _selector(selector: LabelSelector | None, path: str) -> Iterator[Finding]:
    for i, requirement in enumerate(selector.match_expressions if selector else ()):
        needed = requirement.operator in (Operator.IN, Operator.NOT_IN)
        if needed != bool(requirement.values):
            what = "needs at least one of values" if needed else "takes no values"
            yield codes.SELECTOR_CONTRADICTORY.at(
                f"{path}.matchExpressions[{i}]", f"{requirement.operator} {what}", object=OBJECT
            )


def _words(target: Target, path: str) -> Iterator[Finding]:
    """What is said of a driver in words that nobody asks for."""
    said = {
        "attributes": (target.attributes, ATTRIBUTE_WORDS),
        "capacities": (target.capacities, CAPACITY_WORDS),
    }
    for field, (words, known) in said.items():
        for word in words:
            if word not in known:
                message = f"{word} is not one of {', '.join(known)}"
                yield codes.WITHOUT_EFFECT.at(f"{path}.{field}[{word}]", message, object=OBJECT)


def _compatibility(entry: Compatibility, path: str) -> Iterator[Finding]:
    if entry.compatible_only_with is None and entry.groups is None:
        message = "there is neither compatibleOnlyWith nor groups"
        yield codes.WITHOUT_EFFECT.at(path, message, object=OBJECT)
    elif entry.compatible_only_with is None and entry.physical_device is not None:
        message = "physicalDevice narrows compatibleOnlyWith, which is not there"
        yield codes.WITHOUT_EFFECT.at(f"{path}.physicalDevice", message, object=OBJECT)
    expressions = {"selector": entry.selector, "compatibleOnlyWith": entry.compatible_only_with}
    for name, text in expressions.items():
        if text is not None:
            yield from _expression(text, f"{path}.{name}")


def _expression(text: str, path: str) -> Iterator[Finding]:
    """What does not compile; our own engine evaluates these, so its newest version counts."""
    from cel.dra.environment import device_environment  # noqa: PLC0415  # 150 ms that few files need
    from cel.errors import CompileError  # noqa: PLC0415  # the same

    try:
        device_environment(NEWEST, list_attributes=True).compile(text)
    except CompileError as error:
        first = error.problems[0]
        name = path.rpartition(".")[2]
        message = f"{name}, line {first.line}, column {first.column}: {first.message}"
        yield codes.EXPRESSION_WRONG.at(path, message, object=OBJECT)
