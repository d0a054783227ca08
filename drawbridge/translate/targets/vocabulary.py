"""Writes selectors as CEL, with the attribute names of a driver.

An expression that fails on one device stops the scheduling of the whole pod, on every node, and
each node decides what its devices publish. So an expression reads an attribute only where it is
there, with the type that the condition is for. Everywhere else, the condition is false.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.dra.guards import without_guard
from drawbridge.dra.quantity import Format, Quantity
from drawbridge.translate.legacy.selectors import (
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
OTHER_DRIVER: Final = "Configure a driver that supports it in `targets`, or change the request."
OTHER_AMOUNT: Final = "Request an amount of memory in the pod."
# Beside the name of a replica, an amount is a request of its own.
NO_REPLICA: Final = (
    "Request nvidia.com/gpu and nvidia.com/gpumem, the memory in MiB, instead of a replica."
)
WHOLE_DEVICE: Final = "Request at most 100 percent of a device."
FEWER_DEVICES: Final = "Request the numbers of devices that the message names."
# What `type` returns for an attribute, by the type that facts name.
_CEL_TYPES: Final = {
    "string": "string",
    "int": "int",
    "bool": "bool",
    "version": 'type(semver("0.0.0"))',
}
_OTHER_CONDITION: Final = (
    "Remove the condition from the pod, or name the attribute in `attributes` of the target."
)


class NotExpressibleError(Exception):
    """Raised if a target cannot express an ask; the message is the reason.

    Without a `remedy` for its cause, the driver is what lacks something. `by_queue` is whether only
    the queue of the pod refuses the claim.
    """

    def __init__(self, reason: str, remedy: str = OTHER_DRIVER, *, by_queue: bool = False) -> None:
        super().__init__(reason)
        self.remedy = remedy
        self.by_queue = by_queue


class DriverVocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes and capacities of a driver by full name; empty if it has none."""

    domain: str = ""  # of names without a domain
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
    resource: str = ""  # the resource pool, without its domain
    resource_full: str = ""  # the resource pool, with its domain
    amounts: Mapping[str, str] = {}  # the capacity of each resource name that is a part of it
    nics: Mapping[NicKind, str] = {}  # a CEL expression for each kind
    usual: frozenset[str] = frozenset()  # what each device of the driver has, unless it is odd


class Expression(msgspec.Struct, frozen=True):
    """A CEL expression, and the condition that it is written from, with the words of a driver."""

    text: str
    selector: AskSelector
    vocabulary: DriverVocabulary
    types: Mapping[str, str] = {}


def make_vocabulary(
    domain: str, names: Mapping[str, str], usual: Iterable[str] = (), **more: object
) -> DriverVocabulary:
    """Make a vocabulary from names by field, of which each device usually has some."""
    full = qualify(names, domain)
    own: Mapping[str, object] = {"domain": f"{domain}", "usual": frozenset(map(full.get, usual))}
    return replace(DriverVocabulary(), **full, **own, **more)


def qualify(names: Mapping[str, str], domain: str) -> dict[str, str]:
    """Return the full names; those without a domain belong to that of the driver."""
    return {word: name if "/" in name else f"{domain}/{name}" for word, name in names.items()}


def quote(text: str) -> str:
    """Write a CEL string literal; no character of the text can end the literal."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)


def quote_list(texts: Iterable[str]) -> str:
    """Write a CEL list of string literals."""
    return f"[{', '.join(quote(each) for each in texts)}]"


def format_bytes(value: int) -> str:
    """Write a number of bytes as a quantity in the API server's canonical form."""
    return Quantity.of(value, Format.BINARY_SI).canonical()


def attribute_access(name: str) -> str:
    """Write the CEL expression that reads an attribute, given by its full name."""
    domain, _, identifier = name.partition("/")
    return f"device.attributes[{quote(domain)}].{identifier}"


def write_cel(
    selector: AskSelector, vocabulary: DriverVocabulary, types: Mapping[str, str] = {}
) -> str:
    """Write a selector as CEL; `types` maps the full names of attributes to their types."""
    match selector:
        case Not(operand=operand):
            return f"!({write_cel(operand, vocabulary, types)})"
        case AnyOf(operands=operands):
            parts = [write_cel(each, vocabulary, types) for each in operands]
            return f"({' || '.join(parts) or 'false'})"
        case AllOf(operands=operands):
            parts = [write_cel(each, vocabulary, types) for each in operands]
            return f"({' && '.join(parts) or 'true'})"
        case DeviceLabel():
            return _label(selector, vocabulary.domain, types)
        case RawCEL(expression=expression):
            return f"({expression})"
        case _:
            return _atom(selector, vocabulary)


