"""What a driver calls the facts of a device, and selectors in CEL by those words.

An attribute that a driver does not publish on every device is asked for first: an expression that
fails on one device stops the scheduler for the whole pod. Knows no driver.
"""

import json
from collections.abc import Callable, Iterable, Mapping

import msgspec

from dra.quantity import Format, Quantity
from translate.legacy.selectors import (
    AllOf,
    AnyOf,
    Architecture,
    AskSelector,
    ComputeCapability,
    DeviceLabel,
    DriverKind,
    DriverVersion,
    LabelOperator,
    Memory,
    NicIs,
    NicKind,
    Not,
    PartitionProfile,
    PluginPool,
    ProductContains,
    ProductIs,
    RawCEL,
    Software,
    Uuid,
)

MAX_EXPRESSION_BYTES = 10 * 1024


class NotExpressibleError(Exception):
    """A target has no words for an ask; says why."""


class DriverVocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes and capacities by full name; an empty one does not exist."""

    domain: str = ""  # of bare names
    product: str = ""
    uuid: str = ""
    architecture: str = ""
    compute: str = ""
    driver_version: str = ""
    cuda_version: str = ""
    profile: str = ""
    parent: str = ""
    kernel: str = ""
    memory: str = ""
    cores: str = ""
    shares: str = ""
    resource: str = ""  # the pool's name without its domain
    resource_full: str = ""  # the same with it
    nics: Mapping[NicKind, str] = {}  # an expression for each kind
    always: frozenset[str] = frozenset()  # published on every device


def make_vocabulary(names: Mapping[str, str], **more: object) -> DriverVocabulary:
    """Make words of full names by field."""
    return msgspec.structs.replace(DriverVocabulary(), **names, **more)


def quote(text: str) -> str:
    """Write a text as a literal: nothing in it can end the literal."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)


def quote_list(texts: Iterable[str]) -> str:
    """Write a list of texts."""
    return f"[{', '.join(quote(each) for each in texts)}]"


def format_bytes(value: int) -> str:
    """Write bytes as a quantity, as the API server would store it."""
    return Quantity.of(value, Format.BINARY_SI).canonical()


def attribute_access(name: str) -> str:
    """Read an attribute by its full name."""
    domain, _, identifier = name.partition("/")
    return f"device.attributes[{quote(domain)}].{identifier}"


def write_cel(selector: AskSelector, words: DriverVocabulary, types: Mapping[str, str] = {}) -> str:
    """Write a selector; `types` are those of the published attributes, by full name."""
    match selector:
        case Not(operand=operand):
            return f"!({write_cel(operand, words, types)})"
        case AnyOf(operands=operands):
            return f"({' || '.join(write_cel(each, words, types) for each in operands) or 'false'})"
        case AllOf(operands=operands):
            return f"({' && '.join(write_cel(each, words, types) for each in operands) or 'true'})"
        case DeviceLabel():
            return _label(selector, words.domain, types)
        case RawCEL(expression=expression):
            return f"({expression})"
        case _:
            return _atom(selector, words)


def check_length(expression: str) -> str:
    """Refuse what is longer than an expression may be."""
    size = len(expression.encode())
    if size > MAX_EXPRESSION_BYTES:
        raise NotExpressibleError(
            f"an expression of {size} bytes is longer than {MAX_EXPRESSION_BYTES}"
        )
    return expression


def _atom(selector: AskSelector, words: DriverVocabulary) -> str:  # noqa: PLR0911  # one for each atom
    match selector:
        case ProductIs(names=names):
            dashed = quote_list(name.replace(" ", "-") for name in names)
            return _said(words, "product", lambda a: f'{a}.replace(" ", "-") in {dashed}')
        case ProductContains(parts=parts):
            small = quote_list(part.lower() for part in parts)
            text = f"{small}.exists(t, {{}}.lowerAscii().contains(t))"
            return _said(words, "product", lambda a: text.replace("{}", a))
        case Architecture(names=names):
            small = quote_list(names)
            return _said(
                words, "architecture", lambda a: f'{a}.lowerAscii().replace(" ", "-") in {small}'
            )
        case Uuid(ids=ids):
            return _said(words, "uuid", lambda a: f"{a} in {quote_list(ids)}")
        case PartitionProfile(names=names):
            return _said(words, "profile", lambda a: f"{a} in {quote_list(names)}")
        case DriverKind(names=names):
            return _said(words, "kernel", lambda a: f"{a} in {quote_list(names)}")
        case PluginPool(names=names):
            return _resource(names, words)
        case NicIs(kind=kind):
            if kind not in words.nics:
                raise NotExpressibleError(f"it has no word for network devices of kind {kind}")
            return words.nics[kind]
        case _:
            return _bounds(selector, words)


