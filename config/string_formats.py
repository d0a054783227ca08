"""Texts of a certain form: names, labels, expressions, as Kubernetes accepts them.

Each form is a type, so that a field's declaration says everything that is checked about its value
and the schema can say it too. Knows nothing of the fields.
"""

import re
from typing import ClassVar, Final

from dra import formats
from dra.decode_errors import describe_value
from dra.quantity import Quantity, from_json

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LONGEST_EXPRESSION: Final = 10 * 1024


class Text(str):
    """Text of a form: what it is called, and a pattern and length for those who only read schemas.

    `problem` decides; the pattern may accept a little more, never less.
    """

    __slots__ = ()
    NAME: ClassVar[str]
    PATTERN: ClassVar[str]
    LONGEST: ClassVar[int] = formats.SUBDOMAIN_LENGTH

    @staticmethod
    def problem(text: str) -> str | None:
        """Say what keeps `text` from having this form, in words that follow "it"."""
        raise NotImplementedError


class DriverName(Text):
    """The name of a DRA driver."""

    NAME = "driver name"
    PATTERN = _SUBDOMAIN.replace("a-z", "A-Za-z")
    LONGEST = formats.DRIVER_LENGTH
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
    LONGEST = formats.LABEL_LENGTH
    problem = staticmethod(formats.check_label)


class ResourceName(Text):
    """The name of an extended resource."""

    NAME = "resource name"
    PATTERN = rf"{_SUBDOMAIN}/{_KEY}"
    LONGEST = formats.SUBDOMAIN_LENGTH + 1 + formats.LABEL_LENGTH
    problem = staticmethod(formats.check_extended_resource)


class NetworkName(Text):
    """A secondary network as pods name it."""

    NAME = "network"
    PATTERN = rf"{_LABEL}/{_SUBDOMAIN}"
    LONGEST = formats.LABEL_LENGTH + 1 + formats.SUBDOMAIN_LENGTH

    @staticmethod
    def problem(text: str) -> str | None:
        """Say what is wrong with the namespace or the name."""
        namespace, slash, name = text.partition("/")
        if not slash:
            return "must be a namespace and a name, such as default/sriov-a"
        return formats.check_label(namespace) or formats.check_subdomain(name)


class AttributeName(Text):
    """The name of a device's attribute, with or without its domain."""

    NAME = "attribute name"
    PATTERN = rf"({DriverName.PATTERN}/)?[A-Za-z_][A-Za-z0-9_]*"
    LONGEST = formats.DRIVER_LENGTH + 1 + formats.IDENTIFIER_LENGTH

    @staticmethod
    def problem(text: str) -> str | None:
        """Say what is wrong; unlike the API server, do not overlook a second slash."""
        return (
            "must have at most one slash"
            if text.count("/") > 1
            else formats.check_qualified_name(text)
        )


class LabelKey(Text):
    """The key of a label."""

    NAME = "label key"
    PATTERN = rf"({_SUBDOMAIN}/)?{_KEY}"
    LONGEST = formats.SUBDOMAIN_LENGTH + 1 + formats.LABEL_LENGTH
    problem = staticmethod(formats.check_label_key)


class LabelValue(Text):
    """The value of a label."""

    NAME = "label value"
    PATTERN = rf"({_KEY})?"
    LONGEST = formats.LABEL_LENGTH
    problem = staticmethod(formats.check_label_value)


class FindingCode(Text):
    """The code of a finding; which ones exist is told to the loader."""

    NAME = "finding code"
    PATTERN = "[A-Z][A-Za-z0-9]*"

    @staticmethod
    def problem(text: str) -> str | None:
        """Say that codes are in camel case."""
        good = re.fullmatch(FindingCode.PATTERN, text)
        return None if good else "must be a word such as PoolIncomplete"


class ExpressionText(Text):
    """A CEL expression over `device`."""

    NAME = "CEL expression"
    PATTERN = r"[\s\S]*\S[\s\S]*"
    LONGEST = _LONGEST_EXPRESSION

    @staticmethod
    def problem(text: str) -> str | None:
        """Say that it is blank or longer than Kubernetes lets one be."""
        if not text.strip():
            return "must not be blank"
        return formats.check_length(text, _LONGEST_EXPRESSION)


def read_text(kind: type, value: object) -> object:
    """Make a `kind` of a plain value; ValueError says what keeps the value from being one."""
    if issubclass(kind, Quantity):
        return from_json(value)
    if not issubclass(kind, Text):
        raise TypeError(f"{kind.__name__} is not a form of text")
    problem = kind.problem(value) if isinstance(value, str) else "must be text"
    if problem is not None:
        raise ValueError(f"{describe_value(value)} is not a {kind.NAME}: it {problem}")
    return kind(value)


def to_plain(value: object) -> object:
    """The reverse of `read`."""
    if isinstance(value, Quantity | Text):
        return str(value)
    raise NotImplementedError


def json_schema(kind: type) -> dict[str, object]:
    """The JSON Schema of `kind`."""
    if issubclass(kind, Quantity):
        return {"type": ["string", "number"], "title": "Quantity"}
    if issubclass(kind, Text):
        return {"type": "string", "pattern": f"^({kind.PATTERN})$", "maxLength": kind.LONGEST}
    raise NotImplementedError