def express(
    selector: AskSelector, vocabulary: DriverVocabulary, types: Mapping[str, str] = {}
) -> Expression:
    """Write a selector as CEL, and keep it beside its text."""
    return Expression(write_cel(selector, vocabulary, types), selector, vocabulary, types)


def join_expressions(parts: Sequence[Expression], vocabulary: DriverVocabulary) -> Expression:
    """Join expressions that must all be true."""
    text = " && ".join(f"({each.text})" for each in parts)
    return Expression(text, AllOf(tuple(each.selector for each in parts)), vocabulary)


def list_terms(expression: Expression) -> Iterator[Expression]:
    """Yield the conditions that must all be true, each without the checks of its attribute."""
    match expression.selector:
        case AllOf(operands=operands):
            for operand in operands:
                yield from list_terms(_write_again(expression, operand))
        case AnyOf(operands=(operand,)):
            yield from list_terms(_write_again(expression, operand))
        case AnyOf() if expression == _write_again(expression, expression.selector):
            yield replace(expression, text=expression.text[1:-1])
        case Memory(at_least=int(least), below=int(below)):
            for bound in (Memory(at_least=least), Memory(below=below)):
                yield from list_terms(_write_again(expression, bound))
        case AnyOf() | RawCEL():
            yield expression
        case _:
            yield replace(expression, text=without_guard(expression.text))


def _write_again(whole: Expression, part: AskSelector) -> Expression:
    return express(part, whole.vocabulary, whole.types)


def check_length(expression: Expression) -> Expression:
    """Return the expression; raise NotExpressibleError if it is too long for the API."""
    size = len(expression.text.encode())
    if size > MAX_EXPRESSION_BYTES:
        raise NotExpressibleError(
            f"the CEL expression has {size} bytes, but the limit is {MAX_EXPRESSION_BYTES}",
            "Select fewer devices, products or labels by name.",
        )
    return expression


def _atom(selector: AskSelector, vocabulary: DriverVocabulary) -> str:  # noqa: PLR0911  # one branch for each atom
    match selector:
        case ProductIs(names=names):
            dashed = quote_list(name.replace(" ", "-") for name in names)
            return _guarded(vocabulary, "product", lambda a: f'{a}.replace(" ", "-") in {dashed}')
        case ProductContains(parts=parts):
            small = quote_list(part.lower() for part in parts)
            text = f"{small}.exists(t, {{}}.lowerAscii().contains(t))"
            return _guarded(vocabulary, "product", lambda a: text.replace("{}", a))
        case Architecture(names=names):
            small = quote_list(names)
            text = f'{{}}.lowerAscii().replace(" ", "-") in {small}'
            return _guarded(vocabulary, "architecture", lambda a: text.replace("{}", a, 1))
        case Uuid(ids=ids):
            return _guarded(vocabulary, "uuid", lambda a: f"{a} in {quote_list(ids)}")
        case PartitionProfile(names=names):
            return _guarded(vocabulary, "profile", lambda a: f"{a} in {quote_list(names)}")
        case DriverKind(names=names):
            return _guarded(vocabulary, "kernel", lambda a: f"{a} in {quote_list(names)}")
        case PluginPool(names=names):
            return _resource(names, vocabulary)
        case NicIs(kind=kind):
            if kind not in vocabulary.nics:
                raise NotExpressibleError(
                    f"the driver publishes no attribute for network devices of kind {kind}",
                    _OTHER_CONDITION,
                )
            return vocabulary.nics[kind]
        case _:
            return _bounds(selector, vocabulary)


def _bounds(selector: AskSelector, vocabulary: DriverVocabulary) -> str:
    match selector:
        case Memory(at_least=least, below=below):
            return _memory(least, below, vocabulary)
        case ComputeCapability(at_least=low, below=high):
            bounds = [(">=", low), ("<", high)]
            parts = [
                f'{{}}.compareTo(semver("{version[0]}.{version[1]}.0")) {sign} 0'
                for sign, version in bounds
                if version
            ]
            return _guarded(
                vocabulary, "compute", lambda a: " && ".join(parts).replace("{}", a), "version"
            )
        case DriverVersion(software=software, at_least=least, below=below):
            numbers = [(">=", least), ("<", below)]
            parts = [f"{{}}.major() {sign} {n}" for sign, n in numbers if n is not None]
            word = "driver_version" if software is Software.DRIVER else "cuda_version"
            return _guarded(
                vocabulary, word, lambda a: " && ".join(parts).replace("{}", a), "version"
            )
    raise NotExpressibleError(
        f"the driver publishes no attribute for {type(selector).__name__}", _OTHER_CONDITION
    )