def _bounds(selector: AskSelector, words: DriverVocabulary) -> str:
    match selector:
        case Memory(at_least=least, below=below):
            return _memory(least, below, words)
        case ComputeCapability(at_least=low, below=high):
            bounds = [(">=", low), ("<", high)]
            parts = [
                f'{{}}.compareTo(semver("{each[0]}.{each[1]}.0")) {sign} 0'
                for sign, each in bounds
                if each
            ]
            return _said(words, "compute", lambda a: " && ".join(parts).replace("{}", a))
        case DriverVersion(software=software, at_least=least, below=below):
            numbers = [(">=", least), ("<", below)]
            parts = [f"{{}}.major() {sign} {n}" for sign, n in numbers if n is not None]
            word = "driver_version" if software is Software.DRIVER else "cuda_version"
            return _said(words, word, lambda a: " && ".join(parts).replace("{}", a))
    raise NotExpressibleError(f"it has no word for {type(selector).__name__}")


def _said(words: DriverVocabulary, word: str, write: Callable[[str], str]) -> str:
    name: str = getattr(words, word)
    if not name:
        raise NotExpressibleError(f"it publishes nothing that tells the {word.replace('_', ' ')}")
    return guard_presence(name, write(attribute_access(name)) or "true", words.always)


def guard_presence(name: str, expression: str, always: frozenset[str]) -> str:
    """Ask first whether an attribute is there, where that is not certain."""
    if name in always:
        return expression
    domain, _, identifier = name.partition("/")
    return f"({quote(identifier)} in device.attributes[{quote(domain)}] && {expression})"


def _memory(least: int | None, below: int | None, words: DriverVocabulary) -> str:
    if not words.memory:
        raise NotExpressibleError("it publishes no memory")
    domain, _, identifier = words.memory.partition("/")
    read = f"device.capacity[{quote(domain)}].{identifier}"
    bounds = [(">=", least), ("<", below)]
    parts = [
        f"{read}.compareTo(quantity({quote(format_bytes(value))})) {sign} 0"
        for sign, value in bounds
        if value is not None
    ]
    expression = " && ".join(parts) or "true"
    if words.memory in words.always:
        return expression
    return f"({quote(identifier)} in device.capacity[{quote(domain)}] && {expression})"


def _resource(names: tuple[str, ...], words: DriverVocabulary) -> str:
    """The pool may be published with its domain or without."""
    short = dict.fromkeys(name.partition("/")[2] or name for name in names)
    pairs = [(words.resource, list(short)), (words.resource_full, list(names))]
    parts = [
        guard_presence(name, f"{attribute_access(name)} in {quote_list(values)}", words.always)
        for name, values in pairs
        if name
    ]
    if not parts:
        raise NotExpressibleError("it publishes nothing that tells the pool of a device plugin")
    return f"({' || '.join(parts)})"


def _label(selector: DeviceLabel, own: str, types: Mapping[str, str]) -> str:
    name = selector.attribute
    if not name:
        raise NotExpressibleError(f"label {selector.key} is not mapped to an attribute")
    name = name if "/" in name else f"{own}/{name}"
    domain, _, identifier = name.partition("/")
    if selector.operator is LabelOperator.EXISTS:
        return f"{quote(identifier)} in device.attributes[{quote(domain)}]"
    values = [_literal(value, types.get(name, "string")) for value in selector.values]
    return guard_presence(name, f"{attribute_access(name)} in [{', '.join(values)}]", frozenset())


def _literal(value: str, kind: str) -> str:
    if kind == "bool" and value.lower() in ("true", "false"):
        return value.lower()
    if kind == "int" and value.lstrip("-").isdecimal():
        return str(int(value))
    if kind == "version":
        return f"semver({quote(value)})"
    return quote(value)
