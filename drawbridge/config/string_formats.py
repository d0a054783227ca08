"""Types of values with a format: names, labels, expressions and amounts, as Kubernetes has them.

The type of a configuration field defines its validation and its JSON Schema.
"""

import re
from typing import ClassVar, Final

from drawbridge.dra import formats
from drawbridge.dra.decode_errors import describe_value
from drawbridge.dra.quantity import INT64_MAX, Quantity, from_json
from drawbridge.dra.rules import check_weight_name

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_PROPERTY: Final = r"[A-Za-z0-9_./-]+=[^,]+"
_MAX_EXPRESSION_LENGTH: Final = 10 * 1024


class Text(str):
    """A string with a format. PATTERN and MAX_LENGTH are for the JSON Schema.

    `problem` validates a value. The pattern accepts all valid values, and possibly others.
    """

    __slots__ = ()
    NAME: ClassVar[str]
    PATTERN: ClassVar[str]
    MAX_LENGTH: ClassVar[int] = formats.SUBDOMAIN_LENGTH

    @staticmethod
    def problem(text: str) -> str | None:
        """Return why `text` does not have this format, as a predicate; None if it does."""
        raise NotImplementedError


class DriverName(Text):
    """The name of a DRA driver."""

    NAME = "driver name"
    PATTERN = _SUBDOMAIN.replace("a-z", "A-Za-z")
    MAX_LENGTH = formats.DRIVER_LENGTH
    problem = staticmethod(formats.check_driver_name)


class ObjectName(Text):
    """The name of a Kubernetes object."""

    NAME = "object name"
    PATTERN = _SUBDOMAIN
    problem = staticmethod(formats.check_subdomain)


class DNSLabel(Text):
    """One label of a DNS name."""

    NAME = "name"
    PATTERN = _LABEL
    MAX_LENGTH = formats.LABEL_LENGTH
    problem = staticmethod(formats.check_label)


class ResourceName(Text):
    """The name of an extended resource."""

    NAME = "resource name"
    PATTERN = rf"{_SUBDOMAIN}/{_KEY}"
    MAX_LENGTH = formats.SUBDOMAIN_LENGTH + 1 + formats.LABEL_LENGTH
    problem = staticmethod(formats.check_extended_resource)


class NetworkName(Text):
    """The name of a secondary network, with its namespace."""

    NAME = "network"
    PATTERN = rf"{_LABEL}/{_SUBDOMAIN}"
    MAX_LENGTH = formats.LABEL_LENGTH + 1 + formats.SUBDOMAIN_LENGTH

    @staticmethod
    def problem(text: str) -> str | None:
        """Return what is wrong with the namespace or the name."""
        namespace, slash, name = text.partition("/")
        if not slash:
            return "must be a namespace and a name, such as default/sriov-a"
        return formats.check_label(namespace) or formats.check_subdomain(name)


class AttributeName(Text):
    """The name of a device attribute, with or without its domain."""

    NAME = "attribute name"
    PATTERN = rf"({DriverName.PATTERN}/)?[A-Za-z_][A-Za-z0-9_]*"
    MAX_LENGTH = formats.DRIVER_LENGTH + 1 + formats.IDENTIFIER_LENGTH

    @staticmethod
    def problem(text: str) -> str | None:
        """Return what is wrong. Unlike the API server, rejects a second slash."""
        return (
            "must have at most one slash"
            if text.count("/") > 1
            else formats.check_qualified_name(text)
        )


class WeightName(Text):
    """What a weight is about: a capacity of devices, or another part of a score."""

    NAME = "weight"
    PATTERN = rf"node\.(cpu|memory)|{AttributeName.PATTERN}"
    MAX_LENGTH = AttributeName.MAX_LENGTH
    problem = staticmethod(check_weight_name)


class LabelKey(Text):
    """The key of a label."""

    NAME = "label key"
    PATTERN = rf"({_SUBDOMAIN}/)?{_KEY}"
    MAX_LENGTH = formats.SUBDOMAIN_LENGTH + 1 + formats.LABEL_LENGTH
    problem = staticmethod(formats.check_label_key)


class LabelValue(Text):
    """The value of a label."""

    NAME = "label value"
    PATTERN = rf"({_KEY})?"
    MAX_LENGTH = formats.LABEL_LENGTH
    problem = staticmethod(formats.check_label_value)


class FindingCode(Text):
    """The code of a finding. The loader checks that the code exists."""

    NAME = "finding code"
    PATTERN = "[A-Z][A-Za-z0-9]*"

    @staticmethod
    def problem(text: str) -> str | None:
        """Return what is wrong if the code is not in CamelCase."""
        good = re.fullmatch(FindingCode.PATTERN, text)
        return None if good else "must be a name in CamelCase, such as PoolIncomplete"


class ExpressionText(Text):
    """A CEL expression over `device`."""

    NAME = "CEL expression"
    PATTERN = r"[\s\S]*\S[\s\S]*"
    MAX_LENGTH = _MAX_EXPRESSION_LENGTH

    @staticmethod
    def problem(text: str) -> str | None:
        """Return what is wrong if the expression is blank or too long for Kubernetes."""
        if not text.strip():
            return "must not be blank"
        return formats.check_length(text, _MAX_EXPRESSION_LENGTH)