def _guarded(
    vocabulary: DriverVocabulary, field: str, write: Callable[[str], str], type_: str = "string"
) -> str:
    name: str = getattr(vocabulary, field)
    if not name:
        raise NotExpressibleError(
            f"the driver publishes no attribute for the {field.replace('_', ' ')}",
            _OTHER_CONDITION,
        )
    return guard_attribute(name, type_, write(attribute_access(name)) or "true")


def guard_attribute(name: str, type_: str, condition: str) -> str:
    """Write a condition that is false for devices without the attribute, or with another type."""
    domain, _, identifier = name.partition("/")
    is_there = f"{quote(identifier)} in device.attributes[{quote(domain)}]"
    # Kubernetes refuses `==` between types: it takes their size, and so the cost, for unlimited.
    is_of_type = f"type({attribute_access(name)}) in [{_CEL_TYPES[type_]}]"
    return f"({is_there} && {is_of_type} && {condition})"


def guard_capacity(name: str, condition: str) -> str:
    """Write a condition that is false for devices without the capacity."""
    domain, _, identifier = name.partition("/")
    return f"({quote(identifier)} in device.capacity[{quote(domain)}] && {condition})"


def capacity_access(name: str) -> str:
    """Write the CEL expression that reads a capacity, given by its full name."""
    domain, _, identifier = name.partition("/")
    return f"device.capacity[{quote(domain)}].{identifier}"


def _memory(least: int | None, below: int | None, vocabulary: DriverVocabulary) -> str:
    if not vocabulary.memory:
        raise NotExpressibleError("the driver does not publish memory")
    read = capacity_access(vocabulary.memory)
    bounds = [(">=", least), ("<", below)]
    parts = [
        f"{read}.compareTo(quantity({quote(format_bytes(value))})) {sign} 0"
        for sign, value in bounds
        if value is not None
    ]
    return guard_capacity(vocabulary.memory, " && ".join(parts) or "true")


def _resource(names: tuple[str, ...], vocabulary: DriverVocabulary) -> str:
    """Match the resource pool, which a driver may publish with or without its domain."""
    short = dict.fromkeys(name.partition("/")[2] or name for name in names)
    pairs = [(vocabulary.resource, list(short)), (vocabulary.resource_full, list(names))]
    parts = [
        guard_attribute(name, "string", f"{attribute_access(name)} in {quote_list(values)}")
        for name, values in pairs
        if name
    ]
    if not parts:
        raise NotExpressibleError(
            "the driver publishes no attribute for the resource pool of a device plugin",
            _OTHER_CONDITION,
        )
    return f"({' || '.join(parts)})"


def _label(selector: DeviceLabel, own: str, types: Mapping[str, str]) -> str:
    name = selector.attribute
    if not name:
        raise NotExpressibleError(
            f"label {selector.key} is not mapped to an attribute",
            "Map the label in `legacy.labels`, or remove it from the pod.",
        )
    name = name if "/" in name else f"{own}/{name}"
    domain, _, identifier = name.partition("/")
    if selector.operator is LabelOperator.EXISTS:
        return f"{quote(identifier)} in device.attributes[{quote(domain)}]"
    type_ = types.get(name, "string")
    type_ = type_ if type_ in _CEL_TYPES else "string"
    values = [_literal(each, type_) for each in selector.values if _can_be(each, type_)]
    return guard_attribute(name, type_, f"{attribute_access(name)} in [{', '.join(values)}]")


def _can_be(value: str, type_: str) -> bool:
    """Whether an attribute of this type can have a value that a label has."""
    match type_:
        case "bool":
            return value.lower() in ("true", "false")
        case "int":
            return value.removeprefix("-").isdecimal()
        case _:
            return True


def _literal(value: str, kind: str) -> str:
    if kind == "bool" and value.lower() in ("true", "false"):
        return value.lower()
    if kind == "int" and value.lstrip("-").isdecimal():
        return str(int(value))
    if kind == "version":
        return f"semver({quote(value)})"
    return quote(value)