class NodeShapeText(Text):
    """The devices of a class that an expected node has: their number and known properties."""

    NAME = "node shape"
    PATTERN = rf"[1-9][0-9]{{0,3}}x( {_PROPERTY}(, *{_PROPERTY})*)?"
    MAX_LENGTH = 1024

    @staticmethod
    def problem(text: str) -> str | None:
        """Return what is wrong if the shape is not a number and properties."""
        if len(text) > NodeShapeText.MAX_LENGTH:
            return f"must have at most {NodeShapeText.MAX_LENGTH} characters"
        if re.fullmatch(NodeShapeText.PATTERN, text) is None:
            return "must be a number of devices and their known properties, such as 8x memory=141Gi"
        properties = shape_properties(text)
        wrong = (formats.check_qualified_name(name) for name, _ in properties)
        if problem := next(filter(None, wrong), None):
            return f"has a property whose name {problem}"
        return "names a property twice" if len(dict(properties)) < len(properties) else None


def shape_properties(shape: str) -> list[tuple[str, str]]:
    """Return the names and values of the properties that a node shape states."""
    pairs = (each.partition("=") for each in shape.partition("x")[2].split(",") if each.strip())
    return [(name.strip(), value.strip()) for name, _, value in pairs]


class NonNegativeQuantity(Quantity):
    """A quantity that is not negative. SUFFIXES are those of one letter."""

    __slots__ = ()
    NAME: ClassVar[str] = "quantity"
    SUFFIXES: ClassVar[str] = "numkMGTPE"
    MIN: ClassVar[int] = 0

    @classmethod
    def read(cls, value: object) -> "NonNegativeQuantity":
        """Convert a plain value. Raises ValueError if it is not in the range."""
        if value is None:
            raise ValueError("must not be null")
        read = from_json(value)
        if problem := cls.problem(read, value):
            raise ValueError(f"must be {problem}")
        return cls(read.mantissa, read.scale, read.format, read.decimal, read.text)

    @classmethod
    def problem(cls, read: Quantity, value: object) -> str:
        """Return what the amount must be and is not."""
        is_enough = read.compare(Quantity.of(cls.MIN)) >= 0
        return "" if is_enough else f"at least {cls.MIN}, not {describe_value(value)}"


class WholeQuantity(NonNegativeQuantity):
    """A quantity that is a whole number of an int64, without a suffix for parts."""

    __slots__ = ()
    NAME = "whole quantity"
    SUFFIXES = "kMGTPE"

    @classmethod
    def problem(cls, read: Quantity, value: object) -> str:
        """Return what the amount must be and is not."""
        number, shown = read.exact_int(), describe_value(value)
        if number is None or f"{value}".strip().endswith(("n", "u", "m")):
            return f"a whole number, not {shown}"
        return f"less than 8Ei, not {shown}" if number > INT64_MAX else super().problem(read, value)


class UnitQuantity(WholeQuantity):
    """A positive whole number of an int64. Units of memory are usual."""

    __slots__ = ()
    NAME = "positive whole quantity"
    MIN = 1

    @classmethod
    def problem(cls, read: Quantity, value: object) -> str:
        """Return what the amount must be and is not."""
        number, milli, _ = describe_value(value).strip('" ').partition("m")
        hint = f"; m stands for thousandths; did you mean {number}Mi?" if milli else ""
        return f"{super().problem(read, value)}{hint}"


def read_text(kind: type, value: object) -> object:
    """Convert a plain value to `kind`. Raises ValueError if the value is not valid."""
    if issubclass(kind, NonNegativeQuantity):
        return kind.read(value)
    if not issubclass(kind, Text):
        raise TypeError(f"{kind.__name__} is not a string format")
    problem = kind.problem(value) if isinstance(value, str) else "must be a string"
    if problem is not None:
        article = "an" if kind.NAME[0] in "aeiou" else "a"
        raise ValueError(f"{describe_value(value)} is not {article} {kind.NAME}: it {problem}")
    return kind(value)


def to_plain(value: object) -> object:
    """Convert a value back to a string."""
    if isinstance(value, Quantity | Text):
        return str(value)
    raise NotImplementedError


def json_schema(kind: type) -> dict[str, object]:
    """Return the JSON Schema of `kind`."""
    if issubclass(kind, NonNegativeQuantity):
        suffixes = f"[{kind.SUFFIXES}]|[KMGTPE]i|[eE][+-]?[0-9]+"
        is_whole = issubclass(kind, WholeQuantity)
        return {
            "type": ["string", "integer" if is_whole else "number"],
            "title": kind.__name__,
            "pattern": rf"^\s*[+-]?[0-9.]*({suffixes})?\s*$",
            "minimum": kind.MIN,
            **({"maximum": INT64_MAX} if is_whole else {}),
        }
    if issubclass(kind, Text):
        return {"type": "string", "pattern": f"^({kind.PATTERN})$", "maxLength": kind.MAX_LENGTH}
    raise NotImplementedError
